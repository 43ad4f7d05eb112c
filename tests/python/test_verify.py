"""Refusals of load(..., verify=...) and `verify --manifest`: each wrong digest, swapped files."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import installed, parse_manifest

from safetensors import Checkpoint, SafetensorError, load, make_manifest
from safetensors._hash.manifest import Manifest
from safetensors._types import Framework
from safetensors.numpy import save_file

KIB64 = 1 << 16
ALGORITHMS = ["sha256", "blake3"] if installed("blake3") else ["sha256"]


def save_model(folder: Path) -> Path:
    """Save a model of two files. The first one has an empty tensor and several chunks."""
    a = {
        "a": (np.arange(100_000) % 251).astype(np.uint8),
        "empty": np.zeros((0, 3), np.uint8),
        "b": (np.arange(100_000) % 241).astype(np.uint8),
    }
    save_file(a, folder / "model-00001-of-00002.safetensors")
    save_file({"c": np.ones((4, 4), np.float32)}, folder / "model-00002-of-00002.safetensors")
    names = {**dict.fromkeys(a, "model-00001-of-00002.safetensors")}
    names["c"] = "model-00002-of-00002.safetensors"
    index = {"metadata": {}, "weight_map": names}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def wrong_digests(manifest: Manifest) -> list[tuple[str, str, str]]:
    """Return texts with one wrong digest, and what `load` and the command say of each."""

    def other(digest: str) -> str:
        return digest[:-1] + ("0" if digest[-1] != "0" else "1")

    found = []

    def add(where: Any, key: Any, name: str, load_says: str, command_says: str) -> None:
        right = where[key]
        where[key] = other(right)
        found.append(
            (json.dumps(value), f"{name}: {load_says}", f"{name}: differs: {command_says}")
        )
        where[key] = right

    value = json.loads(manifest.text())
    for file in value["files"]:
        name, start, size = file["name"], file["data_start"], file["bytes"]
        for key, what, begin, end in (
            ("digest", "the file", 0, size),
            ("header", "the header", 0, start),
            ("data", "the data", start, size),
        ):
            text = f"{what}, bytes [{begin}, {end}), is not that of the manifest"
            add(file, key, name, text, f"{what}, in bytes [{begin}, {end})")
        for tensor in file["tensors"]:
            title, bounds = tensor["name"], f"bytes [{tensor['begin']}, {tensor['end']})"
            text = f"tensor '{title}': the {bounds} of the file are not those of the manifest"
            add(tensor, "digest", name, text, f"tensor {title}, in {bounds}")
        for i in range(len(file["chunks"])):
            bounds = f"bytes [{i * KIB64}, {min((i + 1) * KIB64, size)})"
            text = f"chunk {i}: the {bounds} of the file are not those of the manifest"
            add(file["chunks"], i, name, text, f"chunks, in {bounds}")
    return found


def hash_command(algorithm: str) -> str | None:
    """Return the command of this package if it can compute digests of the algorithm."""
    command = shutil.which("safetensors", path=os.path.dirname(sys.executable))
    if command is None:
        return None
    version = subprocess.run([command, "version"], capture_output=True, text=True).stdout
    found = re.search(rf"{algorithm}: (\S+)", version)
    return command if found is not None and found[1].strip(",") != "none" else None


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_wrong_digest_is_refused(tmp_path: Path, algorithm: str) -> None:
    folder = save_model(tmp_path)
    manifest = make_manifest(folder, algorithm=algorithm, chunk_bytes=KIB64)
    assert list(load(folder, verify=manifest)) == ["a", "b", "empty", "c"]
    cases = wrong_digests(manifest)
    assert len(cases) == 2 * 3 + 4 + 5
    frameworks: list[Framework] = ["np", "pt"] if installed("torch") else ["np"]
    command = hash_command(algorithm)
    for text, load_says, command_says in cases:
        for framework in frameworks:
            with pytest.raises(SafetensorError) as raised:
                load(folder, framework=framework, verify=parse_manifest(text))
            assert str(raised.value) == f"{folder}/{load_says}"
        if command is not None:
            (tmp_path / "wrong.json").write_text(text)
            done = subprocess.run(
                [command, "verify", "-q", folder, "--manifest", tmp_path / "wrong.json"],
                capture_output=True,
                text=True,
            )
            assert (done.returncode, done.stdout) == (1, f"{folder}/{command_says}\n")


def command_accepts(algorithm: str, path: Path, manifest: Path) -> bool | None:
    """Return whether `verify --manifest` ends with 0. None without the command."""
    command = hash_command(algorithm)
    if command is None:
        return None
    done = subprocess.run([command, "verify", "-q", path, "--manifest", manifest])
    assert done.returncode in (0, 1)
    return done.returncode == 0


def test_a_file_that_the_model_lost_is_refused(tmp_path: Path) -> None:
    """A file is lost with its entries of the index."""
    folder = tmp_path / "model"
    folder.mkdir()
    save_model(folder)
    manifest = make_manifest(folder)
    manifest.write(tmp_path / "manifest.json")
    first, second = (f"model-0000{i}-of-00002.safetensors" for i in (1, 2))
    index = folder / "model.safetensors.index.json"
    names = json.loads(index.read_text())["weight_map"]
    del names["c"]
    index.write_text(json.dumps({"weight_map": names}))
    (folder / second).unlink()
    text = f"{folder}/{second}: the file of the manifest is not in the model"
    whole_models = [folder, index, folder / "*.safetensors", [folder]]
    for path in whole_models:
        with pytest.raises(SafetensorError) as raised:
            load(path, verify=manifest)  # type: ignore[arg-type]
        assert str(raised.value) == text
        if not isinstance(path, list):
            assert command_accepts("sha256", path, tmp_path / "manifest.json") in (False, None)
    # A file by its name, and some tensors, are not the whole model.
    assert list(load(folder / first, verify=manifest)) == ["a", "b", "empty"]
    assert command_accepts("sha256", folder / first, tmp_path / "manifest.json") in (True, None)
    assert list(load(folder, keys=["a"], verify=manifest)) == ["a"]
    assert list(load(folder, keys=["*"], verify=manifest)) == ["a", "b", "empty"]


def without(manifest: Manifest, name: str) -> str:
    value = json.loads(manifest.text())
    for file in value["files"]:
        file["tensors"] = [tensor for tensor in file["tensors"] if tensor["name"] != name]
    return json.dumps(value)


@pytest.mark.parametrize("hidden", [["a"], ["b"], ["empty"], ["a", "b", "empty"], ["a", "empty"]])
def test_tensors_that_the_index_does_not_name_are_checked(
    tmp_path: Path, hidden: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read for their digests, in blocks, and are not returned."""
    monkeypatch.setattr("safetensors._hash.manifest._BLOCK_BYTES", 30_000)
    folder = save_model(tmp_path)
    first = folder / "model-00001-of-00002.safetensors"
    # An index must name a tensor of each of its files.
    save_file({**load(first), "kept": np.ones(3, np.uint8)}, first)
    names = {name: first.name for name in ("a", "b", "empty", "kept") if name not in hidden}
    names["c"] = "model-00002-of-00002.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    manifest = make_manifest(folder, chunk_bytes=KIB64)
    loaded = load(folder, verify=manifest)
    assert sorted(loaded) == sorted(names)
    for text, load_says, _ in wrong_digests(manifest):
        with pytest.raises(SafetensorError) as raised:
            load(folder, verify=parse_manifest(text))
        assert str(raised.value) == f"{folder}/{load_says}"
        (tmp_path / "wrong.json").write_text(text)
        assert command_accepts("sha256", folder, tmp_path / "wrong.json") in (False, None)
    for name in hidden:
        text = without(manifest, name)
        with pytest.raises(SafetensorError, match=f"tensor '{name}' is not in the manifest"):
            load(folder, verify=parse_manifest(text))
        (tmp_path / "wrong.json").write_text(text)
        assert command_accepts("sha256", folder, tmp_path / "wrong.json") in (False, None)
        # A load of some tensors checks only the bytes read.
        assert list(load(folder, keys=["c"], verify=parse_manifest(text))) == ["c"]


def test_a_partial_load_checks_what_it_has(tmp_path: Path) -> None:
    folder = save_model(tmp_path)
    manifest = make_manifest(folder, chunk_bytes=KIB64)
    for text, load_says, _ in wrong_digests(manifest):
        wrong = parse_manifest(text)
        if "the header" in load_says or "'a'" in load_says:
            with pytest.raises(SafetensorError, match=re.escape(load_says)):
                load(folder, keys=["a"], verify=wrong)
        else:
            assert list(load(folder, keys=["a"], verify=wrong)) == ["a"]
        # All bytes of the first file, in another order. Only its empty tensor is left out.
        if load_says.startswith("model-00001") and "empty" not in load_says:
            with pytest.raises(SafetensorError, match=re.escape(load_says)):
                load(folder, keys=["b", "a"], verify=wrong)
        elif "the header" not in load_says:
            assert list(load(folder, keys=["b", "a"], verify=wrong)) == ["b", "a"]


def test_a_file_without_tensors_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({}, path, {"key": "value"})
    manifest = make_manifest(path)
    assert load(path, verify=manifest) == {}
    for text, load_says, _ in wrong_digests(manifest):
        with pytest.raises(SafetensorError, match=re.escape(load_says)):
            load(path, verify=parse_manifest(text))


def test_tensors_of_the_manifest_are_those_of_the_file(tmp_path: Path) -> None:
    folder = save_model(tmp_path)
    value = json.loads(make_manifest(folder).text())
    value["files"][0]["tensors"][0]["name"] = "x"
    text = "model-00001-of-00002.safetensors: tensor 'x' of the manifest is not in the file"
    with pytest.raises(SafetensorError, match=re.escape(text)):
        load(folder, verify=parse_manifest(json.dumps(value)))


class Swapper:
    """Calls a function before one of the calls that the interpreter makes."""

    def __init__(self, when: int, swap: Callable[[], None]) -> None:
        self.calls = 0
        self._when = when
        self._swap = swap

    def __enter__(self) -> Swapper:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, _: object, kind: str, __: object) -> None:
        if kind not in ("call", "c_call"):
            return
        if self.calls == self._when:
            self._swap()
        self.calls += 1


@pytest.mark.parametrize("backend", ["auto", "mmap"])
@pytest.mark.parametrize("way", ["replace", "rewrite"])
@pytest.mark.parametrize("verified_first", [False, True])
def test_a_file_that_is_swapped_during_the_load(
    tmp_path: Path, verified_first: bool, way: str, backend: Any
) -> None:
    """The other file has the same size and the same data, but I16 for F16."""
    path, other = tmp_path / "x.safetensors", tmp_path / "other"
    values = np.arange(24, dtype=np.float16).reshape(4, 6)
    save_file({"a": values, "b": values + 1}, path)
    manifest = make_manifest(path)
    right = path.read_bytes()
    wrong = right.replace(b'"F16"', b'"I16"')
    assert len(wrong) == len(right) and wrong != right
    before, after = (right, wrong) if verified_first else (wrong, right)

    def swap() -> None:
        if way == "rewrite":
            with open(path, "r+b") as file:
                file.write(after)
        else:
            os.replace(other, path)

    def attempt(when: int) -> tuple[bool, int]:
        """Load, and swap the file before this call. Return whether tensors came, and all calls."""
        path.write_bytes(before)
        other.write_bytes(after)
        with Swapper(when, swap) as swapper:
            try:
                loaded = load(path, verify=manifest, backend=backend)
            except (SafetensorError, OSError):
                return False, swapper.calls
            finally:
                sys.setprofile(None)
        assert loaded["a"].dtype == loaded["b"].dtype == np.float16, when
        assert (loaded["a"] == values).all() and (loaded["b"] == values + 1).all(), when
        return True, swapper.calls

    load(path, verify=manifest, backend=backend)  # imports what it needs
    came, calls = attempt(-1)
    assert came == verified_first
    when, outcomes = 0, set()
    while when < calls:  # an attempt may have more calls than the first one
        came, seen = attempt(when)
        outcomes.add(came)
        calls = max(calls, seen)
        when += 1
    assert calls > 50 and outcomes == {True, False}


def test_headers_from_another_process_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"a": np.arange(8, dtype=np.float16)}, path)
    manifest = make_manifest(path)
    right = path.read_bytes()
    path.write_bytes(right.replace(b'"F16"', b'"I16"'))
    headers = Checkpoint(path).headers()
    path.write_bytes(right)
    with pytest.raises(SafetensorError, match="the header was changed after the file was opened"):
        Checkpoint(path, headers=headers).load(verify=manifest)
    headers = Checkpoint(path).headers()
    assert Checkpoint(path, headers=headers).load(verify=manifest)["a"].dtype == np.float16


@pytest.mark.parametrize("verified_first", [False, True])
def test_a_file_that_is_opened_again_is_the_same_file(tmp_path: Path, verified_first: bool) -> None:
    """Half of the limit of descriptors may be open, so the first files are closed and opened again."""
    limit = 2 * max(32, 16 + max(map(int, os.listdir("/proc/self/fd"))))
    paths = [tmp_path / f"{i:04}.safetensors" for i in range(limit // 2 + 8)]
    for i, path in enumerate(paths):
        save_file({f"t{i}": np.arange(8, dtype=np.float16)}, path)
    manifest = make_manifest(paths)
    right = paths[0].read_bytes()
    files = [right, right.replace(b'"F16"', b'"I16"')]
    before, after = files if verified_first else reversed(files)
    paths[0].write_bytes(before)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        checkpoint = Checkpoint(paths)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    (tmp_path / "other").write_bytes(after)
    os.replace(tmp_path / "other", paths[0])
    with pytest.raises(SafetensorError, match="file was replaced: its path leads to another file"):
        checkpoint.load(verify=manifest)
