"""Which tensors load and stream take, and the words of their options: patterns, sizes, dtypes, backends."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sharded
from conftest import framework
from sharded import same

from safetensors import Checkpoint, MissingTensorError, SafetensorError, Writer, load, safe_open, stream

LAYERS = {f"model.layers.{i}.{part}": np.full((2, 3), i, np.float32) for i in range(12) for part in ("weight", "bias")}
TENSORS = {**LAYERS, "model.norm": np.ones(3, np.float32), "Model.norm": np.zeros(3, np.float32), "a[0]": np.arange(2), "a0": np.arange(3)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sharded.save(tmp_path / "model", TENSORS)


def loaded(folder: Path, **options: Any) -> list[str]:
    """The names that load gives; stream must give the same ones."""
    names = list(load(folder, **options))
    assert sorted(name for name, _ in stream(folder, **options)) == sorted(names)
    return names


# Patterns


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        (["model.layers.1.*"], {"model.layers.1.weight", "model.layers.1.bias"}),
        (["model.layers.[!0-9]*", "a0"], None),
        (["model.norm*"], {"model.norm"}),  # not Model.norm
        (["a[0]"], {"a[0]"}),  # a name is not a pattern
        (["a\\[?]"], {"a[0]"}),  # as in the command
        ([], set()),
    ],
)
def test_patterns_stand_for_names(folder: Path, keys: list[str], wanted: set[str] | None) -> None:
    if wanted is None:
        with pytest.raises(MissingTensorError, match=r"^keys: no tensor matches the pattern 'model.layers.\[!0-9\]\*'$") as caught:
            loaded(folder, keys=keys)
        assert caught.value.name == keys[0]
    else:
        assert set(loaded(folder, keys=keys)) == wanted


def test_patterns_keep_order_and_name_tensors_once(folder: Path) -> None:
    order = [name for name in Checkpoint(folder) if name.endswith(".bias")]
    assert loaded(folder, keys=["model.norm", "*.bias", "model.layers.3.bias", "*.bias"]) == ["model.norm", *order]


def test_other_arguments_go_with_patterns(folder: Path) -> None:
    name = "model.layers.5.weight"
    out = np.zeros((1, 3), np.float16)
    got = load(folder, keys=["*.5.*"], slices={name: slice(1, 2)}, dtype={name: "half"}, out={name: out})
    assert got[name] is out and (out == 5).all() and got["model.layers.5.bias"].dtype == np.float32
    with pytest.raises(MissingTensorError, match="^slices names a tensor that is not loaded: model.norm$"):
        load(folder, keys=["*.5.*"], slices={"model.norm": 0})


# One kind of error


def test_missing_names_raise_one_error_everywhere(folder: Path, tmp_path: Path) -> None:
    file = sorted(folder.glob("*.safetensors"))[0]
    checkpoint = Checkpoint(folder)
    calls: list[Callable[[], object]] = [
        lambda: checkpoint["zz"], lambda: checkpoint.get_tensor("zz"), lambda: checkpoint.get_slice("zz"),
        lambda: checkpoint.get_tensor_meta("zz"), lambda: load(folder, keys=["zz"]), lambda: stream(folder, keys=["zz"]),
        lambda: load(folder, keys=["zz*"]), lambda: load(folder, out={"zz": np.zeros(1)}),
        lambda: load(folder, keys=["zz"], backend="mmap"), lambda: safe_open(file, "np").get_tensor("zz"),
        lambda: safe_open(file, "np").get_slice("zz"), lambda: safe_open(file, "np").get_tensor_meta("zz"),
        lambda: safe_open(file, "np").prefetch({"zz": None}), lambda: safe_open(file, "np").prefetch().take("zz"),
        lambda: Writer(tmp_path / "w", {}).write("zz", 0),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(MissingTensorError) as caught:
            call()
        error = caught.value
        assert isinstance(error, SafetensorError) and isinstance(error, KeyError)
        assert error.name.startswith("zz") and error.code == "not_found" and "zz" in str(error) and str(error)[0] != "'"
    for name in ("\ud800", "", "zz\0"):
        for ask in (checkpoint.__getitem__, lambda n: checkpoint.load([n], dtype="F32"), lambda n: checkpoint.stream([n])):
            with pytest.raises(MissingTensorError) as caught:
                ask(name)
            assert caught.value.name == name
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is MissingTensorError and (again.name, again.code, str(again)) == (error.name, error.code, str(error))


def test_missing_name_suggests_similar_one(folder: Path) -> None:
    with pytest.raises(MissingTensorError, match="is it `model.norm`\\?"):
        Checkpoint(folder)["model.nomr"]
    assert Checkpoint(folder).get("model.nomr") is None


# Sizes


@pytest.mark.parametrize("text", ["", "1 gigabyte", "١GB"])
def test_sizes_that_are_unclear_are_refused(folder: Path, text: str) -> None:
    assert len(load(folder, memory_limit="1MiB")) == len(list(stream(folder, memory_limit="64KB"))) == len(TENSORS)
    for call in (load, stream):
        with pytest.raises(ValueError) as caught:
            call(folder, memory_limit=text)
        assert str(caught.value) == (
            f"memory_limit {text!r} is invalid: expected a number of bytes, or a text such as "
            '"1GB" (1000 ** 3 bytes) or "512MiB" (512 * 1024 ** 2 bytes)'
        )


# Dtypes


@pytest.mark.parametrize(
    ("word", "dtype"),
    [
        ("half", np.float16), ("fp16", np.float16), ("f16", np.float16), ("torch.half", np.float16), ("float", np.float32),
        ("single", np.float32), ("fp32", np.float32), ("f32", np.float32), ("double", np.float64), ("fp64", np.float64),
    ],
)  # fmt: skip
def test_words_for_dtypes_are_understood(folder: Path, tmp_path: Path, word: str, dtype: Any) -> None:
    assert load(folder, keys=["model.norm"], dtype=word)["model.norm"].dtype == dtype
    with Writer(tmp_path / "w", {"a": (word, (1,))}) as writer:
        writer.write("a", [1])
    assert load(tmp_path / "w")["a"].dtype == dtype


def test_word_for_bfloat16_is_understood(folder: Path) -> None:
    torch = framework("torch")
    assert load(folder, framework="pt", keys=["model.norm"], dtype="bf16")["model.norm"].dtype == torch.bfloat16
    assert load(folder, framework="pt", keys=["model.norm"], dtype="f8_e4m3")["model.norm"].dtype == torch.float8_e4m3fn


def test_words_without_a_meaning_are_refused(folder: Path) -> None:
    for word in ("long", "fp8", "Half", "F-16", "halff", ""):
        with pytest.raises(SafetensorError, match=f"^cannot cast to {word!r}: expected one of (float8_e5m2, .*, )?float16, "):
            load(folder, dtype=word)
    with pytest.raises(TypeError, match="^dtype float does not say how many bits"):
        load(folder, dtype=float)


# Backends


def maps_of(folder: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(folder))


def test_mmap_gives_views_of_slices_whose_bytes_are_adjacent(tmp_path: Path) -> None:
    if not Path("/proc/self/maps").exists():
        pytest.skip("this system does not tell what a process has mapped")
    want = {"a": np.arange(6 << 16, dtype=np.int32).reshape(6, 1 << 8, 1 << 8), "b": np.arange(8, dtype=np.int8)}
    folder = sharded.save(tmp_path, want, count=2)
    one, column = np.index_exp[2:4], np.index_exp[:, 1:3]
    for index in (one, np.index_exp[5], np.index_exp[1, 2:9], np.index_exp[1, 2, 3], np.index_exp[3:3], np.index_exp[...]):
        held = load(folder, backend="mmap", slices={"a": index, "b": slice(3, 6)})
        assert maps_of(folder) == (2 if held["a"].size else 1)  # an empty array needs no memory
        assert same(held["a"], want["a"][index]) and same(held["b"], want["b"][3:6])
        if held["a"].size and held["a"].ndim:
            held["a"][...] = 7  # pages of the process, not of the file
            assert same(load(folder, slices={"a": index})["a"], want["a"][index])
    for index in (column, np.index_exp[::-1], np.index_exp[::2]):
        held = load(folder, backend="mmap", keys=["a"], slices={"a": index})
        assert maps_of(folder) == 0 and same(held["a"], want["a"][index])
    held = load(folder, backend="mmap", slices={"a": one}, dtype={"a": "I32", "b": "I64"})
    assert maps_of(folder) == 1 and same(held["a"], want["a"][one])
    for backend in ("auto", "pread"):
        held = load(folder, backend=backend)
        assert maps_of(folder) == 0
