"""Types for type checkers: the name of a framework gives the type of its tensors. Never imported at run time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, TypedDict

import jax
import mlx.core
import numpy
import paddle
import tensorflow
import torch

from .._types import Backend, Fault

NumPy = Literal["np", "numpy"]
Torch = Literal["pt", "torch", "pytorch"]
Tf = Literal["tf", "tensorflow"]
Jax = Literal["jax", "flax"]
Mlx = Literal["mlx"]
Paddle = Literal["paddle"]

NumPyTensor: TypeAlias = numpy.ndarray[Any, Any]
TorchTensor: TypeAlias = torch.Tensor
TfTensor: TypeAlias = tensorflow.Tensor
JaxTensor: TypeAlias = jax.Array
MlxTensor: TypeAlias = mlx.core.array
PaddleTensor: TypeAlias = paddle.Tensor


class Open(TypedDict, total=False):
    """The arguments of `Checkpoint` that need a keyword."""

    backend: Backend
    accept: Fault | Iterable[Fault] | None
