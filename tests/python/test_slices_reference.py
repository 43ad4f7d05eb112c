"""Slices of our package and of the reference: the same values, the same errors, or a difference that docs/python.md lists."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import installed
from test_interchange import ask

import safetensors.numpy as stn

BOUNDS = ["", "0", "1", "3", "-1", "-3"]
PLAIN = [
    # integers: within, at the ends, past them
    *(str(i) for i in (0, 1, 3, 9, 10, 11, 100, -1, -10, -11, -100)),
    "2**70", "-2**70", "np.int64(3)", "np.int64(300)", "np.int64(-300)", "np.array(1)", "np.uint8(9)",
    # slices: within, at the ends, past them, of every direction
    *(f"slice({b or None}, {e or None})" for b in BOUNDS for e in BOUNDS),
    *(f"slice({b}, {e})" for b in (9, 10, 11, 100, -9, -10, -11, -100) for e in (None, 5, 10, 11, 100, -5, -10, -11, -100)),
    *(f"slice({b}, {e}, {s})" for b in (None, 1, 7) for e in (None, 5, 10, 100) for s in (1, 2, 3, 100, 0, -1, -2)),
    "slice(1.5, None)", "slice(None, 1.5)", "slice(None, None, 1.5)", "slice('a', None)", "slice(2**70, None)",
    "slice(None, 2**70)", "slice(-2**70, None)", "slice(None, -2**70)", "slice(np.int64(1), np.int64(3))",
    # several dimensions, too many, ellipses
    "()", "...", "(...,)", "(..., 1)", "(1, ...)", "(1, 2, ...)", "(..., 1, 2)", "(1, ..., 2)", "(..., ...)", "(1, ..., ...)",
    "(0, 100)", "(100, 0)", "(100, 100)", "(0, -6)", "(-11, -6)", "(-1, 9)", "(0, 0)", "(9, 4)", "(-10, -5)",
    "(slice(2, 5), 1)", "(1, slice(2, 4))", "(slice(None), slice(None, None, 2))", "(slice(None), 100)", "(slice(0, 100), 100)",
    "(100, slice(0, 100))", "(1, 2, 3)", "(1, 2, 3, ...)", "(0, 0, -1)", "(slice(0, 2), slice(0, 2), slice(0, 2))",
    "(100, 100, 100)", "(0, 0, slice(-1, None))",
    # objects that are not an index for any framework
    "1.5", "'a'", "b'a'", "{}", "object()", "1j", "(1, 'a')", "(1.5, 100)", "(100, 1.5)",
]  # fmt: skip
# Indices that torch takes, and NumPy's indexing of the reference does not.
ADVANCED = [
    "None", "(None, 1)", "(1, None)", "[1, 2]", "[]", "[100]", "([1, 2], 1)", "(slice(None), [0, 1])", "(1, 2)", "(True,)",
    "True", "False", "[True] * 10", "[True] * 9", "[[1]]", "[1.5]", "np.array([1, 2])", "np.array([True] * 10)", "range(3)",
    "np.bool_(True)", "[[1, 2], [0, 1]]", "([[1]],)", "[np.array([1, 2])]", "[slice(1, 3)]", "[None]",
]  # fmt: skip
TENSORS = [
    "torch.tensor(3)", "torch.tensor(100)", "torch.tensor([1, 2])", "torch.tensor([100])", "torch.tensor([True] * 10)",
    "torch.tensor([True] * 9)", "torch.tensor(1.5)", "torch.tensor(True)", "(torch.tensor([0]), torch.tensor([0]))",
    "torch.tensor([], dtype=torch.long)",
]  # fmt: skip
NAMES = ["a", "s", "z", "o"]

SCRIPT = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
framework, backend, path, names, indices = json.loads(sys.argv[1])
if framework == "pt": import torch
from safetensors import safe_open
with safe_open(path, framework, backend=backend) as f:
    for name in names:
        for index in indices:
            try:
                got = f.get_slice(name)[eval(index)]
                said = ["ok", str(got.dtype), list(got.shape), np.asarray(got).tolist()]
            except Exception as error:
                said = ["error", type(error).__name__, str(error)]
            print(json.dumps([name, index, said]))
"""


def outcomes(python: str, *request: Any) -> dict[tuple[str, str], list[Any]]:
    if python == sys.executable:  # with whatever leads this interpreter to our package
        done = subprocess.run([python, "-c", SCRIPT, json.dumps(request)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        lines = done.stdout
    else:
        lines = ask(python, SCRIPT, json.dumps(request))
    return {(name, index): said for name, index, said in map(json.loads, lines.splitlines())}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    arrays = {
        "a": np.arange(50, dtype=np.int32).reshape(10, 5),
        "s": np.array(3, dtype=np.float32),
        "z": np.zeros((0, 3), np.float32),
        "o": np.arange(7, dtype=np.uint8),
    }
    stn.save_file(arrays, tmp_path / "t")
    return tmp_path / "t"


def is_ok(said: list[Any]) -> bool:
    return said[0] == "ok"


# The differences, by the first words of docs/python.md, "Slices that differ". Each says whether it explains ours and theirs.
NUMPY_DIFFERENCES: dict[str, Callable[[str, Any, Any], bool]] = {
    "steps": lambda index, ours, theirs: (
        "Slice step must be a positive integer" in theirs[2] or "0)" in index and "Slice step must not be zero" in ours[2]
    ),
    "nothing": lambda index, ours, theirs: is_ok(ours) and 0 in ours[2] and not is_ok(theirs),
    "negative bounds": lambda index, ours, theirs: theirs[1:] == ["OverflowError", "can't convert negative int to unsigned"],
}  # fmt: skip
def compare(reference: str, request: list[Any], differences: dict[str, Callable[[str, Any, Any], bool]]) -> Counter[str]:
    ours, theirs = outcomes(sys.executable, *request), outcomes(reference, *request)
    assert ours.keys() == theirs.keys() and len(ours) > 400
    met: Counter[str] = Counter()
    unexplained = []
    for (name, index), said in ours.items():
        other = theirs[name, index]
        # Texts that differ only in addresses are equal.
        if said == other or (said[:2] == other[:2] and "object at 0x" in index + str(said[2])):
            met["same"] += 1
            continue
        reasons = [kind for kind, explains in differences.items() if explains(index, said, other)]
        if reasons:
            met[reasons[0]] += 1
        else:
            unexplained.append(f"{name}[{index}]\n    ours   {str(said)[:150]}\n    theirs {str(other)[:150]}")
    assert not unexplained, f"{len(unexplained)} differences that docs/python.md does not list:\n" + "\n".join(unexplained)
    return met


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_numpy_slices(reference: str, path: Path, backend: str) -> None:
    met = compare(reference, ["np", backend, str(path), NAMES, PLAIN], NUMPY_DIFFERENCES)
    assert met["same"] > 500 and all(met[kind] for kind in NUMPY_DIFFERENCES), met


def test_mapped_torch_slices(reference: str, path: Path) -> None:
    if not installed("torch"):
        pytest.skip("torch is not here")
    met = compare(reference, ["pt", "mmap", str(path), NAMES, [*PLAIN, *ADVANCED, *TENSORS]], {})
    assert set(met) == {"same"}


def test_errors_of_read_torch_slices(reference: str, path: Path) -> None:
    """What ours refuses with a SafetensorError, the reference refuses with the same text."""
    if not installed("torch"):
        pytest.skip("torch is not here")
    request = ["pt", "pread", str(path), NAMES, [*PLAIN, *ADVANCED, *TENSORS]]
    others = {
        "other errors": lambda index, ours, theirs: ours[1] != "SafetensorError",
        "large bounds": lambda index, ours, theirs: theirs[1] == "OverflowError",
    }  # fmt: skip
    met = compare(reference, request, others)
    assert met["same"] > 300, met


def test_backends_of_torch_agree(path: Path) -> None:
    """Both backends give the same results and refuse the same indices."""
    if not installed("torch"):
        pytest.skip("torch is not here")
    indices = [*PLAIN, *ADVANCED, *TENSORS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mapped = outcomes(sys.executable, "pt", "mmap", str(path), NAMES, indices)
        read = outcomes(sys.executable, "pt", "pread", str(path), NAMES, indices)
    for case, said in mapped.items():
        assert is_ok(said) == is_ok(read[case]) and (not is_ok(said) or said == read[case]), case


PAST_THE_END = "Error during slicing [100] with shape [10, 5]: index 100 out of bounds for tensor dimension #0 of size 10"


def test_an_index_past_the_end_reads_nothing(path: Path) -> None:
    if not installed("torch"):
        pytest.skip("torch is not here")
    from safetensors import SafetensorError, safe_open

    with safe_open(path, "pt", backend="pread") as f:
        path.write_bytes(b"")  # whoever reads now fails otherwise
        with pytest.raises(SafetensorError) as caught:
            f.get_slice("a")[100]
    assert str(caught.value) == PAST_THE_END
