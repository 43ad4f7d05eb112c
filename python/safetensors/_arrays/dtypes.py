"""Translates dtypes: names of the format, names in frameworks, and dtype objects of frameworks."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .._native import SafetensorError, TensorSpec, _dtypes

# The dtypes of the format, and their names in frameworks.
FRAMEWORK_NAMES = {dtype: name for dtype, name, *_ in _dtypes()}
_FORMAT_NAMES = {name: dtype for dtype, name in FRAMEWORK_NAMES.items()}

# Dtypes with elements smaller than a byte, and the bits per element. A framework that lacks such a
# dtype gets packed bytes.
PACKED = {dtype: bits for dtype, _, bits, *_ in _dtypes() if bits < 8}

# Dtypes of ml_dtypes that take one byte per element, and the packed dtypes of the format with the
# same values. torch's name of F4 ends in "_x2", because an element of torch is a pair.
UNPACKED = {FRAMEWORK_NAMES[dtype].removesuffix("_x2"): dtype for dtype in PACKED}

# Floats that load(dtype=...) casts from and to. F8_E8M0 is cast from, never to.
CASTABLE = frozenset(dtype for dtype, _, _, source, _, _ in _dtypes() if source)
CAST_TO = frozenset(dtype for dtype, *_, target, _ in _dtypes() if target)
# Numbers of at most 8 bits, which usually have scales in other tensors. A BOOL is no number.
SMALL = frozenset(dtype for dtype, _, bits, *_ in _dtypes() if bits <= 8) - {"BOOL"}
# Integers of 8 to 64 bits, which load(dtype=...) casts to each other.
INTEGERS = frozenset(dtype for dtype, *_, integer in _dtypes() if integer)


def can_read_as(stored: str, wanted: str) -> bool:
    """Return whether a plan reads a tensor of one dtype as another one. Both are names of the format.

    Integers are not among them, because torch's load_state_dict wraps values that do not fit.
    """
    return stored == wanted or (stored in CASTABLE and wanted in CAST_TO)


def name_of(dtype: Any) -> str:
    """Return the name of a dtype without that of its framework: "float32" for numpy.float32."""
    if isinstance(dtype, str):
        return dtype.rpartition(".")[2]
    # A numpy.dtype has `name`, a scalar type `__name__`. A dtype of torch or Paddle prints as
    # "torch.float32".
    spelled = (getattr(dtype, "name", None), getattr(dtype, "__name__", None), str(dtype))
    names = [name.rpartition(".")[2] for name in spelled if isinstance(name, str)]
    return next((name for name in names if name in _FORMAT_NAMES), names[0])


# Words for floats that programs use beside the names of frameworks. "float" is torch's and C's, 32 bits.
_WORDS = {"half": "F16", "fp16": "F16", "float": "F32", "single": "F32", "fp32": "F32", "double": "F64", "fp64": "F64"}


# The results of format_name for dtypes of torch. A torch.dtype is one object, compared by identity.
_cache: dict[Any, str] = {}
_cached_types: set[type] = set()


def format_name(dtype: Any) -> str:
    """Return the format's name for "F32", "float32", torch.float32, numpy.float32 and so on.

    Texts may also be "half", "fp16", "float", "single", "fp32", "double", "fp64", and the names of
    the format in small letters, such as "bf16". Raises SafetensorError for a dtype that no file can hold.
    """
    if type(dtype) in _cached_types and dtype in _cache:
        return _cache[dtype]
    if any(dtype is kind for kind in (bool, int, float, complex)):
        raise TypeError(f"dtype {dtype.__name__} does not say how many bits: use a framework's")
    if isinstance(dtype, str) and dtype in FRAMEWORK_NAMES:
        return dtype
    name = name_of(dtype)
    if name in _FORMAT_NAMES:
        if type(dtype).__name__ == "dtype":  # of torch: checkpoints have thousands of tensors
            _cached_types.add(type(dtype))
            _cache[dtype] = _FORMAT_NAMES[name]
        return _FORMAT_NAMES[name]
    if isinstance(dtype, str) and (word := name.upper() if name.islower() else "") in FRAMEWORK_NAMES:
        return word
    if isinstance(dtype, str) and name in _WORDS:
        return _WORDS[name]
    return TensorSpec(dtype=name, shape=[0], data_ptr=0, data_len=0).dtype  # raises


# The modules with the dtypes of a framework. Other frameworks have all dtypes of casts.
_MODULES = {"numpy": ("numpy", "ml_dtypes"), "pytorch": ("torch",)}


def _holds(framework: str, name: str) -> bool:
    """Return whether a framework has a dtype of casts in this environment."""
    if framework == "mlx":
        return not name.startswith("float8")
    if framework == "paddle":
        from .paddle_arrays import _NAMES

        return name in _NAMES
    found = False
    for module in _MODULES.get(framework, ()):
        try:
            found = found or hasattr(import_module(module), name)
        except ImportError:
            pass
    return found or framework not in _MODULES


def _cast_to(name: str, framework: str, integers: bool) -> str:
    every = [FRAMEWORK_NAMES[each] for each in FRAMEWORK_NAMES if each in CAST_TO]
    if integers:
        every += [FRAMEWORK_NAMES[each] for each in FRAMEWORK_NAMES if each in INTEGERS]
    names = ", ".join(each for each in every if _holds(framework, each))
    return f"cannot cast to {name}: expected one of {names}"


def cast_name(dtype: Any, framework: str, integers: bool = True) -> str:
    """Return `format_name` of a dtype to cast to. The SafetensorError names the dtypes of casts.

    `framework`: the framework that gets the tensors, with the name that `framework()` of a native
    checkpoint returns. `integers`: whether integers are among the dtypes of casts.
    """
    try:
        return format_name(dtype)
    except SafetensorError as error:
        error.args = (_cast_to(repr(dtype), framework, integers),)
        raise


def number_name(dtype: Any, framework: str, integers: bool = True) -> str:
    """Return the format's name of a dtype that numbers can be cast to. The arguments and errors are those of `cast_name`."""
    name = cast_name(dtype, framework, integers)
    if name not in CAST_TO and not (integers and name in INTEGERS):
        raise SafetensorError(_cast_to(name, framework, integers))
    return name
