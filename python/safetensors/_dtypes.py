"""Dtypes by the names of the format, of frameworks, or as frameworks' own objects."""

from __future__ import annotations

from typing import Any

from ._native import TensorSpec

_FORMAT = frozenset(
    "BOOL U8 I8 I16 U16 F16 BF16 I32 U32 F32 F64 I64 U64 C64 F8_E4M3 F8_E5M2 F8_E8M0 F8_E4M3FNUZ"
    " F8_E5M2FNUZ F6_E2M3 F6_E3M2 F4".split()
)


def format_name(dtype: Any) -> str:
    """Return the format's name for "F32", "float32", torch.float32, numpy.float32 and their like.

    Raises SafetensorError for what no file can hold.
    """
    if isinstance(dtype, str):
        text = dtype
    elif isinstance(dtype, type) and getattr(dtype, "__name__", None) in ("bool", "float", "int"):
        raise TypeError(f"dtype {dtype.__name__} does not say how many bits: use a framework's")
    else:
        # numpy.dtype has a name, its scalar types their own, torch and paddle print "torch.float32".
        text = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    if text in _FORMAT:
        return text
    return TensorSpec(dtype=text.rpartition(".")[2], shape=[0], data_ptr=0, data_len=0).dtype


# What load(dtype=...) turns into one another; from F8_E8M0 only.
CASTABLE = frozenset(
    "F64 F32 F16 BF16 F8_E4M3 F8_E5M2 F8_E4M3FNUZ F8_E5M2FNUZ F8_E8M0".split()
)
