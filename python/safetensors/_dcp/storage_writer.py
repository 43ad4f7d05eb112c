"""Writes checkpoints for torch.distributed.checkpoint: its StorageWriter, where every rank writes its part.

torch's planner decides which rank writes which box of which tensor. The texts that ranks need
travel with messages that torch sends anyway: the ticket of the files with the global plan, the
receipts with the results.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import StorageWriter as TorchStorageWriter
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from .._base.options import Progress
from .._base.paths import to_path
from .._native import SafetensorError
from .._ranks.agreement import RankError, describe, is_alone, raise_portable
from .._ranks.boxes import Box
from .._ranks.part_writer import Invitation, PartWriter, Specs, budget_of, check_folder, check_savable, spec_of
from .._ranks.stored import Path
from .._read.checkpoint import DEFAULT_BUDGET
from .._types import Durability
from .._write.save_checkpoint import DEFAULT_SHARD_SIZE, SaveOptions

__all__ = ["StorageWriter"]


class _Names(NamedTuple):
    """The names of a rank in the order of its state dict, before torch drops duplicates."""

    names: list[str]


class _Written(NamedTuple):
    """The end of the part of a rank: its receipt (None for the coordinator), or its error."""

    receipt: str | None
    error: str | None


class StorageWriter(TorchStorageWriter):
    """Writes plain checkpoints for `torch.distributed.checkpoint.save` and `async_save`.

    The result is what `safetensors.save` writes: shards and their index, or one file.
    transformers' `from_pretrained` loads it. Every rank writes its own part into the same files, so no
    rank gathers tensors.

    `path`: the folder. Its parent must exist. The path of the coordinator (rank 0) is used.
    `max_shard_size`, `metadata`, `index_metadata`, `new_folder`, `remove_old_files`, `durability`: as
    in `safetensors.save`. The values of the coordinator are used.
    `memory_limit`: maximum number of bytes that this rank copies at a time: a number, or a text
    such as "512MiB". Only tensors on a device and tensors with strides are copied.
    `progress`: a function that gets the number of bytes written and the total. On the coordinator,
    both numbers cover all ranks. On another rank, they cover only its own bytes. True shows a bar
    if tqdm is installed.

    Names are in the order of the state dict. The order decides only which shard has which tensor. Values
    that are not tensors are errors. Give each rank a writer of its own. A writer can save again. Use
    it for one save at a time.

    The errors of `save` are those of torch: CheckpointException on all ranks, except in the cases of
    the table in "Errors of dcp.load" of docs/distributed.md, such as Ctrl-C while torch exchanges plans
    or results. Until all ranks have written their part, the old checkpoint is untouched.
    """

    def __init__(
        self, path: Path, *, max_shard_size: int | str = DEFAULT_SHARD_SIZE, durability: Durability = "full",
        metadata: Mapping[str, str] | None = None, index_metadata: Mapping[str, Any] | None = None,
        new_folder: bool = False, remove_old_files: bool = True, memory_limit: int | str = DEFAULT_BUDGET,
        progress: bool | Progress | None = False,
    ) -> None:
        check_folder(path)
        self._path = path
        self._options = SaveOptions(
            max_shard_size, metadata, index_metadata, new_folder, remove_old_files, durability, progress, memory_limit
        )
        self._options.layout_options({})  # raises the errors of the options
        budget_of(self._options)
        self._part: PartWriter | None = None

    @property
    def checkpoint_id(self) -> Path:
        """The path. torch names it in its logs."""
        return self._path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        """Return whether it can be the path of a folder."""
        if not isinstance(checkpoint_id, (str, os.PathLike)):
            return False
        return os.path.isdir(os.path.dirname(os.path.abspath(to_path(checkpoint_id, "path"))))

    def close(self) -> None:
        """Remove the temporary files of a failed save. Idempotent.

        They stay after a failure that torch does not report to the writers: a rank was killed, or
        its planner failed. The next save with this writer removes them, too, and so does the end of
        the writer.
        """
        if self._part is not None:
            self._part.close()
        self._part = None

    def reset(self, checkpoint_id: Path | None = None) -> None:
        """Begin anew. `checkpoint_id`: the path to write from now on. None keeps the path."""
        self.close()
        if checkpoint_id is not None:
            check_folder(checkpoint_id, "checkpoint_id")
            self._path = checkpoint_id

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Check that torch carries texts between the ranks. Raises SafetensorError."""
        self.close()
        if kwargs.get("use_collectives") is False and not is_alone(None):
            raise SafetensorError(
                "use_collectives=False is not supported: the ranks of one checkpoint write the same"
                " files, and need the collectives of save"
            )

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Add the names of this rank. Raises SafetensorError for a value that no file can hold."""
        _check_usable(plan)
        for item in plan.items:
            _check_item(item)
        names = dict.fromkeys(item.index.fqn for item in plan.items)
        return dataclasses.replace(plan, storage_data=_Names(list(names)))

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Create the files, and add their ticket and their layout to the plan of each rank.

        torch calls it on the coordinator. Raises SafetensorError, OSError, TypeError, ValueError.
        """
        for plan in plans:
            _check_usable(plan)
        specs = _specs(plans)
        try:
            self._part = PartWriter.create(self._path, specs, self._options, alone=len(plans) == 1)
            data = None if len(plans) == 1 else self._part.invitation()
        except BaseException as error:
            self.close()
            raise_portable(error)
        return [dataclasses.replace(plan, storage_data=data) for plan in plans]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write all items of the plan. Raises an error only if there is no other rank.

        torch does not tell the coordinator's writer that another rank has raised an error. So the
        error travels as a result, and `finish` raises it on all ranks.
        """
        creator = self._part is not None
        try:
            written = _Written(self._write(plan, planner), None)
        except BaseException as error:
            if not creator or plan.storage_data is None:
                self.close()  # else finish() does it: other ranks would fail to open the files
            if plan.storage_data is None:
                raise_portable(error)
            written = _Written(None, describe(error))
        future: Future[list[WriteResult]] = Future()
        size = sum(_box_bytes(item) for item in plan.items)
        future.set_result([WriteResult(MetadataIndex(""), size, written)])
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Put the files in place. torch calls it on the coordinator, after all ranks have written.

        Raises RankError if a rank has failed, SafetensorError and OSError. Then the files are removed.
        """
        try:
            ends = [result.storage_data for of_rank in results for result in of_rank]
            failures = {rank: end.error for rank, end in enumerate(ends) if end.error is not None}
            if failures:
                raise RankError(failures, len(ends))
            if self._part is None:
                raise SafetensorError("the writer is closed: torch calls write_data first")
            self._part.commit(end.receipt for end in ends if end.receipt is not None)
        except BaseException as error:
            raise_portable(error)
        finally:
            self.close()

    def _write(self, plan: SavePlan, planner: SavePlanner) -> str | None:
        """Write the items. Returns the receipt, or None on the coordinator."""
        creator = self._part is not None
        if not creator:
            if not isinstance(plan.storage_data, Invitation):
                raise SafetensorError("the planner has dropped the storage_data of the plan")
            total = sum(_box_bytes(item) for item in plan.items)
            self._part = PartWriter.join(plan.storage_data, self._options, total)
        part = self._part
        assert part is not None
        for item in plan.items:
            box = _box(item)
            data = planner.resolve_data(item)
            if not isinstance(data, torch.Tensor) or tuple(data.shape) != box.sizes:
                found = list(data.shape) if isinstance(data, torch.Tensor) else type(data).__name__
                raise SafetensorError(
                    f"the planner gives {found} for {item.index.fqn!r}, expected a tensor of shape {list(box.sizes)}"
                )
            part.write(item.index.fqn, box.offsets, data)
        return None if creator else part.receipt()


def _check_usable(plan: SavePlan) -> None:
    if not getattr(plan, "usable", True):  # torch 2.5 has no such field
        raise SafetensorError(
            "the planner reuses the plan of an earlier save, which names files of that save"
            " (give a planner with enable_plan_caching=False)"
        )


def _check_item(item: WriteItem) -> None:
    name = item.index.fqn
    if item.type == WriteItemType.BYTE_IO or item.tensor_data is None:
        raise SafetensorError(f"cannot save {name!r}: it is not a tensor, and a safetensors file holds tensors only")
    if item.tensor_data.chunk is None:
        raise SafetensorError(f"cannot save {name!r}: the planner gives it no chunk")
    check_savable(name, item.tensor_data.properties)
    spec_of(name, item.tensor_data.properties.dtype, item.tensor_data.size)


def _box(item: WriteItem) -> Box:
    assert item.tensor_data is not None
    chunk = item.tensor_data.chunk
    return Box(tuple(chunk.offsets), tuple(chunk.sizes))


def _box_bytes(item: WriteItem) -> int:
    assert item.tensor_data is not None
    return _box(item).elements * int(item.tensor_data.properties.dtype.itemsize)


def _specs(plans: Iterable[SavePlan]) -> Specs:
    """Return all tensors in the order of the state dict of the first rank, then of the next ones."""
    found: Specs = {}
    for plan in plans:
        for item in plan.items:
            assert item.tensor_data is not None
            name = item.index.fqn
            spec = spec_of(name, item.tensor_data.properties.dtype, item.tensor_data.size)
            if (other := found.setdefault(name, spec)) != spec:
                raise SafetensorError(
                    f"{name!r} has dtype {spec[0]} and shape {list(spec[1])} on one rank, and"
                    f" {other[0]} and {list(other[1])} on another one"
                )
    named = [plan.storage_data.names for plan in plans if isinstance(plan.storage_data, _Names)]
    order = dict.fromkeys([name for names in named for name in names] + list(found))
    return {name: found[name] for name in order if name in found}
