"""Reads the own format of torch.distributed.checkpoint: `.metadata` and `*.distcp`.

`_dcp_metadata` checks `.metadata`. A chunk is a file of torch.save inside of a `*.distcp` file. Its
bytes are compared with the declared elements before memory is reserved. Then
`torch.load(weights_only=True)` reads it whole.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, cast

import torch

from ._boxes import Box
from ._dcp_metadata import Place, SavedTensor, parse
from ._native import SafetensorError

__all__ = ["DcpFiles", "is_dcp_folder"]

_METADATA = ".metadata"
_MAX_METADATA = 1 << 30  # bytes
# weights_only=True of older releases runs code of the file: CVE-2025-32434.
_MIN_TORCH = (2, 6)


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
    place: Place


class DcpFiles:
    """The tensors of a folder, and their chunks.

    `shapes`: the dtype of the format and the shape of each tensor. `others`: the names of values
    that are not tensors. Raises OSError, and SafetensorError for a file that torch has not written,
    and for a torch whose `weights_only=True` is not safe.
    """

    def __init__(self, folder: Any) -> None:
        self._folder = os.fspath(folder)
        _check_torch(self._folder)
        path = os.path.join(self._folder, _METADATA)
        with _open_inside(self._folder, _METADATA) as file:
            data = file.read(_MAX_METADATA + 1)
        if len(data) > _MAX_METADATA:
            raise SafetensorError(f"{path} has more than {_MAX_METADATA} bytes, the maximum")
        self._tensors: dict[str, SavedTensor]
        self._tensors, self.others = parse(data, path)
        self.shapes = {name: (found.wire, found.shape) for name, found in self._tensors.items()}

    def close(self) -> None:
        """Do nothing. Files are open only while a chunk is read."""

    def read(self, names: list[str], limit: int) -> Iterator[tuple[str, Box, torch.Tensor]]:
        """Yield blocks of tensors on the CPU, in the order of the files: a chunk, or a whole tensor.

        `limit`: maximum number of bytes of memory, unless a chunk has more than half of it. A chunk
        is in memory twice while it is read. Raises SafetensorError, OSError.
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
                self._open(block.name, chunk).close()
            dtype = self._tensors[block.name].dtype
            tensors.append(torch.empty(block.box.sizes, dtype=dtype, device="cpu"))
            for chunk in block.chunks:
                self._load(block.name, chunk, _part_of(tensors[-1], block.box, chunk))
        for block in batch:
            yield block.name, block.box, tensors.pop(0)

    def _open(self, name: str, chunk: Box) -> _Part:
        """Return the bytes of a chunk, which are enough for its elements."""
        place = self._tensors[name].chunks[chunk]
        file = _open_inside(self._folder, place.file)
        end = min(place.offset + place.length, os.fstat(file.fileno()).st_size)
        held = max(0, end - place.offset)
        if held >= self._bytes(name, chunk):
            return _Part(file, place.offset, held)
        file.close()
        raise SafetensorError(
            f"cannot read {name!r} from {os.path.join(self._folder, place.file)}: its chunk at"
            f" {list(chunk.offsets)} needs {self._bytes(name, chunk)} bytes, and {held} are there"
        )

    def _load(self, name: str, chunk: Box, target: torch.Tensor) -> None:
        with self._open(name, chunk) as part:
            try:
                _check_zip(part)
                found = torch.load(cast(BinaryIO, part), map_location="cpu", weights_only=True)
                target.copy_(_checked(found, target))
            except (OSError, MemoryError):
                raise
            except Exception as error:
                path = os.path.join(self._folder, self._tensors[name].chunks[chunk].file)
                raise SafetensorError(
                    f"cannot read {name!r} from {path}: the chunk at {list(chunk.offsets)}: {error}"
                ) from error


def _check_torch(folder: str) -> None:
    numbers = torch.__version__.split(".")[:2]
    if tuple(int(number) for number in numbers) < _MIN_TORCH:
        raise SafetensorError(
            f"{folder} has files *.distcp, and torch {torch.__version__} may run code that they"
            " hold (CVE-2025-32434): install torch 2.6 or newer"
        )


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


class _Part(io.RawIOBase):
    """A range of a file, as a file. Owns the file."""

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self._file = file
        self._offset = offset
        self.size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise ValueError("the offset is before the chunk")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")[: max(0, self.size - self._at)]
        self._file.seek(self._offset + min(self._at, self.size))
        count: int = self._file.readinto(view)  # type: ignore[attr-defined]
        self._at += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _check_zip(part: _Part) -> None:
    """Refuse compressed entries: they need more memory than the file has bytes."""
    with zipfile.ZipFile(part) as archive:
        entries = archive.infolist()
    sizes = sum(entry.file_size for entry in entries)
    if sizes > part.size or any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError("it is compressed, which torch does not write")
    part.seek(0)


def _checked(found: Any, target: torch.Tensor) -> torch.Tensor:
    """Return a loaded chunk. It must be the declared one: it could be anything."""
    if type(found) not in (torch.Tensor, torch.nn.Parameter):
        raise ValueError(f"it holds {type(found).__name__}, no tensor")
    tensor: torch.Tensor = found.detach()
    if tensor.dtype != target.dtype or tensor.shape != target.shape:
        raise ValueError(
            f"it holds {tensor.dtype} of shape {list(tensor.shape)}, and {_METADATA} declares"
            f" {target.dtype} of shape {list(target.shape)}"
        )
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise ValueError(f"it holds a tensor of layout {tensor.layout} on {tensor.device}")
    if tensor.untyped_storage().nbytes() < target.numel() * target.itemsize:
        raise ValueError("it holds fewer elements than its shape has: its strides repeat them")
    return tensor


def _part_of(tensor: torch.Tensor, box: Box, chunk: Box) -> torch.Tensor:
    """Return the elements of a chunk in a tensor that holds a box."""
    for dim, (offset, size) in enumerate(zip(*chunk, strict=True)):
        tensor = tensor.narrow(dim, offset - box.offsets[dim], size)
    return tensor
