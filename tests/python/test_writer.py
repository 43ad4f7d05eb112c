"""Writer: files whose tensors are written in pieces."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sharded
from conftest import framework, run

import safetensors.numpy as stn
from safetensors import Checkpoint, MissingTensorError, SafetensorError, Writer, load

OLD = {"old": np.arange(3)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a file that exists."""
    stn.save_file(OLD, tmp_path / "t", durability="none")
    return tmp_path / "t"


def untouched(path: Path) -> bool:
    return os.listdir(path.parent) == ["t"] and stn.load_file(path)["old"].tolist() == [0, 1, 2]


def test_rows_in_any_order(path: Path) -> None:
    want = np.arange(40, dtype=np.float32).reshape(10, 4)
    with Writer(path, {"w": ("F32", (10, 4)), "b": ("I64", [2])}, {"k": "v"}) as writer:
        writer.write("w", want[7:], start=7)
        writer.write("b", np.array([1, 2]))
        writer.write("w", want[:0], start=3)
        writer.write("w", want[:7].tobytes(), start=0)
        assert untouched(path) or len(os.listdir(path.parent)) == 2
        assert stn.load_file(path).keys() == OLD.keys()
    expected = {"w": want, "b": np.array([1, 2])}
    assert path.read_bytes() == stn.save(expected, {"k": "v"}) and os.listdir(path.parent) == ["t"]


@pytest.mark.parametrize("order", ["writer", "given"])
@pytest.mark.parametrize("alignment", [1, 8, 4096, 65536])
def test_order_and_alignment(path: Path, order: Any, alignment: int) -> None:
    arrays = {"z": np.ones(3, np.float16), "a": np.ones(5, np.float16), "m": np.ones(2, np.float64)}
    with Writer(path, arrays, data_alignment=alignment, order=order) as writer:
        for name, array in arrays.items():
            writer.write(name, array)
    raw = path.read_bytes()
    assert (8 + int.from_bytes(raw[:8], "little")) % alignment == 0
    loaded = load(path)
    assert list(loaded) == (["z", "a", "m"] if order == "given" else ["m", "a", "z"])
    assert all(np.array_equal(loaded[name], array) for name, array in arrays.items())
    if (order, alignment) == ("writer", 8):
        assert raw == stn.save(arrays)


def test_scalars_and_what_is_empty(path: Path) -> None:
    layout = {"s": ("F64", ()), "e": ("F32", (0, 2)), "f": ("F32", (0, 2)), "n": ("U8", (1,))}
    with Writer(path, layout) as writer:
        writer.write("s", np.float64(2.5))
        writer.write("e", np.zeros((0, 2), np.float32))
        writer.write("e", b"", start=0)
        writer.write("n", memoryview(b"x"))
    loaded = load(path)
    assert loaded["s"] == 2.5 and loaded["f"].shape == (0, 2) and loaded["n"].tolist() == [120]


def test_dtypes_of_frameworks(path: Path) -> None:
    torch, ml_dtypes = framework("torch"), framework("ml_dtypes")
    packed = torch.empty(2, 2, dtype=torch.float4_e2m1fn_x2, device="meta")
    table: dict[str, tuple[Any, Any, tuple[str, list[int]]]] = {  # what describes it, its values, and its form in the file
        "a": ((torch.bfloat16, (2,)), torch.ones(2, dtype=torch.bfloat16), ("BF16", [2])),
        "b": ((np.float16, (2,)), np.ones(2, np.float16), ("F16", [2])),
        "c": ((np.dtype("i2"), torch.Size([2])), np.ones(2, np.int16), ("I16", [2])),
        "d": ((ml_dtypes.float8_e4m3fn, [2]), np.ones(2, ml_dtypes.float8_e4m3fn), ("F8_E4M3", [2])),
        "e": (torch.empty(2, device="meta"), torch.ones(2), ("F32", [2])),
        "f": ((np.bool_, (2,)), np.ones(2, bool), ("BOOL", [2])),
        "g": (("F4", (2, 4)), np.array([[0, 0], [1, 1]], np.uint8), ("F4", [2, 4])),
        "h": (packed, torch.zeros(2, 2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2), ("F4", [2, 4])),
        "i": (("F6_E3M2", (4, 4)), np.ones((4, 3), np.uint8), ("F6_E3M2", [4, 4])),
        "j": (("I32", (3, 4)), torch.arange(12, dtype=torch.int32).reshape(4, 3).T, ("I32", [3, 4])),
    }
    with Writer(path, {name: described for name, (described, _, _) in table.items()}) as writer:
        for name, (_, values, _) in table.items():
            if name == "g":  # row by row
                writer.write(name, values[1:], start=1)
                values = values[:1].tobytes()
            writer.write(name, values, start=0 if name == "g" else None)
    checkpoint = Checkpoint(path)
    for name, (_, _, form) in table.items():
        assert (checkpoint.get_slice(name).get_dtype(), checkpoint.get_slice(name).get_shape()) == form
    assert checkpoint["g"].tolist() == [[0, 0], [1, 1]] and checkpoint["j"].tolist() == table["j"][1].tolist()


def test_rows_of_packed_elements_and_of_nothing(path: Path) -> None:
    with Writer(path, {"p": ("F6_E3M2", (2, 2)), "q": ("F6_E3M2", (2, 4)), "e": ("F32", (0, 7))}) as writer:
        with pytest.raises(SafetensorError, match="^tensor `p` has rows that do not end with a byte: write it whole$"):
            writer.write("p", bytes(1), start=0)
        with pytest.raises(SafetensorError, match="^tensor `e` has rows of 0 bytes, the data 4$"):
            writer.write("e", bytes(4), start=0)
        writer.write("p", b"abc")
        writer.write("e", b"", start=0)
        writer.write("q", b"ghi", start=1)
        writer.write("q", b"def", start=0)
    assert path.read_bytes().endswith(b"abcdefghi")


WRONG: list[tuple[Callable[[Writer], None], type[Exception], str]] = [
    (lambda w: w.write("z", b""), MissingTensorError, "^the writer has no tensor 'z'$"),
    (lambda w: w.write("\ud800", b""), MissingTensorError, r"'\\ud800'$"),
    (lambda w: w.write("w", np.zeros((2, 3), "f4")), SafetensorError, r"^tensor `w` takes shape \[3, 2\], the data has \[2, 3\]$"),
    (lambda w: w.write("w", bytes(23)), SafetensorError, "^tensor `w` has 24 bytes, the data 23$"),
    (lambda w: w.write("w", bytes(12), start=0), SafetensorError, "^tensor `w` has rows of 8 bytes, the data 12$"),
    (lambda w: w.write("w", np.zeros((1, 3), "f4"), start=0), SafetensorError, r"^tensor `w` takes shape \[rows, 2\], the data has \[1, 3\]$"),
    (lambda w: w.write("w", bytes(8), start=-1), SafetensorError, "^start is -1: rows are counted from 0$"),
    (lambda w: w.write("w", bytes(8), start=2**70), SafetensorError, "^start is 1180591620717411303424: tensor `w` has 3 rows$"),
    (lambda w: w.write("w", bytes(16), start=2), SafetensorError, "tensor `w`: 16 bytes at byte 16 do not fit, it has 24: "),
    (lambda w: w.write("w", bytes(8), start=1.0), TypeError, "'float' object cannot be interpreted"),  # type: ignore[arg-type]
    (lambda w: w.write("w", bytes(8), start=4), SafetensorError, "^start is 4: tensor `w` has 3 rows$"),
    (lambda w: w.write("s", bytes(8), start=0), SafetensorError, "^tensor `s` is a scalar and has no rows$"),
    (lambda w: w.write("w", None), TypeError, "^tensor `w`: NoneType is neither an array nor bytes$"),
    (lambda w: w.write("w", np.ma.zeros((3, 2), "f4")), TypeError, "^tensor `w`: a masked array has no bytes for a file: fill it first$"),
    (lambda w: w.copy("w", {}), TypeError, "^source is dict: give a Checkpoint$"),  # type: ignore[arg-type]
    (lambda w: w.commit(), SafetensorError, "tensor `s`: bytes 0 to 8 of 8 were never written"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), WRONG)
def test_calls_that_fail_change_nothing(path: Path, call: Any, kind: Any, text: str) -> None:
    with Writer(path, {"w": ("F32", (3, 2)), "s": ("F64", ())}) as writer:
        with pytest.raises(kind, match=text):
            call(writer)
        writer.write("w", np.ones((3, 2), np.float32))
        with pytest.raises(SafetensorError, match="bytes 8 to 16 of 24 were already written"):
            writer.write("w", bytes(8), start=1)
        writer.write("s", np.float64(1))
    assert load(path)["w"].sum() == 6


A = {"a": ("U8", [1])}


@pytest.mark.parametrize(
    ("tensors", "options", "kind", "text"),
    [
        ([1], {}, TypeError, "^tensors is list: give a dict of names$"),
        ({"a": 3}, {}, TypeError, r"^tensors\['a'\] is neither \(dtype, shape\) nor an array$"),
        ({"a": ("F32", 3)}, {}, TypeError, r"^tensors\['a'\]: shape 3 is no list of integers$"),
        ({"a": (float, [3])}, {}, TypeError, "^dtype float does not say how many bits"),
        ({"a": ("X", [3])}, {}, SafetensorError, '^Unknown dtype "X"'),
        ({"a": ("F32", [-3])}, {}, OverflowError, "negative"),
        ({"a": ("F4", [3])}, {}, SafetensorError, r"^tensors\['a'\]: F4 needs an even last dimension$"),
        ({3: ("F32", [3])}, {}, TypeError, "^argument 'tensors': 'int' object"),
        ({"a": ("F32", [2**62])}, {}, SafetensorError, "^Error while serializing: "),
        ({"__metadata__": ("F32", [2])}, {}, SafetensorError, "^Error while serializing: "),
        (A, {"order": "name"}, SafetensorError, r'order "name" is invalid \(expected one of: "writer", "given"\)'),
        (A, {"data_alignment": 3}, SafetensorError, "power of two"),
        (A, {"data_alignment": 1 << 17}, SafetensorError, "power of two"),
        (A, {"data_alignment": 1 << 32}, SafetensorError, "data_alignment 4294967296 is too large"),
        (A, {"durability": "x"}, SafetensorError, '^durability "x" is invalid'),
        (A, {"metadata": {"a": 1}}, TypeError, r"^metadata\['a'\] is int: expected a str$"),
    ],
)
def test_layouts_and_arguments_that_cannot_be(path: Path, tensors: Any, options: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        Writer(path, tensors, **options)
    assert untouched(path)


def test_a_path_that_cannot_be_written(path: Path) -> None:
    with pytest.raises(SafetensorError) as caught:
        Writer(path.parent / "gone" / "t", {})
    assert caught.value.errno == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_body_that_raises_leaves_the_old_file(path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error):
        with Writer(path, {"a": ("U8", (2,))}) as writer:
            writer.write("a", b"xy")
            raise error
    assert untouched(path)
    with pytest.raises(SafetensorError, match="^the writer is closed$"):
        writer.write("a", b"xy")


def test_commit_and_close_by_hand(path: Path) -> None:
    with Writer(path, {"a": ("U8", (2,))}) as writer:
        writer.close()
        writer.close()
    assert untouched(path)
    with Writer(path, {"a": ("U8", (2,))}) as writer:
        writer.write("a", b"xy")
        writer.commit()
        assert load(path)["a"].tolist() == [120, 121]
        with pytest.raises(SafetensorError, match="^the writer is closed$"):
            writer.commit()
    writer = Writer(path, {"b": ("U8", (2,))})
    del writer
    gc.collect()
    assert os.listdir(path.parent) == ["t"] and list(load(path)) == ["a"]


def test_copies_merge_a_checkpoint_into_one_file(tmp_path: Path) -> None:
    arrays = sharded.tensors()
    checkpoint = Checkpoint(sharded.save(tmp_path / "model", arrays))
    with Writer(tmp_path / "one", {**arrays, "again": arrays["wte"]}, durability="none") as writer:
        for name in checkpoint:
            writer.copy(name, checkpoint)
        with pytest.raises(SafetensorError, match="tensor `again`: is F32, copied from I64"):
            writer.copy("again", checkpoint, "ids")
        with pytest.raises(MissingTensorError, match="no tensor `again` in 2 files of 6 tensors"):
            writer.copy("again", checkpoint)
        writer.copy("again", checkpoint, "wte")
    loaded = load(tmp_path / "one")
    assert all(sharded.same(loaded[name], array) for name, array in arrays.items())
    assert sharded.same(loaded["again"], arrays["wte"])


def test_commit_and_close_while_other_threads_write(path: Path) -> None:
    data = bytes(1 << 20)
    for end in (Writer.close, Writer.commit):
        writer = Writer(path, {"w": ("U8", (64, 1 << 20))}, durability="none")
        said: list[str] = []

        def work() -> None:
            for row in range(63):  # the last row stays unwritten: a commit after the thread's end fails, too
                try:
                    writer.write("w", data, start=row)
                except SafetensorError as error:
                    said.append(str(error))
                    return

        thread = threading.Thread(target=work)
        thread.start()
        try:
            end(writer)
        except SafetensorError as error:
            assert "never written" in str(error) or "while another call" in str(error)
        thread.join()
        writer.close()
        assert set(said) <= {"the writer is closed", "the writer is being committed by another call"}
        assert untouched(path)


def test_a_signal_s_handler_cannot_write_in_the_midst_of_a_write(path: Path) -> None:
    said: set[str] = set()

    def handle(*_: object) -> None:
        for call in (lambda: writer.write("w", b"", start=0), writer.commit):
            try:
                call()
            except SafetensorError as error:
                said.add(str(error))

    text = "the writer cannot be used by its progress function, or by the handler of a signal that came while it writes"
    rows, data = 64, bytes(32 << 20)
    before = signal.signal(signal.SIGALRM, handle)
    try:
        with Writer(path, {"w": ("U8", (rows + 1, len(data)))}, durability="none") as writer:
            signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
            for row in range(rows):
                if text not in said:
                    writer.write("w", data, start=row)
            signal.setitimer(signal.ITIMER_REAL, 0)
            writer.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert text in said and untouched(path)


def test_a_program_that_forgets_it_leaves_nothing(path: Path) -> None:
    code = "import sys; from safetensors import Writer; w = Writer(sys.argv[1], {'a': ('U8', (2,))})"
    run(code, path)
    assert untouched(path)
