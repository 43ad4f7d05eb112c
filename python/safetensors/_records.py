"""Reads a pickle of torch as records, and calls nothing.

A class or a function becomes a Name, and a call of it a Record of the arguments. The reader knows the
opcodes that torch writes. It takes one step per opcode, so at most one per byte. Every opcode makes at
most one small object. Two limits bound the objects that exist only on the stack: 65,536 values and
1,000 marks. `_dcp_metadata` states the memory per byte that follows.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Name", "Record", "read_records", "shown"]

_MAX_KEY = 1 << 31  # of a dict, if it is an int
# pickle writes dicts and lists in batches of 1000 entries.
_MAX_VALUES = 1 << 16
_MAX_MARKS = 1000
_MAX_SHOWN = 200  # characters of a text of the file in an error


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


def read_records(data: bytes, check: Callable[[str, str], None]) -> Any:
    """Return the value: records, dicts, lists, tuples, texts, bytes and numbers.

    `check(module, name)` raises ValueError for a name that is not expected. A persistent id
    becomes a Record with the name "persistent.id".
    Raises ValueError, also for bytes that end too early.
    """
    reader = _Reader(data, check)
    try:
        return reader.read()
    except (IndexError, struct.error):
        raise ValueError("it ends too early, or takes a value that is not there") from None


def shown(text: str) -> str:
    """Return a text of a stranger for an error."""
    return text[:_MAX_SHOWN].encode("unicode_escape").decode()


class _Reader:
    def __init__(self, data: bytes, check: Callable[[str, str], None]) -> None:
        self._data = data
        self._check = check
        self._at = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self._memo: list[Any] = []

    def read(self) -> Any:
        stack, data, stop = self.stack, self._data, pickle.STOP[0]
        while (code := data[self._at]) != stop:
            self._at += 1
            step = _STEPS.get(code)
            if step is None:
                raise ValueError(
                    f"it has the opcode {code:#04x}, which torch does not write there"
                )
            step(self)
            if len(stack) > _MAX_VALUES:
                raise ValueError(f"it has more than {_MAX_VALUES} values at once")
        return stack.pop()

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise IndexError
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def unsigned(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def line(self) -> str:
        end = self._data.find(b"\n", self._at)
        return self.take((len(self._data) if end < 0 else end) - self._at + 1)[:-1].decode()

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
        self.stack.append(str(self.take(self.byte()), "utf-8", "surrogatepass"))

    def small_int(self) -> None:
        """BININT1."""
        self.stack.append(self.byte())

    def name(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise ValueError("it has a name that is no text")
        self._check(module, name)
        self.stack.append(Name(module, name))

    def stack_name(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.name(module, name)

    def persistent(self) -> None:
        value = self.stack.pop()
        self.name("persistent", "id")
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
        self.top(list).extend(values)

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_all([key, value])

    def set_all(self, pairs: list[Any]) -> None:
        target = self.top(dict)
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
    return _push(lambda r: str(r.take(r.unsigned(size)), "utf-8", "surrogatepass"))


def _signed(reader: _Reader, size: int) -> int:
    return int.from_bytes(reader.take(size), "little", signed=True)


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
        pickle.BININT: _push(lambda r: _signed(r, 4)),
        pickle.BININT1: _Reader.small_int,
        pickle.BININT2: _push(lambda r: r.unsigned(2)),
        pickle.LONG1: _push(lambda r: _signed(r, r.byte())),
        pickle.BINFLOAT: _push(lambda r: struct.unpack(">d", r.take(8))[0]),
        pickle.BINUNICODE: _text(4),
        pickle.SHORT_BINUNICODE: _Reader.near_text,
        pickle.BINUNICODE8: _text(8),
        pickle.BINBYTES: _push(lambda r: r.take(r.unsigned(4))),
        pickle.SHORT_BINBYTES: _push(lambda r: r.take(r.byte())),
        pickle.EMPTY_TUPLE: _push(lambda r: ()),
        pickle.TUPLE: _push(lambda r: tuple(r.pop_mark())),
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
