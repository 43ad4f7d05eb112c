"""Turns the data given to `Writer.write` into bytes in memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from .._native import SafetensorError
from .._types import Value
from .dtypes import FRAMEWORK_NAMES, PACKED, UNPACKED, format_name
from .targets import check_storage, is_masked, is_numpy, is_torch

# Formats of the module struct for plain bytes. These may hold any dtype.
_BYTES = ("B", "b", "c")
_PLURALS = ("bools", "integers", "floats", "complex numbers")
_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}  # indices of _PLURALS


def refuse_nested(name: str, value: Any) -> None:
    """Raise TypeError for a dict in a dict of tensors: the names of a file have no levels."""
    if isinstance(value, Mapping):
        example = f"{name}.{next(iter(value), 'weight')}"
        raise TypeError(
            f"tensors[{name!r}] is {type(value).__name__}: give a flat dict of tensors, with names such as {example!r}"
        )


def to_value(data: Any, name: str, dtype: str) -> Value:
    """Return the bytes to write to the tensor `name` of this dtype.

    An array or a typed buffer keeps its own dtype, which the caller compares with `dtype`. Numbers
    (scalars of Python and NumPy) are converted to `dtype`. Raises TypeError for an object without
    numbers, SafetensorError for numbers that the dtype cannot hold, ValueError for a torch tensor
    that is larger than its storage.
    """
    if is_torch(data):
        return _of_torch(data, name)
    if _is_scalar(data) and _is_numeric(data.dtype):
        return _of_numbers(data, name, dtype)
    interfaces = ("__array__", "__array_interface__", "__array_struct__")
    if is_numpy(data) or any(hasattr(data, attribute) for attribute in interfaces):
        return _of_array(data, name)
    try:
        view = memoryview(data)
    except TypeError:
        return _of_numbers(data, name, dtype)
    return _of_buffer(view, name, dtype)


def _of_torch(data: Any, name: str) -> Value:
    held = data.detach().cpu().resolve_conj().resolve_neg().contiguous()
    check_storage(held, f"tensor `{name}`: the data")
    size = held.numel() * held.element_size()
    return held.data_ptr(), size, format_name(held.dtype), tuple(held.shape), held


def _of_array(data: Any, name: str) -> Value:
    import numpy as np

    if is_masked(data):
        raise TypeError(f"tensor `{name}`: a masked array has no bytes for a file: fill it first")
    array = np.asarray(data)
    if array.dtype.kind == "V" and array.dtype.name in UNPACKED:
        raise SafetensorError(
            f"tensor `{name}`: the data has dtype {array.dtype.name}, which takes a byte for each"
            f" element, and the format packs {UNPACKED[array.dtype.name]}: pack it into uint8"
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    held = np.ascontiguousarray(array).reshape(array.shape)
    address = held.__array_interface__["data"][0]
    return address, held.nbytes, format_name(held.dtype), held.shape, held


def _of_buffer(view: memoryview, name: str, dtype: str) -> Value:
    import numpy as np

    if view.format.lstrip("@=<>!") not in _BYTES:
        try:
            address, size, own_dtype, shape, held = _of_array(view, name)
        except (TypeError, ValueError, SafetensorError):
            raise SafetensorError(f"tensor `{name}` has dtype {dtype}, the data format {view.format!r}") from None
        # An array.array has one dimension only, so its shape says nothing about that of the tensor.
        return address, size, own_dtype, None if view.ndim == 1 else shape, held
    if not view.nbytes:
        return 0, 0, None, None, view
    # NumPy copies a buffer that is not contiguous, because it lets other threads run meanwhile.
    held = np.frombuffer(view, np.uint8) if view.c_contiguous else np.ascontiguousarray(view)
    return held.__array_interface__["data"][0], held.nbytes, None, None, held


def _of_numbers(data: Any, name: str, dtype: str) -> Value:
    """Convert numbers, alone or in nested sequences, to the dtype of the tensor.

    NumPy makes one array of a sequence that holds arrays. It keeps its own dtype.
    """
    import numpy as np

    try:
        array = np.asarray(data)
    except ValueError as error:  # rows of different lengths
        raise TypeError(f"tensor `{name}`: {type(data).__name__} is no array: {error}") from None
    if not _is_numeric(array.dtype):
        _raise_no_data(data, name)
    if array.dtype.kind != "O" and _holds_arrays(data):
        return _of_array(array, name)
    if _is_extended(array.dtype):
        array = array.astype(np.float64)  # exact: the dtype has at most 16 bits
    return _of_array(_converted(data, array, name, dtype), name)


def _raise_no_data(data: Any, name: str) -> NoReturn:
    kind = type(data).__name__
    if isinstance(data, (list, tuple)):
        raise TypeError(f"tensor `{name}`: {kind} holds something that is no number")
    raise TypeError(f"tensor `{name}`: {kind} is neither an array nor bytes")


def _is_scalar(data: Any) -> bool:
    """Return whether it is a scalar of NumPy or ml_dtypes: a number, although it has a dtype."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(data, numpy.generic)


def _is_numeric(dtype: Any) -> bool:
    """Return whether a NumPy dtype holds numbers, or objects, which may be numbers."""
    return dtype.kind in "biufcO" or _is_extended(dtype)


def _is_extended(dtype: Any) -> bool:
    """Return whether it is a dtype of ml_dtypes that the format has, too."""
    return dtype.kind == "V" and (dtype.name in UNPACKED or dtype.name in FRAMEWORK_NAMES.values())


def _holds_arrays(data: Any) -> bool:
    """Return whether nested lists hold an array. An array has a dtype and is not a scalar."""
    if isinstance(data, (list, tuple)):
        return any(_holds_arrays(item) for item in data)
    return hasattr(data, "dtype") and not _is_scalar(data)


def _kind_of(dtype: str) -> int:
    if dtype == "BOOL":
        return 0
    if dtype[0] in "IU":
        return 1
    return 3 if dtype == "C64" else 2


def _objects(data: Any, name: str) -> tuple[Any, int]:
    """Return numbers that fit into no integer dtype as an array of objects, and their kind."""
    import numpy as np

    array = np.asarray(data, dtype=object)
    for i, item in enumerate(array.flat):
        if isinstance(item, np.generic):
            array.flat[i] = item.item()
    for kind, types in ((1, (int,)), (2, (int, float)), (3, (int, float, complex))):
        if all(isinstance(item, types) for item in array.flat):
            return array, kind
    _raise_no_data(data, name)


def _converted(data: Any, array: Any, name: str, dtype: str) -> Any:
    """Return an array of the tensor's dtype. Floats are rounded. Any other loss is an error."""
    from .numpy_dtypes import _getdtype

    wanted = _kind_of(dtype)
    kind = _KINDS.get(array.dtype.kind, 0)
    # NumPy makes floats from [2**63, -1], and objects from [2**64].
    if array.dtype.kind == "O" or (array.dtype.kind == "f" and wanted == 1):
        array, kind = _objects(data, name)
    if kind > wanted and array.size:
        raise SafetensorError(f"tensor `{name}` has dtype {dtype}, the data holds {_PLURALS[kind]}")
    try:
        numpy_dtype = _getdtype(dtype)
    except KeyError as error:
        hint = "give its bytes" if dtype in PACKED else error.args[0]
        raise SafetensorError(f"tensor `{name}` has dtype {dtype}, which NumPy makes of no numbers: {hint}") from None
    if wanted == 1:
        return _as_integers(array, numpy_dtype, name, dtype)
    return _as_floats(array, numpy_dtype, name, dtype)


def _as_integers(array: Any, numpy_dtype: Any, name: str, dtype: str) -> Any:
    import numpy as np

    limits = np.iinfo(numpy_dtype)
    for number in (array.min(), array.max()) if array.size else ():
        if not limits.min <= number <= limits.max:
            raise SafetensorError(f"tensor `{name}` has dtype {dtype}, which cannot hold {number}")
    return array.astype(numpy_dtype)


def _as_floats(array: Any, numpy_dtype: Any, name: str, dtype: str) -> Any:
    import numpy as np

    wide: Any = np.complex128 if array.dtype.kind == "c" or dtype == "C64" else np.float64
    try:
        numbers = array.astype(wide)
    except OverflowError:  # an integer with more than 1024 bits
        raise SafetensorError(f"tensor `{name}` has dtype {dtype}, which cannot hold all of its integers") from None
    with np.errstate(all="ignore"):
        made = numbers.astype(numpy_dtype)
        lost = _lost(numbers, made.astype(wide))
    if lost.any():
        number = numbers[lost].flat[0]
        raise SafetensorError(f"tensor `{name}` has dtype {dtype}, which cannot hold {number}")
    return made


def _lost(numbers: Any, made: Any) -> Any:
    """Return a mask of the numbers that changed from finite to not finite, or lost an infinity."""
    import numpy as np

    if numbers.dtype.kind == "c":
        return _lost(numbers.real, made.real) | _lost(numbers.imag, made.imag)
    finite, infinite = np.isfinite(numbers), np.isinf(numbers)
    return (finite & ~np.isfinite(made)) | (infinite & ~np.isinf(made))
