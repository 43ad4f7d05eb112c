"""Understands options that several functions take: those of reads, sizes in bytes, and progress. Counts tensors in texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from operator import index
from typing import Any, TypedDict, TypeVar

from .._native import SafetensorError, _size_digits
from .._types import Cache, Progress

__all__ = [
    "Progress", "ReadArguments", "count_text", "ending", "part_of", "reporter", "start_read", "to_bytes", "to_metadata", "to_size",
]

T = TypeVar("T")


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


class ReadArguments(TypedDict):
    """The options of a native read."""

    threads: int
    memory_limit: int
    cache: Cache
    progress: Progress | None
    device_stream: int | None  # for targets on a CUDA device


def start_read(
    threads: int, memory_limit: int | str, cache: Cache, progress: bool | Progress | None, backend: str = "auto"
) -> tuple[ReadArguments, Callable[[], None]]:
    """Return the options of a native read, and a function that ends the progress. See `safetensors.load`."""
    if backend == "pread" and cache in ("auto", "keep"):  # the extension refuses an unknown word
        cache = "fill"
    limit = to_bytes(memory_limit, "memory_limit")
    report, end_progress = reporter(progress)
    given = ReadArguments(threads=threads, memory_limit=limit, cache=cache, progress=report, device_stream=None)
    return given, end_progress


def part_of(options: ReadArguments, read: int, total: int) -> ReadArguments:
    """Return the options of one of several reads. The progress function gets the bytes of all of them."""
    if (progress := options["progress"]) is None:
        return options
    return {**options, "progress": lambda part, _: progress(read + part, total)}


@contextmanager
def ending(started: tuple[T, Callable[[], None]]) -> Iterator[T]:
    """Give the first of a pair, and call the second at the end of the `with`."""
    given, end = started
    try:
        yield given
    except BaseException:
        with suppress(Exception):
            end()
        raise
    end()
