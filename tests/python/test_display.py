"""How files, checkpoints, writers and slices show themselves, in text and in notebooks."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sharded
from conftest import file_bytes

import safetensors.numpy as stn
from safetensors import Checkpoint, Writer, safe_open, stream
from safetensors._native import _size_text

EVIL = '<script>alert("1")</script>&\x1b[31m\u202e\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    stn.save_file({"w": np.zeros((3, 4), np.float32), "b": np.zeros(2, np.int8)}, tmp_path / "t.safetensors", durability="none")
    return tmp_path / "t.safetensors"


def rows(table: str) -> list[list[str]]:
    """The cells of the body of a table, as text."""
    body = table[table.index("<tbody>") : table.index("</tbody>")]
    return [[html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in re.findall(r"<tr>(.*?)</tr>", body)]


def caption(table: str) -> str:
    found = re.search("<caption>(.*?)</caption>", table)
    assert found
    return html.unescape(found[1])


def test_text_says_what_an_object_is(path: Path) -> None:
    with safe_open(path, "pt") as f:
        assert repr(f) == f"safe_open('{path}', framework='pytorch', backend='mmap', 2 tensors)"
        assert repr(f.get_slice("w")) == "PySafeSlice('w', F32, [3, 4])"
    assert repr(f) == f"safe_open('{path}', closed)"
    checkpoint = Checkpoint(path)
    assert repr(checkpoint) == f"Checkpoint(['{path}'], 2 tensors)"
    with checkpoint.stream() as items:
        assert repr(items) == "CheckpointStream(2 tensors)"
    with checkpoint:
        pass
    assert repr(checkpoint) == "Checkpoint(closed)"
    with Writer(path.with_name("new"), {"a": ("F32", (2,))}) as writer:
        assert repr(writer) == f"Writer('{path.with_name('new')}', 1 tensor)"
        writer.write("a", [1, 2])
    assert repr(writer) == f"Writer('{path.with_name('new')}', 1 tensor, committed)"
    writer = Writer(path.with_name("newer"), {})
    writer.close()
    assert repr(writer) == f"Writer('{path.with_name('newer')}', 0 tensors, closed)"


def test_text_of_many_files_is_short(tmp_path: Path) -> None:
    sharded.save(tmp_path, {f"t{i}": np.zeros(1) for i in range(50)}, count=50)
    text = repr(Checkpoint(tmp_path))
    assert text.endswith(", ... 47 more], 50 tensors)") and text.count("-of-00050") == 3


def test_tables_have_a_row_per_tensor(path: Path) -> None:
    wanted = [["w", "F32", "[3, 4]", "48 B"], ["b", "I8", "[2]", "2 B"]]
    checkpoint = Checkpoint(path)
    with safe_open(path, "np") as f:
        assert rows(f._repr_html_()) == wanted and caption(f._repr_html_()) == f"{path}: 2 tensors, 50 B"
        assert rows(f.get_slice("b")._repr_html_()) == wanted[1:]
    assert rows(f._repr_html_()) == [] and caption(f._repr_html_()) == f"{path} (closed): 0 tensors, 0 B"
    assert rows(checkpoint._repr_html_()) == wanted
    checkpoint.close()
    assert checkpoint._repr_html_() == "<p>Checkpoint (closed)</p>"
    with Writer(path.with_name("n"), {"a": ("BF16", (2, 2))}) as writer:
        assert rows(writer._repr_html_()) == [["a", "BF16", "[2, 2]", "8 B"]]
        writer.write("a", bytes(8))
    assert caption(writer._repr_html_()).endswith("n (committed): 1 tensor, 8 B")


def test_tables_have_few_rows(tmp_path: Path) -> None:
    many = {f"t{i:05}": np.zeros(2, np.int16) for i in range(2000)}
    stn.save_file(many, tmp_path / "many", durability="none")
    for shown in (safe_open(tmp_path / "many", "np"), Checkpoint(tmp_path / "many")):
        table = shown._repr_html_()
        assert caption(table).endswith("many: 2,000 tensors, 7.8 KiB") or caption(table).endswith("many']: 2,000 tensors, 7.8 KiB")
        assert [row[0] for row in rows(table)] == [*list(many)[:50], "… 1,950 more"]


@pytest.mark.parametrize("kind", ["safe_open", "checkpoint", "slice", "writer"])
def test_hostile_names_are_escaped(tmp_path: Path, kind: str) -> None:
    long = "x" * 100_000
    name = EVIL + long
    text = '{"%s":{"dtype":"U8","shape":[%s0],"data_offsets":[0,0]}}'
    escaped = name.replace('"', '\\"').replace("\x1b", "\\u001b").replace("\n", "\\n")
    path = tmp_path / "<b>&.safetensors"
    path.write_bytes(file_bytes(text % (escaped, "1," * 60)))
    made: dict[str, Any] = {
        "safe_open": lambda: safe_open(path, "np"), "checkpoint": lambda: Checkpoint(path),
        "slice": lambda: safe_open(path, "np").get_slice(name), "writer": lambda: Writer(path, {name: ("U8", [1] * 60 + [0])}),
    }  # fmt: skip
    table = made[kind]()._repr_html_()
    assert len(table) < 2000 and "<script" not in table and "<b>" not in table
    assert not {"\x1b", "\u202e"} & set(table) and table.count("\n") == 6
    ((shown, _, shape, _),) = rows(table)
    assert shown.startswith('<script>alert("1")</script>&\\u{1b}[31m\\u{202e}\\u{a}xxx') and shown.endswith("x…") and len(shape) == 120
    assert repr(made[kind]()).isprintable()


def test_sizes_are_those_of_the_command() -> None:
    sizes = {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", (1 << 20) - 1: "1.0 MiB", 548_091_904: "522.7 MiB", 1 << 60: "1.0 EiB", (1 << 64) - 1: "16.0 EiB"}
    assert {size: _size_text(size) for size in sizes} == sizes


def test_stream_has_a_length(path: Path) -> None:
    with stream(path) as items:
        assert len(items) == 2
        next(items)
        assert len(items) == 2  # of all tensors, as a progress bar needs it
    assert len(stream(path, keys=["w"])) == 1


def test_a_path_that_is_not_utf8_is_shown(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\\.safetensors"))
    path.write_bytes(file_bytes("{}"))
    assert r"/\xff\\.safetensors: 0 tensors" in safe_open(path, "np")._repr_html_()
    assert r"/\\udcff" in Checkpoint(path)._repr_html_()  # the title has the path as repr() shows it
