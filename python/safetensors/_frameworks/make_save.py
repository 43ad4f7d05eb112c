"""Makes the functions by which `safetensors.save` writes, for the modules of the frameworks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from .. import _native
from .._base.options import Progress, reporter
from .._native import TensorSpec
from .._types import Durability
from .._write.save_checkpoint import Fetch, SaveOptions, save_fetched, write_checkpoint

__all__ = ["make_save"]

# Returns the specs of tensors, and a function that fetches their bytes if the specs have none. The
# list receives the owners of their memory.
Describe = Callable[[Any, "list[Any]"], "tuple[dict[str, TensorSpec], Fetch | None]"]
SaveFile = Callable[[Any, "str | PathLike[str]", Any, Durability, "bool | Progress | None"], None]


def make_save(describe: Describe) -> tuple[Callable[..., None], SaveFile]:
    """Return `_save_folder` and `_save_file`."""

    def save_folder(
        tensors: Mapping[str, Any], folder: str | PathLike[str], options: SaveOptions
    ) -> None:
        """Save a model as files and their index."""
        keep_alive: list[Any] = []
        specs, fetch = describe(tensors, keep_alive)
        write_checkpoint(specs, tensors, folder, options, fetch)

    def save_file(
        tensors: Mapping[str, Any],
        filename: str | PathLike[str],
        metadata: dict[str, str] | None,
        durability: Durability,
        progress: bool | Progress | None,
    ) -> None:
        """`save_file` with progress."""
        keep_alive: list[Any] = []
        specs, fetch = describe(tensors, keep_alive)
        report, end_report = reporter(progress, "Saving")
        try:
            if fetch is None:
                _native.serialize_file(specs, filename, metadata, durability=durability, progress=report)
            else:
                save_fetched(specs, filename, metadata, fetch, durability=durability, progress=report)
        finally:
            end_report()

    return save_folder, save_file
