"""Loads a checkpoint into the parameters of a torch module, without a second copy of the model.

torch decides: its own `load_state_dict` compares names and shapes, and raises its errors. It gets the
tensors of the model itself, or tensors without memory where shapes differ, so it changes nothing. Then a
read plan reads into the memory of the tensors. A model that takes part in loading, by hooks or methods of
its own, gets its values through `load_state_dict` (hooked.py).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.parameter import is_lazy

from .._arrays.dtypes import CASTABLE, FRAMEWORK_NAMES
from .._arrays.sharing import storage_ptr
from .._arrays.torch_dtypes import float_dtype
from .._base.options import Progress, ReadArguments, ending, start_read
from .._base.paths import to_paths
from .._native import SafetensorError
from .._read.checkpoint import DEFAULT_BUDGET, Checkpoint
from .._types import Cache, Paths
from .hooked import reading, takes_part
from .pieces import Piece, read_pieces

if TYPE_CHECKING:
    from torch.nn.modules.module import _IncompatibleKeys
else:
    _IncompatibleKeys = Any

__all__ = ["load_into"]

_CASTABLE = {getattr(torch, FRAMEWORK_NAMES[wire], None) for wire in CASTABLE}
_CPU = torch.device("cpu")


def load_into(
    model: torch.nn.Module, path: Paths, *, strict: bool = True, assign: bool = False, dtype: Any = None,
    device: Any = None, threads: int = 0, memory_limit: int | str = DEFAULT_BUDGET, cache: Cache = "auto",
    progress: bool | Progress | None = False,
) -> _IncompatibleKeys:
    """Load a checkpoint into a module, without a second copy of the model.

    The result is that of `model.load_state_dict(load(path, framework="pt"), strict, assign)`. But the
    bytes are read straight into the parameters and buffers, so the peak memory is that of the model
    plus `memory_limit`. Parameters on the meta device get new memory once.

    `path`: a file, an index, a folder, a pattern, or an iterable of these.
    `strict`, `assign`: as in `load_state_dict`. With `assign`, new tensors with the dtypes of the
    file replace those of the model.
    `dtype`: the dtype that floats of the model get, as with `model.to(dtype)`. None keeps theirs.
    `device`: the device that loaded tensors get, as with `model.to(device)`. None keeps their
    device, but tensors on the meta device get memory on the CPU.
    `threads`, `cache`, `progress`: as in `safetensors.load`.
    `memory_limit`: maximum number of bytes that are being read or converted, besides the model.

    Returns what `load_state_dict` returns: an object with `missing_keys` and `unexpected_keys`.
    Raises the RuntimeError of `load_state_dict`, which names all keys and shapes that differ. The
    model is then unchanged, unless it has hooks or loads itself.
    A file of `save_model` lacks the second name of tied weights: give `strict=False`, or use
    `load_model`.
    Raises SafetensorError, OSError and KeyboardInterrupt if reading fails. Then some tensors have
    their new values, and others do not. Do not use the model in other threads during the call.

    A model has hooks or loads itself if it has load hooks, its own `load_state_dict`, or a module outside
    of torch with its own `_load_from_state_dict`. Then the peak memory also has the tensors of one module,
    of its children if a hook or a method gets them, or of the whole model for its own `load_state_dict`.
    After an error, tensors that were on the meta device are there again, and others may have new values.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is {type(model).__name__}: give a torch.nn.Module")
    swaps = getattr(torch.__future__, "get_swap_module_params_on_conversion", None)  # from 2.3 on
    if swaps is not None and swaps():
        raise SafetensorError(
            "load_into fills parameters in place, which"
            " torch.__future__.set_swap_module_params_on_conversion(True) forbids: use load_state_dict"
        )
    files = to_paths(path, "path")
    wanted = float_dtype(dtype)
    place = _device(device)
    with ending(start_read(threads, memory_limit, cache, progress)) as options:
        with Checkpoint(files, "pt") as checkpoint:
            silent: ReadArguments = {**options, "progress": None}
            checkpoint._native.load((), **silent)  # raises the errors of the options
            load = _Load(model, checkpoint, assign, wanted, place)
            if takes_part(model):
                return load.by_torch(strict, options)
            result = load.judge(strict)
            load.read(options)
            return result


def _device(device: Any) -> torch.device | None:
    """Return the device with its ordinal, which "cuda" lacks."""
    if device is None:
        return None
    found = torch.empty(0, device=torch.device(device)).device
    if found.type == "meta":
        raise ValueError("device is meta, which holds no values")
    return found


class _Place(NamedTuple):
    """A parameter or a buffer of a module."""

    module: torch.nn.Module
    name: str

    @property
    def tensor(self) -> torch.Tensor:
        tensor: torch.Tensor = getattr(self.module, self.name)
        return tensor

    def put(self, new: torch.Tensor, keep: bool) -> torch.Tensor:
        """Replace the tensor. A parameter stays a parameter, with its attributes if `keep`."""
        old = self.tensor
        if isinstance(old, torch.nn.Parameter) and not isinstance(new, torch.nn.Parameter):
            new = torch.nn.Parameter(new, requires_grad=old.requires_grad)
            if keep:
                new.__dict__.update(old.__dict__)
        setattr(self.module, self.name, new)
        return new


def _places(model: torch.nn.Module) -> Iterator[tuple[str, _Place]]:
    """Yield the names of a state dict in the order in which torch loads them, and their places."""
    for prefix, module in model.named_modules(remove_duplicate=False):
        start = f"{prefix}." if prefix else ""
        for held, left_out in ((module._parameters, ()), (module._buffers, module._non_persistent_buffers_set)):
            for name, tensor in held.items():
                if tensor is not None and name not in left_out:
                    yield start + name, _Place(module, name)


@dataclass(slots=True)
class _Filled(Piece):
    """A tensor to read. `new`: its new memory, if it gets other memory than it has. `places`: where that goes."""

    places: Iterable[_Place] = ()
    new: torch.Tensor | None = None


@dataclass
class _Load:
    """One call of `load_into`. `dtype`, `device`: those that loaded tensors get, or None."""

    _model: torch.nn.Module
    _checkpoint: Checkpoint
    _assign: bool
    _dtype: torch.dtype | None
    _device: torch.device | None
    # Per shape in the file and dtype a tensor on the meta device: a model has few shapes and thousands of tensors.
    _templates: dict[Any, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = dict(_places(self._model))
        self._given = {"assign": True} if self._assign else {}

    def judge(self, strict: bool) -> _IncompatibleKeys:
        """Let torch compare names and shapes. Returns its result, or raises its errors. The model does not change."""
        state = {name: self._stand_in(name) for name in self._checkpoint}
        # torch sets `requires_grad` of each tensor that it assigns. For inference tensors, this needs their mode.
        frozen = self._assign and any(place.tensor.is_inference() for place in self._places.values())
        with _naming_ties(self._model, state), torch.inference_mode() if frozen else nullcontext():
            result: _IncompatibleKeys = self._model.load_state_dict(state, strict=strict, **self._given)
        return result

    def _stand_in(self, name: str) -> torch.Tensor:
        """Return the tensor that torch gets for a name. Copying or assigning it changes nothing."""
        if name.rpartition(".")[2] == "_extra_state":
            values: torch.Tensor = self._checkpoint[name]  # the module takes its values at once
            return values
        wire, _, template = self._stored(name)
        place = self._places.get(name)
        if place is None:
            return template
        if not hasattr(torch, FRAMEWORK_NAMES[wire]):
            raise SafetensorError(f"tensor {name!r} has dtype {wire}, which torch lacks")
        own = place.tensor
        if own.shape != template.shape and (own.dim() or template.shape != (1,)):
            return template
        if self._assign:
            no_float = not (template.is_floating_point() or template.is_complex())
            return template if no_float and isinstance(own, torch.nn.Parameter) and own.requires_grad else own
        frozen = own.is_inference() and not torch.is_inference_mode_enabled()
        if frozen or torch._debug_has_internal_overlap(own) == 1:
            return torch.zeros((), dtype=own.dtype).expand(own.shape)  # torch refuses the copy
        return own

    def _stored(self, name: str) -> tuple[str, int, torch.Tensor]:
        """Return the dtype and the bytes of a tensor of the checkpoint, and one like it without memory."""
        meta = self._checkpoint.get_tensor_meta(name)
        begin, end = meta.data_offsets
        key = wire, shape = meta.dtype, tuple(meta.shape)
        if key not in self._templates:
            if wire == "F4" and shape:
                shape = (*shape[:-1], shape[-1] // 2)  # torch counts pairs
            dtype = getattr(torch, FRAMEWORK_NAMES[wire], torch.uint8)
            self._templates[key] = torch.empty(shape, dtype=dtype, device="meta")
        return wire, end - begin, self._templates[key]

    def read(self, options: ReadArguments) -> None:
        """Read all tensors that the model and the checkpoint have. Tied tensors are read once."""
        chosen: dict[Any, str] = {}
        for name, place in self._places.items():
            if name in self._checkpoint:
                key = name if self._assign else id(place.tensor)
                chosen.pop(key, None)
                chosen[key] = name  # the last one wins
        holders = self._holders()
        pieces = [self._filled(name, self._places[name], holders) for name in chosen.values()]

        def put(index: int) -> None:
            piece = pieces[index]
            new = piece.target if piece.new is None else piece.new
            for place in piece.places:
                assert new is not None
                new = place.put(new, not self._assign)

        read_pieces(pieces, put, options)

    def _holders(self) -> dict[int, list[_Place]]:
        """Return all places of each tensor, by its identity. Tied places share a tensor."""
        holders: dict[int, list[_Place]] = {}
        if self._moves() and not self._assign:
            for module in self._model.modules():
                for name, tensor in chain(module._parameters.items(), module._buffers.items()):
                    if tensor is not None:
                        holders.setdefault(id(tensor), []).append(_Place(module, name))
        return holders

    def _moves(self) -> bool:
        """Return whether tensors of the model may get new memory."""
        given = self._dtype is not None or self._device is not None
        return given or any(place.tensor.is_meta for place in self._places.values())

    def _wanted(self, dtype: torch.dtype, device: torch.device) -> tuple[torch.dtype, torch.device]:
        """Return dtype and device as `Module.to` would choose them, but for meta the CPU."""
        if self._dtype is not None and dtype in _CASTABLE:
            dtype = self._dtype
        return dtype, self._device or (_CPU if device.type == "meta" else device)

    def _filled(self, name: str, place: _Place, holders: dict[int, list[_Place]]) -> _Filled:
        """Choose the memory of a tensor: its own, new memory, or memory that the plan makes."""
        wire, size, template = self._stored(name)
        like = template.reshape(place.tensor.shape) if self._assign else place.tensor
        dtype, device = self._wanted(like.dtype, like.device)
        piece = _Filled(self._checkpoint, name, wire, size, dtype, None, None, name)
        if self._assign:
            place.put(like, False)  # frees the old memory before anything is read
            piece.places = (place,)
        elif (dtype, device) == (like.dtype, like.device):
            piece.target = like
        elif not like.is_meta and torch._has_compatible_shallow_copy_type(like, like.new_empty(0, device=device)):
            _move(like, torch.empty_strided(like.size(), like.stride(), dtype=dtype, device=device))
            piece.target = like
        else:
            piece.places = holders[id(like)]
        if piece.target is None:
            alike = like.is_meta and like.is_contiguous() and like.shape == template.shape
            if alike and device.type == "cpu" and piece.request() is not None:
                return piece
            piece.new = piece.target = torch.empty_strided(like.size(), like.stride(), dtype=dtype, device=device)
        if piece.target.shape != template.shape:  # torch takes a tensor with one element for a scalar
            piece.target = piece.target.detach().reshape(template.shape)
        return piece

    def by_torch(self, strict: bool, options: ReadArguments) -> _IncompatibleKeys:
        """Let torch copy or assign all values, so that hooks and methods of the model see them."""
        holders = self._holders()
        found = {id(place.tensor): place.tensor for place in self._places.values() if place.tensor.is_meta}
        empty = {} if self._assign else found
        for key, old in empty.items():
            new = _on_cpu(old)
            for place in holders[key]:
                new = place.put(new, True)
        missing = set(self._places)
        try:
            with reading(self._model, self._checkpoint, options) as state, _naming_ties(self._model, state):
                result: _IncompatibleKeys = self._model.load_state_dict(state, strict=strict, **self._given)
            missing &= set(getattr(result, "missing_keys", ()))  # a method of the model may return anything
        finally:  # tensors without values have no memory
            loaded = {id(place.tensor) for name, place in self._places.items() if name not in missing}
            for key, old in empty.items():
                if id(holders[key][0].tensor) not in loaded:
                    for place in holders[key]:
                        setattr(place.module, place.name, old)
        for name, place in self._places.items() if self._moves() else ():
            tensor = place.tensor
            wanted = self._wanted(tensor.dtype, tensor.device)
            if name not in missing and wanted != (tensor.dtype, tensor.device):
                _move(tensor, tensor.data.to(wanted[1], wanted[0]))
        return result


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor on the CPU with the shape of one on the meta device, or with no shape if that has none yet."""
    if is_lazy(tensor):
        kind: Any = type(tensor)
        lazy: torch.Tensor = kind(tensor.requires_grad, device="cpu", dtype=tensor.dtype)
        return lazy
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")


def _move(tensor: torch.Tensor, new: torch.Tensor) -> None:
    """Give a tensor other memory, and its gradient the same dtype and device, as `Module.to` does."""
    tensor.data = new
    if tensor.grad is not None:
        tensor.grad.data = tensor.grad.to(new.device, new.dtype)


@contextmanager
def _naming_ties(model: torch.nn.Module, names: Container[str]) -> Iterator[None]:
    """Add to an error of torch which names are missing only because the model ties them to others."""
    try:
        yield
    except RuntimeError as error:
        if type(error) is RuntimeError and "Missing key" in str(error):
            error.args = (str(error) + _ties(model, names, str(error)),)
        raise


def _ties(model: torch.nn.Module, names: Container[str], missing: str) -> str:
    """Return a line per name that is missing. `missing`: a text with these names in quotes."""
    same: dict[Any, list[str]] = {}
    tensors = chain(model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False))
    for name, tensor in tensors:
        same.setdefault(_memory(tensor), []).append(name)
    text = ""
    for twins in same.values():
        kept = next((name for name in twins if name in names), None)
        for name in twins:
            if kept is not None and name not in names and f'"{name}"' in missing:
                text += (
                    f'\n\t"{name}" is tied to "{kept}", which the checkpoint has:'
                    " give strict=False, or use load_model"
                )
    return text


def _memory(tensor: torch.Tensor) -> Any:
    """Return a value that is equal for tensors with the same elements in the same memory."""
    pointer = storage_ptr(tensor)
    if not pointer:  # a meta or sparse tensor, or one without elements
        return id(tensor)
    place = tensor.storage_offset(), tensor.shape, tensor.stride()
    return tensor.device, pointer, tensor.dtype, *place
