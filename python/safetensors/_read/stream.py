"""The iterator that `stream` returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from .. import _native
from .._base.options import count_text
from .._types import Tensor

__all__ = ["CheckpointStream"]


class CheckpointStream(Generic[Tensor]):
    """An iterator of (name, tensor), in the order in which the tensors are complete.

    Also a context manager. `len()` is the number of all tensors, also of those that were taken. The
    tensors that are being read or wait to be taken have at most `memory_limit` bytes. A tensor that
    was taken belongs to the caller. `close()` stops reading. Any number of threads may take
    tensors. A forked child must make its own stream.
    """

    def __init__(self, items: _native._Stream, names: list[str], end_progress: Callable[[], None]) -> None:
        self._items = items
        self._names = names
        self._end_progress = end_progress

    def __iter__(self) -> CheckpointStream[Tensor]:
        return self

    def __next__(self) -> tuple[str, Tensor]:
        try:
            index, tensor = next(self._items)
        except BaseException:
            self._end_progress()
            raise
        return self._names[index], tensor

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"CheckpointStream({count_text(len(self))})"

    def close(self) -> None:
        """Stop reading and end the iteration. Idempotent."""
        self._items.close()
        self._end_progress()

    def __enter__(self) -> CheckpointStream[Tensor]:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
