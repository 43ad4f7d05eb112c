"""Wrong arguments: the message names the argument, and says what to give."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import framework, installed

import safetensors.numpy as stn
from safetensors import Checkpoint, CheckpointLayout, CheckpointWriter, SafetensorError, Writer, load, safe_open, save, serialize_file, stream

W = {"w": np.arange(12, dtype=np.float32).reshape(3, 4)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    stn.save_file(W, tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


HINT = " (safetensors.numpy.load, safetensors.torch.load and so on take the bytes of a file)"


def takers_of_paths() -> Iterator[Any]:
    for name, call in {
        "paths": load, "paths of a checkpoint": Checkpoint, "paths of a stream": stream,
        "filename of safe_open": lambda given: safe_open(given, "np"), "filename of load_file": stn.load_file,
        "filename of save_file": lambda given: stn.save_file(W, given), "filename of serialize_file": lambda given: serialize_file({}, given),
    }.items():  # fmt: skip
        yield pytest.param(name.split()[0], call, id=name)
    if installed("torch"):
        import torch

        import safetensors.torch as stt

        yield pytest.param("filename", stt.load_file, id="torch.load_file")
        yield pytest.param("filename", lambda given: stt.load_model(torch.nn.Linear(4, 3, bias=False), given), id="load_model")
        yield pytest.param("filename", lambda given: stt.save_file({"w": torch.zeros(2)}, given), id="torch.save_file")


def other_takers() -> Iterator[Any]:
    yield pytest.param("path", lambda given: save(W, given), id="save")
    yield pytest.param("path", lambda given: Writer(given, W), id="Writer")
    yield pytest.param("folder", lambda given: CheckpointWriter(given, W), id="CheckpointWriter")
    if installed("torch"):
        import torch

        import safetensors.distributed as std
        import safetensors.torch as stt

        model = torch.nn.Identity()
        yield pytest.param("path", lambda given: stt.load_into(model, given), id="load_into")
        yield pytest.param("filename", lambda given: stt.save_model(model, given), id="save_model")
        yield pytest.param("path", lambda given: std.load_sharded({}, given), id="load_sharded")
        yield pytest.param("path", lambda given: std.save_sharded({}, given), id="save_sharded")
        yield pytest.param("path", std.StorageReader, id="StorageReader")
        yield pytest.param("path", std.StorageWriter, id="StorageWriter")
        yield pytest.param("checkpoint_id", std.StorageReader(".").reset, id="StorageReader.reset")
        yield pytest.param("checkpoint_id", std.StorageWriter(".").reset, id="StorageWriter.reset")


@pytest.mark.parametrize(("argument", "taker"), [*takers_of_paths(), *other_takers()])
def test_a_number_is_no_path(argument: str, taker: Callable[[Any], Any]) -> None:
    """`open` takes an int for a descriptor, and closes it."""
    reader, writer = os.pipe()
    os.write(writer, b"untouched")
    os.close(writer)
    before = {number: os.fstat(number) for number in (0, 1, reader)}
    for value in (False, True, reader):
        with pytest.raises(TypeError, match=f"^argument '{argument}': expected .*, not {type(value).__name__}$"):
            taker(value)
    assert all(os.path.samestat(os.fstat(number), status) for number, status in before.items())
    assert os.read(reader, 100) == b"untouched"
    os.close(reader)


@pytest.mark.parametrize(("argument", "taker"), list(takers_of_paths()))
def test_bytes_of_a_file_are_no_path(file: Path, argument: str, taker: Callable[[Any], Any]) -> None:
    data = file.read_bytes()

    class Named(os.PathLike):  # type: ignore[type-arg]
        def __fspath__(self) -> bytes:
            return data

    null = "found a null byte, expected a path"
    given: list[tuple[Any, type[Exception], str]] = [(data, ValueError, null + HINT), ("a\0b", ValueError, null), (Named(), ValueError, null)]
    if argument == "filename":
        kinds = [(kind, f"expected str, bytes or os.PathLike object, not {kind.__name__}{HINT}") for kind in (bytearray, memoryview)]
        given += [(kind(data), TypeError, text) for kind, text in kinds]
    for value, kind, text in given:
        with pytest.raises(kind) as raised:
            taker(value)
        assert str(raised.value) == f"argument '{argument}': {text}"
    if argument == "paths":
        with pytest.raises(TypeError, match=r"not bytearray \(safetensors.numpy.load, "):
            taker(bytearray(data))


def test_bytes_may_be_a_path(file: Path) -> None:
    path = os.fsencode(file)
    stn.save_file(W, path)  # type: ignore[arg-type]
    assert (stn.load_file(path)["w"] == W["w"]).all()  # type: ignore[arg-type]
    with safe_open(path, "np") as f:  # type: ignore[arg-type]
        assert f.keys() == ["w"]


def test_the_dtypes_of_a_message_are_there(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    for given in ("fp8", "BOOL", {"w": "fp8"}):
        with pytest.raises(SafetensorError, match="^cannot cast to .*: expected one of float16, float32, float64, uint8, .*, uint64$"):
            load(file, dtype=given)
    for name in ("float16", "float32", "float64"):
        assert load(file, dtype=name)["w"].dtype == name
    framework("torch")
    with pytest.raises(SafetensorError, match="^cannot cast to 'fp8': expected one of float8_e5m2, ") as raised:
        load(file, framework="pt", dtype="fp8")
    for name in str(raised.value).partition("one of ")[2].split(", "):
        kept = "float32" if "int" in name else name  # `w` has floats
        assert str(load(file, framework="pt", dtype=name)["w"].dtype) == f"torch.{kept}"


def storage_writers() -> list[Any]:
    """Return StorageWriter if torch is installed. Its constructor refuses arguments before all ranks wait for the save."""
    return [framework("safetensors.distributed").StorageWriter] if installed("torch") else []


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"step": 7}, "metadata['step'] is int: expected a str"),
        ({7: "step"}, "metadata has the key 7: expected a str"),
        (7, "metadata is int: expected a dict of str to str"),
    ],
)
def test_the_message_of_a_save_names_the_metadata(tmp_path: Path, metadata: Any, text: str) -> None:
    takers: list[Callable[[Any], Any]] = [
        lambda given: save(W, tmp_path / "w.safetensors", metadata=given),
        lambda given: save(W, tmp_path / "w", metadata=given),
        lambda given: Writer(tmp_path / "w.safetensors", W, given),
        lambda given: CheckpointWriter(tmp_path / "w", W, metadata=given),
        lambda given: CheckpointLayout(W, metadata=given),
        *(lambda given: writer(tmp_path / "w", metadata=given) for writer in storage_writers()),
    ]
    for taker in takers:
        with pytest.raises(TypeError) as raised:
            taker(metadata)
        assert str(raised.value) == text
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("size", "kind", "text"),
    [
        *((zero, ValueError, "max_shard_size is 0: expected at least 1 byte") for zero in (0, "0GB", "0")),
        (1.5, TypeError, 'max_shard_size is 1.5: expected an int, or a text such as "1GB"'),
        (-1, SafetensorError, "max_shard_size is -1, expected 1 to 2^64-1"),
        (1 << 64, SafetensorError, "max_shard_size is 18446744073709551616, expected 1 to 2^64-1"),
        ("99999999999TB", SafetensorError, "max_shard_size is 99999999999000000000000, expected 1 to 2^64-1"),
    ],
)
def test_sizes_of_shards_that_cannot_be(tmp_path: Path, size: Any, kind: type[Exception], text: str) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: CheckpointLayout(W, max_shard_size=size),
        lambda: CheckpointWriter(tmp_path / "m", W, max_shard_size=size),
        lambda: save(W, tmp_path / "m", max_shard_size=size),
        *(lambda: writer(tmp_path / "m", max_shard_size=size) for writer in storage_writers()),
    ]
    for call in calls:
        with pytest.raises(kind, match=f"^{re.escape(text)}$"):
            call()
    assert os.listdir(tmp_path) == []
    assert len(CheckpointLayout(W, max_shard_size=np.int64(1)).files) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("to", [str, Path, os.fsencode])
def test_a_tilde_is_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: Callable[[str], Any]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    save(W, to("~/one.safetensors"))
    save(W, to("~/model"), max_shard_size=1)
    with Writer(to("~/two.safetensors"), W) as writer:
        writer.write("w", W["w"])
    with CheckpointWriter(to("~/other"), W) as folder:
        folder.write("w", W["w"])
    assert sorted(os.listdir(tmp_path)) == ["model", "one.safetensors", "other", "two.safetensors"]
    for name in ("one.safetensors", "model", "two.*"):
        path = to(f"~/{name}")
        assert (load(path)["w"] == W["w"]).all()
        assert (dict(stream([path]))["w"] == W["w"]).all()
        assert Checkpoint(path).files[0].startswith(str(tmp_path))


@pytest.mark.parametrize("home", ["[a]", "a*", "a?b", "[", "plain"])
def test_a_home_directory_is_no_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    for name in (home, "a", "axb"):  # the others would match
        os.makedirs(tmp_path / name, exist_ok=True)
        stn.save_file({name: W["w"]}, tmp_path / name / "w.safetensors")
    for text in (str(tmp_path / home), str(tmp_path / home) + "/"):
        monkeypatch.setenv("HOME", text)
        for path in ("~/*.safetensors", "~/[w].safetensors", "~/w.safetensors", "~", ["~/?.safetensors"]):
            assert list(load(path)) == [home]


def test_other_tildes_are_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in ("a~.safetensors", "./~.safetensors", "~no-such-user.safetensors"):
        save(W, name)
        assert os.path.exists(name) and (load(name)["w"] == W["w"]).all()
    os.mkdir("~")
    stn.save_file(W, "~/w.safetensors")  # the functions of the reference take paths as they are
    assert os.listdir("~") == ["w.safetensors"]
    assert (stn.load_file("~/w.safetensors")["w"] == W["w"]).all()
    with pytest.raises(FileNotFoundError):
        load("~/w.safetensors")


@pytest.mark.parametrize("kind", ["parameter", "buffer", "buffers of one storage", "parameters of one storage", "parameter and buffer"])
def test_load_into_names_all_that_save_model_drops(tmp_path: Path, kind: str) -> None:
    torch, stt = framework("torch"), framework("safetensors.torch")
    first = torch.nn.Parameter(torch.arange(4.0)) if kind == "parameter" else torch.arange(4.0)
    second = first if kind in ("buffer", "parameter") else first.view(4)
    model = torch.nn.Module()
    for name, tensor in (("a", first), ("b", second)):
        if kind.startswith("parameters") or (kind == "parameter and buffer" and name == "a"):
            model.register_parameter(name, torch.nn.Parameter(tensor))
        elif kind == "parameter":
            model.register_parameter(name, tensor)
        else:
            model.register_buffer(name, tensor)
    model.register_buffer("whole", torch.zeros(4))
    model.register_buffer("not_saved", first, persistent=False)
    stt.save_model(model, tmp_path / "m.safetensors")
    with pytest.raises(RuntimeError) as raised:
        stt.load_into(model, tmp_path / "m.safetensors")
    lines = str(raised.value).splitlines()
    hint = '\t"b" is tied to "a", which the checkpoint has: give strict=False, or use load_model'
    assert lines[-1] == hint and str(raised.value).count("is tied to") == 1
    stt.load_into(model, tmp_path / "m.safetensors", strict=False)
    stt.load_model(model, tmp_path / "m.safetensors")


def test_load_into_calls_a_part_of_a_tensor_not_tied(tmp_path: Path) -> None:
    torch, stt = framework("torch"), framework("safetensors.torch")
    model = torch.nn.Module()
    model.register_buffer("whole", torch.zeros(4))
    for name, part in (("part", model.whole[:2]), ("view", model.whole.view(2, 2)), ("bits", model.whole.view(torch.int32))):
        model.register_buffer(name, part)
    for name in ("none", "nothing"):  # tensors without memory have one address, 0
        model.register_buffer(name, torch.zeros(0))
    stt.save_file({"whole": torch.zeros(4), "none": torch.zeros(0)}, tmp_path / "m.safetensors")
    with pytest.raises(RuntimeError, match='"part", "view", "bits", "nothing"') as raised:
        stt.load_into(model, tmp_path / "m.safetensors")
    assert "is tied to" not in str(raised.value)
