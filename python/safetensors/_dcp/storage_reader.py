"""Reads checkpoints for torch.distributed.checkpoint: its StorageReader, on one read plan per rank.

torch's planner decides which boxes of which tensors a rank needs. This reader tells it what the files
hold, and reads the boxes into the tensors that the planner names.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata, Metadata, StorageMeta, TensorProperties, TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader as TorchStorageReader
from torch.futures import Future

from .._base.options import Progress, ending, start_read, to_size
from .._base.paths import to_path
from .._models.pieces import Piece, read_pieces
from .._native import SafetensorError
from .._ranks.agreement import raise_portable
from .._ranks.stored import Part, Path, Stored, StoredTensor
from .._read.checkpoint import DEFAULT_BUDGET
from .._types import Cache

__all__ = ["StorageReader"]


class StorageReader(TorchStorageReader):
    """Reads safetensors checkpoints for `torch.distributed.checkpoint.load`.

    `path`: a file, an index, a folder that holds one of these, or a folder that
    `HuggingFaceStorageWriter(save_distributed=True)` of torch left.
    `threads`: number of reader threads of this rank. 0 chooses it.
    `memory_limit`: maximum number of bytes that this rank reads or converts at a time, in addition
    to its tensors: a number, or a text such as "512MiB".
    `cache`, `progress`: as in `safetensors.load`, for the bytes of this rank.

    Each rank opens the checkpoint and reads its headers. `path` may differ per rank, if it leads to the
    same files. Each rank reads only the bytes of its own tensors, by one read plan for all tensors,
    straight into the memory of tensors on the CPU. Floats are cast to the dtype of the tensor. Give
    each rank a reader of its own. A reader can load again. Use it from one thread at a time.

    The errors of `load` are those of torch: CheckpointException on all ranks, with the error of each
    rank that failed, except in the cases of the table in "Errors of dcp.load" of docs/distributed.md,
    such as Ctrl-C while ranks exchange something.
    """

    def __init__(
        self, path: Path, *, threads: int = 0, memory_limit: int | str = DEFAULT_BUDGET, cache: Cache = "auto",
        progress: bool | Progress | None = False,
    ) -> None:
        to_path(path, "path")
        self._path = path
        self._options = threads, to_size(memory_limit, "memory_limit"), cache, progress
        self._stored: Stored | None = None

    @property
    def checkpoint_id(self) -> Path:
        """The path. torch names it in its logs."""
        return self._path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        """Return whether it is the path of a file or a folder that exists."""
        if not isinstance(checkpoint_id, (str, os.PathLike)):
            return False
        return os.path.exists(to_path(checkpoint_id, "path"))

    def reset(self, checkpoint_id: Path | None = None) -> None:
        """Close the files. `checkpoint_id`: the path to read from now on. None keeps the path."""
        self._close()
        if checkpoint_id is not None:
            to_path(checkpoint_id, "checkpoint_id")
            self._path = checkpoint_id

    def read_metadata(self) -> Metadata:
        """Open the checkpoint, and return its tensors and their chunks.

        torch calls it on all ranks. Raises SafetensorError and OSError.
        """
        self._close()
        try:
            self._stored = Stored.open(self._path)
        except BaseException as error:
            raise_portable(error)
        described = {tensor.name: _described(tensor) for tensor in self._stored}
        return Metadata(state_dict_metadata=described, storage_meta=StorageMeta())  # type: ignore[arg-type]

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Do nothing. The files are open."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan. Raises SafetensorError for an item that is not a tensor of the checkpoint."""
        for item in plan.items:
            self._part(item)
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans unchanged. `read_data` decides who reads what."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read all items of the plan into the tensors of the planner, and close the files.

        Raises SafetensorError, OSError, KeyboardInterrupt, and the errors of the planner.
        """
        try:
            pieces = [self._piece(item, planner) for item in plan.items]

            def commit(index: int) -> None:
                target = pieces[index].target
                assert target is not None
                planner.commit_tensor(plan.items[index], target)

            with ending(start_read(*self._options)) as options:
                read_pieces(pieces, commit, options)
        except BaseException as error:
            raise_portable(error)
        finally:
            self._close()
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _close(self) -> None:
        if self._stored is not None:
            self._stored.close()
        self._stored = None

    def _part(self, item: ReadItem) -> tuple[StoredTensor, Part]:
        """Return the tensor of an item, and the part of it that holds the item."""
        name = item.storage_index.fqn
        if item.type != LoadItemType.TENSOR:
            raise SafetensorError(
                f"cannot load {name!r}: it is not a tensor, and a safetensors file holds tensors only"
            )
        if self._stored is None:
            raise SafetensorError("the reader is closed: torch calls read_metadata first")
        tensor = self._stored.tensors.get(name)
        if tensor is None:
            raise SafetensorError(f"the checkpoint has no tensor {name!r}")
        offsets = tuple(item.storage_index.offset or (0,) * len(tensor.shape))
        part = tensor.parts.get(offsets)
        if part is None:
            raise SafetensorError(f"tensor {name!r} has no chunk at {list(offsets)}")
        return tensor, part

    def _piece(self, item: ReadItem, planner: LoadPlanner) -> Piece:
        tensor, part = self._part(item)
        target = planner.resolve_tensor(item).detach()
        if target.shape != item.lengths:
            raise SafetensorError(
                f"the planner gives {tensor.name!r} a tensor of shape {list(target.shape)},"
                f" expected {list(item.lengths)}"
            )
        return tensor.piece(part, tuple(item.storage_offsets), target, item.dest_index.fqn)


def _described(tensor: StoredTensor) -> TensorStorageMetadata:
    chunks = [
        ChunkStorageMetadata(torch.Size(part.box.offsets), torch.Size(part.box.sizes)) for part in tensor.parts.values()
    ]
    # The planner of torch compares shapes only. A dtype that torch lacks is an error if it is loaded.
    properties = TensorProperties(dtype=tensor.dtype or torch.uint8)
    return TensorStorageMetadata(properties, torch.Size(tensor.shape), chunks)
