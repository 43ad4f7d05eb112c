"""Save and load Paddle tensors.

Paddle treats uint16 as bfloat16, so it has no 16-bit unsigned integers. Its only 8-bit floats are
float8_e4m3fn and float8_e5m2. Loading a tensor of a dtype that Paddle lacks raises SafetensorError.
"""

from __future__ import annotations

from os import PathLike

import numpy as np
import paddle

from . import _exported, _native, numpy
from ._arrays.dtypes import FRAMEWORK_NAMES
from ._arrays.paddle_arrays import _NAMES, _place
from ._arrays.paddle_arrays import _check_version as _check_version
from ._arrays.paddle_arrays import _from_numpy as _from_numpy
from ._exported import *
from ._types import Backend, Buffer, Durability

__all__ = ["load", "load_file", "np", "numpy", "paddle", "save", "save_file"]
__all__ += _exported.__all__
_TYPES = {dtype: getattr(paddle, name) for dtype, name in FRAMEWORK_NAMES.items() if name in _NAMES}
_getdtype = _TYPES.__getitem__


def _to_numpy(tensor: Any, name: str) -> tuple[np.ndarray[Any, Any], str]:
    """Return an array that holds the tensor's bytes, and the name of the tensor's dtype."""
    if not isinstance(tensor, paddle.Tensor):
        raise ValueError(f"Key `{name}` is invalid, expected paddle.Tensor but received {type(tensor)}")
    dtype = str(tensor.dtype).removeprefix("paddle.")
    if dtype not in _NAMES:
        raise ValueError(f"Key `{name}` has dtype {tensor.dtype}, which the format cannot hold.")
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    if dtype.startswith("float8"):
        tensor = tensor.view(paddle.uint8)
    return np.ascontiguousarray(tensor.numpy()).reshape(tensor.shape), dtype


def _np2paddle(numpy_dict: dict[str, np.ndarray[Any, Any]], device: Any = "cpu") -> dict[str, paddle.Tensor]:
    """Return a new dict of Paddle tensors on a device."""
    return {name: _from_numpy(array, device) for name, array in numpy_dict.items()}


def _paddle2np(paddle_dict: dict[str, paddle.Tensor]) -> dict[str, np.ndarray[Any, Any]]:
    """Return a new dict of NumPy arrays. bfloat16 becomes uint16, and 8-bit floats become uint8."""
    return {name: _to_numpy(tensor, name)[0] for name, tensor in paddle_dict.items()}


def _flatten(tensors: dict[str, paddle.Tensor], keep_alive_buffer: list[Any]) -> dict[str, TensorSpec]:
    """Return the specs to save. `keep_alive_buffer` receives the owners of their memory."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, paddle.Tensor] but received {type(tensors)}")
    specs = {}
    for name, tensor in tensors.items():
        array, dtype = _to_numpy(tensor, name)
        keep_alive_buffer.append(array)
        specs[name] = numpy._spec(array, dtype)
    return specs


def save(tensors: dict[str, paddle.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these tensors.

    Tensors that are not contiguous are packed. Raises ValueError if a value is no Paddle tensor, or
    if the format lacks its dtype.
    """
    keep_alive: list[Any] = []
    return _native.serialize(_flatten(tensors, keep_alive), metadata)


def save_file(
    tensors: dict[str, paddle.Tensor], filename: str | PathLike[str], metadata: dict[str, str] | None = None, *,
    durability: Durability = "full",
) -> None:
    """Write a file that holds these tensors. It replaces a file that exists at `filename`.

    `durability`: see `safetensors.numpy.save_file`. Raises the errors of `save`, and
    SafetensorError if the file cannot be written. After an error, the old file is unchanged.
    """
    keep_alive: list[Any] = []
    _native.serialize_file(_flatten(tensors, keep_alive), filename, metadata, durability=durability)


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
