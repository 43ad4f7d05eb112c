"""`save` for every framework: one file, or a model of several files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from itertools import islice
from os import PathLike
from typing import Any

from ._arrays.targets import is_torch
from ._arrays.values import refuse_nested
from ._base.options import Progress, to_metadata
from ._base.paths import to_path
from ._native import TensorSpec
from ._types import Durability
from ._write.save_checkpoint import Fetch, SaveOptions, write_checkpoint, write_file

__all__ = ["save"]

# The first part of the module of a tensor's type, and the module of this package.
_MODULES = {"jax": "flax", "jaxlib": "flax", "mlx": "mlx", "paddle": "paddle", "tensorflow": "tensorflow"}


def _module_of(tensors: Mapping[str, Any]) -> Any:
    """Return the module of this package for the framework of the first tensor."""
    if not isinstance(tensors, Mapping):
        raise TypeError(f"tensors is {type(tensors).__name__}: give a dict of names")
    # Only a dict is searched whole: another mapping may read a file for each value.
    for name, value in tensors.items() if isinstance(tensors, dict) else islice(tensors.items(), 1):
        refuse_nested(name, value)
    tensor = next(iter(tensors.values()), None)
    root = type(tensor).__module__.partition(".")[0]
    name = "torch" if is_torch(tensor) else _MODULES.get(root, "numpy")
    return import_module(f".{name}", __package__)


def _described(module: Any, tensors: Any, keep_alive: list[Any]) -> tuple[dict[str, TensorSpec], Fetch | None]:
    """Return the specs to save, and a function that fetches their bytes if they have none, as those of torch on devices.

    `keep_alive` receives the owners of the memory.
    """
    if hasattr(module, "_described"):
        found: tuple[dict[str, TensorSpec], Fetch | None] = module._described(tensors, keep_alive)
        return found
    return module._flatten(tensors, keep_alive), None


# The ends of paths by which other formats are known. They look like one file, but would be a folder.
_OTHER_FORMATS = (
    ".bin", ".ckpt", ".gguf", ".h5", ".json", ".msgpack", ".npy", ".npz", ".onnx", ".pdparams",
    ".pickle", ".pkl", ".pt", ".pth", ".zip",
)  # fmt: skip


def _check_folder(path: str) -> None:
    if path.lower().endswith(_OTHER_FORMATS) and not os.path.isdir(path):
        raise ValueError(
            f"{path!r} would be a folder: end the path of a file in '.safetensors', or make the folder before"
        )


def save(
    tensors: Mapping[str, Any], path: str | PathLike[str], *, max_shard_size: int | str | None = None,
    metadata: Mapping[str, str] | None = None, index_metadata: Mapping[str, Any] | None = None,
    new_folder: bool = False, remove_old_files: bool = True, durability: Durability = "full",
    progress: bool | Progress | None = False,
) -> None:
    """Save the tensors of any framework, in one file or as a model of several files.

    `path`: if it ends in ".safetensors", one file is written, as by `save_file`. Any other path is
    a folder: files of up to `max_shard_size` (bytes, or a text such as "2GB"; default "5GB") and
    their index, split as huggingface_hub does. All tensors must be of one framework. `metadata`:
    the metadata of each file. `index_metadata`: more members of `metadata` of the index.

    A folder that does not exist appears at once, with all files. In a folder that exists, the index is
    replaced after the files. Then the files of an older model are removed (those that its index names
    and those with the same stem), unless `remove_old_files` is false. `new_folder=True` refuses a
    folder that exists. docs/checkpoints.md says which files a crash leaves.

    `durability`: as in `save_file`. `progress`: a function that gets the number
    of bytes written and the total. True shows a bar if tqdm is installed. Raises the errors of
    `save_file`, and TypeError for a dict in the dict. Raises ValueError if `max_shard_size`,
    `index_metadata` or `new_folder` is given for one file, and for a path that ends as files of
    another format do, such as "model.pt".
    """
    module = _module_of(tensors)
    path = to_path(path, "path")
    keep_alive: list[Any] = []
    if path.endswith(".safetensors"):
        for argument, given in (
            ("max_shard_size", max_shard_size is not None),
            ("index_metadata", index_metadata is not None),
            ("new_folder", new_folder),
        ):
            if given:
                raise ValueError(f"{path!r} is one file: give the path of a folder, or no {argument}")
        given_metadata = to_metadata(metadata)
        specs, fetch = _described(module, tensors, keep_alive)
        write_file(specs, path, given_metadata, durability, fetch, progress)
        return
    _check_folder(path)
    options = SaveOptions(max_shard_size, metadata, index_metadata, new_folder, remove_old_files, durability, progress)
    specs, fetch = _described(module, tensors, keep_alive)
    write_checkpoint(specs, tensors, path, options, fetch)
