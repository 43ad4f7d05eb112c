"""Reads the own format of torch.distributed.checkpoint: `.metadata` and `*.distcp`.

`.metadata` is a pickle. Only the classes that torch writes there are made from it, so a file of a
stranger runs no code. torch's FileSystemReader reads the chunks, each whole.
"""

from __future__ import annotations

import os
import pathlib
import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import (
    Metadata,
    MetadataIndex,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
)

from ._boxes import Box, check_cover
from ._dtypes import format_name
from ._native import SafetensorError

__all__ = ["DcpFiles", "is_dcp_folder"]

_METADATA = ".metadata"
_OF_METADATA = "torch.distributed.checkpoint.metadata"
_CLASSES = {
    *((_OF_METADATA, name) for name in ("Metadata", "MetadataIndex", "StorageMeta")),
    *((_OF_METADATA, name) for name in ("TensorStorageMetadata", "BytesStorageMetadata")),
    *((_OF_METADATA, name) for name in ("ChunkStorageMetadata", "TensorProperties")),
    (_OF_METADATA, "_MEM_FORMAT_ENCODING"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("torch", "Size"),
    ("collections", "OrderedDict"),
}


class _Unpickler(pickle.Unpickler):
    """Makes only the classes that torch writes into `.metadata`."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "pathlib" and name.endswith("Path"):
            return pathlib.PurePosixPath  # the folder of the save, which is not used
        found = getattr(torch, name, None) if module == "torch" else None
        if isinstance(found, torch.dtype):
            return found
        if (module, name) not in _CLASSES:
            raise SafetensorError(
                f"it holds {module}.{name}, which torch does not write there: load the checkpoint"
                " with torch.distributed.checkpoint, and save it again"
            )
        return super().find_class(module, name)


def is_dcp_folder(path: Any) -> bool:
    """Return whether a path is a folder with files of torch.distributed.checkpoint's own format.

    Raises SafetensorError if its `.metadata` is missing.
    """
    folder = os.fspath(path)
    if not os.path.isdir(folder):
        return False
    if os.path.exists(os.path.join(folder, _METADATA)):
        return True
    if any(name.endswith(".distcp") for name in os.listdir(folder)):
        raise SafetensorError(
            f"{folder} has files *.distcp and no {_METADATA}: torch writes it last, so the save did"
            " not end"
        )
    return False


class _Block(NamedTuple):
    """A box of a tensor, and the chunks that hold its elements. `place`: that of the first chunk."""

    name: str
    box: Box
    chunks: list[Box]
    place: tuple[str, int]  # the file, and the offset in it


class DcpFiles:
    """The tensors of a folder, and their chunks.

    `shapes`: the dtype of the format and the shape of each tensor. `others`: the names of values
    that are not tensors. Raises OSError, and SafetensorError for a file that torch has not written.
    """

    def __init__(self, folder: Any) -> None:
        self._folder = os.fspath(folder)
        self._metadata = self._read_metadata()
        self._chunks: dict[str, list[Box]] = {}
        self.shapes: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.others: list[str] = []
        try:
            for name, stored in self._metadata.state_dict_metadata.items():
                if isinstance(stored, TensorStorageMetadata):
                    self._add(name, stored)
                else:
                    self.others.append(name)
        except (AttributeError, TypeError, ValueError) as error:
            raise SafetensorError(f"{self._folder}/{_METADATA} is damaged: {error}") from error
        self._reader = FileSystemReader(self._folder)
        self._reader.set_up_storage_reader(self._metadata, True)

    def close(self) -> None:
        """Do nothing. Files are open only while a chunk is read."""

    def read(self, names: list[str], limit: int) -> Iterator[tuple[str, Box, torch.Tensor]]:
        """Yield blocks of tensors on the CPU, in the order of the files: a chunk, or a whole tensor.

        `limit`: maximum number of bytes of memory, unless a chunk has more than half of it. torch's
        reader holds each chunk twice. Raises SafetensorError, OSError.
        """
        batch: list[_Block] = []
        held = 0
        blocks = [block for name in names for block in self._blocks(name, limit // 2)]
        for block in sorted(blocks, key=lambda block: block.place):
            size = self._bytes(block.name, block.box)
            if batch and held + size > limit // 2:
                yield from self._read(batch)
                batch, held = [], 0
            batch.append(block)
            held += size
        yield from self._read(batch)

    def _blocks(self, name: str, limit: int) -> list[_Block]:
        """Return the blocks to write: the tensor if it was cut by columns and is small, or chunks.

        A chunk of columns is one write per row.
        """
        chunks = [box for box in self._chunks[name] if box.elements]
        places = [self._place(name, box) for box in chunks]
        shape = self.shapes[name][1]
        whole = Box((0,) * len(shape), shape)
        if self._bytes(name, whole) <= limit and any(box.sizes[1:] != shape[1:] for box in chunks):
            return [_Block(name, whole, chunks, min(places))]
        return [_Block(name, box, [box], place) for box, place in zip(chunks, places, strict=True)]

    def _bytes(self, name: str, box: Box) -> int:
        return box.elements * self._dtype(name).itemsize

    def _read_metadata(self) -> Metadata:
        path = os.path.join(self._folder, _METADATA)
        with open(path, "rb") as file:
            try:
                metadata = _Unpickler(file).load()
            except OSError:
                raise
            except Exception as error:
                raise SafetensorError(f"{path} is no metadata of torch: {error}") from error
        if not isinstance(metadata, Metadata) or not isinstance(metadata.storage_data, dict):
            raise SafetensorError(f"{path} is no metadata of torch: it holds {type(metadata)}")
        return metadata

    def _add(self, name: str, stored: TensorStorageMetadata) -> None:
        shape = tuple(stored.size)
        try:
            wire = format_name(stored.properties.dtype)
        except SafetensorError as error:
            raise SafetensorError(f"tensor {name!r}: {error}") from None
        boxes = [Box(tuple(chunk.offsets), tuple(chunk.sizes)) for chunk in stored.chunks]
        for box in boxes:
            ends = [offset + size for offset, size in zip(*box, strict=True)]
            if (
                len(ends) != len(shape)
                or min((*box.offsets, *box.sizes), default=0) < 0
                or any(end > size for end, size in zip(ends, shape, strict=True))
            ):
                raise SafetensorError(
                    f"tensor {name!r} of shape {list(shape)} has a chunk at {list(box.offsets)} of"
                    f" shape {list(box.sizes)}"
                )
        held = [box for box in boxes if box.elements]
        if (fault := check_cover(held, shape)) is not None:
            raise SafetensorError(f"tensor {name!r} is not complete: {fault}")
        self.shapes[name] = wire, shape
        self._chunks[name] = boxes

    def _dtype(self, name: str) -> torch.dtype:
        stored = self._metadata.state_dict_metadata[name]
        assert isinstance(stored, TensorStorageMetadata)
        return stored.properties.dtype

    def _place(self, name: str, box: Box) -> tuple[str, int]:
        """Return the file and the offset of a chunk. The file is in the folder."""
        info = self._metadata.storage_data.get(MetadataIndex(name, box.offsets))
        if info is None:
            raise SafetensorError(
                f"{self._folder}/{_METADATA} names no file for tensor {name!r} at {list(box.offsets)}"
            )
        file = str(info.relative_path)
        if os.path.isabs(file) or ".." in file.split("/"):
            raise SafetensorError(
                f"{self._folder}/{_METADATA} names the file {file!r}, which is not in the folder"
            )
        return file, int(info.offset)

    def _read(self, batch: list[_Block]) -> Iterator[tuple[str, Box, torch.Tensor]]:
        tensors = [torch.empty(block.box.sizes, dtype=self._dtype(block.name)) for block in batch]
        targets: list[torch.Tensor] = []
        items: list[ReadItem] = []
        for block, tensor in zip(batch, tensors, strict=True):
            for chunk in block.chunks:
                items.append(_read_item(block.name, chunk, len(targets)))
                targets.append(_part_of(tensor, block.box, chunk))
        try:
            self._reader.read_data(LoadPlan(items), _Into(targets)).wait()
        except OSError:
            raise
        except Exception as error:
            named = ", ".join(dict.fromkeys(repr(block.name) for block in batch))
            raise SafetensorError(f"cannot read {named} from {self._folder}: {error}") from error
        targets.clear()
        for block in batch:
            yield block.name, block.box, tensors.pop(0)


def _part_of(tensor: torch.Tensor, box: Box, chunk: Box) -> torch.Tensor:
    """Return the elements of a chunk in a tensor that holds a box."""
    for dim, (offset, size) in enumerate(zip(*chunk, strict=True)):
        tensor = tensor.narrow(dim, offset - box.offsets[dim], size)
    return tensor


def _read_item(name: str, chunk: Box, index: int) -> ReadItem:
    """Return an item that reads a whole chunk into the target at `index`."""
    stored = MetadataIndex(name, chunk.offsets)
    zeros = torch.Size([0] * len(chunk.sizes))
    target = MetadataIndex(name, chunk.offsets, index)
    return ReadItem(LoadItemType.TENSOR, target, zeros, stored, zeros, torch.Size(chunk.sizes))


class _Into(LoadPlanner):
    """Gives torch's reader the tensors that it fills."""

    def __init__(self, targets: list[torch.Tensor]) -> None:
        self._targets = targets

    def set_up_planner(self, *args: Any, **kwargs: Any) -> None: ...

    def create_local_plan(self) -> LoadPlan:
        return LoadPlan([])

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return global_plan

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: Any) -> None: ...

    def resolve_tensor(self, read_item: ReadItem) -> torch.Tensor:
        return self._targets[read_item.dest_index.index or 0]

    def commit_tensor(self, read_item: ReadItem, tensor: torch.Tensor) -> None: ...
