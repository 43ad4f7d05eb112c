"""NumPy's types for the dtypes of the format.

Part of `safetensors.numpy`: programs import these names from there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .dtypes import FRAMEWORK_NAMES, PACKED

_TYPES: dict[str, type[Any]] = {
    dtype: bool if name == "bool" else getattr(np, name)
    for dtype, name in FRAMEWORK_NAMES.items()
    if name == "bool" or hasattr(np, name)
}
# Dtypes of the package ml_dtypes.
_EXTENDED = {dtype: name for dtype, name in FRAMEWORK_NAMES.items() if dtype not in _TYPES and dtype not in PACKED}


def _getdtype(dtype_str: str) -> type[Any]:
    """Return the NumPy type for a dtype of the format. Raises KeyError if NumPy has no such type."""
    if dtype_str in _EXTENDED:
        try:
            import ml_dtypes
        except ImportError:
            raise KeyError(f"{dtype_str} (needs the package ml_dtypes)") from None
        extended: type[Any] = getattr(ml_dtypes, _EXTENDED[dtype_str])
        return extended
    return _TYPES[dtype_str]
