"""Save and load Paddle tensors.

Paddle treats uint16 as bfloat16, so it has no 16-bit unsigned integers. Its only 8-bit floats are
float8_e4m3fn and float8_e5m2. Loading a tensor of a dtype that Paddle lacks raises SafetensorError.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import paddle

from . import _native
from . import numpy as _numpy
from ._load_checkpoint import LoadCheckpointTo, for_devices
from ._make_save import SaveCheckpoint, make_save
from ._native import SafetensorError, TensorSpec, safe_open
from ._types import Backend, Buffer, Durability

__all__ = [
    "load",
    "load_checkpoint",
    "load_file",
    "save",
    "save_checkpoint",
    "save_file",
]

_OLDEST = (3, 0)

# Dtypes that Paddle can only take from NumPy as bits: (NumPy dtype of the bits, Paddle dtype).
_AS_BITS = {
    "bfloat16": (np.uint16, "bfloat16"),
    "float8_e4m3fn": (np.uint8, "float8_e4m3fn"),
    "float8_e5m2": (np.uint8, "float8_e5m2"),
    "uint32": (np.int32, "uint32"),
    "uint64": (np.int64, "uint64"),
}
# The dtypes of Paddle that the format has, and their names in a TensorSpec.
_NAMES = {
    "bool": "bool",
    "uint8": "uint8",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint32": "uint32",
    "uint64": "uint64",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float32": "float32",
    "float64": "float64",
    "complex64": "complex64",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
}


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


def _from_numpy(
    array: np.ndarray[Any, Any], device: Any = "cpu", dtype: str | None = None
) -> paddle.Tensor:
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


def _to_numpy(tensor: Any, name: str) -> tuple[np.ndarray[Any, Any], str]:
    """Return an array that holds the tensor's bytes, and the name of the tensor's dtype."""
    if not isinstance(tensor, paddle.Tensor):
        raise ValueError(
            f"Key `{name}` is invalid, expected paddle.Tensor but received {type(tensor)}"
        )
    dtype = str(tensor.dtype).removeprefix("paddle.")
    if dtype not in _NAMES:
        raise ValueError(f"Key `{name}` has dtype {tensor.dtype}, which the format cannot hold.")
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    if dtype.startswith("float8"):
        tensor = tensor.view(paddle.uint8)
    return np.ascontiguousarray(tensor.numpy()).reshape(tensor.shape), _NAMES[dtype]


def _flatten(
    tensors: dict[str, paddle.Tensor], keep_alive_buffer: list[Any]
) -> dict[str, TensorSpec]:
    """Return the specs to save. `keep_alive_buffer` receives the owners of their memory."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, paddle.Tensor] but received {type(tensors)}")
    specs = {}
    for name, tensor in tensors.items():
        array, dtype = _to_numpy(tensor, name)
        keep_alive_buffer.append(array)
        specs[name] = _numpy._spec(array, dtype)
    return specs


def save(tensors: dict[str, paddle.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these tensors.

    Tensors that are not contiguous are packed. Raises ValueError if a value is no Paddle tensor, or
    if the format lacks its dtype.
    """
    keep_alive: list[Any] = []
    return _native.serialize(_flatten(tensors, keep_alive), metadata)


def save_file(
    tensors: dict[str, paddle.Tensor],
    filename: str | PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    durability: Durability = "full",
) -> None:
    """Write a file that holds these tensors. It replaces a file that exists at `filename`.

    `durability`: see `safetensors.numpy.save_file`. Raises the errors of `save`, and
    SafetensorError if the file cannot be written. After an error, the old file is unchanged.
    """
    keep_alive: list[Any] = []
    specs = _flatten(tensors, keep_alive)
    _native.serialize_file(specs, filename, metadata, durability=durability)


def load(data: Buffer, device: Any = "cpu") -> dict[str, paddle.Tensor]:
    """Return the tensors of a file in memory, in the order of their bytes.

    `data`: bytes or any object with the buffer protocol. The tensors do not share its memory.
    Raises SafetensorError if the file is invalid.
    """
    tensors = _native._load(data, "paddle", copy=False)
    place = _place(device)
    return tensors if place == "cpu" else {name: t.to(place) for name, t in tensors.items()}


def load_file(
    filename: str | PathLike[str], device: Any = "cpu", *, backend: Backend = "mmap"
) -> dict[str, paddle.Tensor]:
    """Return the tensors of a file, in the order of their bytes.

    The tensors never share memory with the file: `backend` only selects how the file is read.
    Raises SafetensorError if the file is invalid, and OSError if the system cannot read the file.
    """
    with safe_open(filename, "paddle", device, backend=backend) as f:
        return f.get_tensors()


save_checkpoint: SaveCheckpoint[paddle.Tensor]
save_checkpoint, _save_file = make_save(
    __name__,
    "paddle.Tensor",
    "tensors",
    lambda tensors, keep: (_flatten(tensors, keep), None),
)
load_checkpoint: LoadCheckpointTo[paddle.Tensor] = for_devices(
    __name__, "paddle", "paddle.Tensor", "tensors"
)
