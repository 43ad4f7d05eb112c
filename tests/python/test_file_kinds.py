"""Files of other kinds, made by their own tools: every way of opening names the kind. tests/format/file_kind_test.cpp has all kinds."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import framework

from safetensors import SafetensorError, deserialize, safe_open
from safetensors.numpy import load_file

OLD = "a pickle, such as an old PyTorch checkpoint"


KINDS: dict[str, tuple[Callable[[io.BytesIO], Any], str]] = {
    "npz": (lambda out: np.savez(out, a=np.ones(3)), "a NumPy archive (.npz)"),
    **{f"pickle {n}": (lambda out, n=n: pickle.dump({"a": 1.5}, out, n), OLD) for n in (0, 2, 3, 4, 5)},
    "torch": (lambda out: framework("torch").save({}, out), "a PyTorch checkpoint"),
    "old torch": (lambda out: framework("torch").save({}, out, _use_new_zipfile_serialization=False), OLD),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_are_named(name: str, tmp_path: Path) -> None:
    """The kind comes before the phrase that the reference prints."""
    write, kind = KINDS[name]
    write(out := io.BytesIO())
    (tmp_path / "t").write_bytes(out.getvalue())
    phrases = "header too small|header too large|invalid header length|invalid (UTF-8|JSON) in header"
    wanted = f"the file is {re.escape(kind)}, not a safetensors file( \\(.*\\))?: ({phrases})($|\n)"
    for prefix, open_it in (
        ("Error while deserializing header: ", lambda: safe_open(tmp_path / "t", "np")),
        ("Error while deserializing header: ", lambda: load_file(tmp_path / "t")),
        ("Error while deserializing: ", lambda: deserialize(out.getvalue())),
    ):
        with pytest.raises(SafetensorError, match=f"^{prefix}{wanted}"):
            open_it()
