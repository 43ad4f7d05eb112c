"""Translates dtypes: names of the format, names in frameworks, and dtype objects of frameworks."""

from __future__ import annotations

from typing import Any

from ._native import TensorSpec

# The dtypes of the format, and their names in frameworks.
FRAMEWORK_NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F6_E2M3": "float6_e2m3fn",
    "F6_E3M2": "float6_e3m2fn",
    "F4": "float4_e2m1fn_x2",
}
_FORMAT_NAMES = {name: dtype for dtype, name in FRAMEWORK_NAMES.items()}

# Dtypes with elements smaller than a byte, and the bits per element. A framework that lacks such a
# dtype gets packed bytes.
PACKED = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}

# Dtypes of ml_dtypes that take one byte per element, and the packed dtypes of the format with the
# same values.
UNPACKED = {"float4_e2m1fn": "F4", "float6_e2m3fn": "F6_E2M3", "float6_e3m2fn": "F6_E3M2"}

# Dtypes that load(dtype=...) casts from and to. F8_E8M0 is cast from, never to.
CASTABLE = frozenset("F64 F32 F16 BF16 F8_E4M3 F8_E5M2 F8_E4M3FNUZ F8_E5M2FNUZ F8_E8M0".split())


def name_of(dtype: Any) -> str:
    """Return the name of a dtype without that of its framework: "float32" for numpy.float32."""
    if isinstance(dtype, str):
        return dtype.rpartition(".")[2]
    # A numpy.dtype has `name`, a scalar type `__name__`. A dtype of torch or Paddle prints as
    # "torch.float32".
    spelled = (getattr(dtype, "name", None), getattr(dtype, "__name__", None), str(dtype))
    names = [name.rpartition(".")[2] for name in spelled if isinstance(name, str)]
    return next((name for name in names if name in _FORMAT_NAMES), names[0])


def format_name(dtype: Any) -> str:
    """Return the format's name for "F32", "float32", torch.float32, numpy.float32 and so on.

    Raises SafetensorError for a dtype that no file can hold.
    """
    if any(dtype is kind for kind in (bool, int, float, complex)):
        raise TypeError(f"dtype {dtype.__name__} does not say how many bits: use a framework's")
    if isinstance(dtype, str) and dtype in FRAMEWORK_NAMES:
        return dtype
    name = name_of(dtype)
    if name in _FORMAT_NAMES:
        return _FORMAT_NAMES[name]
    return TensorSpec(dtype=name, shape=[0], data_ptr=0, data_len=0).dtype  # raises
