"""The functions that open a checkpoint for one call: `load` and `stream`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, overload

from .._base.options import Progress
from .._types import Backend, Cache, Framework, Paths
from .checkpoint import DEFAULT_BUDGET, Checkpoint
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

__all__ = ["load", "stream"]


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
