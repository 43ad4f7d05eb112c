"""The Python blocks of the documentation, each document's in order and in one namespace."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import framework

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
DOCUMENTS = {"docs/shared_tensors.md": ["torch"], "docs/python.md": ["numpy", "torch"], "README.md": ["numpy", "torch"]}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_blocks_run(document: str, tmp_path: Path) -> None:
    for needed in DOCUMENTS[document]:
        framework(needed)
    text = (ROOT / document).read_text()
    blocks = [(text.count("\n", 0, m.start()) + 2, m[1]) for m in BLOCK.finditer(text)]
    assert blocks, f"{document} has no Python block"
    before = os.getcwd()
    os.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs"}
    try:
        for line, block in blocks:
            exec(compile("\n" * (line - 1) + block, document, "exec"), names)
    finally:
        os.chdir(before)
