"""Reads torch.distributed.checkpoint's own format: `.metadata` and `*.distcp`.

`metadata` checks `.metadata`. A chunk is a file of torch.save inside of a `*.distcp` file. Its
bytes are compared with the declared elements before memory is reserved. Then `torch_file` reads them.
No function of torch sees the files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import torch

from .._native import SafetensorError
from .._ranks.boxes import Box, relative
from .metadata import Place, SavedTensor, parse
from .torch_file import read_tensor

__all__ = ["DcpFiles", "is_dcp_folder"]

_METADATA = ".metadata"
_MAX_METADATA = 1 << 30  # bytes


def is_dcp_folder(folder: str) -> bool:
    """Return whether it is a folder with files of torch.distributed.checkpoint's own format.

    Raises SafetensorError if its `.metadata` is missing.
    """
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
    place: Place


class DcpFiles:
    """The tensors of a folder, and their chunks.

    `shapes`: the dtype of the format and the shape of each tensor. `others`: the names of values
    that are not tensors. Raises OSError, and SafetensorError for a file that torch has not written.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        path = os.path.join(self._folder, _METADATA)
        with _open_inside(self._folder, _METADATA) as file:
            # read(n) reserves n bytes, however small the file is.
            size = os.fstat(file.fileno()).st_size
            if size > _MAX_METADATA:
                raise SafetensorError(f"{path} has more than {_MAX_METADATA} bytes, the maximum")
            data = file.read(size)
        self._tensors: dict[str, SavedTensor]
        self._tensors, self.others = parse(data, path)
        self.shapes = {name: (found.wire, found.shape) for name, found in self._tensors.items()}

    def close(self) -> None:
        """Do nothing. Files are open only while a chunk is read."""

    def read(self, names: list[str], limit: int) -> Iterator[tuple[str, Box, torch.Tensor]]:
        """Yield blocks of tensors on the CPU, in the order of the files: a chunk, or a whole tensor.

        `limit`: maximum number of bytes of memory, unless a chunk has more than half of it. A chunk
        of columns is in memory twice while it is read. Raises SafetensorError, OSError.
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
        chunks = self._tensors[name].chunks
        shape = self._tensors[name].shape
        whole = Box((0,) * len(shape), shape)
        if self._bytes(name, whole) <= limit and any(box.sizes[1:] != shape[1:] for box in chunks):
            return [_Block(name, whole, list(chunks), min(chunks.values()))]
        return [_Block(name, box, [box], place) for box, place in chunks.items()]

    def _bytes(self, name: str, box: Box) -> int:
        return box.elements * self._tensors[name].dtype.itemsize

    def _read(self, batch: list[_Block]) -> Iterator[tuple[str, Box, torch.Tensor]]:
        tensors: list[torch.Tensor] = []
        for block in batch:
            for chunk in block.chunks:  # before memory for them is reserved
                self._open(block.name, chunk)[0].close()
            dtype = self._tensors[block.name].dtype
            tensors.append(torch.empty(block.box.sizes, dtype=dtype, device="cpu"))
            for chunk in block.chunks:
                self._load(block.name, chunk, tensors[-1][relative(chunk, block.box).slices])
        for block in batch:
            yield block.name, block.box, tensors.pop(0)

    def _open(self, name: str, chunk: Box) -> tuple[BinaryIO, int]:
        """Open the file of a chunk. Returns it and the bytes of the chunk: enough for its elements."""
        place = self._tensors[name].chunks[chunk]
        file = _open_inside(self._folder, place.file)
        end = min(place.offset + place.length, os.fstat(file.fileno()).st_size)
        held = max(0, end - place.offset)
        if held >= self._bytes(name, chunk):
            return file, held
        file.close()
        raise SafetensorError(
            f"cannot read {name!r} from {os.path.join(self._folder, place.file)}: its chunk at"
            f" {list(chunk.offsets)} needs {self._bytes(name, chunk)} bytes, and {held} are there"
        )

    def _load(self, name: str, chunk: Box, target: torch.Tensor) -> None:
        file, held = self._open(name, chunk)
        place = self._tensors[name].chunks[chunk]
        with file:
            try:
                read_tensor(file, place.offset, held, target)
            except ValueError as error:
                path = os.path.join(self._folder, place.file)
                raise SafetensorError(
                    f"cannot read {name!r} from {path}: the chunk at {list(chunk.offsets)}: {error}"
                ) from error


def _open_inside(folder: str, file: str) -> BinaryIO:
    """Open a regular file of a folder. Links must lead to files of the same folder."""
    path = os.path.join(folder, file)
    root, real = os.path.realpath(folder), os.path.realpath(path)
    if os.path.commonpath([root, real]) != root:
        raise SafetensorError(
            f"{path} is a link to {real!r}, which is not in the folder (copy the folder with the"
            " files, as by cp -rL, if you trust it)"
        )
    try:
        opened = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise SafetensorError(f"{path} is no regular file")
    return open(opened, "rb")
