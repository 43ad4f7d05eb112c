"""Reads many files as one mapping of tensors, one tensor or many tensors at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from glob import escape
from typing import TYPE_CHECKING, Any, TypedDict, overload

from .. import _native
from .._base.options import Progress, count_text, ending, start_read
from .._base.paths import to_paths
from .._native import PySafeSlice, SafetensorError, TensorMeta
from .._types import Backend, Cache, Fault, Framework, Paths, Tensor
from . import cuda
from .requests import make_requests, select
from .stream import CheckpointStream

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import overloads as types

    class Options(TypedDict, total=False):
        """The arguments of `load` and `stream` besides the paths and the framework, for the overloads."""

        keys: Iterable[str] | None
        slices: Mapping[str, Any] | None
        device: Any
        dtype: Any
        threads: int
        memory_limit: int | str
        cache: Cache
        backend: Backend
        out: Mapping[str, Any] | None
        progress: bool | Progress | None

__all__ = ["Checkpoint", "CheckpointStream", "load", "stream"]

DEFAULT_BUDGET = _native._default_memory_limit()


def _pinned(text: str) -> str:
    """Return an absolute path, so that the checkpoint can be opened again from another folder."""
    if os.path.isabs(text):
        return text
    here = os.getcwd()
    whole = os.path.join(here, text)
    # A path that does not exist is a pattern. Then `*` in the names of folders must stay a `*`.
    return whole if os.path.lexists(whole) else os.path.join(escape(here), text)


class Checkpoint(Mapping[str, Tensor]):
    """A mapping of names to tensors over one or many files. A tensor is read on each access.

    `paths`: a file, an index (`*.json`), a folder with one model (the plain file or index, not its
    variants), a glob pattern, or an iterable of these. An index decides which tensors are present.
    `framework`: as in `safe_open`. `device`: the device of the tensors (torch and paddle).
    `backend`: "auto" reads files that are not in the page cache directly from the device if they do
    not fit into half of the memory with the results, else through the page cache. "pread" reads all bytes
    through the page cache. "mmap" gives views of private maps of the files, on every file system.
    `accept`: as in `safe_open`; `load` and `stream` also return a tensor of unknown dtype as an array of
    its bytes.

    The constructor reads and checks all headers, but no bytes of tensors. Any number of threads may
    use a checkpoint, also in a forked child. Copies and pickles open the files again. A checkpoint
    is also a context manager, which closes the files. Tensors and slices stay valid.

    Raises SafetensorError for an invalid file or index, for a tensor in two files, for a folder with
    several equal models, and after `close`. Raises MissingTensorError for an unknown name, OSError
    for an error of the system.
    """

    @overload
    def __init__(self: Checkpoint[types.NumPyTensor], paths: Paths, framework: types.NumPy = "np", device: Any = ..., **options: Unpack[types.Open]) -> None: ...
    @overload
    def __init__(self: Checkpoint[types.TorchTensor], paths: Paths, framework: types.Torch, device: Any = ..., **options: Unpack[types.Open]) -> None: ...
    @overload
    def __init__(self: Checkpoint[types.TfTensor], paths: Paths, framework: types.Tf, device: Any = ..., **options: Unpack[types.Open]) -> None: ...
    @overload
    def __init__(self: Checkpoint[types.JaxTensor], paths: Paths, framework: types.Jax, device: Any = ..., **options: Unpack[types.Open]) -> None: ...
    @overload
    def __init__(self: Checkpoint[types.MlxTensor], paths: Paths, framework: types.Mlx, device: Any = ..., **options: Unpack[types.Open]) -> None: ...
    @overload
    def __init__(self: Checkpoint[types.PaddleTensor], paths: Paths, framework: types.Paddle, device: Any = ..., **options: Unpack[types.Open]) -> None: ...
    @overload
    def __init__(self: Checkpoint[Any], paths: Paths, framework: Framework, device: Any = ..., **options: Unpack[types.Open]) -> None: ...
    def __init__(
        self, paths: Paths, framework: Framework = "np", device: Any = "cpu", *, backend: Backend = "auto",
        accept: Fault | Iterable[Fault] | None = (),
    ) -> None:
        given = to_paths(paths, "paths")
        faults = (accept,) if isinstance(accept, str) else tuple(accept or ())
        native = _native._Checkpoint(given, framework, device, backend, faults)
        self._native = native
        self._options = (framework, native.device(), backend, faults)
        self._paths = [_pinned(path) for path in ([given] if isinstance(given, str) else given)]
        self._cuda = cuda.usable(native)

    def __getitem__(self, name: str) -> Tensor:
        """Read one tensor. The same as `get_tensor`."""
        return self.get_tensor(name)

    # Identity. The methods of Mapping would read every tensor to compare it.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in the order of the files and of their bytes."""
        return iter(self._native.names())

    def __len__(self) -> int:
        return len(self._native)

    def __contains__(self, name: object) -> bool:
        return name in self._native

    def __repr__(self) -> str:
        try:
            files, count = self.files, len(self)
        except SafetensorError:
            return "Checkpoint(closed)"
        shown = [*map(repr, files[:3]), *([f"... {len(files) - 3} more"] if len(files) > 3 else [])]
        return f"Checkpoint([{', '.join(shown)}], {count_text(count)})"

    def __reduce__(self) -> tuple[Any, ...]:
        len(self)  # raises after close()
        framework, device, backend, accept = self._options
        return partial(type(self), backend=backend, accept=accept), (self._paths, framework, device)

    def __enter__(self) -> Checkpoint[Tensor]:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files. Tensors, slices and streams stay valid. Idempotent."""
        self._native.close()

    @property
    def files(self) -> list[str]:
        """The paths of the files, in the order in which they were opened."""
        return self._native.files()

    def tolerated(self) -> dict[str, int]:
        """Return the faults that `accept` allowed, of all files together.

        The keys are "unknown_dtypes" and "unused_bytes". The dict is empty if no file has a fault.
        """
        return self._native.tolerated()

    def metadata(self) -> dict[str, str] | None:
        """Return the metadata of the first file, or None if it has none.

        The shards of a model usually have the same metadata.
        """
        return self._native.metadata()

    @property
    def index_metadata(self) -> dict[str, Any] | None:
        """The member `metadata` of the index, such as {"total_size": 512}. None without an index."""
        text = self._native.index_metadata()
        return json.loads(text) if text else None

    def offset_keys(self) -> list[str]:
        """Return the names in the order of the files and of their bytes, as iteration does."""
        return self._native.names()

    def get_tensor(self, name: str) -> Tensor:
        """Read one tensor into memory of its own. With the backend "mmap", return a view."""
        tensor: Tensor = self._native.get_tensor(name)
        return tensor

    def get_tensors(self) -> dict[str, Tensor]:
        """Load all tensors. The same as `load()`."""
        return self.load()

    def get_tensor_meta(self, name: str) -> TensorMeta:
        """Return the dtype, the shape and the offsets of one tensor. Nothing is read."""
        return self._native.get_tensor_meta(name)

    def get_slice(self, name: str) -> PySafeSlice:
        """Return an object that reads slices of one tensor. Nothing is read yet."""
        return self._native.get_slice(name)

    def load(
        self, keys: Iterable[str] | None = None, *, slices: Mapping[str, Any] | None = None, dtype: Any = None,
        threads: int = 0, memory_limit: int | str = 0, cache: Cache = "auto", out: Mapping[str, Any] | None = None,
        progress: bool | Progress | None = False,
    ) -> dict[str, Tensor]:
        """Load many tensors at once. See `safetensors.load`."""
        native = self._native
        backend = native.backend()
        with ending(start_read(threads, memory_limit, cache, progress, backend)) as given:
            plain = all(given is None for given in (keys, slices, dtype, out))
            if plain and backend != "mmap" and native.device() == "cpu":
                every: dict[str, Tensor] = native.load(None, **given)
                return every
            names = select(native, keys)
            requests = make_requests(native, names, slices=slices, dtype=dtype, out=out)
            views: dict[str, Any] = {}
            if backend == "mmap":
                views = native.views(request[:2] for request in requests if request[2:] == _AS_STORED)
            others = [request for request in requests if request[0] not in views]
            loaded: list[Any] | None = None
            if self._cuda is not None and not out:
                loaded = cuda.load(native, others, self._cuda, given)
            rest = iter(native.load(others, **given) if loaded is None else loaded)
            return {name: views[name] if name in views else next(rest) for name in names}

    def stream(
        self, keys: Iterable[str] | None = None, *, slices: Mapping[str, Any] | None = None, dtype: Any = None,
        threads: int = 0, memory_limit: int | str = DEFAULT_BUDGET, cache: Cache = "auto",
        out: Mapping[str, Any] | None = None, progress: bool | Progress | None = False,
    ) -> CheckpointStream[Tensor]:
        """Load tensors one by one while the next ones are read. See `safetensors.stream`."""
        native = self._native
        names = select(native, keys)
        requests = make_requests(native, names, slices=slices, dtype=dtype, out=out)
        given, end_progress = start_read(threads, memory_limit, cache, progress, native.backend())
        try:
            return CheckpointStream(native.stream(requests, **given), names, end_progress)
        except BaseException:
            with suppress(Exception):
                end_progress()
            raise


_AS_STORED = (None, None)  # the end of a request for a tensor or a slice without cast, in new memory


def opened(native: _native._Checkpoint) -> Checkpoint[Any]:
    """Return a checkpoint over files that are open. It cannot be copied."""
    made: Checkpoint[Any] = Checkpoint.__new__(Checkpoint)
    made._native, made._cuda = native, cuda.usable(native)
    return made


@overload
def load(paths: Paths, *, framework: types.NumPy = "np", **options: Unpack[Options]) -> dict[str, types.NumPyTensor]: ...
@overload
def load(paths: Paths, *, framework: types.Torch, **options: Unpack[Options]) -> dict[str, types.TorchTensor]: ...
@overload
def load(paths: Paths, *, framework: types.Tf, **options: Unpack[Options]) -> dict[str, types.TfTensor]: ...
@overload
def load(paths: Paths, *, framework: types.Jax, **options: Unpack[Options]) -> dict[str, types.JaxTensor]: ...
@overload
def load(paths: Paths, *, framework: types.Mlx, **options: Unpack[Options]) -> dict[str, types.MlxTensor]: ...
@overload
def load(paths: Paths, *, framework: types.Paddle, **options: Unpack[Options]) -> dict[str, types.PaddleTensor]: ...
@overload
def load(paths: Paths, *, framework: Framework, **options: Unpack[Options]) -> dict[str, Any]: ...
def load(
    paths: Paths, *, keys: Iterable[str] | None = None, slices: Mapping[str, Any] | None = None,
    framework: Framework = "np", device: Any = "cpu", dtype: Any = None, threads: int = 0, memory_limit: int | str = 0,
    cache: Cache = "auto", backend: Backend = "auto", out: Mapping[str, Any] | None = None,
    progress: bool | Progress | None = False,
) -> dict[str, Any]:
    """Load tensors of one or many files at once, into memory of their own.

    `paths`, `framework`, `device`: as in `Checkpoint`.
    `keys`: names, and patterns such as "model.layers.*". None loads all tensors.
    `slices`: names to indices: integers, slices of any step and one Ellipsis. They have the meaning
    that NumPy gives them, but a bound past the end is an error. A tensor without an entry is loaded
    whole.
    `dtype`: the dtype that floats are cast to, rounded to nearest even, or the dtype that integers
    are cast to. An integer that does not fit is a SafetensorError. Other tensors keep their dtype. A
    dict of names to dtypes casts only these tensors. A warning names floats of over 8 bits that are
    cast beside tensors of at most 8 bits, because they may be the scales of these.
    `threads`: number of reader threads. 0 chooses it.
    `memory_limit`: maximum number of bytes that are being read or converted, besides the results: a
    number, or a text such as "512MiB". 0 chooses it.
    `cache`: "keep" reads cached bytes from the page cache and the others directly from the device.
    "fill" leaves the bytes in the page cache. "auto" is "fill" if the files and the results together
    fit into half of the memory, else "keep".
    `backend`: "auto" reads as `cache` says. "pread" reads through the page cache, as `cache="fill"`.
    "mmap" returns views of private maps of the files, as `load_file` does, also of slices whose
    bytes are adjacent, such as rows. It reads only other slices, and tensors that are cast or read
    into `out`.
    `out`: names to NumPy arrays or torch tensors on the CPU. They are filled and returned.
    `progress`: True shows a bar if tqdm is installed. A function receives the number of bytes
    completed and the total. An exception that it raises ends the load.

    Returns a dict in the order of `keys`, or of the files and their bytes. Raises SafetensorError,
    MissingTensorError for an unknown name and for a pattern without a match, ValueError and
    TypeError for an unsuitable argument, OSError for an error of the system. The GIL is released
    while bytes are read.
    """
    checkpoint: Checkpoint[Any] = Checkpoint(paths, framework, device, backend=backend)
    return checkpoint.load(
        keys, slices=slices, dtype=dtype, threads=threads, memory_limit=memory_limit, cache=cache, out=out, progress=progress
    )


@overload
def stream(paths: Paths, *, framework: types.NumPy = "np", **options: Unpack[Options]) -> CheckpointStream[types.NumPyTensor]: ...
@overload
def stream(paths: Paths, *, framework: types.Torch, **options: Unpack[Options]) -> CheckpointStream[types.TorchTensor]: ...
@overload
def stream(paths: Paths, *, framework: types.Tf, **options: Unpack[Options]) -> CheckpointStream[types.TfTensor]: ...
@overload
def stream(paths: Paths, *, framework: types.Jax, **options: Unpack[Options]) -> CheckpointStream[types.JaxTensor]: ...
@overload
def stream(paths: Paths, *, framework: types.Mlx, **options: Unpack[Options]) -> CheckpointStream[types.MlxTensor]: ...
@overload
def stream(paths: Paths, *, framework: types.Paddle, **options: Unpack[Options]) -> CheckpointStream[types.PaddleTensor]: ...
@overload
def stream(paths: Paths, *, framework: Framework, **options: Unpack[Options]) -> CheckpointStream[Any]: ...
def stream(
    paths: Paths, *, keys: Iterable[str] | None = None, slices: Mapping[str, Any] | None = None,
    framework: Framework = "np", device: Any = "cpu", dtype: Any = None, threads: int = 0,
    memory_limit: int | str = DEFAULT_BUDGET, cache: Cache = "auto", backend: Backend = "auto",
    out: Mapping[str, Any] | None = None, progress: bool | Progress | None = False,
) -> CheckpointStream[Any]:
    """Return an iterator of (name, tensor) that reads ahead in the background.

    The arguments are those of `load`, but the backend "mmap" copies the bytes from the maps, so no
    tensor is a view. `memory_limit` bounds the tensors that are being read or wait to be taken. A
    tensor larger than the limit is read alone. Reads begin in the order of `keys`. Tensors come in
    the order in which they are complete. To stop early, close the iterator or leave its `with`. The
    progress function is called in the thread that takes a tensor.
    """
    checkpoint: Checkpoint[Any] = Checkpoint(paths, framework, device, backend=backend)
    return checkpoint.stream(
        keys, slices=slices, dtype=dtype, threads=threads, memory_limit=memory_limit, cache=cache, out=out, progress=progress
    )
