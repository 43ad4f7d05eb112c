"""Read, check and write safetensors files.

`safetensors.torch`, `safetensors.numpy`, `safetensors.flax`, `safetensors.tensorflow`, `safetensors.mlx` and
`safetensors.paddle` save and load dicts of tensors; `safe_open` loads single tensors and parts of them. Nothing but
the framework that is asked for is imported.
"""

from ._functions import _safe_open_handle, deserialize, serialize, serialize_file
from ._native import SafetensorError, TensorSpec, safe_open
from ._version import __version__

__all__ = [
    "SafetensorError",
    "TensorSpec",
    "__version__",
    "_safe_open_handle",
    "deserialize",
    "safe_open",
    "serialize",
    "serialize_file",
]
