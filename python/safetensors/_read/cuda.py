"""Loads into the memory of CUDA devices: torch allocates the tensors, a read plan fills them.

bench/gpu.py checks and times it on a GPU. The tests run the copies with a fake driver.
"""

from __future__ import annotations

from typing import Any

from .. import _native
from .._base.options import ReadArguments
from .._native import SafetensorError
from .._types import Request


def usable(native: _native._Checkpoint) -> Any:
    """Return the torch.device that a plan can fill, or None if tensors must be copied with `to`."""
    if native.framework() != "pytorch" or not native.device().startswith("cuda:"):
        return None
    import torch

    if torch.version.cuda is None or not torch.cuda.is_available():
        return None
    return torch.device(native.device())


def _allocate(dtype: str, shape: list[int], device: Any) -> Any:
    import torch

    from .._arrays.torch_dtypes import _getdtype

    if dtype == "F4":
        if not shape or shape[-1] % 2:
            raise SafetensorError(
                f"a tensor of F4 and shape {shape} has an odd last dimension, which torch cannot hold"
            )
        shape = [*shape[:-1], shape[-1] // 2]
    try:
        return torch.empty(shape, dtype=_getdtype(dtype), device=device)
    except KeyError:
        raise SafetensorError(f"Dtype not understood: {dtype}") from None


def load(native: _native._Checkpoint, requests: list[Request], device: Any, options: ReadArguments) -> list[Any] | None:
    """Return the results on the device, or None if the CUDA driver cannot be opened."""
    import torch

    placed: list[Request] = []
    for name, index, cast, _ in requests:
        stored, shape, _ = native.meta(name, index)
        tensor = _allocate(cast or stored, shape, device)
        size = tensor.numel() * tensor.element_size()
        target = (tensor.data_ptr(), size, None, tensor, device.index)
        placed.append((name, index, cast, target))
    with_stream: ReadArguments = {**options, "device_stream": torch.cuda.current_stream(device).cuda_stream}
    try:
        loaded: list[Any] = native.load(placed, **with_stream)
        return loaded
    except SafetensorError as error:
        if getattr(error, "code", None) == "unsupported":
            return None
        raise
