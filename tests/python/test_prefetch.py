"""Tests safe_open.prefetch: plans, loaders, their tensors, and their errors."""

from __future__ import annotations

import collections
import gc
import json
import os
import pickle
import types
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS, FRAMEWORKS, framework, run, sparse

import safetensors
import safetensors.numpy as stn
from safetensors import PrefetchLoader, SafetensorError, safe_open

HEADER = (
    '{"b":{"dtype":"F32","shape":[4,3],"data_offsets":[8,56]},'
    '"s":{"dtype":"F32","shape":[],"data_offsets":[56,60]},'
    '"é/λ":{"dtype":"U8","shape":[4],"data_offsets":[60,64]},'
    '"z":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},'
    '"e":{"dtype":"F16","shape":[0,2],"data_offsets":[64,64]}}'
)
B = np.arange(12, dtype=np.float32).reshape(4, 3)
DATA = np.int64(-5).tobytes() + B.tobytes() + np.float32(3.5).tobytes() + bytes([1, 2, 3, 4])
IN_FILE_ORDER = ["z", "b", "s", "é/λ", "e"]


@pytest.fixture
def path(make: Any) -> Any:
    return make(HEADER, DATA)


def opened(path: Path, kind: str = "np", **options: Any) -> Any:
    return safe_open(path, kind, **options)


class Index:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Boom:
    def __index__(self) -> int:
        raise RuntimeError("boom")


class Interrupted:
    def __index__(self) -> int:
        raise KeyboardInterrupt


class Name(str):
    pass


# Invalid plans, each with the message of its error.
WRONG_PLANS: list[tuple[Any, str]] = [
    ({}, "prefetch plan selects no tensors"),
    ({"zz": None}, "File does not contain tensor zz"),
    ({"zé": 3}, "File does not contain tensor zé"),
    ({"zz": None, 3: None}, "File does not contain tensor zz"),
    ({3: None, "zz": None}, "prefetch plan keys must be tensor names"),
    ({b"b": None}, "prefetch plan keys must be tensor names"),
    ({"\ud800": None}, "prefetch plan keys must be tensor names"),
    *(({"b": value}, f"prefetch plan values must be None or a slice, got {type(value)} for b") for value in (3, (1, 2), True, ..., slice)),
    ({"s": slice(None)}, "cannot slice rows of the 0-d tensor s"),
    ({"s": slice("a", 1, 0)}, "cannot slice rows of the 0-d tensor s"),
    *(({"b": rows}, "prefetch plan slice bounds for b must be integers or None")
      for rows in (slice("a", 2, 0), slice(1.0, 2), slice(Boom(), 2), slice(None, 2**63), slice(-(2**63) - 1, 1))),
    ({"b": slice(9, "a")}, "prefetch plan slice start 9 for b is out of range for 4 rows"),
    ({"b": slice(9, 99)}, "prefetch plan slice start 9 for b is out of range for 4 rows"),
    ({"b": slice(5, 4)}, "prefetch plan slice start 5 for b is out of range for 4 rows"),
    ({"b": slice(-5, None, 2)}, "prefetch plan slice start -5 for b is out of range for 4 rows"),
    ({"b": slice(-(2**63), 1)}, f"prefetch plan slice start {-(2**63)} for b is out of range for 4 rows"),
    ({"b": slice(1, 99, 2)}, "prefetch plan slice stop 99 for b is out of range for 4 rows"),
    ({"b": slice(0, Index(9))}, "prefetch plan slice stop 9 for b is out of range for 4 rows"),
    ({"b": slice(None, -5)}, "prefetch plan slice stop -5 for b is out of range for 4 rows"),
    ({"e": slice(0, 1)}, "prefetch plan slice stop 1 for e is out of range for 0 rows"),
    ({"b": slice(0, 4, 2)}, "prefetch plan slices must have step 1, got 2 for b"),
    ({"b": slice(0, 1, Index(3))}, "prefetch plan slices must have step 1, got 3 for b"),
    ({"b": slice(4, 0, -1)}, "prefetch plan slices must have step 1, got -1 for b"),
    ({"b": slice(0, 1, 2**70)}, "prefetch plan slices must have step 1, got 9223372036854775807 for b"),
    ({"b": slice(0, 1, 0)}, "invalid prefetch plan slice for b: ValueError: slice step cannot be zero"),
    ({"b": slice(0, 1, 1.0)}, "invalid prefetch plan slice for b: TypeError: slice indices must be integers or None or have an __index__ method"),
    ({"b": slice(0, 1, Boom())}, "invalid prefetch plan slice for b: RuntimeError: boom"),
]


@pytest.mark.parametrize(("plan", "text"), WRONG_PLANS)
def test_invalid_plan_is_refused(path: Path, plan: Any, text: str) -> None:
    with opened(path) as f:
        with pytest.raises(SafetensorError) as caught:
            f.prefetch(plan)
        assert str(caught.value) == text
        assert f.prefetch({"b": None}).take("b").tolist() == B.tolist()  # the handle is unchanged


@pytest.mark.parametrize(
    ("plan", "options", "kind", "text"),
    [
        ([], {"threads": -1}, TypeError, "'list' object is not an instance of 'dict'"),
        ("b", {}, TypeError, "'str' object is not an instance of 'dict'"),
        (types.MappingProxyType({}), {}, TypeError, "'mappingproxy' object is not an instance of 'dict'"),
        (None, {"device": "nope", "threads": -1}, SafetensorError, "device nope is invalid"),
        (None, {"device": -1}, SafetensorError, "device -1 is invalid"),
        (None, {"device": 1.5}, SafetensorError, "device 1.5 is invalid"),
        ({}, {"threads": -1}, OverflowError, "can't convert negative int to unsigned"),
        ({}, {"threads": 2**64}, OverflowError, "int too big to convert"),
        ({}, {"threads": 1.5}, TypeError, "'float' object cannot be interpreted as an integer"),
        ({}, {"threads": "8"}, TypeError, "'str' object cannot be interpreted as an integer"),
        ({}, {"threads": None}, TypeError, "'NoneType' object cannot be interpreted as an integer"),
        ({3: 3}, {"device": "cuda"}, SafetensorError, 'prefetch is only compatible with framework="pt"'),
    ],
)  # fmt: skip
def test_invalid_arguments_are_refused(path: Path, plan: Any, options: Any, kind: type[Exception], text: str) -> None:
    with opened(path) as f, pytest.raises(kind) as caught:
        f.prefetch(plan, **options)
    assert str(caught.value) == text


def test_options_are_keyword_only(path: Path) -> None:
    with opened(path) as f, pytest.raises(TypeError):
        f.prefetch(None, "cpu")
    with opened(path) as f, pytest.raises(TypeError):
        f.prefetch(buffer=1)


def test_keyboard_interrupt_in_plan_propagates(path: Path) -> None:
    with opened(path) as f:
        for rows in (slice(Interrupted(), 1), slice(0, 1, Interrupted())):
            with pytest.raises(KeyboardInterrupt):
                f.prefetch({"b": rows})


def test_closed_handle_is_refused(path: Path) -> None:
    with opened(path) as f:
        pass
    with pytest.raises(SafetensorError, match="^File is closed$"):
        f.prefetch({})
    with pytest.raises(SafetensorError, match="^device nope is invalid$"):
        f.prefetch(device="nope")
    with pytest.raises(SafetensorError, match="^File is closed$"):
        f.get_tensor_meta("b")


@FRAMEWORKS
@BACKENDS
@pytest.mark.parametrize("threads", [0, 1, True, 8, np.int64(3), 10**6])
def test_loads_all_tensors_without_plan(path: Path, kind: str, backend: str, threads: Any) -> None:
    with opened(path, kind, backend=backend) as f, f.prefetch(threads=threads) as p:
        assert isinstance(p, PrefetchLoader)
        assert len(p) == 5 and p.names() == IN_FILE_ORDER
        first = p.take("b")
        for name, taken in [("b", first), *p]:
            got = f.get_tensor(name)
            assert taken.tolist() == got.tolist()
            assert type(taken) is type(got)
            assert (taken.dtype, tuple(taken.shape)) == (got.dtype, tuple(got.shape)), name


@FRAMEWORKS
@pytest.mark.parametrize(
    "rows",
    [
        slice(None), slice(0, 4), slice(1, 3), slice(1, None), slice(None, 2), slice(-3, -1), slice(-4, 4),
        slice(4, 4), slice(3, 1), slice(-1, 0), slice(0, 0), slice(None, None, 1), slice(0, 2, True),
        slice(True, False), slice(Index(1), Index(4), Index(1)), slice(np.int64(1), np.uint8(2), np.int32(1)),
    ],
)  # fmt: skip
def test_rows_equal_those_of_get_slice(path: Path, kind: str, rows: slice) -> None:
    with opened(path, kind) as f, f.prefetch({"b": rows, "é/λ": rows}) as p:
        plain = slice(*(None if i is None else int(i.__index__()) for i in (rows.start, rows.stop)))
        for name in ("b", "é/λ"):
            taken, part = p.take(name), f.get_slice(name)[plain]
            assert tuple(taken.shape) == tuple(part.shape) and taken.tolist() == part.tolist()
            assert taken.dtype == part.dtype
            assert name != "b" or taken.tolist() == B[plain].tolist()


@FRAMEWORKS
def test_plans_of_transformers_join_slices(path: Path, kind: str) -> None:
    """A tuple of one list of slices per dimension, as in the pull request 48930 of transformers."""
    for value, expected in [
        (([slice(1, 3)],), B[1:3]),
        (([slice(0, 4)], [slice(1, 3)]), B[:, 1:3]),
        (([slice(2, 3), slice(0, 1)],), B[[2, 0]]),
        (([slice(None)], [slice(2, 3), slice(0, 1)]), B[:, [2, 0]]),
        (([slice(0, 1), slice(-1, None)], [slice(0, 1), slice(2, None)]), B[[0, 3]][:, [0, 2]]),
        (([], [slice(0, 1), slice(1, 2)]), B[:0, :2]),
        ((), B),
    ]:
        with opened(path, kind) as f, f.prefetch({"b": value, "s": ()}) as p:
            taken = p.take("b")
            assert tuple(taken.shape) == expected.shape and taken.tolist() == expected.tolist()
            assert p.take("s").tolist() == 3.5
    with opened(path, kind) as f:
        for wrong in ((slice(0, 1),), ([0],), ([slice(0, 1)],) * 3, [slice(0, 1)]):
            with pytest.raises(SafetensorError, match="^prefetch plan values must be None or a slice, got <class"):
                f.prefetch({"b": wrong})
        with pytest.raises(SafetensorError, match="^prefetch plan slice stop 9 for b is out of range for 3 rows$"):
            f.prefetch({"b": ([slice(0, 1)], [slice(0, 1), slice(0, 9)])})


@FRAMEWORKS
def test_loads_random_rows_of_many_dtypes(tmp_path: Path, kind: str) -> None:
    random = np.random.default_rng(1)
    kinds = [np.float64, np.int8, np.uint16, np.complex64, np.bool_, np.float16]
    shapes = [(random.integers(1, 300), random.integers(1, 9)) for _ in range(200)]
    tensors = {f"t{i}": random.integers(0, 99, shape).astype(kinds[i % 6]) for i, shape in enumerate(shapes)}
    stn.save_file(tensors, tmp_path / "t")
    plan: dict[str, slice | None] = {}
    for name, tensor in tensors.items():
        a, b = sorted(random.integers(0, len(tensor) + 1, 2).tolist())
        plan[name] = slice(a, b) if random.random() < 0.7 else None
    with opened(tmp_path / "t", kind) as f, f.prefetch(plan) as p:
        seen = {name: np.asarray(t) for name, t in p}
    assert seen.keys() == tensors.keys()
    for name, tensor in tensors.items():
        expected = tensor[plan[name]] if plan[name] is not None else tensor
        assert seen[name].shape == expected.shape and seen[name].tobytes() == expected.tobytes()


def test_accepts_subclasses_and_copies_plan(path: Path) -> None:
    with opened(path) as f:
        ordered = collections.OrderedDict([("s", None), ("b", slice(1, 2))])
        assert f.prefetch(ordered).names() == ["b", "s"]
        assert f.prefetch(collections.defaultdict(int, {"s": None})).names() == ["s"]
        assert f.prefetch({Name("b"): None}).take(Name("b")).tolist() == B.tolist()
        plan: safetensors.PrefetchPlan = {"b": slice(0, 1)}
        p = f.prefetch(plan)
        plan["b"], plan["s"] = None, None
        assert p.names() == ["b"] and p.take("b").shape == (1, 3)
        assert f.prefetch(None).names() == f.prefetch().names() == IN_FILE_ORDER
        assert [type(n) for n in p.names()] == [str]


def test_file_without_tensors_gives_empty_loader(make: Any) -> None:
    with opened(make("{}")) as f:
        p = f.prefetch()
        assert len(p) == 0 and not p and p.names() == [] and list(p) == []
        p.close()
        assert list(p) == []
        with pytest.raises(SafetensorError, match="^prefetch plan selects no tensors$"):
            f.prefetch({})


@FRAMEWORKS
def test_each_tensor_is_taken_once(path: Path, kind: str) -> None:
    taken = "tensor already delivered (prefetch hands each tensor out once, via take or iteration)"
    with opened(path, kind) as f, f.prefetch() as p:
        first = p.take(name="b")
        stream = iter(p)
        name, _ = next(stream)
        for again in ("b", name):
            with pytest.raises(SafetensorError) as caught:
                p.take(again)
            assert str(caught.value) == f"{again}: {taken}"
        assert {name, "b", *dict(p)} == set(IN_FILE_ORDER)
        assert dict(p) == {} and next(stream, None) is None
        first[0] = 7
        again = f.prefetch()  # another loader has tensors of its own
        assert again.take("b").tolist() == B.tolist() == f.get_tensor("b").tolist()
        assert not hasattr(again, "__contains__")
        assert "s" not in again and dict(again) == {}  # as in 0.9, `in` iterates over pairs


def test_loader_has_names_and_refuses_others(path: Path) -> None:
    with opened(path) as f:
        p = f.prefetch({"s": None, "b": None})
    assert bool(p) and len(p) == 2
    names = p.names()
    names.clear()
    assert p.names() == ["b", "s"]
    for wrong in ("é/λ", "zz"):
        with pytest.raises(SafetensorError, match=f"^tensor {wrong} is not in the prefetch plan$"):
            p.take(wrong)
    with pytest.raises(TypeError, match="^'int' object is not an instance of 'str'$"):
        p.take(3)
    with pytest.raises(TypeError, match="^'None' is not an instance of 'str'$"):
        p.take(None)
    with pytest.raises(UnicodeEncodeError):
        p.take("\ud800")
    with pytest.raises(TypeError):
        PrefetchLoader()
    with pytest.raises(TypeError):
        pickle.dumps(p)
    with pytest.raises(TypeError):
        PrefetchLoader.take(3, "b")  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        p.other = 1
    with pytest.raises(TypeError):
        weakref.ref(p)


def test_iterators_share_the_tensors(path: Path) -> None:
    with opened(path) as f:
        p = f.prefetch()
    one, other = iter(p), iter(p)
    assert iter(one) is one and type(one).__name__ == "TensorStream"
    names = {next(one)[0], next(other)[0], next(one)[0]}
    assert len(names) == 3
    p.take(next(name for name in IN_FILE_ORDER if name not in names))
    del p  # an iterator keeps the loader alive
    gc.collect()
    assert len(list(one)) == 1 and list(other) == []
    assert next(one, None) is None and next(one, None) is None


def test_closed_loader_gives_no_tensors(path: Path) -> None:
    with opened(path) as f:
        p = f.prefetch()
    halfway, fresh = iter(p), iter(p)
    kept = p.take("b")
    next(halfway)
    with p as entered:
        assert entered is p
    for name in IN_FILE_ORDER:
        with pytest.raises(SafetensorError) as caught:
            p.take(name)
        assert str(caught.value) == f"{name}: prefetch loader closed"
    for stream in (halfway, fresh, iter(p)):
        for _ in range(2):
            with pytest.raises(SafetensorError, match="^prefetch loader closed$"):
                next(stream)
    with pytest.raises(SafetensorError, match="^tensor zz is not in the prefetch plan$"):
        p.take("zz")
    p.close()
    assert p.close() is None and p.__exit__(None, None, None) is None
    with p:
        pass
    assert len(p) == 5 and p.names() == IN_FILE_ORDER
    assert kept.tolist() == B.tolist()  # tensors from before close() stay valid


def test_open_file_object_can_be_prefetched(path: Path) -> None:
    with path.open("rb") as file:
        f = safetensors._safe_open_handle(file, "np")
        p = f.prefetch({"b": slice(1, 3)})
        meta = f.get_tensor_meta("b")
    assert p.take("b").tolist() == B[1:3].tolist() and meta.shape == [4, 3]


@BACKENDS
def test_shortened_file_fails_per_tensor(path: Path, backend: str) -> None:
    with opened(path, backend=backend) as f:
        os.truncate(path, path.stat().st_size - 20)
        p = f.prefetch({"s": None})
        for _ in range(2):
            with pytest.raises(SafetensorError) as caught:
                p.take("s")
            assert str(caught.value).startswith("s: ") and "closed" not in str(caught.value)
            assert caught.value.code == "file_truncated"  # type: ignore[attr-defined]
        text = str(caught.value).removeprefix("s: ")
        for stream in (iter(p), iter(p)):
            with pytest.raises(SafetensorError) as caught:
                next(stream)
            assert str(caught.value) == text
        p.close()
        with pytest.raises(SafetensorError) as caught:
            p.take("s")
        assert str(caught.value) == "s: " + text  # close() does not replace the first error
        assert f.prefetch({"z": None}).take("z").tolist() == [-5]


MORE = """
import resource, sys
from safetensors import safe_open
with safe_open(sys.argv[1], "np") as f:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 37, 1 << 37))
    p = f.prefetch()
    for wrong in (lambda: p.take("t0"), lambda: next(iter(p)), lambda: p.take("t0")):
        try: wrong()
        except MemoryError: pass
        else: sys.exit("there is memory")
    assert f.prefetch({"t0": slice(1 << 39, (1 << 39) + 2)}).take("t0").tolist() == [0, 0]
"""


def test_tensor_larger_than_memory_fails(tmp_path: Path) -> None:
    run(MORE, sparse(tmp_path / "t", (1 << 40,)))


def test_dtype_that_torch_lacks_is_refused(make: Any) -> None:
    framework("torch")
    path = make(
        '{"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]},'
        '"f":{"dtype":"F4","shape":[4,2],"data_offsets":[3,7]},'
        '"g":{"dtype":"F4","shape":[6],"data_offsets":[7,10]}}',
        bytes(range(10)),
    )
    with opened(path, "pt") as f:
        with pytest.raises(SafetensorError, match="^prefetch cannot hand out dtype F6_E2M3: torch has no matching dtype$"):
            f.prefetch()
        p = f.prefetch({"f": slice(1, 3)})
        if hasattr(__import__("torch"), "float4_e2m1fn_x2"):
            assert p.take("f").shape == (2, 1) and f.get_tensor_meta("f").shape == [4, 2]
    with opened(path) as f:
        p = f.prefetch({"a": None, "f": slice(1, 3), "g": slice(2, 6)})
        assert p.take("a").tolist() == [0, 1, 2]
        assert p.take("f").tolist() == [[4], [5]] and p.take("g").tolist() == [8, 9]
        with pytest.raises(SafetensorError, match="^g: "):
            f.prefetch({"g": slice(1, 3)})  # the slice begins inside a byte


def test_bfloat16_storage_has_exact_size(make: Any) -> None:
    torch = framework("torch")
    path = make('{"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}', bytes([0x80, 0x3F] * 3))
    with opened(path, "pt") as f:
        taken = f.prefetch({"a": slice(1, 3)}).take("a")
    assert taken.dtype == torch.bfloat16 and taken.tolist() == [1, 1]
    taken.untyped_storage()
    assert taken.untyped_storage().nbytes() == 4  # only the two elements of the slice


def test_loads_to_device_or_raises_error_of_torch(path: Path) -> None:
    torch = framework("torch")
    with opened(path, "pt") as f:
        for device in ("cpu", "cpu:0", torch.device("cpu"), None):
            assert f.prefetch({"b": None}, device=device).take("b").tolist() == B.tolist()
        if not torch.cuda.is_available():
            with pytest.raises(SafetensorError) as caught:
                f.prefetch({"b": None}, device="cuda")
            with pytest.raises(Exception, match=".") as own:
                torch.empty(0).to("cuda:0")
            assert str(caught.value) == str(own.value)
            assert type(caught.value.__cause__) is type(own.value)
            with pytest.raises(SafetensorError, match="^File does not contain tensor zz$"):
                f.prefetch({"zz": None}, device="cuda")  # the plan is checked first
    if torch.cuda.is_available():
        with opened(path, "pt", device=0) as f, f.prefetch() as p:
            assert p.take("b").device == torch.device("cuda:0")
            assert {n: t.tolist() for n, t in p}.keys() == {*IN_FILE_ORDER} - {"b"}
            assert f.prefetch({"b": None}, device="cpu").take("b").device.type == "cpu"


def test_take_after_device_error_tries_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = framework("torch")
    if not hasattr(torch._C, "_from_dlpack"):
        pytest.skip("this torch has another way in")
    answers: list[Any] = []

    class Answer:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def to(self, device: str) -> Any:
            answers.append(device)
            if len(answers) == 2:  # the first is a probe of the device
                raise RuntimeError("device is full")
            return self.tensor

    original, empty = torch._C._from_dlpack, torch.empty(0)
    monkeypatch.setattr(torch._C, "_from_dlpack", lambda capsule: Answer(original(capsule)))
    monkeypatch.setattr(torch, "empty", lambda *a, **k: Answer(empty))
    with opened(path, "pt") as f:
        p = f.prefetch({"b": None}, device="xpu:1")
        assert answers == ["xpu:1"]
        with pytest.raises(SafetensorError, match="^b: device is full$") as caught:
            p.take("b")
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert p.take("b").tolist() == B.tolist() and answers == ["xpu:1"] * 3


def test_tensor_meta_has_dtype_shape_and_offsets(path: Path) -> None:
    with opened(path) as f:
        meta = f.get_tensor_meta("b")
        other = f.get_tensor_meta("é/λ")
        assert f.get_tensor_meta(name="s").shape == []
        with pytest.raises(SafetensorError, match="^File does not contain tensor zz$"):
            f.get_tensor_meta("zz")
        with pytest.raises(TypeError, match="^'int' object is not an instance of 'str'$"):
            f.get_tensor_meta(3)
        with pytest.raises(TypeError, match="^'None' is not an instance of 'str'$"):
            f.get_tensor_meta(None)
    assert (meta.dtype, meta.shape, meta.data_offsets) == ("F32", [4, 3], (8, 56))
    assert repr(meta) == str(meta) == 'TensorMeta { dtype: "F32", shape: [4, 3], data_offsets: (8, 56) }'
    assert repr(other) == 'TensorMeta { dtype: "U8", shape: [4], data_offsets: (60, 64) }'
    assert meta.shape is not meta.shape and type(meta.data_offsets) is tuple
    assert meta != other and len({meta, meta, other}) == 2
    with pytest.raises(AttributeError):
        meta.shape = [1]
    with pytest.raises(TypeError):
        safetensors.TensorMeta()
    with pytest.raises(TypeError):
        pickle.dumps(meta)


def test_the_type_of_a_plan() -> None:
    assert safetensors.PrefetchPlan == dict[str, slice | tuple[list[slice], ...] | None]


NASTY, SHOWN = "\x1b[31mevil\u202e", "\\u{1b}[31mevil\\u{202e}"


def test_errors_show_names_without_control_characters(make: Any) -> None:
    entry = {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]}
    scalar = {"dtype": "U8", "shape": [], "data_offsets": [3, 4]}
    with safe_open(make(json.dumps({NASTY: entry, NASTY + "s": scalar}), b"abcd"), "np") as f:
        wrong: list[tuple[str, Any]] = [
            (NASTY, 3), (NASTY, slice("a", 1)), (NASTY, slice(0, 9)), (NASTY, slice(0, 4, 2)), (NASTY, slice(0, 4, 0)),
            (NASTY, slice(0, 1)), (NASTY + "s", slice(0, 1)), (NASTY + "x", None),
        ]  # fmt: skip
        for name, rows in wrong:
            with pytest.raises(SafetensorError) as caught:
                f.prefetch({name: rows})
            assert SHOWN in str(caught.value) and str(caught.value).isprintable()
        p = f.prefetch({NASTY: None})
        p.close()
    for name, text in ((NASTY, f"{SHOWN}: prefetch loader closed"), (NASTY + "x", f"tensor {SHOWN}x is not in the prefetch plan")):
        with pytest.raises(SafetensorError) as caught:
            p.take(name)
        assert str(caught.value) == text
