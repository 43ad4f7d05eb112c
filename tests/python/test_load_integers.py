"""load(dtype=...): casts between integers, which check every value."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safetensors.numpy as stn
from safetensors import SafetensorError, load

INTEGERS = ("I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64")


def integer(dtype: str) -> Any:
    return np.dtype(dtype.replace("I", "int").replace("U", "uint"))


@pytest.mark.parametrize("stored", INTEGERS)
def test_integers_are_checked(tmp_path: Path, stored: str) -> None:
    path = tmp_path / "i.safetensors"
    has = np.iinfo(integer(stored))
    for wanted in INTEGERS:
        fits = np.iinfo(integer(wanted))
        low, high = max(has.min, fits.min), min(has.max, fits.max)
        values = np.array([[low, 0, high]], integer(stored))
        stn.save_file({"t": values, "f": np.ones(2, np.float32)}, path)
        made = load(path, dtype=integer(wanted))
        assert made["t"].dtype == integer(wanted) and made["f"].dtype == np.float32
        assert made["t"].tolist() == [[low, 0, high]]
        for wrong in {low - 1, high + 1}:
            if has.min <= wrong <= has.max:
                stn.save_file({"t": np.array([[0, 1, wrong]], integer(stored))}, path)
                text = f"tensor `t`: cannot cast {stored} to {wanted}: element [0, 2] is {wrong}, the range of "
                with pytest.raises(SafetensorError, match=re.escape(text)):
                    load(path, dtype={"t": wanted})


def test_element_is_that_of_the_tensor(tmp_path: Path) -> None:
    path = tmp_path / "i.safetensors"
    values = np.arange(1000, dtype=np.int32).reshape(100, 10)
    stn.save_file({"t": values}, path)
    out = np.zeros((50, 10), np.uint8)
    load(path, slices={"t": np.s_[24:0:-1]}, dtype="U8", out={"t": out[:24]})
    assert (out[:24] == values[24:0:-1]).all()
    with pytest.raises(SafetensorError, match=re.escape("element [30, 2] is 302, the range of U8 is 0 to 255")):
        load(path, slices={"t": np.s_[30:31, 2:3]}, dtype="U8")


def test_floats_stay_refused(tmp_path: Path) -> None:
    path = tmp_path / "i.safetensors"
    stn.save_file({"i": np.ones(2, np.int32), "f": np.ones(2, np.float32)}, path)
    for name, wanted in (("i", "F32"), ("f", "I32"), ("i", "BOOL")):
        with pytest.raises(SafetensorError, match=f"tensor `{name}`: cannot cast "):
            load(path, dtype={name: wanted})
