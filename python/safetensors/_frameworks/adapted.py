"""Makes functions of one module look as if another module had defined them.

`help`, `inspect.signature`, `typing.get_type_hints` and `pickle` show no difference.
"""

from __future__ import annotations

import inspect
import sys
from types import FunctionType
from typing import Any

__all__ = ["adapted"]


def adapted(function: Any, module: str, tensor: str, noun: str) -> Any:
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
