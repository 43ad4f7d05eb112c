"""Gives lazy tensors of a checkpoint one by one, and reads ahead what their user will probably need.

The user, such as a model of vLLM, takes a tensor, and uses all of it, slices of it, or nothing. Tensors
of one kind have the same name except for its first number, which is that of the layer, and the same
shape. The guess is that a tensor is used in the same slices as the last one of its kind. A stream reads
these. A slice that nobody guessed is read when it is used.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Generator
from typing import Any

import torch

from .._arrays.dtypes import FRAMEWORK_NAMES
from .._base.options import to_bytes
from .._native import SafetensorError
from .._read.checkpoint import DEFAULT_BUDGET, Checkpoint
from .._types import Cache
from .lazy import _template
from .lazy_views import Index, LazyView, Root

__all__ = ["ReadAhead"]

_LAYER = re.compile(r"(?<![^.])\d+(?![^.])")  # a number between dots

Key = tuple[tuple[int, int, int], ...] | None  # an index that can be a key of a dict
Item = tuple[str, Key]


def _key(index: Index | None) -> Key:
    return None if index is None else tuple((s.start, s.stop, s.step or 1) for s in index)


def _index(key: Key) -> Index | None:
    return None if key is None else tuple(slice(*bounds) for bounds in key)


class ReadAhead:
    """Lazy tensors in the order of `names`.

    `here`: for each name, whether reading ahead makes sense.
    `memory_limit`: maximum number of bytes that are being read, or were read ahead and are not used
    yet, or a text such as "1GiB". A tensor larger than half of it is read alone. Tensors that are in
    use belong to the user.
    `threads`, `cache`: as in `safetensors.load`.

    Any number of threads may use the tensors. They stay valid after the iteration.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        names: list[str],
        here: list[bool],
        *,
        memory_limit: int | str = DEFAULT_BUDGET,
        threads: int = 0,
        cache: Cache = "auto",
    ) -> None:
        self._native = checkpoint._native
        # One half is for the stream, and one for tensors that came out of it.
        self._window = max(to_bytes(memory_limit, "memory_limit") // 2, 1)
        self._options: dict[str, Any] = {"threads": threads, "memory_limit": self._window}
        self._options["cache"] = cache
        self._lock = threading.RLock()
        self._names, self._here = names, here
        self._order = {name: position for position, name in enumerate(names)}
        self._templates: dict[Any, torch.Tensor] = {}
        self._kinds: list[Any] = []
        # None: the user had the tensor. Views keep their root, and it keeps the values of the tensor.
        self._roots: list[Root | None] = [self._root(name) for name in names]
        self._uses_of: dict[Any, list[Key]] = {}  # per kind
        self._uses: list[Key] = []  # of the tensor that the user has now
        self._position = -1  # of this tensor
        self._planned = 0  # the guesses for names before this one were made
        self._stream: Any = None
        self._items: list[Item] = []  # those of the stream
        self._waiting: set[Item] = set()  # those that have not come out of it
        self._ready: dict[str, dict[Key, torch.Tensor]] = {}
        self.used_bytes = 0
        """Number of bytes of the slices read so far."""
        self.total_bytes = sum(self._native.meta(name)[2] for name in self._native.names())
        """Number of bytes of all tensors of the checkpoint."""

    @property
    def read_bytes(self) -> int:
        """Number of bytes that the files gave so far, with the gaps between the pieces of slices."""
        return self._native.bytes_read()

    def _root(self, name: str) -> Root:
        stored, shape, _ = self._native.meta(name)
        dtype: torch.dtype | None = getattr(torch, FRAMEWORK_NAMES[stored], None)
        if dtype is None:
            raise SafetensorError(f"tensor {name!r} has dtype {stored}, which torch lacks")
        described = stored, tuple(shape)
        if described not in self._templates:
            self._templates[described] = _template(dtype, tuple(shape), stored)
        self._kinds.append((_LAYER.sub("*", name, count=1), *described))
        return Root(name, stored, self._templates[described], self._read)

    def tensors(self) -> Generator[tuple[str, LazyView], None, None]:
        """Iterate over names and tensors. One iteration only."""
        try:
            for position, name in enumerate(self._names):
                with self._lock:
                    self._go_to(position)
                    root = self._roots[position]
                    assert root is not None
                    tensor, root = root.tensor(), None
                yield name, tensor
        finally:
            with self._lock:
                self._go_to(len(self._names))

    def _go_to(self, position: int) -> None:
        if self._position >= 0:
            self._uses_of[self._kinds[self._position]] = self._uses
        for passed in range(max(self._position, 0), position):
            self._ready.pop(self._names[passed], None)
            self._roots[passed] = None
        self._uses, self._position = [], position
        if position >= self._planned and self._stream is not None:
            self._stream.close()  # the guesses were wrong: nobody wanted the rest
            self._stream = None
            self._waiting.clear()
        if self._stream is None:
            self._plan()

    def _plan(self) -> None:
        """Start a stream of the next guesses, up to half of the budget."""
        self._items, size = [], 0
        position = max(self._planned, self._position)
        while position < len(self._names):
            name = self._names[position]
            uses = self._uses_of.get(self._kinds[position]) if self._here[position] else []
            if uses is None:
                break  # the first of its kind
            size += sum(self._native.meta(name, _index(key))[2] for key in uses)
            if self._items and size > self._window:
                break
            self._items += [(name, key) for key in uses]
            position += 1
        self._planned = position
        if self._items:
            self._waiting = set(self._items)
            requests = [(name, _index(key), None, None) for name, key in self._items]
            self._stream = self._native.stream(requests, **self._options)

    def _read(self, root: Root, index: Index | None) -> torch.Tensor:
        """Return the elements: those read ahead, or read now."""
        key = _key(index)
        with self._lock:
            if self._order[root.name] == self._position and key not in self._uses:
                self._uses.append(key)
            while (root.name, key) in self._waiting:
                self._take(*next(self._stream))
            found = self._ready.get(root.name, {}).get(key)
        if found is not None:
            return found
        request = root.name, index, None, None
        made: torch.Tensor = self._native.load([request], progress=None, **self._options)[0]
        self._count(made)
        return made

    def _take(self, item: int, tensor: torch.Tensor) -> None:
        name, key = self._items[item]
        self._waiting.remove((name, key))
        self._count(tensor)
        if self._order[name] >= self._position:
            self._ready.setdefault(name, {})[key] = tensor
        if not self._waiting:
            self._stream = None
            self._plan()

    def _count(self, tensor: torch.Tensor) -> None:
        with self._lock:
            self.used_bytes += tensor.nbytes
