"""Ctrl-C on one rank of dcp.load, as docs/distributed.md describes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import framework

framework("torch")

import ranks  # noqa: E402
import ranks_interrupt  # noqa: E402

from safetensors.distributed import StorageReader, StorageWriter  # noqa: E402


CASES = [ranks_interrupt.in_the_planner, ranks_interrupt.in_an_exchange]
ROWS = [
    "| Ctrl-C on a rank while torch exchanges plans or results | this rank raises `KeyboardInterrupt`.",
]


@pytest.mark.parametrize("case", CASES)
def test_ctrl_c_on_one_rank(tmp_path: Path, case: object) -> None:
    name = case.__name__  # type: ignore[attr-defined]
    found = ranks.run("ranks_interrupt", 2, tmp_path, [name])[name]
    assert found == {}, "\n".join(found.values())


def test_the_document_says_where_ctrl_c_is_no_checkpoint_exception() -> None:
    text = (Path(__file__).parents[2] / "docs/distributed.md").read_text()
    for row in ROWS:
        assert row in text


@pytest.mark.parametrize("owner", [StorageReader, StorageWriter])
def test_the_docstrings_name_the_exceptions(owner: type) -> None:
    said = " ".join((owner.__doc__ or "").split())
    table = 'except in the cases of the table in "Errors of dcp.load" of docs/distributed.md'
    assert re.search(f"CheckpointException on all ranks, [^.]*{re.escape(table)}", said)
