"""Makes a plain checkpoint of a folder in which each rank of torch has written its own files.

One process reads block after block of the tensors, and writes each to its place in the new files. So
it needs the memory of a few blocks, not of the model. A block is put together in memory from the
files of all ranks, because writing the columns of one rank would need one write per row.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import torch

from .._arrays.values import to_value
from .._base.options import Progress, to_bytes
from .._base.paths import to_path
from .._native import SafetensorError
from .._ranks.boxes import Box, relative
from .._ranks.pieces import Piece, read_pieces
from .._ranks.stored import Path, Stored, StoredTensor
from .._read.checkpoint import DEFAULT_BUDGET, Checkpoint
from .._read.requests import Rename, missing, rename_all, select
from .._types import Durability
from .._write.save_checkpoint import DEFAULT_SHARD_SIZE, CheckpointWriter
from .files import DcpFiles, is_dcp_folder

__all__ = ["consolidate"]

_MAX_NAMED = 8  # values that an error names
# A name, the place of the chunk in the tensor, and its elements, or the checkpoint that holds the whole tensor.
_Chunk = tuple[str, Box, Any]


class _Source(Protocol):
    """The tensors of a folder.

    `shapes`: the dtype of the format and the shape in torch of each tensor. `others`: the names of
    other values.
    """

    shapes: dict[str, tuple[str, tuple[int, ...]]]
    others: list[str]

    def read(self, names: list[str], limit: int) -> Iterator[_Chunk]: ...
    def close(self) -> None: ...


def consolidate(
    path_in: Path,
    path_out: Path,
    *,
    keys: Iterable[str] | None = None,
    rename: Rename | None = None,
    max_shard_size: int | str = DEFAULT_SHARD_SIZE,
    metadata: Mapping[str, str] | None = None,
    new_folder: bool = False,
    remove_old_files: bool = True,
    durability: Durability = "full",
    memory_limit: int | str = DEFAULT_BUDGET,
    progress: bool | Progress | None = False,
    skip_others: bool = False,
) -> list[str]:
    """Make a plain checkpoint of a folder that torch.distributed.checkpoint has written.

    `path_in`: a folder that `dcp.save` left with its own writer (`.metadata` and `*.distcp`), or
    with `HuggingFaceStorageWriter(save_distributed=True)`. Any other checkpoint that StorageReader
    reads is split again. `path_out`: the folder of the new files, different from `path_in`.
    `keys`: names and patterns such as "model.*". None stands for all.
    `rename`: new names, by a dict or a function.
    `skip_others`: leave out values that are not tensors. Otherwise, they are a SafetensorError.
    `memory_limit`: maximum number of bytes of chunks in memory: a number, or a text such as "1GiB".
    A chunk of a `*.distcp` is read whole, whatever the limit.
    `metadata`: the metadata of each file. The default is {"format": "pt"}, which transformers needs.
    `max_shard_size`, `new_folder`, `remove_old_files`, `durability`, `progress`: as in
    `save_checkpoint`.

    Returns the names of the values that were left out because they are not tensors. Runs in one
    process, without a process group. The tensors are in the order of their names, so the files do not
    depend on the number of ranks. A hostile file runs no code and changes nothing. Raises
    SafetensorError, MissingTensorError for a key without a match, OSError, ValueError,
    KeyboardInterrupt. After an error, `path_out` has its old files, or does not exist if it did not
    exist before.
    """
    limit = to_bytes(memory_limit, "memory_limit") or DEFAULT_BUDGET
    if limit < 0:
        raise ValueError(f"memory_limit is {memory_limit!r}: give a number of bytes, or a text")
    folder = to_path(path_in, "path_in")
    _check_folders(folder, to_path(path_out, "path_out"))
    source: _Source = DcpFiles(folder) if is_dcp_folder(folder) else _StoredFiles(folder)
    try:
        names, left_out = _chosen(source, keys, skip_others)
        renamed = dict(zip(names, rename_all(_Names(names), names, rename), strict=True))
        with CheckpointWriter(
            path_out,
            {renamed[name]: _format_shape(*source.shapes[name]) for name in names},
            max_shard_size=max_shard_size,
            metadata={"format": "pt"} if metadata is None else metadata,
            new_folder=new_folder,
            remove_old_files=remove_old_files,
            durability=durability,
            progress=progress,
        ) as writer:
            for chunk in source.read(names, limit):
                _write(writer, renamed[chunk[0]], source.shapes[chunk[0]][0], chunk)
                del chunk
    finally:
        source.close()
    return left_out


def _check_folders(path_in: str, path_out: str) -> None:
    os.stat(path_in)  # raises FileNotFoundError with the path
    if os.path.exists(path_out) and os.path.samefile(path_in, path_out):
        raise ValueError(f"path_out is path_in, {path_in!r}: give another folder")
    # A file or an index in path_out would be replaced while it is read.
    for path in (os.path.abspath(path_in), os.path.realpath(path_in)):
        folder = os.path.dirname(path)
        if not os.path.isdir(path) and os.path.realpath(folder) == os.path.realpath(path_out):
            raise ValueError(
                f"path_in, {path_in!r}, is in path_out, {path_out!r}, whose files"
                " are replaced: give another folder"
            )


class _Names:
    """A list of names in the form that `select` and `rename_all` take."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._set = set(names)

    def names(self) -> list[str]:
        return self._names

    def __contains__(self, name: object) -> bool:
        return name in self._set


def _chosen(
    source: _Source, keys: Iterable[str] | None, skip_others: bool
) -> tuple[list[str], list[str]]:
    """Return the names of the tensors, sorted, and those of the values to leave out."""
    others = set(source.others)
    chosen = select(_Names(sorted([*source.shapes, *others])), keys)
    for name in chosen:
        if name not in source.shapes and name not in others:
            raise missing(f"keys: there is no tensor {name!r}", name)
    left_out = sorted(name for name in chosen if name in others)
    if left_out and not skip_others:
        shown = ", ".join(repr(name) for name in left_out[:_MAX_NAMED])
        more = f" and {len(left_out) - _MAX_NAMED} more" if len(left_out) > _MAX_NAMED else ""
        raise SafetensorError(
            f"a safetensors file holds tensors only, and these values are none: {shown}{more}"
            " (skip_others=True leaves them out, keys=[...] chooses names)"
        )
    return sorted(name for name in chosen if name not in others), left_out


def _format_shape(wire: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Return the dtype and the shape in the file. torch counts pairs of F4."""
    return wire, (*shape[:-1], 2 * shape[-1]) if wire == "F4" and shape else shape


def _write(writer: CheckpointWriter, new: str, wire: str, chunk: _Chunk) -> None:
    name, box, elements = chunk
    if isinstance(elements, Checkpoint):
        writer.copy(new, elements, name)
        return
    _, offsets = _format_shape(wire, box.offsets)
    _, sizes = _format_shape(wire, box.sizes)
    writer._native.write_slice(new, offsets, sizes, to_value(elements, new, wire))


class _StoredFiles:
    """A folder with safetensors files, of many ranks or of one."""

    def __init__(self, path: str) -> None:
        self._stored = Stored.open(path)
        self.shapes = {tensor.name: (tensor.wire, tensor.shape) for tensor in self._stored}
        self.others: list[str] = []

    def close(self) -> None:
        self._stored.close()

    def read(self, names: list[str], limit: int) -> Iterator[_Chunk]:
        """Yield whole tensors that are in one file, and blocks of the others, put together."""
        batch: list[tuple[StoredTensor, Box]] = []
        held = 0
        for name in names:
            tensor = self._stored.tensors[name]
            parts = [part for part in tensor.parts.values() if part.box.elements]
            if len(parts) == 1:
                yield name, parts[0].box, parts[0].checkpoint
            if len(parts) < 2:
                continue
            for box, size in _blocks(tensor, limit // 4):
                if batch and held + size > limit // 2:
                    yield from _read(batch, limit // 4)
                    batch, held = [], 0
                batch.append((tensor, box))
                held += size
        yield from _read(batch, limit // 4)


def _blocks(tensor: StoredTensor, limit: int) -> Iterator[tuple[Box, int]]:
    """Yield the adjacent blocks of a tensor, and their sizes in bytes."""
    if tensor.dtype is None:
        raise SafetensorError(f"tensor {tensor.name!r} has dtype {tensor.wire}, which torch lacks")
    whole = Box((0,) * len(tensor.shape), tensor.shape)
    for box in _cut(whole, limit, tensor.dtype.itemsize):
        yield box, box.elements * tensor.dtype.itemsize


def _read(batch: list[tuple[StoredTensor, Box]], limit: int) -> Iterator[_Chunk]:
    """Yield blocks. Their elements come from all files by one read plan per file."""
    blocks = [torch.empty(box.sizes, dtype=tensor.dtype, device="cpu") for tensor, box in batch]
    pieces: list[Piece] = []
    for index, (tensor, box) in enumerate(batch):
        for part, common in tensor.parts_of(box):
            offsets = relative(common, part.box).offsets
            target = blocks[index][relative(common, box).slices]
            pieces.append(Piece(tensor, part.checkpoint, offsets, target, index))
    read_pieces(pieces, None, None, threads=0, memory_limit=limit, cache="keep")
    pieces.clear()
    for tensor, box in batch:
        yield tensor.name, box, blocks.pop(0)


def _cut(box: Box, limit: int, itemsize: int) -> Iterator[Box]:
    """Yield adjacent pieces of a box with at most `limit` bytes, or with one element."""
    size = box.elements * itemsize
    dim = next((dim for dim, count in enumerate(box.sizes) if count > 1), None)
    if size <= limit or dim is None:
        yield box
        return
    count = box.sizes[dim]
    step = max(1, limit * count // size)
    for begin in range(0, count, step):
        offsets, sizes = list(box.offsets), list(box.sizes)
        offsets[dim] += begin
        sizes[dim] = min(step, count - begin)
        yield from _cut(Box(tuple(offsets), tuple(sizes)), limit, itemsize)
