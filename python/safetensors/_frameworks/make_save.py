"""Makes `save_checkpoint`, and the writing half of `save_file`, for the modules of the frameworks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Protocol, TypeVar

from .. import _native
from .._base.options import Progress, reporter
from .._native import TensorSpec
from .._types import Durability
from .._write.save_checkpoint import DEFAULT_SHARD_SIZE, Fetch, write_checkpoint
from .adapted import adapted

__all__ = ["SaveCheckpoint", "make_save"]

Tensor = TypeVar("Tensor")
Saved = TypeVar("Saved", contravariant=True)

# Returns the specs of tensors, and a function that fetches their bytes if the specs have none. The
# list receives the owners of their memory.
Describe = Callable[[Any, "list[Any]"], "tuple[dict[str, TensorSpec], Fetch | None]"]
SaveFile = Callable[[Any, "str | PathLike[str]", Any, Durability, "bool | Progress | None"], None]


class SaveCheckpoint(Protocol[Saved]):
    """The type of `save_checkpoint`."""

    def __call__(
        self,
        tensors: Mapping[str, Saved],
        folder: str | PathLike[str],
        *,
        max_shard_size: int | str = DEFAULT_SHARD_SIZE,
        metadata: Mapping[str, str] | None = None,
        index_metadata: Mapping[str, Any] | None = None,
        new_folder: bool = False,
        remove_old_files: bool = True,
        durability: Durability = "full",
        progress: bool | Progress | None = False,
    ) -> None: ...


def make_save(module: str, tensor: str, noun: str, describe: Describe) -> tuple[Any, SaveFile]:
    """Return `save_checkpoint` and `_save_file`. The texts are those of `adapted`."""

    def save_checkpoint(
        tensors: Mapping[str, Tensor],
        folder: str | PathLike[str],
        *,
        max_shard_size: int | str = DEFAULT_SHARD_SIZE,
        metadata: Mapping[str, str] | None = None,
        index_metadata: Mapping[str, Any] | None = None,
        new_folder: bool = False,
        remove_old_files: bool = True,
        durability: Durability = "full",
        progress: bool | Progress | None = False,
    ) -> None:
        """Save {noun} in a folder, as files of up to `max_shard_size`, and write their index.

        The names of the files and the split of the {noun} are those of huggingface_hub.
        `max_shard_size`: bytes, or a text such as "2GB". `metadata`: the metadata of each file.
        `index_metadata`: more members for the `metadata` of the index.

        A folder that does not exist appears at once, with all files. In a folder that exists, the
        index is replaced after the files. Then the files of an older model with the same stem are
        removed, unless `remove_old_files` is false. `new_folder=True` refuses a folder that exists.
        docs/checkpoints.md says which files a crash leaves. `durability`: as in `save_file`.
        `progress`: a function that gets the number of bytes written and the total. True shows a
        bar if tqdm is installed. Raises the errors of `save_file`, and ValueError for a
        `max_shard_size` that is not a size.
        """
        keep_alive: list[Any] = []
        specs, fetch = describe(tensors, keep_alive)
        write_checkpoint(
            specs,
            tensors,
            folder,
            max_shard_size=max_shard_size,
            metadata=metadata,
            index_metadata=index_metadata,
            new_folder=new_folder,
            remove_old_files=remove_old_files,
            durability=durability,
            progress=progress,
            fetch=fetch,
        )

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
                _native._save_file(
                    specs, filename, metadata, durability=durability, progress=report
                )
            else:
                _native._serialize_stream(
                    specs,
                    filename,
                    metadata,
                    fetch,
                    durability=durability,
                    progress=report,
                )
        finally:
            end_report()

    return adapted(save_checkpoint, module, tensor, noun), save_file
