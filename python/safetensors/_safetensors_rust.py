"""Has the name of the extension of the reference package, because programs import from it."""

from ._functions import _safe_open_handle, deserialize, serialize, serialize_file
from ._native import PrefetchLoader, PySafeSlice, SafetensorError, TensorMeta, TensorSpec, TensorStream, safe_open
from ._version import __version__

__all__ = [
    "PrefetchLoader", "PySafeSlice", "SafetensorError", "TensorMeta", "TensorSpec", "TensorStream",
    "__version__", "_safe_open_handle", "deserialize", "safe_open", "serialize", "serialize_file",
]
