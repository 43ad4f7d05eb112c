"""Every public function that takes a path refuses numbers: `open` takes an int for a descriptor, and closes it."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import installed

from safetensors import Checkpoint
from safetensors.numpy import save_file

FRAMEWORKS = {"numpy": "numpy", "torch": "torch", "flax": "jax", "tensorflow": "tensorflow", "mlx": "mlx.core", "paddle": "paddle", "distributed": "torch"}
MODULES = ["safetensors", *(f"safetensors.{name}" for name, needed in FRAMEWORKS.items() if installed(needed))]
# The method answers whether the argument is a path.
QUESTIONS = {"validate_checkpoint_id"}


def is_path(parameter: inspect.Parameter) -> bool:
    # The extension has no annotations.
    return parameter.name == "filename" or "Path" in str(parameter.annotation)


def callables() -> Iterator[tuple[str, Any, Any]]:
    """Yield a label, the class of a method or None, and the function."""
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            found = getattr(module, name)
            if callable(found) and not isinstance(found, type(list[int])):
                yield f"{module.__name__}.{name}", None, found
            if inspect.isclass(found) and found.__module__.startswith("safetensors"):
                for method, function in vars(found).items():
                    if inspect.isfunction(function) and not method.startswith("_"):
                        yield f"{module.__name__}.{name}.{method}", found, function


def arguments() -> Iterator[Any]:
    seen = set()
    for label, owner, function in callables():
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            continue  # a class without a constructor
        for parameter in filter(is_path, parameters):
            if (function, parameter.name) not in seen and function.__name__ not in QUESTIONS:
                seen.add((function, parameter.name))
                yield pytest.param(owner, function, parameter.name, id=f"{label}-{parameter.name}")


ARGUMENTS = list(arguments())
FEWEST = {"load-paths", "stream-paths", "Checkpoint-paths", "safe_open-filename", "save-path", "Writer-path", "CheckpointWriter-folder", "numpy.load_file-filename"}
if installed("torch"):
    FEWEST |= {"torch.load_model-filename", "torch.load_into-path", "distributed.load_sharded-path", "distributed.StorageReader.reset-checkpoint_id"}
assert {f"safetensors.{name}" for name in FEWEST} <= {str(each.id) for each in ARGUMENTS}


@pytest.fixture
def file(tmp_path: Path) -> str:
    save_file({"a": np.zeros(3, np.float32)}, tmp_path / "a.safetensors")
    return str(tmp_path / "a.safetensors")


def bound(owner: Any, function: Any, file: str) -> Any:
    if owner is None:
        return function
    made = {Checkpoint: lambda: Checkpoint(file)}
    return getattr(made[owner]() if owner in made else owner(os.path.dirname(file)), function.__name__)


def required(function: Any, name: str, file: str) -> dict[str, Any]:
    """Arguments that are right, for all parameters but `name`."""
    values: dict[str, Any] = {"framework": "np", "tensors": {}, "tensor_dict": {}, "target": {}}
    values |= dict.fromkeys(("path", "paths", "filename"), file)
    if installed("torch"):
        import torch

        values["model"] = torch.nn.Identity()
    parameters = inspect.signature(function).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.name not in (name, "self")]
    return {each: values[each] for each in needed}


@pytest.mark.parametrize(("owner", "function", "name"), ARGUMENTS)
def test_a_number_is_no_path(owner: Any, function: Any, name: str, file: str) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"untouched")
    os.close(writer)
    standard = {number: os.dup(number) for number in (0, 1)}
    try:
        call = bound(owner, function, file)
        others = required(function, name, file)
        for value in (False, True, reader):
            with pytest.raises(TypeError, match=f"^argument '{name}': expected .*, not {type(value).__name__}$"):
                call(**others, **{name: value})
        for number, copy in standard.items():
            assert os.path.samestat(os.fstat(number), os.fstat(copy))
        assert os.read(reader, 100) == b"untouched"
    finally:
        for number, copy in standard.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(reader)


@pytest.mark.skipif(not installed("torch"), reason="torch is not here")
def test_a_number_is_no_checkpoint_id() -> None:
    from safetensors.distributed import StorageReader, StorageWriter

    for value in (False, True, 5):
        assert not StorageReader.validate_checkpoint_id(value)  # type: ignore[arg-type]
        assert not StorageWriter.validate_checkpoint_id(value)  # type: ignore[arg-type]
