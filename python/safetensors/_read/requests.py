"""Turns the arguments of `load` into requests: names and patterns, casts, targets."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from .. import _native
from .._arrays.dtypes import CASTABLE, INTEGERS, SMALL, cast_name, number_name
from .._arrays.targets import to_target
from .._native import MissingTensorError, SafetensorError, _is_pattern, _matching
from .._types import Request

__all__ = ["make_requests", "missing", "select"]

_PACKAGE = __name__.partition(".")[0]


def missing(text: str, name: str) -> MissingTensorError:
    """Return the error of a name or a pattern that no tensor has."""
    error = MissingTensorError(text)
    error.name = name
    error.code = "not_found"
    return error


def select(native: _native._Checkpoint, keys: Iterable[str] | None) -> list[str]:
    """Return the names that `keys` stands for: names, and patterns as in the command.

    None stands for all names. A key that is the name of a tensor is never a pattern. The result has
    the order of `keys`, and for each pattern the order of the files. Each name is there once.
    Raises MissingTensorError for a pattern without a match. The names themselves are not checked.
    """
    if keys is None:
        return native.names()
    if isinstance(keys, (str, bytes)):
        raise TypeError(f"keys is {type(keys).__name__}: give a list of names")
    chosen: dict[str, None] = {}
    names: list[str] | None = None
    for key in keys:
        if not isinstance(key, str) or not _is_pattern(key) or key in native:
            chosen[key] = None
            continue
        names = native.names() if names is None else names
        found = _matching(key, names)
        if not found:
            raise missing(f"keys: no tensor matches the pattern {key!r}", key)
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def _check_selected(what: str, given: Mapping[str, Any] | None, selected: set[str]) -> None:
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} is {type(given).__name__}: give a dict of names")
    for name in given:
        if name not in selected:
            raise missing(f"{what} names a tensor that is not loaded: {name}", name)


def _meta(native: _native._Checkpoint, name: str, index: Any) -> tuple[str, list[int]]:
    """Return the dtype and the shape of a slice. An error of the index names the tensor."""
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, list) and part:
            raise SafetensorError(f"slices[{name!r}]: found a list, expected slices and integers")
    try:
        stored, shape, _ = native.meta(name, index)
    except (SafetensorError, IndexError, TypeError, ValueError) as error:
        if index is not None and not isinstance(error, MissingTensorError):
            error.args = (f"slices[{name!r}]: {error}",)
        raise
    return stored, shape


class _Casts:
    """The dtype that each tensor is cast to, from the argument `dtype`."""

    def __init__(self, dtype: Any, selected: set[str], framework: str) -> None:
        self._one: str | None = None
        self._each: dict[str, str] = {}
        self._sources: frozenset[str] = frozenset()
        self._small = ""
        self._floats: list[str] = []
        if isinstance(dtype, Mapping):
            casts = {n: to for n, to in dtype.items() if to is not None}
            self._each = {n: cast_name(to, framework) for n, to in casts.items()}
            _check_selected("dtype", dtype, selected)
        elif dtype is not None:
            self._one = number_name(dtype, framework)
            self._sources = INTEGERS if self._one in INTEGERS else CASTABLE

    def of(self, name: str, stored: str, shape: list[int]) -> str | None:
        if stored in SMALL and math.prod(shape) > 1:
            self._small = stored
        if stored not in self._sources:
            return self._each.get(name)
        if stored in CASTABLE - SMALL and stored != self._one:
            self._floats.append(name)
        return self._one

    def warn(self) -> None:
        """Warn once if one dtype for all tensors also casts floats that may be the scales of others."""
        if self._small and self._floats:
            names = ", ".join(self._floats[:3]) + (", ..." if len(self._floats) > 3 else "")
            text = (
                f"dtype also casts floats that may be the scales of {self._small} tensors: {names}"
                " (a dict of names to dtypes casts only the tensors that it names)"
            )
            warnings.warn(text, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return the `stacklevel` of the first frame outside of this package, for the function that calls this."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(f"{_PACKAGE}."):
        depth, frame = depth + 1, frame.f_back
    return depth


def make_requests(
    native: _native._Checkpoint, names: list[str], *, slices: Mapping[str, Any] | None, dtype: Any,
    out: Mapping[str, Any] | None,
) -> list[Request]:
    """Return a request per name. Raises SafetensorError, MissingTensorError, TypeError, ValueError."""
    selected = set(names)
    _check_selected("slices", slices, selected)
    _check_selected("out", out, selected)
    casts = _Casts(dtype, selected, native.framework())
    requests: list[Request] = []
    for name in names:
        index = None if slices is None else slices.get(name)
        if index is None and dtype is None and (out is None or name not in out):
            requests.append((name, None, None, None))
            continue
        stored, shape = _meta(native, name, index)
        cast = casts.of(name, stored, shape)
        target = None
        if out is not None and name in out:
            target = to_target(out[name], name, cast or stored, shape)
        requests.append((name, index, cast if cast != stored else None, target))
    casts.warn()
    return requests
