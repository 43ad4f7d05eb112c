"""Understands options that several functions take: sizes in bytes, and progress."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

__all__ = ["Progress", "reporter", "to_bytes"]

Progress = Callable[[int, int], object]

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT]?)(i?)B)?\s*", re.ASCII | re.IGNORECASE)


def to_bytes(size: Any, argument: str) -> Any:
    """Return the number of bytes of a text such as "1GB" or "512MiB". Return other objects as they are.

    KB, MB, GB and TB are powers of 1000. KiB, MiB, GiB and TiB are powers of 1024. The case of the
    letters does not matter. Raises ValueError, which names the argument, for any other text.
    """
    if not isinstance(size, str):
        return size
    found = _SIZE.fullmatch(size)
    if found is None or (found[3] and not found[2]):
        raise ValueError(
            f"{argument} {size!r} is invalid: expected a number of bytes, or a text such as"
            ' "1GB" (1000 ** 3 bytes) or "512MiB" (512 * 1024 ** 2 bytes)'
        )
    base = 1024 if found[3] else 1000
    factor = base ** ("KMGT".index(found[2].upper()) + 1) if found[2] else 1
    whole, _, fraction = found[1].partition(".")
    return int(whole) * factor + (int(fraction or 0) * factor) // 10 ** len(fraction)


def _nothing() -> None: ...


def reporter(
    progress: bool | Progress | None, verb: str = "Loading"
) -> tuple[Progress | None, Callable[[], None]]:
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
