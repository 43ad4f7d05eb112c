"""Objects whose methods change the arguments of a call while it runs.

A use of freed memory may go unseen; scripts/check-python runs this file under the address
sanitizer, too.
"""

from __future__ import annotations

import array
import contextlib
import gc
import mmap
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import run

import safetensors.numpy as stn
from safetensors import Checkpoint, SafetensorError, TensorSpec, Writer, deserialize, load, safe_open, serialize, serialize_file, stream

Hook = Callable[[], object]


class Number:
    """An integer whose `__index__` does something first."""

    def __init__(self, value: int, hook: Hook) -> None:
        self.value, self.hook = value, hook

    def __index__(self) -> int:
        self.hook()
        return self.value


class Key:
    """Is never equal to a str of the same hash, and does something before it says so."""

    def __init__(self, like: str, hook: Hook) -> None:
        self.like, self.hook = like, hook

    def __hash__(self) -> int:
        return hash(self.like)

    def __eq__(self, other: object) -> bool:
        self.hook()
        return False


class Name(str):
    """A name whose comparisons and hash do something first."""

    hook: Hook = staticmethod(lambda: None)

    def __hash__(self) -> int:
        self.hook()
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        self.hook()
        return str.__eq__(self, other)


class Sizes:
    """A shape without `__iter__`, whose `__len__` and `__getitem__` do something first."""

    def __init__(self, sizes: list[int], hook: Hook) -> None:
        self.sizes, self.hook = sizes, hook

    def __len__(self) -> int:
        self.hook()
        return len(self.sizes)

    def __getitem__(self, position: int) -> int:
        self.hook()
        return self.sizes[position]


def fresh(text: str) -> str:
    """Return a str that nobody else holds."""
    return "".join(list(text))


def dirty() -> None:
    """Take memory that was just given up, and fill it."""
    gc.collect()
    kept = [bytes([255]) * size for size in range(8, 512, 8) for _ in range(8)]
    del kept


def entry(shape: Any = None, data: Any = None) -> dict[Any, Any]:
    values = np.arange(6, dtype=np.float32).tobytes() if data is None else data
    return {fresh("dtype"): fresh("float32"), "shape": [2, 3] if shape is None else shape, "data": values}


EXPECTED = stn.save({"a": np.arange(6, dtype=np.float32).reshape(2, 3)})


@pytest.fixture(params=["serialize", "serialize_file"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Any], bytes]:
    """The bytes of a file, by either function."""
    if request.param == "serialize":
        return serialize

    def through_file(tensors: Any) -> bytes:
        serialize_file(tensors, tmp_path / "t", durability="none")
        return (tmp_path / "t").read_bytes()

    return through_file


# Dicts that change while they are looked at.


@pytest.mark.parametrize("looked_up", ["dtype", "shape", "data"])
@pytest.mark.parametrize("removed", ["dtype", "shape", "data"])
def test_entry_changed_by_a_key_s_eq(written: Any, looked_up: str, removed: str) -> None:
    tensors: dict[Any, Any] = {}

    def remove() -> None:
        value = tensors.pop("a", None)  # once: pop() below compares, too
        if value is not None:
            value.pop(removed)
            dirty()

    # Before the others: it is met when they are looked up.
    tensors["a"] = {Key(looked_up, remove): 0, **entry(shape=list((2, 3)), data=bytearray(EXPECTED[-24:]))}
    assert written(tensors) == EXPECTED


@pytest.mark.parametrize("which", ["entry", "dict"])
def test_entry_cleared_by_a_dimension(written: Any, which: str) -> None:
    tensors: dict[Any, Any] = {}

    def clear() -> None:
        (tensors if which == "dict" else tensors.get("a", {})).clear()
        dirty()

    shape: list[Any] = [Number(2, clear), Number(3, clear)]
    tensors["a"] = entry(shape=shape, data=bytearray(EXPECTED[-24:]))
    del shape
    assert written(tensors) == EXPECTED


def test_entry_cleared_before_its_error(written: Any) -> None:
    tensors: dict[Any, Any] = {}

    def clear() -> int:
        tensors.clear()
        dirty()
        return 0

    tensors[fresh("a")] = {"dtype": fresh("float4_e2m1fn_x2"), "shape": [Number(2**63, clear)], "data": b""}
    with pytest.raises(SafetensorError, match="^the last dimension of a float4_e2m1fn_x2 is too large"):
        written(tensors)
    tensors[fresh("some name")] = {"dtype": fresh("float32"), "shape": [Number(2, clear)], "data": array.array("d", [1])}
    with pytest.raises(SafetensorError, match="tensor `some name` has dtype F32, the data F64$"):
        written(tensors)


def test_errors_of_a_key_s_eq_come_through(written: Any) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        written({"a": {Key("shape", fail): 0, **entry()}})


def test_entries_without_values_are_refused(written: Any) -> None:
    class Default(dict):  # type: ignore[type-arg]
        def __missing__(self, key: str) -> Any:
            return entry()[key]

    for key in ("dtype", "shape"):
        with pytest.raises(SafetensorError, match=f"^Error while serializing: missing `{key}`$"):
            written({"a": Default({k: v for k, v in entry().items() if k != key})})
    with pytest.raises(TypeError, match="is not an instance of 'TensorSpec'$"):
        written({"a": Default()})


def test_shapes_of_every_kind(written: Any) -> None:
    tensors: dict[str, Any] = {"a": None}

    def replace() -> None:
        tensors["a"] = None
        dirty()

    for shape in (Sizes([2, 3], replace), (n for n in (2, 3)), np.array([2, 3]), iter([2, 3])):
        tensors["a"] = entry(shape=shape)
        assert written(tensors) == EXPECTED
    growing: list[Any] = []

    def grow() -> None:
        if len(growing) < 1000:
            growing.append(Number(1, grow))

    growing += [2, 3, Number(1, grow)]
    tensors["a"] = entry(shape=growing)
    assert deserialize(written(tensors))[0][1]["shape"] == [2, 3, *[1] * 998]
    shrinking: list[Any] = [Number(2, lambda: shrinking.clear()), 3]
    tensors["a"] = entry(shape=shrinking)
    with pytest.raises(SafetensorError):
        written(tensors)


@pytest.mark.parametrize("wrong", [-1, 2**64, "3", None, 1.5])
def test_dimensions_that_are_none(written: Any, wrong: Any) -> None:
    class Index:
        def __index__(self) -> Any:
            return wrong

    for shape in ([wrong], [Index()], Sizes([wrong], dirty)):
        with pytest.raises((TypeError, OverflowError)):
            written({"a": entry(shape=shape)})
        with pytest.raises((TypeError, OverflowError)):
            TensorSpec(dtype="float32", shape=shape, data_ptr=0, data_len=0)  # type: ignore[arg-type]


def test_specs_dropped_by_a_later_entry(written: Any) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensors: dict[Any, Any] = {}

    def clear() -> None:
        tensors.clear()
        dirty()

    address = values.__array_interface__["data"][0]
    tensors[fresh("b")] = TensorSpec(dtype="float32", shape=[2, 3], data_ptr=address, data_len=24)
    tensors[fresh("a")] = entry(shape=[Number(2, clear), 3])
    assert written(tensors) == stn.save({"b": values, "a": values})


def test_metadata_changed_meanwhile(written: Any) -> None:
    class Changing(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            self.clear()
            return super().items()

    given = Changing({fresh("key"): fresh("value")})
    made = serialize({"a": entry()}, given)
    assert made == stn.save({"a": np.arange(6, dtype=np.float32).reshape(2, 3)}, {"key": "value"})


def test_names_that_do_something(tmp_path: Path) -> None:
    path = tmp_path / "t"
    stn.save_file({"a": np.arange(4.0)}, path, durability="none")
    name = Name(fresh("a"))
    with safe_open(path, "np") as f:
        with f.prefetch({name: None}) as loader:
            name.hook = lambda: loader.close()
            assert loader.take(name)[3] == 3
        name.hook = lambda: f.__exit__(None, None, None)
        assert f.get_slice(name)[1] == 1 and f.get_tensor(name)[2] == 2 and name in f
    checkpoint = Checkpoint(path)
    name.hook = dirty
    assert name in checkpoint and checkpoint[name][1] == 1
    assert deserialize(serialize({name: entry()}))[0][0] == "a"


# Indices and plans.


def test_indices_that_do_something(tmp_path: Path) -> None:
    path = tmp_path / "t"
    want = np.arange(24.0).reshape(4, 6)
    stn.save_file({"a": want}, path, durability="none")
    for backend in ("mmap", "pread", "auto"):
        f = safe_open(path, "np", backend=backend)
        part = f.get_slice("a")

        def end() -> None:
            f.__exit__(None, None, None)
            dirty()

        assert (part[Number(1, end) : Number(3, end), Number(-1, end)] == want[1:3, -1]).all()

        class Index(tuple):  # type: ignore[type-arg]
            def __getitem__(self, position: Any) -> Any:
                end()
                return super().__getitem__(position)

            def __iter__(self) -> Iterator[Any]:
                end()
                return super().__iter__()

        assert (part[Index((slice(1, 3), 2))] == want[1:3, 2]).all()
        with pytest.raises(ZeroDivisionError):
            part[Number(1, lambda: 1 / 0)]


METHODS_GONE = """
import gc, sys, numpy as np, safetensors.numpy as stn
from safetensors import PySafeSlice, safe_open
stn.save_file({"a": np.arange(4.0)}, sys.argv[1], durability="none")
class Index:
    def __index__(self):
        for name in ("_methods", "__getitem__"):
            if name in vars(PySafeSlice): delattr(PySafeSlice, name)
        gc.collect()
        kept = [bytes([255]) * size for size in range(8, 2048, 8) for _ in range(8)]
        raise ZeroDivisionError
part = safe_open(sys.argv[1], "np").get_slice("a")
for index, error in ((Index(), ZeroDivisionError), (0, (RuntimeError, TypeError))):
    try:
        part[index]
    except error:
        print("refused")
"""


def test_methods_deleted_while_they_run(tmp_path: Path) -> None:
    assert run(METHODS_GONE, tmp_path / "t") == "refused\nrefused\n"


def test_plans_changed_by_their_bounds(tmp_path: Path) -> None:
    path = tmp_path / "t"
    want = {name: np.arange(24.0).reshape(4, 6) for name in "abc"}
    stn.save_file(want, path, durability="none")
    plan: dict[str, Any] = {}

    def clear() -> None:
        plan.clear()
        dirty()

    plan.update({fresh(name): slice(Number(1, clear), Number(3, clear)) for name in "abc"})
    with safe_open(path, "np") as f, f.prefetch(plan) as loader:
        assert loader.names() == ["a", "b", "c"] and plan == {}
        assert all((array == want[name][1:3]).all() for name, array in loader)


def test_requests_changed_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "t"
    want = {name: np.arange(1 << 20, dtype=np.float32).reshape(1024, -1) for name in "abc"}
    stn.save_file(want, path, durability="none")
    slices: dict[str, Any] = {}
    out: dict[str, Any] = {}

    def clear(*_: object) -> None:
        slices.clear()
        out.clear()
        dirty()

    for ask in (load, lambda *args, **kwargs: dict(stream(*args, **kwargs))):
        slices.update({"a": (slice(Number(1, clear), None),)})
        out.update({"b": np.empty_like(want["b"]), "c": np.empty_like(want["c"])})
        loaded = ask(path, slices=slices, out=out)
        assert (loaded["a"] == want["a"][1:]).all() and (loaded["b"] == want["b"]).all()
    out["c"] = np.empty_like(want["c"])
    loaded = load(path, out=out, progress=clear)
    assert all((loaded[name] == want[name]).all() for name in want)


def test_layouts_that_change(tmp_path: Path) -> None:
    class Layout(Mapping[str, Any]):
        def __init__(self) -> None:
            self.sizes = {fresh("a"): ("F32", [Number(2, self.clear), 3])}

        def clear(self) -> None:
            self.sizes.clear()
            dirty()

        def __getitem__(self, name: str) -> Any:
            return self.sizes[name]

        def __iter__(self) -> Iterator[str]:
            return iter(list(self.sizes))

        def __len__(self) -> int:
            dirty()
            return len(self.sizes)

    with Writer(tmp_path / "t", Layout(), durability="none") as writer:
        writer.write("a", EXPECTED[-24:])
    assert (tmp_path / "t").read_bytes() == EXPECTED


# Buffers that are given up while a call holds them.


def buffers(tmp_path: Path, content: bytes) -> Iterator[tuple[Any, Hook]]:
    """Buffers, and for each a function that gives its memory up."""
    resized = bytearray(content)
    yield resized, resized.clear
    view = memoryview(bytearray(content))
    yield view, view.release
    elements = array.array("B", content)
    yield elements, lambda: elements.extend(bytes(1 << 20))
    (tmp_path / "map").write_bytes(content)
    with open(tmp_path / "map", "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    yield mapped, mapped.close


def test_buffers_given_up_by_a_dimension(written: Any, tmp_path: Path) -> None:
    for buffer, give_up in buffers(tmp_path, EXPECTED[-24:]):
        said: list[BaseException] = []

        def try_to(give_up: Hook = give_up, said: list[BaseException] = said) -> None:
            try:
                give_up()
            except BufferError as error:
                said.append(error)

        assert written({"a": entry(shape=[Number(2, try_to), Number(3, try_to)], data=buffer)}) == EXPECTED
        assert said, type(buffer)
        give_up()  # nothing holds it on


def test_buffers_given_up_by_a_thread(tmp_path: Path) -> None:
    want = np.arange(1 << 18, dtype=np.float32)
    content = stn.save({"a": want})

    def write(buffer: Any) -> bytes:
        with Writer(tmp_path / "w", {"a": ("U8", (len(content),))}, durability="none") as writer:
            writer.write("a", buffer)
        return bytes(stn.load_file(tmp_path / "w")["a"])

    calls: list[Callable[[Any], bool]] = [
        lambda buffer: (stn.load(buffer)["a"] == want).all(),
        lambda buffer: bytes(deserialize(buffer)[0][1]["data"]) == want.tobytes(),
        lambda buffer: write(buffer) == content,
    ]
    for call in calls:
        for buffer, give_up in buffers(tmp_path, content):
            end = threading.Event()

            def work(give_up: Hook = give_up, end: threading.Event = end) -> None:
                while not end.is_set():
                    try:
                        return give_up() and None
                    except BufferError:
                        pass  # the call holds it

            thread = threading.Thread(target=work)
            thread.start()
            try:
                for _ in range(20):
                    assert call(buffer)
            except (SafetensorError, TypeError, ValueError):
                pass  # it was given up between two calls
            finally:
                end.set()
                thread.join()


def test_views_outlive_their_buffer(tmp_path: Path) -> None:
    want = np.arange(64, dtype=np.float32)
    for buffer, give_up in buffers(tmp_path, stn.save({"a": want})):
        loaded = stn.load(buffer, copy=False)["a"]
        with pytest.raises(BufferError):
            give_up()
        del buffer, give_up
        dirty()
        assert (loaded == want).all()


# Saving what other threads change.


@contextlib.contextmanager
def changing(*targets: dict[str, Any], value: Callable[[int], Any], threads: int) -> Iterator[None]:
    """Threads add and remove names x1, x2, ... of dicts, and replace the values of their names t0 to t49."""
    end = threading.Event()

    def work() -> None:
        number = 0
        while not end.is_set():
            number += 1
            for target in targets:
                target[fresh(f"x{number}")] = value(number)
                target.pop(f"x{number - 20}", None)
                target[f"t{number % 50}"] = value(number % 50)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        end.set()
        for worker in workers:
            worker.join()


def test_dicts_changed_by_a_thread(written: Any) -> None:
    names = [f"t{i}" for i in range(50)]
    tensors, metadata = {name: entry() for name in names}, dict.fromkeys(names, "v")
    texts = changing(metadata, value=lambda _: fresh("some text"), threads=2)
    with texts, changing(tensors, value=lambda _: entry(data=bytearray(24)), threads=2):
        for _ in range(50):
            assert {name for name, _ in deserialize(written(tensors))} >= set(names)
            assert deserialize(serialize({}, metadata)) == []


def test_mappings_changed_by_a_thread(tmp_path: Path) -> None:
    tensors = {f"t{i}": np.full(6, i) for i in range(50)}
    with changing(tensors, value=lambda number: np.full(6, number), threads=1):
        for _ in range(200):
            try:
                stn.save_file(tensors, tmp_path / "t", durability="none")
            except RuntimeError as error:  # Python's own
                assert "changed" in str(error)
                continue
            loaded = stn.load_file(tmp_path / "t")
            assert all((loaded[f"t{i}"] == i).all() for i in range(50))
    stn.save_file(tensors, tmp_path / "t", durability="none")
    assert stn.load_file(tmp_path / "t").keys() == tensors.keys()


class Liar(np.ndarray[Any, Any]):
    """An array that says that its memory is elsewhere."""

    __array_interface__ = {"data": (8, False), "shape": (1 << 40,), "typestr": "<f4", "version": 3}
    nbytes = 1 << 40
    strides = (0,)


def test_arrays_that_lie_about_their_memory(tmp_path: Path) -> None:
    want = np.arange(6, dtype=np.float32)
    liar = want.copy().view(Liar)
    assert stn.save({"a": liar}) == stn.save({"a": want})
    stn.save_file({"a": liar}, tmp_path / "t", durability="none")
    with Writer(tmp_path / "w", {"a": want}, durability="none") as writer:
        writer.write("a", liar)
    assert (tmp_path / "w").read_bytes() == (tmp_path / "t").read_bytes() == stn.save({"a": want})
    target = np.zeros(6, np.float32).view(Liar)
    assert load(tmp_path / "t", out={"a": target})["a"] is target
    assert target.tolist() == want.tolist()
