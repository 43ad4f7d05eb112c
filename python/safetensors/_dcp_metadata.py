"""Turns the bytes of a `.metadata` of torch.distributed.checkpoint into checked values.

`.metadata` is a pickle. The unpickler here knows only the opcodes that torch writes. It never
returns a class, a function or an instance of one: each is a record of a name and its arguments.
Afterwards, each value is checked and copied out of the records. So the bytes call and change nothing.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, NoReturn

import torch

from ._boxes import Box, check_cover
from ._dtypes import format_name
from ._native import SafetensorError

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
_OPCODES = (
    "PROTO FRAME STOP MARK POP POP_MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT"
    " BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES EMPTY_TUPLE TUPLE TUPLE1 TUPLE2"
    " TUPLE3 EMPTY_LIST EMPTY_DICT BINGET LONG_BINGET BINPUT LONG_BINPUT MEMOIZE GLOBAL STACK_GLOBAL"
)
_MAX_INT = 2**63 - 1
_MAX_DIMS = 64  # of torch
_MAX_SHOWN = 200  # characters of a text of the file in an error


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


class _Name(NamedTuple):
    """A class or a function that the pickle names."""

    module: str
    name: str


class _Record:
    """An object that the pickle describes: the name of its class, its arguments and its state."""

    __slots__ = ("args", "name", "state")

    def __init__(self, name: _Name, args: tuple[Any, ...]) -> None:
        self.name = name
        self.args = args
        self.state: Any = None


class _Opcodes(dict[int, Callable[[Any], None]]):
    """The functions of the opcodes."""

    def __missing__(self, opcode: int) -> NoReturn:
        raise ValueError(f"it has the opcode {opcode:#04x}, which torch does not write there")


class _Unpickler(pickle._Unpickler):
    """Makes records, dicts, lists, tuples, texts and numbers. Its memo is a dict, not an array."""

    dispatch: ClassVar[Any] = _Opcodes(
        (code, pickle._Unpickler.dispatch[code])
        for code in (getattr(pickle, name)[0] for name in _OPCODES.split())
    )
    stack: list[Any]
    pop_mark: Callable[[], list[Any]]

    def find_class(self, module: str, name: str) -> _Name:
        known = (module, name) in _NAMES or (module == "torch" and name in _DTYPES)
        # The folder of the save is a path, and is not used.
        if not known and not (module in ("pathlib", "pathlib._local") and name.endswith("Path")):
            raise ValueError(
                f"it holds {_shown(f'{module}.{name}')}, which torch does not write there: load the"
                " checkpoint with torch.distributed.checkpoint, and save it again"
            )
        return _Name(module, name)

    def _top(self, kind: type) -> Any:
        if type(self.stack[-1]) is not kind:
            raise ValueError(f"it changes an object that is no {kind.__name__.strip('_').lower()}")
        return self.stack[-1]

    def load_call(self) -> None:
        """REDUCE and NEWOBJ."""
        args = self.stack.pop()
        name = self._top(_Name)
        if type(args) is not tuple:
            raise ValueError("it has arguments that are no tuple")
        empty = name == ("collections", "OrderedDict") and not args
        self.stack[-1] = {} if empty else _Record(name, args)

    def load_build(self) -> None:
        state = self.stack.pop()
        record = self._top(_Record)
        if record.state is not None:
            raise ValueError("it gives an object two states")
        record.state = state

    def load_append(self) -> None:
        value = self.stack.pop()
        self._top(list).append(value)

    def load_appends(self) -> None:
        values = self.pop_mark()
        self._top(list).extend(values)

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def load_setitems(self) -> None:
        self._set(self.pop_mark())

    def _set(self, pairs: list[Any]) -> None:
        target = self._top(dict)
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if type(key) not in (str, int, _Record):  # the hash of a deep tuple ends the process
                raise ValueError(f"it has a dict with a key of type {type(key).__name__}")
            target[key] = value


_Unpickler.dispatch.update(
    {
        pickle.REDUCE[0]: _Unpickler.load_call,
        pickle.NEWOBJ[0]: _Unpickler.load_call,
        pickle.BUILD[0]: _Unpickler.load_build,
        pickle.APPEND[0]: _Unpickler.load_append,
        pickle.APPENDS[0]: _Unpickler.load_appends,
        pickle.SETITEM[0]: _Unpickler.load_setitem,
        pickle.SETITEMS[0]: _Unpickler.load_setitems,
    }
)


def parse(data: bytes, path: str) -> tuple[dict[str, SavedTensor], list[str]]:
    """Return the tensors by their names, and the names of other values.

    `path`: that of the file, for errors. Raises SafetensorError for bytes that torch has not written,
    for a tensor that is not complete, and for a file that is not in the folder.
    """
    try:
        record = _Unpickler(io.BytesIO(data)).load()
        stored = _state(record, "Metadata")
        values = _field(stored, "state_dict_metadata", dict)
        places = _field(stored, "storage_data", dict)
    except MemoryError:
        raise
    except Exception as error:
        text = str(error) or type(error).__name__
        raise SafetensorError(f"{path} is no metadata of torch: {text}") from error
    tensors: dict[str, SavedTensor] = {}
    others: list[str] = []
    try:
        found = dict(_place(index, info) for index, info in places.items())
        for name, value in values.items():
            if _is_a(value, "BytesStorageMetadata"):
                others.append(_text(name, "the name of a value"))
            else:
                _text(name, "the name of a tensor")
                tensors[name] = _tensor(name, _state(value, "TensorStorageMetadata"), found)
    except (ValueError, SafetensorError) as error:
        raise SafetensorError(f"{path} is damaged: {error}") from error
    return tensors, others


def _tensor(
    name: str, state: dict[Any, Any], places: dict[tuple[str, tuple[int, ...] | None], Place]
) -> SavedTensor:
    try:
        dtype = _dtype(state.get("properties"))
        wire = format_name(dtype)
        shape = _sizes(state.get("size"), "size")
        boxes = [_box(chunk) for chunk in _field(state, "chunks", list)]
    except (ValueError, SafetensorError) as error:
        raise ValueError(f"tensor {name!r}: {error}") from None
    for box in boxes:
        pairs = zip(*box, strict=False)
        if not len(box.offsets) == len(box.sizes) == len(shape) or any(
            offset + size > end for (offset, size), end in zip(pairs, shape, strict=True)
        ):
            raise ValueError(
                f"tensor {name!r} of shape {list(shape)} has a chunk at {list(box.offsets)} of shape"
                f" {list(box.sizes)}"
            )
    held = [box for box in boxes if box.elements]
    if (fault := check_cover(held, shape)) is not None:
        raise ValueError(f"tensor {name!r} is not complete: {fault}")
    for box in held:
        if (name, box.offsets) not in places:
            raise ValueError(f"it names no file for tensor {name!r} at {list(box.offsets)}")
    return SavedTensor(dtype, wire, shape, {box: places[name, box.offsets] for box in held})


def _dtype(properties: Any) -> torch.dtype:
    if not _is_a(properties, "TensorProperties") or type(properties.state) is not tuple:
        raise ValueError("it has no properties")
    name = properties.state[0] if properties.state else None
    if type(name) is not _Name or name.module != "torch" or name.name not in _DTYPES:
        raise ValueError("it has no dtype")
    return _DTYPES[name.name]


def _box(chunk: Any) -> Box:
    state = _state(chunk, "ChunkStorageMetadata")
    return Box(_sizes(state.get("offsets"), "offsets"), _sizes(state.get("sizes"), "sizes"))


def _place(index: Any, info: Any) -> tuple[tuple[str, tuple[int, ...] | None], Place]:
    """Return the key of a chunk, a name and its offsets, and the bytes."""
    state = _state(index, "MetadataIndex")
    name = _text(state.get("fqn"), "the name of a chunk")
    offsets = state.get("offset")
    key = name, None if offsets is None else _sizes(offsets, f"tensor {name!r}: offset")
    state = _state(info, "_StorageInfo")
    if state.get("transform_descriptors") not in (None, [], ()):
        raise ValueError(
            f"{name!r} is stored with transforms, such as a compression, which are not supported: load"
            " the checkpoint with torch.distributed.checkpoint, and save it without them"
        )
    file = _text(state.get("relative_path"), f"the file of {name!r}")
    if os.path.isabs(file) or ".." in file.split("/") or "\0" in file or not file:
        raise ValueError(f"it names the file {_shown(file)!r}, which is not in the folder")
    numbers = (_number(state.get(key), f"{key} of {name!r}") for key in ("offset", "length"))
    return key, Place(file, *numbers)


def _is_a(value: Any, name: str) -> bool:
    return type(value) is _Record and value.name.name == name


def _state(value: Any, name: str) -> dict[Any, Any]:
    """Return the attributes of an object of a class of torch."""
    if not _is_a(value, name):
        found = _shown(value.name.name) if type(value) is _Record else type(value).__name__
        raise ValueError(f"it holds {found} instead of {name}")
    if type(value.state) is not dict:
        raise ValueError(f"it holds a {name} without attributes")
    return value.state


def _field(state: dict[Any, Any], name: str, kind: type) -> Any:
    value = state.get(name)
    if type(value) is not kind:
        raise ValueError(f"{name} is {type(value).__name__} instead of {kind.__name__}")
    return value


def _sizes(value: Any, what: str) -> tuple[int, ...]:
    if type(value) is _Record and value.name == ("torch", "Size"):
        value = value.args[0] if value.args else ()
    if type(value) not in (tuple, list) or len(value) > _MAX_DIMS:
        raise ValueError(f"{what} is no torch.Size of at most {_MAX_DIMS} dimensions")
    return tuple(_number(each, what) for each in value)


def _number(value: Any, what: str) -> int:
    if type(value) is not int:
        raise ValueError(f"{what} is {type(value).__name__} instead of int")
    if not 0 <= value <= _MAX_INT:
        raise ValueError(f"{what} is {value}, a number from 0 to {_MAX_INT} is expected")
    return value


def _text(value: Any, what: str) -> str:
    if type(value) is not str:
        raise ValueError(f"{what} is {type(value).__name__} instead of str")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} is no valid UTF-8: {_shown(value)}") from None
    return value


def _shown(text: str) -> str:
    return text[:_MAX_SHOWN].encode("unicode_escape").decode()
