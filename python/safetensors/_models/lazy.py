"""Tensors of a checkpoint that are read when their values are used.

`load_into` gives them to `load_state_dict`, so torch itself checks names and shapes and runs the hooks
of the model, before anything is read. When torch copies such a tensor into a parameter, the copy is
only noted. A read plan makes all noted copies later. Any other use of the values reads the tensor.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from .._arrays.dtypes import FRAMEWORK_NAMES, PACKED
from .._native import SafetensorError
from .._read.checkpoint import Checkpoint

__all__ = ["LazyTensor", "Source"]

# Called for a copy that torch wants to make: (target, source).
Note = Callable[[torch.Tensor, "Source"], None]

_COPY_CODE = torch.nn.Module._load_from_state_dict.__code__

# Functions of torch that need no values. The answers are those of a tensor on the meta device.
_T: Any = torch.Tensor
_SHAPE = _T.shape.__get__
_WITHOUT_VALUES: set[Any] = {
    _SHAPE, _T.dtype.__get__, _T.layout.__get__, _T.ndim.__get__, _T.is_meta.__get__,
    _T.requires_grad.__get__, _T.is_leaf.__get__, _T.grad.__get__, _T.grad_fn.__get__,
    _T.is_sparse.__get__, _T.is_quantized.__get__, _T.is_cuda.__get__, _T.itemsize.__get__,
    _T.nbytes.__get__, _T.dim, _T.size, _T.numel, _T.nelement, _T.stride, _T.element_size,
    _T.is_floating_point, _T.is_complex, _T.is_contiguous, _T.__len__, _T.__hash__,
    torch.is_floating_point, torch.is_complex, torch.numel,
}  # fmt: skip

# Per shape in the file and dtype: this shape, and a tensor of the meta device. A model has few shapes
# and thousands of tensors.
Templates = dict[tuple[Any, str], tuple[Any, torch.Tensor]]


def _template(dtype: torch.dtype | None, shape: tuple[int, ...], stored: str) -> torch.Tensor:
    if stored == "F4" and shape:
        shape = (*shape[:-1], shape[-1] // 2)  # torch counts pairs
    # A dtype that torch lacks is an error when the tensor is used, not before.
    return torch.empty(shape, dtype=dtype or torch.uint8, device="meta")


class Source:
    """A tensor of a checkpoint. `templates`: shared by all tensors of one load."""

    # A model has thousands. A full run of the garbage collector takes longer than all else here, and
    # it comes after many new objects. So a Source has few objects of its own.
    __slots__ = (
        "checkpoint", "name", "note", "stored", "size", "elements", "dtype", "values", "_template",
        "_lazy", "_more",
    )  # fmt: skip

    def __init__(
        self, checkpoint: Checkpoint, name: str, note: Note, templates: Templates
    ) -> None:
        self.checkpoint = checkpoint
        self.name = name
        self.note = note
        meta = checkpoint.get_tensor_meta(name)
        self.stored = meta.dtype
        begin, end = meta.data_offsets
        self.size = end - begin
        self.dtype: torch.dtype | None = getattr(torch, FRAMEWORK_NAMES[meta.dtype], None)
        key = tuple(meta.shape), meta.dtype
        if key not in templates:
            templates[key] = key[0], _template(self.dtype, *key)
        # The shape in the file, and a tensor with that of torch.
        self.elements, self._template = templates[key]
        # The values, after a hook has used them. A hook may have changed them.
        self.values: torch.Tensor | None = None
        self._lazy: weakref.ref[LazyTensor] | None = None  # the first tensor that stands for this one
        self._more: tuple[weakref.ref[LazyTensor], ...] = ()

    def check(self) -> None:
        """Raise SafetensorError for a dtype that torch lacks."""
        if self.dtype is None:
            raise SafetensorError(f"tensor {self.name!r} has dtype {self.stored}, which torch lacks")

    def read(self) -> torch.Tensor:
        """Read the tensor into new memory."""
        tensor: torch.Tensor = self.checkpoint.get_tensor(self.name)
        return tensor

    def use(self) -> torch.Tensor:
        """Return the values, which are read once."""
        if self.values is None:
            self.values = self.read()
        return self.values

    @property
    def shape(self) -> torch.Size:
        """The shape of the tensor in torch."""
        return self._template.shape

    def tensor(self) -> LazyTensor:
        """Return a tensor that stands for this one."""
        return self.adopt(self._template)

    def adopt(self, empty: torch.Tensor) -> LazyTensor:
        """Make a tensor without values stand for this one."""
        lazy = empty if isinstance(empty, LazyTensor) else empty.as_subclass(LazyTensor)
        lazy.source = self
        if self._lazy is None:
            self._lazy = weakref.ref(lazy)
        else:
            self._more += (weakref.ref(lazy),)
        return lazy

    def is_kept(self) -> bool:
        """Return whether a tensor that stands for this one still exists."""
        if self._lazy is not None and self._lazy() is not None:
            return True
        return any(lazy() is not None for lazy in self._more)


def _with_values(value: Any) -> Any:
    if isinstance(value, LazyTensor):
        return value.source.use()
    if isinstance(value, dict):
        return {key: _with_values(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_with_values(item) for item in value)
    return value


class LazyTensor(torch.Tensor):
    """A tensor that is read when its values are used. Shape and dtype are known before."""

    __slots__ = ("source",)
    source: Source

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func == _SHAPE:  # torch asks for it several times per tensor
            return args[0].source.shape
        if func is _T.copy_ and _is_load(args, given):
            _check(args[0], args[1].source)
            args[1].source.note(args[0], args[1].source)
            return args[0]
        if func in _WITHOUT_VALUES:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **given)
        if func == _T.device.__get__:
            return torch.device("cpu")
        if func in (_T.detach, _T.requires_grad_):
            return _alias(func, args, given)
        return func(*_with_values(args), **_with_values(given))


def _alias(func: Any, args: Any, kwargs: dict[str, Any]) -> LazyTensor:
    """Return a lazy tensor: `torch.nn.Parameter` takes these two steps to make a parameter of it."""
    with torch._C.DisableTorchFunctionSubclass():
        made: torch.Tensor = func(*args, **kwargs)
    source: Source = args[0].source
    return made if isinstance(made, LazyTensor) and made is args[0] else source.adopt(made)


def _is_load(args: Any, kwargs: dict[str, Any]) -> bool:
    """Return whether torch's own `load_state_dict` copies a lazy tensor into another tensor.

    A hook of the model that copies expects the values at once.
    """
    if len(args) != 2 or kwargs or isinstance(args[0], LazyTensor):
        return False
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name == "__torch_function__":
        frame = frame.f_back  # a mode, such as `with torch.device("meta")`
    return frame is not None and frame.f_code is _COPY_CODE


def _check(target: torch.Tensor, source: Source) -> None:
    """Raise an error for a copy that could not be made. torch adds it to its list of errors."""
    source.check()
    if source.stored in PACKED and target.dtype != source.dtype:
        raise SafetensorError(f"cannot convert {source.stored} to {target.dtype}")
    if target.is_meta:
        return  # it gets new memory
    frozen = target.is_inference() and not torch.is_inference_mode_enabled()
    if frozen or torch._debug_has_internal_overlap(target) == 1:
        target.copy_(torch.zeros((), dtype=target.dtype).expand(target.shape))  # raises torch's error
