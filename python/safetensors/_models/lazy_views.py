"""Tensors of a checkpoint that are read when their values are used, and only the elements that are used.

Unlike `LazyTensor`, a view of such a tensor is one, too: `tensor.narrow(0, 8, 4)` reads nothing, and
copying this view reads 4 rows. torch computes the view itself, on a tensor of the meta device. Its offset
and strides say which elements of the file it has. Each view that no slice of the file can stand for is
made of the whole tensor.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from .._arrays.dtypes import PACKED
from .lazy import _WITHOUT_VALUES

__all__ = ["Index", "LazyView", "Root", "slice_of"]

Index = tuple[slice, ...]

_T: Any = torch.Tensor
_VIEWS: set[Any] = {
    _T.narrow, _T.__getitem__, _T.select, _T.chunk, _T.split, _T.unbind, _T.t, _T.transpose, _T.permute,
    _T.squeeze, _T.unsqueeze, _T.view, _T.reshape, _T.flatten, _T.contiguous, _T.detach, _T.T.__get__,
    _T.mT.__get__, _T.data.__get__, torch.narrow, torch.select, torch.chunk, torch.split, torch.unbind,
    torch.transpose, torch.permute, torch.squeeze, torch.unsqueeze, torch.reshape, torch.flatten,
}  # fmt: skip
_ANSWERS = _WITHOUT_VALUES - {_T.is_meta.__get__, _T.is_cuda.__get__}


class Root:
    """A tensor of a checkpoint. `read` returns new memory with the elements of an index, or with all."""

    def __init__(
        self,
        name: str,
        stored: str,
        template: torch.Tensor,
        read: Callable[[Root, Index | None], torch.Tensor],
    ) -> None:
        self.name = name
        self.stored = stored
        self.template = template  # without values, contiguous, with the shape and dtype of torch
        self.read = read
        self.values: torch.Tensor | None = None  # after a use that may change them
        self._pinning = threading.Lock()

    def tensor(self) -> LazyView:
        """Return a tensor that stands for all elements."""
        return self._wrap(self.template.view(self.template.shape))

    def _wrap(self, empty: torch.Tensor) -> LazyView:
        view = empty.as_subclass(LazyView)
        view.root = self
        view.kept = None
        return view

    def views(self, made: Any) -> Any:
        """Return lazy views for what torch made of the template. None: it made something else."""
        if isinstance(made, (list, tuple)):
            views = [self.views(item) for item in made]
            return None if any(view is None for view in views) else type(made)(views)
        if not isinstance(made, torch.Tensor) or made.dtype != self.template.dtype:
            return None
        if made.untyped_storage()._cdata != self.template.untyped_storage()._cdata:
            return None
        return self._wrap(made)

    def pin(self) -> torch.Tensor:
        """Return all values, of which there is one copy from now on."""
        with self._pinning:
            if self.values is None:
                self.values = self.read(self, None)
            return self.values


def slice_of(view: torch.Tensor, base: tuple[int, ...]) -> tuple[Index, tuple[int, ...]] | None:
    """Return the slices of a contiguous tensor of shape `base` that have the elements of a view of it.

    Also returns the dimension of `base` that each dimension of the view steps through, or -1 where the
    view has one element. Returns None if the view is no such box of elements.
    """
    strides = [math.prod(base[d + 1 :]) for d in range(len(base))]
    offset = view.storage_offset()
    starts = [offset // s % n if n else 0 for s, n in zip(strides, base, strict=True)]
    slices = [slice(start, start + 1) for start in starts]
    order: list[int] = []
    for size, stride in zip(view.shape, view.stride(), strict=True):
        if size == 1:
            order.append(-1)
            continue
        steps = (d for d, s in enumerate(strides) if base[d] > 1 and s <= stride)
        found = next(steps, None)
        if found is None or found in order or stride % strides[found]:
            return None
        step = stride // strides[found]
        last = starts[found] + (size - 1) * step
        if size == 0 or last >= base[found]:
            return None
        slices[found] = slice(starts[found], last + 1, step)
        order.append(found)
    return tuple(slices), tuple(order)


class LazyView(torch.Tensor):
    """A tensor that is read when its values are used. Shape, strides and dtype are known before."""

    root: Root
    kept: torch.Tensor | None  # the elements, after a use other than a copy

    def use(self) -> torch.Tensor:
        """Read the elements, or return them if they are in memory."""
        if self.kept is not None:
            return self.kept
        root = self.root
        if root.values is not None:
            return self._of(root.values)
        found = None
        if root.stored not in PACKED and self.numel() < root.template.numel():
            with torch._C.DisableTorchFunctionSubclass():
                found = slice_of(self, tuple(root.template.shape))
        if found is None:
            return self._of(root.read(root, None))
        index, order = found
        box = root.read(root, index)
        return box.as_strided(self.shape, [0 if d < 0 else box.stride(d) for d in order], 0)

    def _of(self, whole: torch.Tensor) -> torch.Tensor:
        """Return the elements of this view, which are in a tensor that has all elements."""
        with torch._C.DisableTorchFunctionSubclass():
            shape, strides, offset = self.shape, self.stride(), self.storage_offset()
        return whole.as_strided(shape, strides, offset)

    def keep(self) -> torch.Tensor:
        """Read the elements, and keep them as long as this tensor exists."""
        if self.kept is None:
            everything = self.numel() == self.root.template.numel()
            self.kept = self._of(self.root.pin()) if everything else self.use()
        return self.kept

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        first: Any = args[0] if args else None
        if isinstance(first, LazyView):
            if func in _ANSWERS:
                with torch._C.DisableTorchFunctionSubclass():
                    return func(*args, **given)
            if func == _T.device.__get__:
                return torch.device("cpu")
            if func == _T.is_meta.__get__ or func == _T.is_cuda.__get__:
                return False
            if func in _VIEWS and first.kept is None and first.root.values is None:
                # An error, such as an index out of range, comes again from the values.
                with suppress(Exception), torch._C.DisableTorchFunctionSubclass():
                    if (views := first.root.views(func(*args, **given))) is not None:
                        return views
        elif func is _T.copy_ and len(args) > 1 and isinstance(args[1], LazyView):
            return _copy(first, *args[1:], **given)
        changes = _may_change(func, first) or "out" in given
        return func(*_with_values(args, changes), **_with_values(given, changes))


def _copy(target: torch.Tensor, source: LazyView, *rest: Any, **given: Any) -> Any:
    """Copy into another tensor. Most tensors are used only so, so they are not kept."""
    if target.is_meta:
        with torch._C.DisableTorchFunctionSubclass():  # vLLM counts elements so
            empty = source.as_subclass(torch.Tensor)
        return target.copy_(empty, *rest, **given)
    return target.copy_(source.use(), *rest, **given)


def _may_change(func: Any, first: Any) -> bool:
    """Return whether a function may change the values of a lazy view."""
    if isinstance(func, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return True
    if not isinstance(first, LazyView):
        return False
    name = getattr(func, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or name.startswith(("__set", "__i"))


def _with_values(value: Any, pin: bool) -> Any:
    if isinstance(value, LazyView):
        if pin:
            value.root.pin()
        return value.keep()
    if isinstance(value, dict):
        return {key: _with_values(item, pin) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_with_values(item, pin) for item in value)
    return value
