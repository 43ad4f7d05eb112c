"""Save and load TensorFlow's tensors.

TensorFlow has no float8_e8m0fnu: loading it is a SafetensorError.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from . import _native
from . import numpy as _numpy
from ._native import SafetensorError, safe_open
from ._types import Backend, Durability

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["load", "load_file", "save", "save_file"]


def _from_numpy(array: np.ndarray[Any, Any]) -> tf.Tensor:
    if array.dtype.name == "float8_e8m0fnu":
        raise SafetensorError("TensorFlow has no float8_e8m0fnu: load with another framework")
    return tf.convert_to_tensor(array)


def _to_numpy(tensor: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(tensor, np.ndarray):
        return tensor
    if isinstance(tensor, tf.Tensor) and tensor.shape.rank:
        return np.asarray(tensor)  # a view, which numpy() is not
    if not callable(getattr(tensor, "numpy", None)):  # variables, those of Keras, too, have it
        raise ValueError(f"Key `{name}` is invalid, expected tf.Tensor but received {type(tensor)}")
    return np.asarray(tensor.numpy())


def _tf2np(tf_dict: Mapping[str, tf.Tensor]) -> dict[str, np.ndarray[Any, Any]]:
    """Return NumPy's arrays of the same bytes; the dict itself is not changed."""
    return _numpy._converted(tf_dict, "tf.Tensor", _to_numpy)


def _np2tf(numpy_dict: dict[str, np.ndarray[Any, Any]]) -> dict[str, tf.Tensor]:
    """Return TensorFlow's tensors of the same values; the dict itself is not changed."""
    return {name: _from_numpy(array) for name, array in numpy_dict.items()}


def save(tensors: Mapping[str, tf.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these tensors.

    Raises ValueError for what is none, SafetensorError for a dtype that the format lacks.
    """
    return _numpy.save(_tf2np(tensors), metadata)


def save_file(
    tensors: Mapping[str, tf.Tensor],
    filename: str | PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    durability: Durability = "full",
) -> None:
    """Write a file that holds these tensors, replacing what is at `filename`.

    As `save`. `durability` is explained at `safetensors.numpy.save_file`. Raises SafetensorError
    where the file cannot be written; the old one is then as it was.
    """
    _numpy.save_file(_tf2np(tensors), filename, metadata, durability=durability)


def load(data: Buffer) -> dict[str, tf.Tensor]:
    """Return the tensors of a file in memory, in the order of their bytes; they are copies.

    `data`: bytes or anything with the buffer protocol. Raises SafetensorError.
    """
    return _native._load(data, "tf", copy=False)


def load_file(
    filename: str | PathLike[str], *, backend: Backend = "mmap"
) -> dict[str, tf.Tensor]:
    """Return the tensors of a file, in the order of their bytes.

    They are copies whatever the backend, which only says how the file is read. Raises
    SafetensorError for a file that breaks the format, OSError where it cannot be read.
    """
    with safe_open(filename, "tf", backend=backend) as f:
        return f.get_tensors()
