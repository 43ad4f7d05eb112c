"""Turns the bytes of a `.metadata` of torch.distributed.checkpoint into checked values.

`.metadata` is a pickle. `records` makes records of it and runs no code of it. Afterwards, each
value is checked and copied out of the records.

The pickle may refer to one value many times, so a list of chunks could belong to each of many tensors.
The checks stop after as many values as the file has bytes. The limits of `records` and this one
bound the work to some steps per byte. The copies count as memory of the reading, which `records` bounds.
"""

from __future__ import annotations

import math
import os
import struct
from typing import Any, NamedTuple

import torch

from .._arrays.dtypes import format_name
from .._native import SafetensorError
from .._ranks.boxes import Box, check_cover
from .records import PER_ENTRY, PER_VALUE, Memory, Name, Record, read_records, shown

__all__ = ["Place", "SavedTensor", "parse"]

_OF_METADATA = "torch.distributed.checkpoint.metadata"
_NAMES = {
    *((_OF_METADATA, name) for name in ("Metadata", "MetadataIndex", "StorageMeta")),
    *((_OF_METADATA, name) for name in ("TensorStorageMetadata", "BytesStorageMetadata")),
    *((_OF_METADATA, name) for name in ("ChunkStorageMetadata", "TensorProperties")),
    (_OF_METADATA, "_MEM_FORMAT_ENCODING"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("torch", "Size"),
    ("collections", "OrderedDict"),
}
_DTYPES = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
_MAX_INT = 2**63 - 1
_MAX_DIMS = 64  # of torch
_MAX_QUOTED = 200  # characters of a name
_PER_SIZES = 4  # values that a torch.Size counts for, besides its dimensions

# Bytes of memory of the copies, for `Memory`.
_TUPLE = 64  # with up to 3 values; each other value has 8 bytes
_SET_ENTRY = 144  # the new table and the old one
_PLACE = 3 * _TUPLE + PER_ENTRY  # a Place, and its key: the name, and the packed offsets
# A Box is in two lists and in the dict of the chunks. check_cover has two positions of it per dimension: an
# int, a random int of 16 bytes, and an entry.
_BOX = _TUPLE + 2 * PER_VALUE + PER_ENTRY + 2 * (32 + 48 + PER_ENTRY) + 48 + PER_VALUE
_TENSOR = 512  # a SavedTensor, its dict and its lists, and the entries of it


class Place(NamedTuple):
    """The bytes of a chunk: a path relative to the folder, and a range of this file."""

    file: str
    offset: int
    length: int


class SavedTensor(NamedTuple):
    """A tensor, and its chunks that have elements, which hold each element once."""

    dtype: torch.dtype
    wire: str
    shape: tuple[int, ...]
    chunks: dict[Box, Place]


def parse(data: bytes, path: str) -> tuple[dict[str, SavedTensor], list[str]]:
    """Return the tensors by their names, and the names of other values.

    `path`: that of the file, for errors. Raises SafetensorError for bytes that torch has not written,
    for a tensor that is not complete, and for a file that is not in the folder.
    """
    memory = Memory(len(data))
    try:
        stored = _state(read_records(data, _check_name, memory), "Metadata")
        values = _field(stored, "state_dict_metadata", dict)
        places = _field(stored, "storage_data", dict)
    except ValueError as error:
        raise SafetensorError(f"{path} is no metadata of torch: {error}") from error
    try:
        return _Checked(len(data), memory).all(values, places)
    except (ValueError, SafetensorError) as error:
        raise SafetensorError(f"{path} is damaged: {error}") from error


def _check_name(module: str, name: str) -> None:
    known = (module, name) in _NAMES or (module == "torch" and name in _DTYPES)
    # The folder of the save is a path, and is not used.
    if not known and not (module in ("pathlib", "pathlib._local") and name.endswith("Path")):
        raise ValueError(
            f"it holds {shown(f'{module}.{name}')}, which torch does not write there: load the"
            " checkpoint with torch.distributed.checkpoint, and save it again"
        )


class _Checked:
    """Copies values out of records.

    `allowed`: the number of values that it copies at most. `memory` counts the copies.
    """

    def __init__(self, allowed: int, memory: Memory) -> None:
        self._remaining = allowed
        self._memory = memory
        # Texts and files that are right. The pickle may refer to a long one many times.
        self._texts: set[str] = set()
        self._files: set[str] = set()
        # By the name and the packed offsets: the hash of bytes has a secret, that of a tuple of ints has
        # none, so a stranger could choose tuples that all have the same one.
        self._places: dict[tuple[str, bytes | None], Place] = {}

    def all(
        self, values: dict[Any, Any], places: dict[Any, Any]
    ) -> tuple[dict[str, SavedTensor], list[str]]:
        """Return the tensors by their names, and the names of other values."""
        for index, info in places.items():
            self._add_place(index, info)
        tensors: dict[str, SavedTensor] = {}
        others: list[str] = []
        for name, value in values.items():
            if _is_a(value, "BytesStorageMetadata"):
                self._memory.take(PER_VALUE)
                others.append(self._text(name, "the name of a value"))
            else:
                self._text(name, "the name of a tensor")
                tensors[name] = self._tensor(name, _state(value, "TensorStorageMetadata"))
        return tensors, others

    def _tensor(self, name: str, state: dict[Any, Any]) -> SavedTensor:
        self._memory.take(_TENSOR)
        quoted = _quoted(name)
        try:
            dtype = _dtype(state.get("properties"))
            wire = format_name(dtype)
            shape = self._sizes(state.get("size"), "size")
            if math.prod(shape) > _MAX_INT:
                raise ValueError(f"it has more than {_MAX_INT} elements")
            boxes = [self._box(chunk) for chunk in _field(state, "chunks", list)]
        except (ValueError, SafetensorError) as error:
            raise ValueError(f"tensor {quoted}: {error}") from None
        for box in boxes:
            pairs = zip(*box, strict=False)
            if not len(box.offsets) == len(box.sizes) == len(shape) or any(
                offset + size > end for (offset, size), end in zip(pairs, shape, strict=True)
            ):
                raise ValueError(
                    f"tensor {quoted} of shape {list(shape)} has a chunk at {list(box.offsets)} of"
                    f" shape {list(box.sizes)}"
                )
        held = [box for box in boxes if box.elements]
        if (fault := check_cover(held, shape)) is not None:
            raise ValueError(f"tensor {quoted} is not complete: {fault}")
        for box in held:
            if (name, _packed(box.offsets)) not in self._places:
                raise ValueError(f"it names no file for tensor {quoted} at {list(box.offsets)}")
        chunks = {box: self._places[name, _packed(box.offsets)] for box in held}
        return SavedTensor(dtype, wire, shape, chunks)

    def _box(self, chunk: Any) -> Box:
        state = _state(chunk, "ChunkStorageMetadata")
        self._memory.take(_BOX)
        offsets = self._sizes(state.get("offsets"), "offsets")
        return Box(offsets, self._sizes(state.get("sizes"), "sizes"))

    def _add_place(self, index: Any, info: Any) -> None:
        """Remember the bytes of a chunk, by its name and its offsets."""
        self._memory.take(_PLACE)
        state = _state(index, "MetadataIndex")
        name = self._text(state.get("fqn"), "the name of a chunk")
        offsets = state.get("offset")
        quoted = _quoted(name)
        packed = None if offsets is None else _packed(self._sizes(offsets, f"tensor {quoted}: offset"))
        state = _state(info, "_StorageInfo")
        if state.get("transform_descriptors") not in (None, [], ()):
            raise ValueError(
                f"{quoted} is stored with transforms, such as a compression, which are not supported:"
                " load the checkpoint with torch.distributed.checkpoint, and save it without them"
            )
        file = self._file(state.get("relative_path"), f"the file of {quoted}")
        numbers = (_number(state.get(key), f"{key} of {quoted}") for key in ("offset", "length"))
        self._places[name, packed] = Place(file, *numbers)

    def _file(self, value: Any, what: str) -> str:
        file = self._text(value, what)
        if file not in self._files:
            if os.path.isabs(file) or "/../" in f"/{file}/" or "\0" in file or not file:
                raise ValueError(f"it names the file {shown(file)!r}, which is not in the folder")
            self._memory.take(_SET_ENTRY)
            self._files.add(file)
        return file

    def _sizes(self, value: Any, what: str) -> tuple[int, ...]:
        if type(value) is Record and value.name == ("torch", "Size"):
            value = value.args[0] if value.args else ()
        if type(value) not in (tuple, list) or len(value) > _MAX_DIMS:
            raise ValueError(f"{what} is no torch.Size of at most {_MAX_DIMS} dimensions")
        self._remaining -= _PER_SIZES + len(value)
        if self._remaining < 0:
            raise ValueError("it refers to the same values more often than torch does")
        self._memory.take(_TUPLE + 16 * len(value))  # with its packed form
        return tuple(_number(each, what) for each in value)

    def _text(self, value: Any, what: str) -> str:
        if type(value) is not str:
            raise ValueError(f"{what} is {type(value).__name__} instead of str")
        if value in self._texts:
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{what} is no valid UTF-8: {shown(value)}") from None
        self._memory.take(_SET_ENTRY)
        self._texts.add(value)
        return value


def _dtype(properties: Any) -> torch.dtype:
    if not _is_a(properties, "TensorProperties") or type(properties.state) is not tuple:
        raise ValueError("it has no properties")
    name = properties.state[0] if properties.state else None
    if type(name) is not Name or name.module != "torch" or name.name not in _DTYPES:
        raise ValueError("it has no dtype")
    return _DTYPES[name.name]


def _is_a(value: Any, name: str) -> bool:
    return type(value) is Record and value.name.name == name


def _state(value: Any, name: str) -> dict[Any, Any]:
    """Return the attributes of an object of a class of torch."""
    if not _is_a(value, name):
        found = shown(value.name.name) if type(value) is Record else type(value).__name__
        raise ValueError(f"it holds {found} instead of {name}")
    if type(value.state) is not dict:
        raise ValueError(f"it holds a {name} without attributes")
    return value.state


def _quoted(name: str) -> str:
    """Return a name for an error. A long one may be that of many chunks."""
    return repr(name[:_MAX_QUOTED])


def _field(state: dict[Any, Any], name: str, kind: type) -> Any:
    value = state.get(name)
    if type(value) is not kind:
        raise ValueError(f"{name} is {type(value).__name__} instead of {kind.__name__}")
    return value


def _packed(offsets: tuple[int, ...]) -> bytes:
    return struct.pack(f"<{len(offsets)}q", *offsets)


def _number(value: Any, what: str) -> int:
    if type(value) is not int:
        raise ValueError(f"{what} is {type(value).__name__} instead of int")
    if not 0 <= value <= _MAX_INT:
        raise ValueError(f"{what} is {value}, a number from 0 to {_MAX_INT} is expected")
    return value
