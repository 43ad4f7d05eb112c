"""lint of a file or a model: its findings, and its errors."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import shutil
import signal
import struct
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import file_bytes, framework

np = framework("numpy")

from safetensors import LintFinding, SafetensorError, lint, save  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402


def write(path: Path, entries: dict[str, tuple[str, list[int], int]], text: str = "") -> Path:
    """A file with these tensors: dtype, shape, bytes. `text` begins the header, after the brace."""
    header: dict[str, Any] = {}
    end = 0
    for name, (dtype, shape, size) in entries.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    whole = "{" + text + json.dumps(header)[1:]
    whole += " " * (-len(whole) % 8)
    path.write_bytes(file_bytes(whole, bytes(end)))
    return path


def codes(found: list[LintFinding]) -> list[str]:
    return [each.code for each in found]


def test_a_good_file_has_no_finding(tmp_path: Path) -> None:
    tensors = {"a": np.ones(3, np.float32), "b": np.ones(3, np.int8)}
    save_file(tensors, tmp_path / "t", {"format": "np"}, durability="none")
    assert lint(tmp_path / "t") == []


def test_a_misaligned_tensor(tmp_path: Path) -> None:
    path = write(tmp_path / "t", {"b": ("U8", [1], 1), "w": ("F32", [2], 8)})
    found = lint(path)
    assert codes(found) == ["misaligned", "order"]
    first = found[0]
    assert (first.severity, first.path, first.tensor) == ("warning", str(path), "w")
    assert (first.count, first.nbytes) == (1, 8)
    assert first.message == (
        "1 tensor not at a multiple of the element's size: loaders copy 8 bytes"
    )
    assert "repack" in first.advice
    assert (found[1].severity, found[1].count) == ("note", 1)


def test_findings_of_names_and_metadata(tmp_path: Path) -> None:
    entries = {
        "": ("U8", [1], 1),
        "../x": ("U8", [1], 1),
        "\u202eevil\x07": ("U8", [0], 0),
        "y" * 300: ("C64", [1], 8),
    }
    path = write(tmp_path / "t", entries, '"__metadata__":{"\\u200b":"x","format":"\\u0007"},')
    found = {each.code: each for each in lint(path)}
    names = {"invisible_name": "\u202eevil\x07", "empty_name": "", "path_name": "../x"}
    for code, name in names.items():
        assert found[code].tensor == name and found[code].count == 1
    assert found["long_name"].tensor == "y" * 300 and found["wide_dtype"].nbytes == 8
    assert found["metadata_format"].tensor is None
    assert found["invisible_metadata"].count == 1
    for each in found.values():  # hostile text is only in `tensor`
        assert each.message.isprintable() and each.advice.isprintable()


def test_white_space_before_the_header(tmp_path: Path) -> None:
    text = b' {"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    text += b" " * (-len(text) % 8)
    (tmp_path / "t").write_bytes(struct.pack("<Q", len(text)) + text + b"x")
    found = lint(tmp_path / "t")
    assert (found[0].code, found[0].severity, found[0].tensor) == (
        "leading_whitespace",
        "error",
        None,
    )


def test_peek_reads_signatures(tmp_path: Path) -> None:
    data = np.frombuffer(b"\x7fELF" + bytes(60), np.uint8)
    save_file({"x": data}, tmp_path / "t", durability="none")
    assert codes(lint(tmp_path / "t")) == ["embedded_file"]
    assert lint(tmp_path / "t", peek=False) == []


def test_duplicates(tmp_path: Path) -> None:
    data = {
        "a": np.ones(5000, np.uint8),
        "b": np.ones(5000, np.uint8),
        "c": np.zeros(5000, np.uint8),
    }
    save_file(data, tmp_path / "t", durability="none")
    assert lint(tmp_path / "t") == []
    calls: list[tuple[int, int]] = []
    found = lint(tmp_path / "t", duplicates=True, progress=lambda *numbers: calls.append(numbers))
    assert codes(found) == ["duplicate_data"] and found[0].path is None
    assert (found[0].tensor, found[0].count, found[0].nbytes) == ("a", 2, 5000)
    assert calls[-1] == (15000, 15000)


def test_a_model_and_its_index(tmp_path: Path) -> None:
    tensors = {f"layer.{i}": np.ones(100, np.float32) for i in range(4)}
    model = tmp_path / "model"
    save(tensors, model, max_shard_size=800, durability="none")
    assert lint(model) == []
    index = model / "model.safetensors.index.json"
    text = json.loads(index.read_text())
    text["metadata"]["total_size"] += 1
    del text["weight_map"]["layer.0"]
    index.write_text(json.dumps(text))
    save_file({"x": np.ones(1)}, model / os.fsdecode(b"stray\xff\n.safetensors"), durability="none")
    found = lint(model)
    assert codes(found) == ["unindexed_tensor", "stray_file", "total_size"]
    assert all(each.path is None for each in found)
    assert (found[0].tensor, found[0].nbytes) == ("layer.0", 400)
    assert found[1].message.isprintable()


def test_findings_name_their_file(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    paths = [write(folder / name, {name: ("F64", [1], 8)}) for name in ("a", "b")]
    found = lint(paths)
    assert [each.path for each in found] == [str(path) for path in paths]
    assert [each.tensor for each in found] == ["a", "b"]
    assert all(each.path is not None and Path(each.path).exists() for each in found)


def test_a_finding_is_frozen(tmp_path: Path) -> None:
    found = lint(write(tmp_path / "t", {"a": ("F64", [1], 8)}))[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.code = "other"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(found)) == found and len({found, found}) == 1


def test_wrong_arguments_and_files(tmp_path: Path) -> None:
    path = write(tmp_path / "t", {"a": ("U8", [1], 1)})
    with pytest.raises(FileNotFoundError):
        lint(tmp_path / "nothing")
    with pytest.raises(OSError):
        lint("/dev/null")
    for arguments in ({"peek": "yes"}, {"duplicates": 2}, {"progress": 3}):
        with pytest.raises(TypeError):
            lint(path, **arguments)
    with pytest.raises(TypeError):
        lint(None)  # type: ignore[arg-type]
    (tmp_path / "bad").write_bytes(b"\xff" * 100)
    with pytest.raises(SafetensorError, match="bad|header"):
        lint(tmp_path / "bad")


def test_errors_of_progress(tmp_path: Path) -> None:
    data = np.zeros(5000, np.uint8)
    save_file({"a": data, "b": data}, tmp_path / "t", durability="none")

    def fail(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lint(tmp_path / "t", duplicates=True, progress=fail)


@pytest.mark.parametrize("duplicates", [False, True])
def test_ctrl_c_ends_it(tmp_path: Path, duplicates: bool) -> None:
    """Repeats until the signal hits a call: the reads of peek, or those of duplicates."""
    if duplicates:
        data = np.zeros(16 << 20, np.uint8)
        save_file({"a": data, "b": data}, tmp_path / "t", durability="none")
    else:
        write(tmp_path / "t", {f"{i}": ("U8", [8], 8) for i in range(4096)})
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have ignored it
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            for _ in range(10_000):
                lint(tmp_path / "t", duplicates=duplicates)
    finally:
        signal.signal(signal.SIGINT, before)


def test_members_are_those_of_the_command(tmp_path: Path) -> None:
    command = shutil.which("safetensors")
    if command is None:
        pytest.skip("the command safetensors is not on the PATH")
    path = write(tmp_path / "t", {"": ("U8", [1], 1), "w": ("F64", [2], 16), "z": ("F32", [0], 0)})
    done = subprocess.run([command, "lint", "--json", path], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    expected = json.loads(done.stdout)["files"][0]["findings"]
    assert [dataclasses.asdict(each) for each in lint(path)] == expected
    assert len(expected) == 5 and list(expected[0]) == list(LintFinding.__slots__)
