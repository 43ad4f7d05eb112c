"""Read, check and write safetensors files.

`safetensors.torch`, `safetensors.numpy`, `safetensors.flax`, `safetensors.tensorflow`, `safetensors.mlx` and
`safetensors.paddle` save and load dicts of tensors; `safe_open` loads single tensors and parts of them. `Checkpoint`,
`load` and `stream` read one or many files as one, whole or in parts, cast if wished; `Writer` writes a file in pieces.
Nothing but the framework that is asked for is imported.
"""

from ._checkpoint import Checkpoint, CheckpointStream, load, stream
from ._functions import (
    PrefetchPlan,
    _safe_open_handle,
    deserialize,
    serialize,
    serialize_file,
)
from ._native import (
    PrefetchLoader,
    PySafeSlice,
    SafetensorError,
    TensorMeta,
    TensorSpec,
    safe_open,
)
from ._version import __version__
from ._writer import Writer

__all__ = [
    "Checkpoint",
    "CheckpointStream",
    "PrefetchLoader",
    "PrefetchPlan",
    "PySafeSlice",
    "SafetensorError",
    "TensorMeta",
    "TensorSpec",
    "Writer",
    "__version__",
    "_safe_open_handle",
    "deserialize",
    "load",
    "safe_open",
    "serialize",
    "serialize_file",
    "stream",
]
