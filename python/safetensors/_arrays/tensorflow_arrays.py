"""The conversion of NumPy arrays to TensorFlow tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from .._native import SafetensorError


def _from_numpy(array: np.ndarray[Any, Any]) -> tf.Tensor:
    if array.dtype.name == "float8_e8m0fnu":
        raise SafetensorError("TensorFlow has no float8_e8m0fnu: load with another framework")
    return tf.convert_to_tensor(array)
