"""Save and load TensorFlow tensors.

TensorFlow has no float8_e8m0fnu: loading it raises SafetensorError.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

import numpy as np
import tensorflow as tf

from . import _exported, _native, numpy
from ._arrays.converters import converter
from ._exported import *
from ._types import Backend, Buffer, Durability

__all__ = ["load", "load_file", "np", "numpy", "save", "save_file", "tf"]
__all__ += _exported.__all__

_from_numpy = converter("tensorflow")


def _to_numpy(tensor: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(tensor, np.ndarray):
        return tensor
    if isinstance(tensor, tf.Tensor) and tensor.shape.rank:
        return np.asarray(tensor)  # a view; numpy() would copy
    if not callable(getattr(tensor, "numpy", None)):  # tf.Variable and Keras variables have it
        raise ValueError(f"Key `{name}` is invalid, expected tf.Tensor but received {type(tensor)}")
    return np.asarray(tensor.numpy())


def _tf2np(tf_dict: Mapping[str, tf.Tensor]) -> dict[str, np.ndarray[Any, Any]]:
    """Return NumPy arrays with the same bytes in a new dict."""
    return numpy._converted(tf_dict, "tf.Tensor", _to_numpy)


def _np2tf(numpy_dict: dict[str, np.ndarray[Any, Any]]) -> dict[str, tf.Tensor]:
    """Return TensorFlow tensors with the same values in a new dict."""
    return {name: _from_numpy(array) for name, array in numpy_dict.items()}


def _flatten(tensors: Mapping[str, tf.Tensor], keep_alive_buffer: list[Any]) -> dict[str, TensorSpec]:
    """Return the specs to save. `keep_alive_buffer` receives the owners of their memory."""
    return numpy._flatten(_tf2np(tensors), keep_alive_buffer)


def save(tensors: Mapping[str, tf.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these tensors.

    Raises ValueError for a value of another type, SafetensorError for a dtype that the format lacks.
    """
    return numpy.save(_tf2np(tensors), metadata)


def save_file(
    tensors: Mapping[str, tf.Tensor], filename: str | PathLike[str], metadata: dict[str, str] | None = None, *, durability: Durability = "full"
) -> None:
    """Write a file that holds these tensors. It replaces a file that exists at `filename`.

    Arguments and errors are those of `safetensors.numpy.save_file`. Raises ValueError for a value of
    another type. After an error the old file is unchanged.
    """
    numpy.save_file(_tf2np(tensors), filename, metadata, durability=durability)


def load(data: Buffer) -> dict[str, tf.Tensor]:
    """Return the tensors of a file in memory, in the order of their bytes.

    `data`: bytes or any object with the buffer protocol. The tensors do not share its memory.
    Raises SafetensorError.
    """
    return _native._load(data, "tf", copy=False)


def load_file(filename: str | PathLike[str], *, backend: Backend = "mmap") -> dict[str, tf.Tensor]:
    """Return the tensors of a file, in the order of their bytes.

    They never share memory with the file: `backend` only says how the file is read. Raises
    SafetensorError for a file that breaks the format, OSError if the file cannot be read.
    """
    with safe_open(filename, "tf", backend=backend) as f:
        return f.get_tensors()
