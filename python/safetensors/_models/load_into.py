"""Loads a checkpoint into the parameters of a torch module, without a second copy of the model.

torch decides: its own `load_state_dict` compares names and shapes and runs the hooks of the model. It
gets tensors that are not read yet. A read plan makes the copies that torch wants to make.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch

from .._arrays.dtypes import float_name
from .._arrays.sharing import storage_ptr
from .._arrays.torch_dtypes import _getdtype
from .._base.options import Progress, reporter, to_bytes
from .._base.paths import to_paths
from .._native import SafetensorError
from .._read.checkpoint import DEFAULT_BUDGET, Checkpoint
from .._types import Cache, Paths
from .fill import Fill, places_of, replace
from .lazy import LazyTensor, Source, Templates

if TYPE_CHECKING:
    from torch.nn.modules.module import _IncompatibleKeys
else:
    _IncompatibleKeys = Any

__all__ = ["load_into"]


def load_into(
    model: torch.nn.Module,
    path: Paths,
    *,
    strict: bool = True,
    assign: bool = False,
    dtype: Any = None,
    device: Any = None,
    threads: int = 0,
    memory_limit: int | str = DEFAULT_BUDGET,
    cache: Cache = "auto",
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
    model is then unchanged, unless a hook or a module with its own `_load_from_state_dict` has
    already filled tensors. A file of `save_model` lacks the second name of tied weights: give
    `strict=False`, or use `load_model`.
    Raises SafetensorError, OSError and KeyboardInterrupt if reading fails. Then some tensors have
    their new values, and others do not. Do not use the model in other threads during the call.
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
    wanted = _float_dtype(dtype)
    place = _device(device)
    options = {
        "threads": threads,
        "memory_limit": to_bytes(memory_limit, "memory_limit"),
        "cache": cache,
    }
    with Checkpoint(files, "pt") as checkpoint:
        report, end_progress = reporter(progress)
        try:
            fill = Fill(model, checkpoint, wanted, place, report, **options)
            return _load(model, checkpoint, fill, strict, assign)
        finally:
            end_progress()


def _float_dtype(dtype: Any) -> torch.dtype | None:
    if dtype is None:
        return None
    return _getdtype(float_name(dtype))


def _device(device: Any) -> torch.device | None:
    """Return the device with its ordinal, which "cuda" lacks."""
    if device is None:
        return None
    found = torch.empty(0, device=torch.device(device)).device
    if found.type == "meta":
        raise ValueError("device is meta, which holds no values")
    return found


def _load(
    model: torch.nn.Module,
    checkpoint: Checkpoint,
    fill: Fill,
    strict: bool,
    assign: bool,
) -> _IncompatibleKeys:
    sources = _sources(checkpoint, fill)
    modules = list(model.modules())  # a walk over a model takes milliseconds
    with _naming_ties(model, sources), _restoring(model, modules, fill):
        with ExitStack() as hooks:
            hooks.callback(_flush_before_hooks(model, modules, fill))
            hooks.callback(_values_for_overrides(modules, assign))
            given = {"assign": True} if assign else {}
            result: _IncompatibleKeys = model.load_state_dict(_state_dict(sources), strict=strict, **given)
        fill.run()
    for source in sources.values():
        if source.is_kept():
            source.use()  # the model keeps the tensor outside of its parameters and buffers
    return result


def _sources(checkpoint: Checkpoint, fill: Fill) -> dict[str, Source]:
    note = fill.note  # one bound method for all
    templates: Templates = {}
    return {name: Source(checkpoint, name, note, templates) for name in checkpoint}


def _state_dict(sources: dict[str, Source]) -> dict[str, torch.Tensor]:
    """Return the tensors, not read yet, except extra state: torch does not copy it."""
    return {
        name: source.read() if name.rpartition(".")[2] == "_extra_state" else source.tensor()
        for name, source in sources.items()
    }


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
    tensors = chain(
        model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)
    )
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


@contextmanager
def _restoring(
    model: torch.nn.Module, modules: list[torch.nn.Module], fill: Fill
) -> Iterator[None]:
    """Put the old tensors back after an error, if reading has not begun.

    When reading begins, the old tensors are released, so that they are not a second copy of the
    model. After an error of reading, tensors that have no values yet are on the meta device.
    """
    # A few objects per module: objects per tensor would start the garbage collector.
    old = [(module, {**module._parameters, **module._buffers}) for module in modules]
    fill.before_changes = old.clear
    try:
        yield
    except BaseException:
        for module, held in old:
            for name, tensor in held.items():
                if tensor is not None and getattr(module, name) is not tensor:
                    setattr(module, name, tensor)
        for place, lazy in list(places_of(model)):
            if isinstance(lazy, LazyTensor):
                replace(place, lazy, torch.empty(lazy.shape, dtype=lazy.dtype, device="meta"))
        raise


def _flush_before_hooks(
    model: torch.nn.Module, modules: list[torch.nn.Module], fill: Fill
) -> Callable[[], None]:
    """Make post hooks of the model see the values: copies are made before such a hook runs.

    A model with its own `load_state_dict` sees the values, too. Returns a function that undoes this.
    """
    handles = []
    for module in modules:
        own = module is model and type(model).load_state_dict is not torch.nn.Module.load_state_dict
        if not own and not module._load_state_dict_post_hooks:
            continue
        register: Any = module.register_load_state_dict_post_hook
        handle = register(lambda *_: fill.run())
        hooks: Any = module._load_state_dict_post_hooks
        hooks.move_to_end(handle.id, last=False)
        handles.append(handle)

    def undo() -> None:
        for handle in handles:
            handle.remove()

    return undo


def _values_for_overrides(modules: list[torch.nn.Module], assign: bool) -> Callable[[], None]:
    """Give tensors with values to modules that have their own `_load_from_state_dict`.

    Such a method may keep a tensor or compute with the parameter that it has just filled. The
    modules of torch do neither. Returns a function that undoes this.
    """
    wrapped = []
    for module in modules:
        method = module._load_from_state_dict
        function = getattr(method, "__func__", method)
        if function is torch.nn.Module._load_from_state_dict:
            continue
        if getattr(function, "__module__", "").startswith("torch.nn.modules."):
            continue
        if not assign and any(p is not None and p.is_meta for p in module._parameters.values()):
            continue  # there are no values to compute with
        module.__dict__["_load_from_state_dict"] = _Override(module, method)
        wrapped.append(module)

    def undo() -> None:
        for module in wrapped:
            override = module.__dict__.pop("_load_from_state_dict")
            if override.replaced is not None:
                module.__dict__["_load_from_state_dict"] = override.replaced

    return undo


class _Override:
    """Calls the `_load_from_state_dict` of a module with the values of the tensors of this module."""

    def __init__(self, module: torch.nn.Module, method: Callable[..., None]) -> None:
        self.replaced = module.__dict__.get("_load_from_state_dict")
        self._method = method

    def __call__(self, state: dict[str, Any], prefix: str, *rest: Any, **named: Any) -> None:
        lazy = {
            name: tensor
            for name, tensor in state.items()
            if name.startswith(prefix)
            and "." not in name[len(prefix) :]
            and isinstance(tensor, LazyTensor)
        }
        for name, tensor in lazy.items():
            values = tensor.source.values
            state[name] = tensor.source.read() if values is None else values
        self._method(state, prefix, *rest, **named)
        for name in lazy.keys() & state.keys():
            state[name] = lazy[name]  # frees the values
