"""Read, check and write safetensors files.

`safetensors.torch`, `safetensors.numpy`, `safetensors.flax`, `safetensors.tensorflow`, `safetensors.mlx` and
`safetensors.paddle` save and load dicts of tensors. `safe_open` loads single tensors and slices of them. `Checkpoint`,
`load` and `stream` read one or many files as one set of tensors: whole tensors or slices, cast on request. `save` writes
one file, or a model of several files. `Writer` and `CheckpointWriter` do this in several calls. Only the framework
that you ask for is imported.
"""

# `import safetensors` imports no other module. Each name is imported on first use (PEP 562).
TYPE_CHECKING = False  # stands for typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from . import _native, _safetensors_rust
    from ._functions import PrefetchPlan, _safe_open_handle, deserialize, serialize, serialize_file
    from ._install import install
    from ._native import (
        MissingTensorError, PrefetchLoader, PySafeSlice, SafetensorError, TensorMeta, TensorSpec, safe_open,
    )
    from ._read.checkpoint import Checkpoint, load, stream
    from ._read.stream import CheckpointStream
    from ._save import save
    from ._version import __version__
    from ._write.save_checkpoint import CheckpointLayout, CheckpointWriter
    from ._write.writer import Writer

__all__ = [
    "Checkpoint", "CheckpointLayout", "CheckpointStream", "CheckpointWriter", "MissingTensorError",
    "PrefetchLoader", "PrefetchPlan", "PySafeSlice", "SafetensorError", "TensorMeta", "TensorSpec",
    "Writer", "__version__", "_safe_open_handle", "deserialize", "install", "load", "safe_open",
    "save", "serialize", "serialize_file", "stream",
]

if not TYPE_CHECKING:

    def _refuse_other_files(folder):
        """Raise ImportError if another package was installed into the folder, over this one or under it.

        Python prefers an extension to a .py file of the same name. So that of the reference would take the place of our
        _safetensors_rust.py, and `except SafetensorError` would miss our errors.
        """
        import os

        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name.startswith("_safetensors_rust.") and name.endswith((".so", ".pyd")):
                raise ImportError(
                    f"{__name__}: found {name} of another package in {folder}, expected the files of one package"
                    " (remove both, with `python -m pip uninstall safetensors` until it finds nothing, and install one)",
                    name=__name__,
                )

    _refuse_other_files(__path__[0])
    del _refuse_other_files

    # The names of each module.
    _NAMES = {
        "_functions": "PrefetchPlan _safe_open_handle deserialize serialize serialize_file",
        "_install": "install",
        "_native": "MissingTensorError PrefetchLoader PySafeSlice SafetensorError TensorMeta TensorSpec safe_open",
        "_read.checkpoint": "Checkpoint load stream",
        "_read.stream": "CheckpointStream",
        "_save": "save",
        "_version": "__version__",
        "_write.save_checkpoint": "CheckpointLayout CheckpointWriter",
        "_write.writer": "Writer",
    }
    _HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
    # Modules that are attributes of the package before anybody has imported them.
    _MODULES = frozenset({"_native", "_safetensors_rust"})

    def __getattr__(name):
        home = _HOMES.get(name) or (name if name in _MODULES else None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = __import__(f"{__name__}.{home}", fromlist=(name,))
        if home == name:
            return module  # the import has already made it an attribute of the package
        value = globals()[name] = getattr(module, name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__, *_MODULES})
