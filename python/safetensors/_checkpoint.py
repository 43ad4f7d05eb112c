"""Reads many files as one mapping of tensors, one tensor or many tensors at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from types import TracebackType
from typing import Any

from . import _cuda, _native
from ._dtypes import CASTABLE, format_name
from ._native import PySafeSlice, SafetensorError
from ._targets import Target, to_target
from ._types import Cache, Framework

__all__ = ["Checkpoint", "CheckpointStream", "load", "stream"]

Progress = Callable[[int, int], object]

_DEFAULT_BUDGET = 256 << 20


@contextmanager
def _reporting(progress: bool | Progress | None) -> Iterator[Progress | None]:
    """Yield the progress function: the caller's, one that draws a tqdm bar, or None."""
    if progress is None or progress is False:
        yield None
        return
    if progress is not True:
        if not callable(progress):
            raise TypeError(f"progress is {type(progress).__name__}: give a bool or a function")
        yield progress
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(unit="B", unit_scale=True, unit_divisor=1024, desc="Loading") as bar:

        def report(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield report


class CheckpointStream:
    """An iterator of (name, tensor), in the order in which the tensors are complete.

    Also a context manager. The tensors that are being read or wait to be taken have at most
    `memory_limit` bytes. A tensor that was taken belongs to the caller. `close()` stops reading.
    Any number of threads may take tensors. A forked child must make its own stream.
    """

    def __init__(self, items: _native._Stream, names: list[str]) -> None:
        self._items = items
        self._names = names

    def __iter__(self) -> CheckpointStream:
        return self

    def __next__(self) -> tuple[str, Any]:
        index, tensor = next(self._items)
        return self._names[index], tensor

    def close(self) -> None:
        """Stop reading and end the iteration. Idempotent."""
        self._items.close()

    def __enter__(self) -> CheckpointStream:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Checkpoint(Mapping[str, Any]):
    """A mapping of names to tensors over one or many files. A tensor is read on each access.

    `paths`: a file, an index (`*.safetensors.index.json`), a folder that holds one of these, a glob
    pattern, or an iterable of these. With an index, only the tensors that it names are present.
    `framework`: as in `safe_open`. `device`: the device of the tensors (torch and paddle). The
    constructor reads and checks all headers and nothing else. A checkpoint may be used from any
    number of threads, and in a forked child.

    Raises SafetensorError for an invalid file or index, for a tensor in two files, and for a folder
    with several checkpoints. Raises KeyError for an unknown name, OSError for an error of the
    system.
    """

    def __init__(
        self,
        paths: str | PathLike[str] | Iterable[str | PathLike[str]],
        framework: Framework = "np",
        device: Any = "cpu",
    ) -> None:
        self._native = _native._Checkpoint(paths, framework, device)
        self._cuda = _cuda.usable(self._native)

    def __getitem__(self, name: str) -> Any:
        """Read one tensor into memory of its own."""
        return self._native.get_tensor(name)

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
        return f"Checkpoint({self.files!r}, {len(self)} tensors)"

    @property
    def files(self) -> list[str]:
        """The paths of the files, in the order in which they were opened."""
        return self._native.files()

    def get_slice(self, name: str) -> PySafeSlice:
        """Return an object that reads slices of one tensor. Nothing is read yet."""
        return self._native.get_slice(name)

    def load(
        self,
        keys: Iterable[str] | None = None,
        *,
        slices: Mapping[str, Any] | None = None,
        dtype: Any = None,
        threads: int = 0,
        memory_limit: int = 0,
        cache: Cache = "keep",
        out: Mapping[str, Any] | None = None,
        progress: bool | Progress | None = False,
    ) -> dict[str, Any]:
        """Load many tensors at once. See `safetensors.load`."""
        names, requests = self._requests(keys, slices, dtype, out)
        options: dict[str, Any] = {
            "threads": threads,
            "memory_limit": memory_limit,
            "cache": cache,
        }
        with _reporting(progress) as report:
            loaded = None
            if self._cuda is not None and not out:
                loaded = _cuda.load(
                    self._native, requests, self._cuda, progress=report, **options
                )
            if loaded is None:
                loaded = self._native.load(requests, progress=report, **options)
        return dict(zip(names, loaded, strict=True))

    def stream(
        self,
        keys: Iterable[str] | None = None,
        *,
        slices: Mapping[str, Any] | None = None,
        dtype: Any = None,
        threads: int = 0,
        memory_limit: int = _DEFAULT_BUDGET,
        cache: Cache = "keep",
        out: Mapping[str, Any] | None = None,
    ) -> CheckpointStream:
        """Load tensors one by one while the next ones are read. See `safetensors.stream`."""
        names, requests = self._requests(keys, slices, dtype, out)
        items = self._native.stream(
            requests, threads=threads, memory_limit=memory_limit, cache=cache
        )
        return CheckpointStream(items, names)

    def _requests(
        self,
        keys: Iterable[str] | None,
        slices: Mapping[str, Any] | None,
        dtype: Any,
        out: Mapping[str, Any] | None,
    ) -> tuple[list[str], list[tuple[str, Any, str | None, Target | None]]]:
        if isinstance(keys, (str, bytes)):
            raise TypeError(f"keys is {type(keys).__name__}: give a list of names")
        names = self._native.names() if keys is None else list(dict.fromkeys(keys))
        selected = set(names)
        for what, given in (("slices", slices), ("out", out)):
            if given is None:
                continue
            if not isinstance(given, Mapping):
                raise TypeError(f"{what} is {type(given).__name__}: give a dict of names")
            for name in given:
                if name not in selected:
                    raise SafetensorError(f"{what} names a tensor that is not loaded: {name}")
        casts = _Casts(dtype, selected)
        requests: list[tuple[str, Any, str | None, Target | None]] = []
        for name in names:
            index = None if slices is None else slices.get(name)
            if dtype is None and (out is None or name not in out):
                requests.append((name, index, None, None))
                continue
            stored, shape, _ = self._native.meta(name, index)
            cast = casts.of(name, stored)
            target = None
            if out is not None and name in out:
                target = to_target(out[name], name, cast or stored, shape)
            requests.append((name, index, cast, target))
        return names, requests


class _Casts:
    """The dtype that each tensor is cast to, from the argument `dtype`."""

    def __init__(self, dtype: Any, selected: set[str]) -> None:
        self._one: str | None = None
        self._each: dict[str, str] = {}
        if isinstance(dtype, Mapping):
            self._each = {n: format_name(to) for n, to in dtype.items() if to is not None}
            for name in dtype:
                if name not in selected:
                    raise SafetensorError(f"dtype names a tensor that is not loaded: {name}")
        elif dtype is not None:
            self._one = format_name(dtype)
            if self._one not in CASTABLE - {"F8_E8M0"}:
                raise SafetensorError(f"cannot cast to {self._one}: floats only")

    def of(self, name: str, stored: str) -> str | None:
        if self._one is not None and stored in CASTABLE:
            return self._one
        return self._each.get(name)


def load(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    keys: Iterable[str] | None = None,
    slices: Mapping[str, Any] | None = None,
    framework: Framework = "np",
    device: Any = "cpu",
    dtype: Any = None,
    threads: int = 0,
    memory_limit: int = 0,
    cache: Cache = "keep",
    out: Mapping[str, Any] | None = None,
    progress: bool | Progress | None = False,
) -> dict[str, Any]:
    """Load tensors of one or many files at once, into memory of their own.

    `paths`, `framework`, `device`: as in `Checkpoint`.
    `keys`: the names to load. None loads all tensors.
    `slices`: names to indices as between brackets: integers, slices of any step and one Ellipsis.
    They mean what they mean in NumPy, but a bound past the end is an error. A tensor without an
    entry is loaded whole.
    `dtype`: the dtype that floats are cast to, rounded to nearest even. Other tensors keep their
    dtype. A dict of names to dtypes casts only these tensors.
    `threads`: number of reader threads. 0 chooses it.
    `memory_limit`: bytes that may be read or converted at one time, besides the results. 0 chooses
    it.
    `cache`: "keep" takes cached bytes from the page cache and reads the others past it, "fill"
    leaves the bytes in the page cache, "drop" removes them from it, "bypass" never uses it.
    `out`: names to NumPy arrays or torch tensors on the CPU. They are filled and returned.
    `progress`: True shows a bar if tqdm is installed. A function receives the number of bytes
    completed and the total. An exception that it raises ends the load.

    Returns a dict in the order of `keys`, or of the files and their bytes. Raises SafetensorError,
    KeyError for an unknown name, ValueError and TypeError for an unsuitable `out`, OSError for an
    error of the system. The GIL is released while bytes are read.
    """
    return Checkpoint(paths, framework, device).load(
        keys,
        slices=slices,
        dtype=dtype,
        threads=threads,
        memory_limit=memory_limit,
        cache=cache,
        out=out,
        progress=progress,
    )


def stream(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    keys: Iterable[str] | None = None,
    slices: Mapping[str, Any] | None = None,
    framework: Framework = "np",
    device: Any = "cpu",
    dtype: Any = None,
    threads: int = 0,
    memory_limit: int = _DEFAULT_BUDGET,
    cache: Cache = "keep",
    out: Mapping[str, Any] | None = None,
) -> CheckpointStream:
    """Return an iterator of (name, tensor) that reads ahead in the background.

    The arguments are those of `load`, except that `memory_limit` bounds the tensors that are being
    read or wait to be taken. A tensor larger than the limit is read alone. Reads begin in the order
    of `keys`, and tensors come in the order in which they are complete. To stop early, close the
    iterator or leave its `with`.
    """
    return Checkpoint(paths, framework, device).stream(
        keys,
        slices=slices,
        dtype=dtype,
        threads=threads,
        memory_limit=memory_limit,
        cache=cache,
        out=out,
    )
