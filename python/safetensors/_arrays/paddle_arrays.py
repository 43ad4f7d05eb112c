"""Paddle's dtypes, and the conversion of NumPy arrays to Paddle tensors.

Part of `safetensors.paddle`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from .._native import SafetensorError

_OLDEST = (3, 0)

# Dtypes that Paddle can only take from NumPy as bits: (NumPy dtype of the bits, Paddle dtype).
_AS_BITS = {
    "bfloat16": (np.uint16, "bfloat16"),
    "float8_e4m3fn": (np.uint8, "float8_e4m3fn"),
    "float8_e5m2": (np.uint8, "float8_e5m2"),
    "uint32": (np.int32, "uint32"),
    "uint64": (np.int64, "uint64"),
}
# The dtypes of Paddle that the format has. A TensorSpec has the same names.
_NAMES = frozenset(
    "bool uint8 int8 int16 int32 int64 uint32 uint64 float16 bfloat16 float32 float64 complex64 float8_e4m3fn float8_e5m2".split()
)


def _check_version(version: str) -> None:
    """Raise ImportError if Paddle is too old. Versions are compared as numbers."""
    numbers = []
    for part in version.split(".")[:2]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers.append(int(digits or 0))
    if tuple(numbers) < _OLDEST and version != "0.0.0":  # 0.0.0: a build from source
        raise ImportError(f"safetensors.paddle needs paddlepaddle 3.0 or later, this is {version}")


_check_version(paddle.__version__)


def _place(device: Any) -> Any:
    """Return Paddle's name for a device: "gpu" for CUDA, "gpu:N" for the ordinal N."""
    if device is None:
        return "cpu"
    if isinstance(device, int) and not isinstance(device, bool) and device >= 0:
        return f"gpu:{device}"
    return device.replace("cuda", "gpu") if isinstance(device, str) else device


def _from_numpy(array: np.ndarray[Any, Any], device: Any = "cpu", dtype: str | None = None) -> paddle.Tensor:
    # dtype: the dtype whose bits the array holds, or None if the array has its own dtype.
    name = dtype or array.dtype.name
    if name == "uint16" or (name.startswith("float8") and name not in _AS_BITS):
        raise SafetensorError(f"Paddle has no {name}: load with another framework")
    bits, wanted = _AS_BITS.get(name, (None, ""))
    tensor = paddle.to_tensor(array if bits is None else array.view(bits), place="cpu")
    place = _place(device)
    if place != "cpu":
        tensor = tensor.to(place)
    # For uint16 bits, Paddle has already made a tensor of bfloat16.
    return tensor.view(getattr(paddle, wanted)) if wanted not in ("", "bfloat16") else tensor
