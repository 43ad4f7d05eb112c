"""torch's dtypes for those of the format.

Part of `safetensors.torch`: programs import these names from there.
"""

from __future__ import annotations

from typing import Any

import torch

from .dtypes import FRAMEWORK_NAMES, number_name

# torch lacks some dtypes of the format, and older releases of torch lack more of them.
_TYPES: dict[str, torch.dtype] = {
    wire: getattr(torch, name) for wire, name in FRAMEWORK_NAMES.items() if hasattr(torch, name)
}


def _getdtype(dtype_str: str) -> torch.dtype:
    """Return the torch dtype for a dtype of the format. Raises KeyError if torch lacks it."""
    return _TYPES[dtype_str]


def float_dtype(dtype: Any) -> torch.dtype | None:
    """Return the dtype that floats are cast to. None stands for no cast. Raises as `number_name`."""
    return None if dtype is None else _getdtype(number_name(dtype, "pytorch", integers=False))
