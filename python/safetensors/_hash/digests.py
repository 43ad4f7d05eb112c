"""Computes the digests of a file from its bytes, which come in order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

__all__ = ["FileDigests", "Lane", "bytes_view"]


def bytes_view(buffer: Any) -> memoryview:
    """Return a new view of the bytes of a contiguous object, which is not itself a memoryview.

    Each thread needs one of its own. Views that are made of one another count their users together, and free-threaded
    Python 3.13 loses counts when threads do it at once: "operation forbidden on released memoryview object".
    """
    view = memoryview(buffer)
    return view.cast("B") if view.nbytes else memoryview(b"")


class Lane:
    """Calls a function with one block after the other, in the threads of a pool."""

    def __init__(self, pool: ThreadPoolExecutor, take: Callable[[memoryview], object]) -> None:
        self._pool = pool
        self._take = take
        self._last: Future[None] | None = None

    def add(self, block: Any, start: int = 0) -> Future[None]:
        """Queue the bytes of an object from `start` on. They must not change until the result is done."""
        before = self._last

        # The pool starts its tasks in their order, so the task before runs or is done.
        def run() -> None:
            if before is not None:
                before.result()
            self._take(bytes_view(block)[start:])

        self._last = self._pool.submit(run)
        return self._last


class FileDigests:
    """The digests of a file, of its data and of its chunks."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        new_hash: Callable[[], Any],
        data_start: int,
        chunk_bytes: int,
    ) -> None:
        self._new_hash = new_hash
        self._data_start = data_start
        self._chunk_bytes = chunk_bytes
        self._offset = 0
        self._file, self._data, self._chunk = new_hash(), new_hash(), new_hash()
        self._filled = 0  # bytes of the chunk
        self._chunks: list[str] = []
        self._lanes = [
            Lane(pool, take) for take in (self._file.update, self._data.update, self._take_chunks)
        ]

    def add(self, block: Any) -> list[Future[None]]:
        """Queue an object with the next bytes of the file. They must not change until the results are done."""
        starts = (0, max(self._data_start - self._offset, 0), 0)
        self._offset += memoryview(block).nbytes
        return [lane.add(block, start) for lane, start in zip(self._lanes, starts, strict=True)]

    def finish(self) -> tuple[str, str, tuple[str, ...]]:
        """Return the digests of the file, the data and the chunks, after all results are done."""
        if self._filled:
            self._chunks.append(self._chunk.hexdigest())
        return self._file.hexdigest(), self._data.hexdigest(), tuple(self._chunks)

    def _take_chunks(self, block: memoryview) -> None:
        while block:
            part = block[: self._chunk_bytes - self._filled]
            self._chunk.update(part)
            self._filled += len(part)
            block = block[len(part) :]
            if self._filled == self._chunk_bytes:
                self._chunks.append(self._chunk.hexdigest())
                self._chunk = self._new_hash()
                self._filled = 0
