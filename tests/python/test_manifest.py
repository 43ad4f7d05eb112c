"""Manifests: making and reading them, and load(..., verify=...)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sharded
from conftest import framework, installed, parse_manifest
from sharded import same

from safetensors import Checkpoint, SafetensorError, load, make_manifest, read_manifest
from safetensors._hash import manifest
from safetensors.numpy import save_file

WANT = sharded.tensors()
KIB64 = 1 << 16
MODULES = {
    "np": "numpy",
    "pt": "torch",
    "jax": "jax",
    "tf": "tensorflow",
    "mlx": "mlx.core",
    "paddle": "paddle",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.safetensors"
    rng = np.random.default_rng(1)
    save_file(
        {
            "a": rng.integers(0, 256, 100_000, dtype=np.uint8),
            "empty": np.zeros((0, 3), np.float32),
            "scalar": np.array(7, np.float32),
            "b": rng.standard_normal((300, 200)).astype(np.float32),
        },
        path,
        {"ключ": "värde"},
    )
    return path


def flip(path: Path, offset: int) -> None:
    with open(path, "r+b") as f:
        f.seek(offset)
        byte = f.read(1)[0]
        f.seek(offset)
        f.write(bytes([byte ^ 1]))


def test_digests_are_those_of_hashlib(file: Path) -> None:
    data = file.read_bytes()
    manifest = make_manifest(file, chunk_bytes="64KiB")
    (entry,) = manifest.files
    assert (entry.name, entry.bytes) == ("x.safetensors", len(data))
    assert entry.digest == hashlib.sha256(data).hexdigest()
    assert entry.header == hashlib.sha256(data[: entry.data_start]).hexdigest()
    assert entry.data == hashlib.sha256(data[entry.data_start :]).hexdigest()
    want = [
        hashlib.sha256(data[i : i + KIB64]).hexdigest()
        for i in range(0, len(data), KIB64)
    ]
    assert list(entry.chunks) == want
    assert {tensor.name for tensor in entry.tensors} == {"a", "b", "empty", "scalar"}
    for tensor in entry.tensors:
        assert (
            tensor.digest == hashlib.sha256(data[tensor.begin : tensor.end]).hexdigest()
        )


def test_text_round_trips(file: Path, tmp_path: Path) -> None:
    manifest = make_manifest(file)
    manifest.write(tmp_path / "m.json")
    again = read_manifest(tmp_path / "m.json")
    assert again.text() == manifest.text()
    assert again.files == manifest.files
    assert json.loads(manifest.text())["schema"] == "safetensors.manifest/1"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "m.json",
        "x.safetensors",
    ]


def test_the_command_writes_the_same_text(file: Path, tmp_path: Path) -> None:
    command = shutil.which("safetensors")
    if command is None:
        pytest.skip("there is no command safetensors on the PATH")
    out = tmp_path / "m.json"
    done = subprocess.run(
        [command, "hash", file, "--manifest", "-o", out], capture_output=True
    )
    if b"no hash functions" in done.stderr or b"no command" in done.stderr:
        pytest.skip("the command safetensors on the PATH has no hash functions")
    assert done.returncode == 0, done.stderr
    assert out.read_text() == make_manifest(file).text()


@pytest.mark.parametrize("kind", MODULES)
def test_load_verified_returns_the_tensors(tmp_path: Path, kind: str) -> None:
    framework(MODULES[kind])
    folder = sharded.save(tmp_path, WANT)
    manifest = make_manifest(folder)
    assert len(manifest.files) > 1
    keys = [name for name in WANT if kind != "mlx" or name != "scale"]  # MLX has no F64
    loaded = load(folder, framework=kind, keys=keys, verify=manifest)  # type: ignore[arg-type]
    plain = load(folder, framework=kind, keys=keys)  # type: ignore[arg-type]
    assert list(loaded) == list(plain) == keys
    for name in ("wte", "ids"):
        assert type(loaded[name]) is type(plain[name])
        assert same(np.asarray(loaded[name]), np.asarray(plain[name]))


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("name", ["a", "b", "scalar"])
def test_a_flipped_byte_names_its_tensor(file: Path, kind: str, name: str) -> None:
    framework(MODULES[kind])
    manifest = make_manifest(file)
    tensor = next(t for t in manifest.files[0].tensors if t.name == name)
    flip(file, tensor.end - 1)
    text = (
        f"{file}: tensor '{name}': the bytes [{tensor.begin}, {tensor.end}) of the file are not"
        " those of the manifest"
    )
    with pytest.raises(SafetensorError, match=f"^{re.escape(text)}$"):
        load(file, framework=kind, verify=manifest)  # type: ignore[arg-type]
    others = [t.name for t in manifest.files[0].tensors if t.name != name]
    assert list(load(file, keys=others, verify=manifest)) == others


def test_a_changed_header_is_an_error(file: Path) -> None:
    manifest = make_manifest(file)
    data = file.read_bytes()
    file.write_bytes(data.replace(b'"F32","shape":[300', b'"I32","shape":[300'))
    with pytest.raises(
        SafetensorError, match=r"the header, bytes \[0, \d+\), is not that of the"
    ):
        load(file, keys=["a"], verify=manifest)


def test_other_files_are_errors(file: Path, tmp_path: Path) -> None:
    manifest = make_manifest(file)
    other = tmp_path / "y.safetensors"
    shutil.copy(file, other)
    with pytest.raises(
        SafetensorError, match=r"y\.safetensors: the file is not in the manifest$"
    ):
        load(other, verify=manifest)
    save_file({"a": np.zeros(3)}, file)
    with pytest.raises(
        SafetensorError, match=r"the file has \d+ bytes, the manifest has \d+$"
    ):
        load(file, verify=manifest)


def test_options(file: Path, tmp_path: Path) -> None:
    manifest = make_manifest(file)
    manifest.write(tmp_path / "m.json")
    out = {"a": np.zeros(100_000, np.uint8)}
    seen: list[int] = []
    loaded = load(
        file,
        keys=["b", "a"],
        rename={"a": "A"},
        out=out,
        verify=tmp_path / "m.json",
        progress=lambda done, total: seen.append(done),
        threads=1,
        memory_limit="1MiB",
    )
    assert list(loaded) == ["b", "A"]
    assert loaded["A"] is out["a"]
    assert seen[-1] == 100_000 + 240_000
    assert same(Checkpoint(file)["a"], out["a"])
    assert list(load(file, backend="mmap", verify=manifest)) == list(Checkpoint(file))
    for wrong in ({"slices": {"a": 1}}, {"dtype": np.float16}):
        with pytest.raises(
            ValueError, match="^verify checks whole tensors: give it without slices"
        ):
            load(file, verify=manifest, **wrong)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            lambda m: m.update(schema="safetensors.manifest/2"),
            "not a manifest: the schema is not `safetensors.manifest/1`",
        ),
        (lambda m: m.update(algorithm="md5"), "not a manifest: unknown algorithm"),
        (
            lambda m: m.update(chunk_bytes=65537),
            "chunk_bytes is 65537, expected a power of two",
        ),
        (lambda m: m.update(chunk_bytes=True), "not a manifest: expected an integer"),
        (lambda m: m.update(more=1), "not a manifest: unknown member"),
        (lambda m: m.update(files=[]), "the manifest has no files"),
        (
            lambda m: m["files"].append(m["files"][0]),
            "file `x.safetensors` is not in the order of the names",
        ),
        (
            lambda m: m["files"][0].update(name="../x"),
            "the file name `../x` is not allowed",
        ),
        (
            lambda m: m["files"][0].update(name="..\\x"),
            "the file name `..\\\\x` is not allowed",
        ),
        (
            lambda m: m["files"][0].update(name=".. ./x"),
            "the file name `.. ./x` is not allowed",
        ),
        (
            lambda m: m["files"][0].update(name="\\x"),
            "the file name `\\\\x` is not allowed",
        ),
        (
            lambda m: m["files"][0].update(name="c:x"),
            "the file name `c:x` is not allowed: it holds a colon",
        ),
        (
            lambda m: m["files"][0].update(name="\u202ex"),
            "the file name `\\u{202e}x` is not allowed",
        ),
        (
            lambda m: m["files"][0].update(name="\0"),
            "the file name `\\u{0}` is not allowed: it holds a zero byte",
        ),
        (
            lambda m: m["files"][0].update(name=""),
            "the file name `` is not allowed: it is empty",
        ),
        (lambda m: m["files"][0].update(name=3), "not a manifest: expected a string"),
        (
            lambda m: m["files"][0].update(name="\ud800"),
            "not a manifest: a lone surrogate in a string",
        ),
        (
            lambda m: m["files"][0].update(name="/" * 300),
            f"the file name `{'/' * 200}...` is not allowed: it begins with a separator",
        ),
        (
            lambda m: m["files"][0]["tensors"][0].update(name="\ud800"),
            "not a manifest: a lone surrogate in a string",
        ),
        (
            lambda m: m["files"][0].update(bytes=1 << 70),
            "not a manifest: expected an integer from 0",
        ),
        (
            lambda m: m["files"][0].update(bytes=1 << 60),
            "file `x.safetensors`: 1 chunks, expected 1099511627776 for 1152921504606846976 bytes",
        ),
        (
            lambda m: m["files"][0].update(bytes=9),
            "file `x.safetensors`: data_start is not inside",
        ),
        (
            lambda m: m["files"][0].update(chunks=[]),
            "file `x.safetensors`: 0 chunks, expected 1 for",
        ),
        (
            lambda m: m["files"][0].update(digest="g" * 64),
            "not a manifest: a digest is not 64",
        ),
        (lambda m: m["files"][0].pop("data"), "not a manifest: a member is missing"),
        (
            lambda m: m["files"][0]["tensors"][1].update(begin=0),
            "file `x.safetensors`: the range of tensor `",
        ),
        (
            lambda m: m["files"][0]["tensors"][0].update(
                name=m["files"][0]["tensors"][1]["name"]
            ),
            "file `x.safetensors`: tensor `",
        ),
        (
            lambda m: m["files"][0].update(tensors={}),
            "not a manifest: expected a list of tensors",
        ),
    ],
)
def test_hostile_manifests(file: Path, change: Any, text: str) -> None:
    value = json.loads(make_manifest(file).text())
    change(value)
    with pytest.raises(SafetensorError, match=f"^{re.escape(text)}"):
        parse_manifest(json.dumps(value))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "[" * 100_000, '{"schema": 1, "schema": 2}']
)
def test_texts_that_are_no_manifest(text: str) -> None:
    with pytest.raises(SafetensorError, match="^not a manifest: "):
        parse_manifest(text)


def test_seeds_of_the_fuzzer_have_the_verdict_of_the_library() -> None:
    """These are accepted by the parser of the library, and no others."""
    accepted = {
        "blake3_two_files", "digest_escaped", "escaped_names", "largest_chunk", "members_in_other_order", "one_file",
        "real_digests", "upper_case_digest", "white_space",
    }  # fmt: skip
    found = set()
    seeds = sorted(Path(__file__).parents[2].glob("fuzz/corpus/manifest/*"))
    for seed in seeds:
        try:
            parse_manifest(seed.read_bytes().replace(b"@", b"a" * 64).decode())
            found.add(seed.name)
        except (SafetensorError, UnicodeDecodeError):
            pass
    assert len(seeds) > 50 and found == accepted


@pytest.mark.parametrize("name", [b"a:b", b"a\x1b", b"a\xff", b"\xe2\x80\xae"])
def test_names_that_no_manifest_may_hold(
    file: Path, tmp_path: Path, name: bytes
) -> None:
    other = tmp_path / os.fsdecode(name)
    other.write_bytes(file.read_bytes())
    with pytest.raises(
        SafetensorError, match="is not allowed in a manifest: it .*; rename the file$"
    ):
        make_manifest(other)


def test_a_manifest_is_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        read_manifest(tmp_path / "fifo")
    with pytest.raises(IsADirectoryError):
        read_manifest(tmp_path)


def test_unsuitable_arguments(file: Path) -> None:
    with pytest.raises(ValueError, match="^chunk_bytes is 3: expected a power of two"):
        make_manifest(file, chunk_bytes=3)
    with pytest.raises(
        ValueError, match="^unknown algorithm 'md5': expected 'sha256' or 'blake3'$"
    ):
        make_manifest(file, algorithm="md5")
    if not installed("blake3"):
        with pytest.raises(SafetensorError, match="^BLAKE3 needs the package blake3"):
            make_manifest(file, algorithm="blake3")


def test_a_manifest_leaves_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"a": np.zeros(3)}, path)
    manifest = make_manifest(path)
    target = tmp_path / "m.json"
    foreign = tmp_path / f"m.json.{os.getpid()}.tmp"
    foreign.write_text("of another writer")
    manifest.write(target)
    assert foreign.read_text() == "of another writer"
    assert target.read_text() == manifest.text()
    target.chmod(0o640)
    manifest.write(target)  # replaces it, with its mode
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["m.json", foreign.name, "x.safetensors"]
    with pytest.raises(FileNotFoundError):
        manifest.write(tmp_path / "none" / "m.json")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="cannot replace a FIFO, only a regular file"):
        manifest.write(tmp_path / "fifo")


class _HeaderRead:
    """A checkpoint whose headers were read before its file changed."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self._header = native.read_header(0)

    def read_header(self, _: int) -> tuple[bytes, int]:
        return self._header

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)


def test_a_header_that_changes_after_the_open_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"weight": np.zeros(8, np.float32)}, path)
    with Checkpoint(path) as checkpoint:
        before = _HeaderRead(checkpoint._native)
        with open(path, "r+b") as file:
            file.seek(path.read_bytes().index(b"weight"))
            file.write(b"height")
        for native in (checkpoint._native, before):
            with pytest.raises(SafetensorError, match="changed after"):
                manifest._make_file(
                    native, 0, path.name, hashlib.sha256, 1 << 20, lambda _: None
                )
