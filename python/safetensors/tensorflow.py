"""Save and load TensorFlow tensors.

TensorFlow has no float8_e8m0fnu: loading it raises SafetensorError.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from . import numpy
from ._arrays.converters import converter
from ._frameworks import exported
from ._frameworks.exported import *
from ._frameworks.make_save import make_save
from ._frameworks.via_numpy import make_functions

__all__ = ["load", "load_file", "np", "numpy", "save", "save_file", "tf"]
__all__ += exported.__all__

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


save, save_file, load, load_file = make_functions(
    __name__, "tf", "tf.Tensor", "tensors", _flatten
)
_save_folder, _save_file = make_save(lambda tensors, keep: (_flatten(tensors, keep), None))
