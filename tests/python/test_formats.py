"""bench/formats.py: its quick cells give the verdicts that docs/formats.md has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import installed

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = [
    "safe",
    "zero-copy",
    "lazy loading",
    "no file-size limit",
    "layout control",
    "flexibility",
    "BF16/FP8",
]


def documented(title: str, column: str) -> str:
    """The verdict of a cell, without its remark."""
    lines = (ROOT / "docs" / "formats.md").read_text().splitlines()
    (row,) = [line for line in lines if line.startswith(f"| {title} |")]
    return row.split("|")[2 + COLUMNS.index(column)].strip().partition(":")[0]


@pytest.mark.parametrize("column", ["layout control", "flexibility", "BF16/FP8"])
@pytest.mark.parametrize("key, title", [("safetensors", "safetensors (ours)"), ("npz", "npz")])
def test_a_cell_is_that_of_the_document(tmp_path: Path, key: str, title: str, column: str) -> None:
    if not installed("ml_dtypes"):
        pytest.skip("ml_dtypes is not installed")
    out = tmp_path / "cells.json"
    command = [sys.executable, "-B", str(ROOT / "bench" / "formats.py"), "--only", key]
    command += ["--column", column, "--no-controls", "--directory", str(tmp_path)]
    done = subprocess.run(
        [*command, "--json", str(out)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    verdict, _, evidence = json.loads(out.read_text())[key]["cells"][column]
    assert verdict == documented(title, column), evidence


def test_an_unknown_row_is_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-B", str(ROOT / "bench" / "formats.py"), "--only", "word"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "word" in done.stderr
