"""Understands options that several functions take: those of reads, sizes in bytes, and progress. Counts tensors in texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import index
from typing import Any

from .._native import SafetensorError, _size_digits
from .._types import Cache

__all__ = ["Progress", "ReadOptions", "count_text", "reporter", "to_bytes", "to_metadata", "to_size"]

Progress = Callable[[int, int], object]


def count_text(tensors: int) -> str:
    """Return "1 tensor", "2,000 tensors"."""
    return f"{tensors:,} tensor{'' if tensors == 1 else 's'}"


def to_bytes(size: Any, argument: str) -> int:
    """Return the number of bytes of a text such as "1GB" or "512MiB". Return an int as it is.

    KB, MB, GB and TB are powers of 1000. KiB, MiB, GiB and TiB are powers of 1024. The case of the
    letters does not matter. Raises ValueError, which names the argument, for any other text, and
    TypeError for a float and other objects.
    """
    if not isinstance(size, str):
        try:
            count: int = index(size)
        except TypeError:
            raise TypeError(f'{argument} is {size!r}: expected an int, or a text such as "1GB"') from None
        return count
    digits = _size_digits(size)
    if digits is None:
        raise ValueError(
            f"{argument} {size!r} is invalid: expected a number of bytes, or a text such as"
            ' "1GB" (1000 ** 3 bytes) or "512MiB" (512 * 1024 ** 2 bytes)'
        )
    return int(digits)


def to_size(size: Any, argument: str, smallest: int = 0) -> int:
    """Return the number of bytes as `to_bytes`. Raises SafetensorError for one that is out of range."""
    count = to_bytes(size, argument)
    if not smallest <= count < 1 << 64:
        raise SafetensorError(f"{argument} is {count}, expected {smallest} to 2^64-1")
    return count


def to_metadata(metadata: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the metadata of a file as a dict. Raises TypeError, which names the key, for no str."""
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata is {type(metadata).__name__}: expected a dict of str to str")
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise TypeError(f"metadata has the key {key!r}: expected a str")
        if not isinstance(value, str):
            raise TypeError(f"metadata[{key!r}] is {type(value).__name__}: expected a str")
    return dict(metadata)


def _nothing() -> None: ...


def reporter(progress: bool | Progress | None, verb: str = "Loading") -> tuple[Progress | None, Callable[[], None]]:
    """Return the progress function and a function that ends it.

    The progress function is that of the caller, one that draws a tqdm bar, or None.
    """
    if progress is None or progress is False:
        return None, _nothing
    if progress is not True:
        if not callable(progress):
            raise TypeError(f"progress is {type(progress).__name__}: give a bool or a function")
        return progress, _nothing
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None, _nothing
    bar = tqdm(unit="B", unit_scale=True, unit_divisor=1024, desc=verb)

    def report(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return report, bar.close


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of every function that reads many tensors. See `safetensors.load`."""

    threads: int
    memory_limit: int | str
    cache: Cache
    progress: bool | Progress | None

    def start(self, backend: str = "auto") -> tuple[dict[str, Any], Callable[[], None]]:
        """Return the arguments of a native read, and a function that ends the progress."""
        reads = backend == "pread" and self.cache in ("auto", "keep")
        cache = "fill" if reads else self.cache  # the extension refuses an unknown word
        limit = to_bytes(self.memory_limit, "memory_limit")
        report, end_progress = reporter(self.progress)
        given = {"threads": self.threads, "memory_limit": limit, "cache": cache, "progress": report}
        return given, end_progress

    @contextmanager
    def given(self, backend: str = "auto") -> Iterator[dict[str, Any]]:
        """Give the arguments of a native read, and end the progress with the `with`."""
        given, end_progress = self.start(backend)
        try:
            yield given
        finally:
            end_progress()
