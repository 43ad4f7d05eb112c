"""Reads a pickle of torch as records, and runs no code of the pickle.

A class or a function becomes a Name, and a call of it a Record of the arguments. The reader knows the
opcodes that torch writes. It takes one step per opcode, so at most one per byte.

An opcode of one byte can make an object of 200 bytes. So `Memory` counts each object before it is made,
and ends the reading at 64 bytes per byte of the pickle and 1 MiB. Files that torch writes count up to
25 bytes per byte. Two limits bound the stack, which the count includes in full: 65,536 values and 1,000
marks.
"""

from __future__ import annotations

import pickle
import struct
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from .._native import _printable

__all__ = ["PER_ENTRY", "PER_VALUE", "Memory", "Name", "Record", "read_records", "shown"]

_MAX_KEY = 1 << 31  # of a dict, if it is an int
# pickle writes dicts and lists in batches of 1000 entries.
_MAX_VALUES = 1 << 16
_MAX_MARKS = 1000
_MAX_SHOWN = 200  # characters of a text of the file in an error

_PER_BYTE = 64
_EXTRA = 1 << 20
# A list of n values has up to 9 n bytes. While it grows, the old memory may exist beside the new one.
PER_VALUE = 18
# The same for a dict: its table has up to 60 bytes per entry after it has grown, and 30 before.
PER_ENTRY = 96
_FEW_ENTRIES = 5  # the first table of a dict
_PER_STACK_VALUE = PER_VALUE + 16  # its copy above a mark, and the copies of keys and values
_STACK_STEP = 1 << 10  # values
_FIXED = 1 << 16  # the marks, and the objects of the reader
# A text: its bytes, the memory of the decoder, and up to 4 bytes per character.
_TEXT, _PER_CHARACTER = 128, 8


class Name(NamedTuple):
    """A class or a function that the pickle names."""

    module: str
    name: str


class Record:
    """An object that the pickle describes: the name of its class, its arguments and its state."""

    __slots__ = ("args", "name", "state")

    def __init__(self, name: Name, args: tuple[Any, ...]) -> None:
        self.name = name
        self.args = args
        self.state: Any = None


class Memory:
    """Counts the bytes of memory that reading a pickle takes, before they are taken.

    The limit is 64 bytes per byte of the pickle and 1 MiB, with the pickle itself. Memory that was
    freed still counts. So the memory in use never exceeds this count.
    """

    def __init__(self, size: int) -> None:
        self._limit = _PER_BYTE * size + _EXTRA
        self._remaining = self._limit - size - _FIXED

    def take(self, size: int) -> None:
        """Count bytes. Raises ValueError at the limit."""
        self._remaining -= size
        if self._remaining < 0:
            raise ValueError(
                f"its values take more than {self._limit} bytes of memory, {_PER_BYTE} per byte"
            )


def read_records(
    data: bytes, check: Callable[[str, str], None], memory: Memory | None = None
) -> Any:
    """Return the value: records, dicts, lists, tuples, texts, bytes and numbers.

    `check(module, name)` raises ValueError for a name that is not expected. A persistent id
    becomes a Record with the name "persistent.id". `memory` counts the objects, and is new if it is
    None.
    Raises ValueError, also for bytes that end too early.
    """
    reader = _Reader(data, check, Memory(len(data)) if memory is None else memory)
    try:
        return reader.read()
    except (IndexError, struct.error):
        raise ValueError("it ends too early, or takes a value that is not there") from None


def shown(text: str) -> str:
    """Return a text of a stranger for an error."""
    return _printable(text[:_MAX_SHOWN])


class _Reader:
    def __init__(self, data: bytes, check: Callable[[str, str], None], memory: Memory) -> None:
        self._data = data
        self._spend = memory.take
        self._check = check
        self._at = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self._memo: list[Any] = []
        self._counted = 0  # values of the stack

    def read(self) -> Any:
        stack, data, stop = self.stack, self._data, pickle.STOP[0]
        spend, cost_of = self._spend, _COSTS.get
        while (code := data[self._at]) != stop:
            self._at += 1
            step = _STEPS.get(code)
            if step is None:
                raise ValueError(
                    f"it has the opcode {code:#04x}, which torch does not write there"
                )
            if cost := cost_of(code):
                spend(cost)
            step(self)
            if len(stack) > self._counted:
                self._count_stack()
        return stack.pop()

    def _count_stack(self) -> None:
        if self._counted == _MAX_VALUES:
            raise ValueError(f"it has more than {_MAX_VALUES} values at once")
        self._spend(_PER_STACK_VALUE * _STACK_STEP)
        self._counted += _STACK_STEP

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise IndexError
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def take_large(self, size: int) -> bytes:
        """Return bytes that become a text, bytes or an int. Their objects are counted first."""
        if size > len(self._data) - self._at:
            raise IndexError
        self._spend(_TEXT + _PER_CHARACTER * size)
        return self.take(size)

    def byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def unsigned(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def line(self) -> str:
        end = self._data.find(b"\n", self._at)
        size = (len(self._data) if end < 0 else end) - self._at
        text = self.take_large(size)
        self.take(1)
        return text.decode()

    def mark(self) -> None:
        if len(self.marks) >= _MAX_MARKS:
            raise ValueError(f"it has more than {_MAX_MARKS} marks at once")
        self.marks.append(len(self.stack))

    def pop_mark(self) -> list[Any]:
        """Return the values above the last mark, and remove them."""
        begin = self.marks.pop()
        values = self.stack[begin:]
        del self.stack[begin:]
        return values

    def long_tuple(self) -> None:
        """TUPLE."""
        values = self.pop_mark()
        if values:
            self._spend(_TUPLE + 8 * len(values))
        self.stack.append(tuple(values))

    def tuple_of(self, count: int) -> None:
        if count > len(self.stack):
            raise IndexError
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def put(self, index: int) -> None:
        """Remember the last value. pickle counts from 0 on."""
        if index > len(self._memo):
            raise ValueError(f"it gives a value the number {index} before {len(self._memo)}")
        self._memo[index : index + 1] = self.stack[-1:]

    def memoize(self) -> None:
        self._memo.append(self.stack[-1])

    def get_near(self) -> None:
        """BINGET."""
        self.stack.append(self._memo[self.byte()])

    def get_far(self) -> None:
        """LONG_BINGET."""
        self.stack.append(self._memo[self.unsigned(4)])

    def near_text(self) -> None:
        """SHORT_BINUNICODE."""
        self.stack.append(str(self.take_large(self.byte()), "utf-8", "surrogatepass"))

    def small_int(self) -> None:
        """BININT1."""
        self.stack.append(self.byte())

    def name(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise ValueError("it has a name that is no text")
        self._check(module, name)
        self._spend(_NAME)
        self.stack.append(Name(module, name))

    def stack_name(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.name(module, name)

    def persistent(self) -> None:
        value = self.stack.pop()
        self.name("persistent", "id")
        self._spend(_RECORD + _size((value,)))
        self.stack[-1] = Record(self.stack[-1], (value,))

    def top(self, kind: type) -> Any:
        if type(self.stack[-1]) is not kind:
            raise ValueError(f"it changes an object that is no {kind.__name__.lower()}")
        return self.stack[-1]

    def call(self) -> None:
        """REDUCE and NEWOBJ."""
        args = self.stack.pop()
        name = self.top(Name)
        if type(args) is not tuple:
            raise ValueError("it has arguments that are no tuple")
        empty = name == ("collections", "OrderedDict") and not args
        self._spend(_DICT if empty else _RECORD)
        self.stack[-1] = {} if empty else Record(name, args)

    def build(self) -> None:
        state = self.stack.pop()
        record = self.top(Record)
        if record.state is not None:
            raise ValueError("it gives an object two states")
        record.state = state

    def append(self) -> None:
        value = self.stack.pop()
        self.top(list).append(value)

    def extend(self) -> None:
        values = self.pop_mark()
        self._spend(PER_VALUE * len(values))
        self.top(list).extend(values)

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_all([key, value])

    def set_all(self, pairs: list[Any]) -> None:
        target = self.top(dict)
        old, new = len(target), len(target) + len(pairs) // 2
        if new > _FEW_ENTRIES:
            self._spend(PER_ENTRY * (new - (old if old > _FEW_ENTRIES else 0)))
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            # The hash of a deep tuple ends the process. The hash of an int has no secret: a stranger
            # can choose large ints that all have the same one.
            if type(key) not in (str, Record) and not (type(key) is int and abs(key) < _MAX_KEY):
                raise ValueError(f"it has a dict with a key of type {type(key).__name__}")
            target[key] = value

    def check_protocol(self) -> None:
        if (version := self.byte()) > 5:
            raise ValueError(f"it has the protocol {version}, and torch writes at most 5")


def _push(make: Callable[[_Reader], Any]) -> Callable[[_Reader], None]:
    return lambda reader: reader.stack.append(make(reader))


def _text(size: int) -> Callable[[_Reader], None]:
    """Push a text whose length has `size` bytes."""
    return _push(lambda r: str(r.take_large(r.unsigned(size)), "utf-8", "surrogatepass"))


def _size(value: Any) -> int:
    """Return the bytes of an object. An allocator gives multiples of 16."""
    return (sys.getsizeof(value) + 15) // 16 * 16


def _grown_list() -> list[None]:
    made: list[None] = []
    made.append(None)
    return made


_NAME, _RECORD = _size(Name("", "")), _size(Record(Name("", ""), ()))
_LIST, _DICT, _TUPLE = _size(_grown_list()), _size({0: None}), _size((None,))

# The bytes of memory of the opcodes that always make the same objects. A list and a dict count with
# the memory for their first values. The other steps count their own objects.
_COSTS: dict[int, int] = {
    code[0]: cost
    for code, cost in {
        pickle.BININT: _size(1 << 31),
        pickle.BININT2: _size(1 << 16),
        pickle.BINFLOAT: _size(0.5),
        pickle.TUPLE1: _size((0,)),
        pickle.TUPLE2: _size((0, 0)),
        pickle.TUPLE3: _size((0, 0, 0)),
        pickle.EMPTY_LIST: _LIST,
        pickle.EMPTY_DICT: _DICT,
        pickle.BINPUT: PER_VALUE,
        pickle.LONG_BINPUT: PER_VALUE,
        pickle.MEMOIZE: PER_VALUE,
        pickle.APPEND: PER_VALUE,
    }.items()
}

_STEPS: dict[int, Callable[[_Reader], Any]] = {
    code[0]: step
    for code, step in {
        pickle.PROTO: _Reader.check_protocol,
        pickle.FRAME: lambda r: r.take(8),  # how many bytes to read at once: they are here
        pickle.MARK: _Reader.mark,
        pickle.POP: lambda r: r.stack.pop(),
        pickle.POP_MARK: _Reader.pop_mark,
        pickle.NONE: _push(lambda r: None),
        pickle.NEWTRUE: _push(lambda r: True),
        pickle.NEWFALSE: _push(lambda r: False),
        pickle.BININT: _push(lambda r: int.from_bytes(r.take(4), "little", signed=True)),
        pickle.BININT1: _Reader.small_int,
        pickle.BININT2: _push(lambda r: r.unsigned(2)),
        pickle.LONG1: _push(
            lambda r: int.from_bytes(r.take_large(r.byte()), "little", signed=True)
        ),
        pickle.BINFLOAT: _push(lambda r: struct.unpack(">d", r.take(8))[0]),
        pickle.BINUNICODE: _text(4),
        pickle.SHORT_BINUNICODE: _Reader.near_text,
        pickle.BINUNICODE8: _text(8),
        pickle.BINBYTES: _push(lambda r: r.take_large(r.unsigned(4))),
        pickle.SHORT_BINBYTES: _push(lambda r: r.take_large(r.byte())),
        pickle.EMPTY_TUPLE: _push(lambda r: ()),
        pickle.TUPLE: _Reader.long_tuple,
        pickle.TUPLE1: lambda r: r.tuple_of(1),
        pickle.TUPLE2: lambda r: r.tuple_of(2),
        pickle.TUPLE3: lambda r: r.tuple_of(3),
        pickle.EMPTY_LIST: _push(lambda r: []),
        pickle.EMPTY_DICT: _push(lambda r: {}),
        pickle.BINGET: _Reader.get_near,
        pickle.LONG_BINGET: _Reader.get_far,
        pickle.BINPUT: lambda r: r.put(r.byte()),
        pickle.LONG_BINPUT: lambda r: r.put(r.unsigned(4)),
        pickle.MEMOIZE: _Reader.memoize,
        pickle.GLOBAL: lambda r: r.name(r.line(), r.line()),
        pickle.STACK_GLOBAL: _Reader.stack_name,
        pickle.BINPERSID: _Reader.persistent,
        pickle.REDUCE: _Reader.call,
        pickle.NEWOBJ: _Reader.call,
        pickle.BUILD: _Reader.build,
        pickle.APPEND: _Reader.append,
        pickle.APPENDS: _Reader.extend,
        pickle.SETITEM: _Reader.set_item,
        pickle.SETITEMS: lambda r: r.set_all(r.pop_mark()),
    }.items()
}
