"""Makes `save`, `save_file`, `load` and `load_file` for frameworks that convert through NumPy.

JAX, MLX and TensorFlow differ only in how arrays are converted. The functions look as if the
framework's module had defined them: `help`, `inspect.signature` and `pickle` show no difference.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from os import PathLike
from types import FunctionType
from typing import Any, Protocol, TypeVar

from .. import _native
from .._native import TensorSpec, safe_open
from .._types import Backend, Buffer, Durability, Framework

__all__ = ["make_functions"]

Tensor = TypeVar("Tensor")
Saved = TypeVar("Saved", contravariant=True)


class Save(Protocol[Saved]):
    """The type of `save`."""

    def __call__(
        self, tensors: Mapping[str, Saved], metadata: dict[str, str] | None = None
    ) -> bytes: ...


class SaveFile(Protocol[Saved]):
    """The type of `save_file`."""

    def __call__(
        self,
        tensors: Mapping[str, Saved],
        filename: str | PathLike[str],
        metadata: dict[str, str] | None = None,
        *,
        durability: Durability = "full",
    ) -> None: ...


class Load(Protocol[Tensor]):
    """The type of `load`."""

    def __call__(self, data: Buffer) -> dict[str, Tensor]: ...


class LoadFile(Protocol[Tensor]):
    """The type of `load_file`."""

    def __call__(
        self, filename: str | PathLike[str], *, backend: Backend = "mmap"
    ) -> dict[str, Tensor]: ...


def make_functions(
    module: str,
    framework: Framework,
    tensor: str,
    noun: str,
    flatten: Callable[[Mapping[str, Tensor], list[Any]], dict[str, TensorSpec]],
    adopt: Callable[[Any], Tensor] | None = None,
) -> tuple[Save[Tensor], SaveFile[Tensor], Load[Tensor], LoadFile[Tensor]]:
    """Return `save`, `save_file`, `load` and `load_file` of a framework's module.

    `module`: the name of the module. `framework`: the name that `safe_open` takes. `tensor`: the
    type in annotations, such as "jax.Array". `noun`: the word in docstrings, "arrays" or "tensors".
    `flatten` returns the specs of the dict that is saved, and adds the owners of their memory to the
    list. `adopt` converts one loaded array that nothing else uses, so it may keep the memory. Without
    `adopt`, the extension makes the tensors by itself and copies them.
    """

    def save(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
        """Return the bytes of a file that holds these {noun}.

        Raises ValueError for a value of another type, SafetensorError for a dtype that the format
        lacks.
        """
        keep_alive: list[Any] = []
        return _native.serialize(flatten(tensors, keep_alive), metadata)

    def save_file(
        tensors: Mapping[str, Tensor],
        filename: str | PathLike[str],
        metadata: dict[str, str] | None = None,
        *,
        durability: Durability = "full",
    ) -> None:
        """Write a file that holds these {noun}. It replaces a file that exists at `filename`.

        Arguments and errors are those of `safetensors.numpy.save_file`. Raises ValueError for a
        value of another type. After an error the old file is unchanged.
        """
        keep_alive: list[Any] = []
        specs = flatten(tensors, keep_alive)
        _native.serialize_file(specs, filename, metadata, durability=durability)

    def load(data: Buffer) -> dict[str, Tensor]:
        """Return the {noun} of a file in memory, in the order of their bytes.

        `data`: bytes or any object with the buffer protocol. The {noun} do not share its memory.
        Raises SafetensorError.
        """
        if adopt is None:
            return _native._load(data, framework, copy=False)
        return {name: adopt(array) for name, array in _native._load(data, "np").items()}

    def load_file(
        filename: str | PathLike[str], *, backend: Backend = "mmap"
    ) -> dict[str, Tensor]:
        """Return the {noun} of a file, in the order of their bytes.

        They never share memory with the file: `backend` only says how the file is read. Raises
        SafetensorError for a file that breaks the format, OSError if the file cannot be read.
        """
        if adopt is None or backend != "pread":
            with safe_open(filename, framework, backend=backend) as f:
                return f.get_tensors()
        with safe_open(filename, "np", backend=backend) as f:
            return {name: adopt(array) for name, array in f.get_tensors().items()}

    def of_module(function: Any) -> Any:
        return _adapted(function, module, tensor, noun)

    return of_module(save), of_module(save_file), of_module(load), of_module(load_file)


def _adapted(function: Any, module: str, tensor: str, noun: str) -> Any:
    """Return a function that looks as if `module` had defined it.

    `tensor`: the type that replaces the word "Tensor" in annotations, such as "jax.Array". `noun`:
    the word that replaces "{noun}" in the docstring.
    """
    # `typing.get_type_hints` looks in the globals of a function for the names in its annotations. So
    # the function needs globals that have the framework, such as "jax" for "jax.Array".
    framework = tensor.partition(".")[0]
    names = {**function.__globals__, framework: getattr(sys.modules[module], framework)}
    made = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__module__ = module
    made.__qualname__ = made.__name__  # pickle finds a function by these two names
    if function.__doc__ is not None:  # `python -OO` removes docstrings
        made.__doc__ = inspect.cleandoc(function.__doc__.replace("{noun}", noun))
    made.__annotations__ = {
        name: annotation.replace("Tensor", tensor)
        for name, annotation in function.__annotations__.items()
    }
    return made
