"""Runs the Python blocks of each document in order, in one namespace, and checks their output."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import framework

ROOT = Path(__file__).parents[2]
# The text behind a block, if any, is what it prints.
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.M | re.S)
DOCUMENTS = {"docs/checkpoints.md": ["numpy", "torch"], "docs/shared_tensors.md": ["torch"], "docs/python.md": ["numpy", "torch"], "README.md": ["numpy", "torch"]}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_blocks_run(document: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for needed in DOCUMENTS[document]:
        framework(needed)
    text = (ROOT / document).read_text()
    blocks = [(text.count("\n", 0, m.start()) + 2, m[1], m[2]) for m in BLOCK.finditer(text)]
    assert blocks, f"{document} has no Python block"
    before = os.getcwd()
    os.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs"}
    try:
        for line, block, printed in blocks:
            capsys.readouterr()
            exec(compile("\n" * (line - 1) + block, document, "exec"), names)
            if printed is not None:
                assert capsys.readouterr().out == printed, f"{document}, line {line}"
    finally:
        os.chdir(before)
