"""Reads the values of a model that takes part in loading, by hooks or methods of its own.

torch's `load_state_dict` gets a state dict without values. Each module reads the tensors that it loads
when torch comes to it, and frees them afterwards. A module with a hook or a method that may see the
tensors of its children reads these, too. A model with its own `load_state_dict` gets all values at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .._base.options import ReadArguments, part_of
from .._read.checkpoint import Checkpoint

__all__ = ["reading", "takes_part"]

_METHOD = "_load_from_state_dict"
_UNREAD = torch.empty(0, device="meta")  # stands for each tensor that is not read yet


def takes_part(model: torch.nn.Module) -> bool:
    """Return whether hooks or methods of the model see or change values while they are loaded."""
    return _loads_itself(model) or any(_sees(m) or m._load_state_dict_post_hooks for m in model.modules())


def _loads_itself(model: torch.nn.Module) -> bool:
    return type(model).load_state_dict is not torch.nn.Module.load_state_dict


def _sees(module: torch.nn.Module) -> bool:
    """Return whether the module may use values of its children before they load them."""
    method = getattr(module._load_from_state_dict, "__func__", module._load_from_state_dict)
    own = not getattr(method, "__module__", "").startswith("torch.nn.modules.")
    return own or bool(module._load_state_dict_pre_hooks)


class _Values:
    """Reads tensors of a checkpoint. The progress function gets the bytes of all reads together."""

    def __init__(self, checkpoint: Checkpoint, options: ReadArguments) -> None:
        self._native, self._options, self._progress = checkpoint._native, options, options["progress"]
        self._done = 0
        self._total = sum(checkpoint._native.meta(name)[2] for name in checkpoint) if self._progress else 0

    def read(self, names: list[str]) -> dict[str, torch.Tensor]:
        if not names:
            return {}
        options = part_of(self._options, self._done, self._total)
        values = self._native.load([(name, None, None, None) for name in names], **options)
        self._done += sum(tensor.nbytes for tensor in values)
        return dict(zip(names, values, strict=True))

    def finish(self) -> None:
        """Report the tensors that no module of the model has as done, too."""
        if self._progress and self._done < self._total:
            self._progress(self._total, self._total)


@contextmanager
def reading(
    model: torch.nn.Module, checkpoint: Checkpoint, options: ReadArguments
) -> Iterator[dict[str, torch.Tensor]]:
    """Give the state dict for `load_state_dict`, while the modules of the model read values for it."""
    values = _Values(checkpoint, options)
    if _loads_itself(model):
        yield values.read(list(checkpoint))
        return
    owners = [(module, module.__dict__.get(_METHOD)) for module in model.modules()]
    try:
        for module, _ in owners:
            module.__dict__[_METHOD] = _with_values(module, values)
        yield dict.fromkeys(checkpoint, _UNREAD)
        values.finish()
    finally:
        for module, own in owners:
            module.__dict__.pop(_METHOD, None)
            if own is not None:
                module.__dict__[_METHOD] = own


def _with_values(module: torch.nn.Module, values: _Values) -> Any:
    """Return the `_load_from_state_dict` of a module, with values in the state dict that it gets."""
    method, sees = module._load_from_state_dict, _sees(module)

    def load(state: dict[str, Any], prefix: str, *rest: Any, **named: Any) -> None:
        wanted = [name for name, tensor in state.items() if tensor is _UNREAD and name.startswith(prefix)]
        if not sees:
            wanted = [name for name in wanted if "." not in name[len(prefix) :]]
        state.update(values.read(wanted))
        method(state, prefix, *rest, **named)
        if not sees:
            state.update(dict.fromkeys(wanted, _UNREAD))

    return load
