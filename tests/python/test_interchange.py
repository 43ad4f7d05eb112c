"""Our package and the reference read the files of each other, and give the same verdicts on headers."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import framework
from generated_headers import generate

import safetensors.numpy as st
from safetensors import SafetensorError, safe_open

CLEAN = {"PATH": "/usr/bin:/bin"}  # no PYTHONPATH, which would lead the reference's interpreter to our package

# The dtypes of NumPy that both know.
DTYPES = ["?", "u1", "i1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<f8", "<i8", "<u8", "<c8"]

ARRAYS = """
import sys, numpy as np
def arrays():
    made = {}
    for i, dtype in enumerate(DTYPES):
        made[f"{dtype[-2:]} matrix"] = (np.arange(12) * 5 % 7).astype(dtype).reshape(3, 4)
        made[f"{dtype[-2:]} scalar"] = np.array(1).astype(dtype)
        made[f"{dtype[-2:]} empty"] = np.zeros((0, 3), dtype)
    return made
""".replace("DTYPES", repr(DTYPES))

TENSORS = """
import sys, torch
def tensors():
    made = {}
    for dtype in ("bool uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 complex64"
                  " float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu").split():
        kind = getattr(torch, dtype)
        raw = torch.arange(12 * kind.itemsize) % 2 if dtype == "bool" else torch.arange(12 * kind.itemsize) % 5
        made[dtype] = raw.to(torch.uint8).view(kind).reshape(3, 4)
    return made
def bits(t): return bytes(t.contiguous().view(-1).view(torch.uint8).tolist())
"""


def ask(reference: str, code: str, *arguments: str) -> str:
    done = subprocess.run([reference, "-c", code, *arguments], capture_output=True, text=True, env=CLEAN)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("metadata", [None, {"k": 'v \u00e9 " \\ \n'}, {}])
def test_numpy_both_ways(reference: str, metadata: dict[str, str] | None, tmp_path: Path) -> None:
    write = ARRAYS + f"import safetensors.numpy as st; st.save_file(arrays(), sys.argv[1], {metadata!r})"
    ask(reference, write, str(tmp_path / "theirs"))
    names: dict[str, Any] = {}
    exec(ARRAYS, names)
    mine = names["arrays"]()
    st.save_file(mine, tmp_path / "ours", metadata)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    for backend in ("mmap", "pread", "auto"):
        loaded = st.load_file(tmp_path / "theirs", backend=backend)
        assert loaded.keys() == mine.keys()
        assert all(loaded[n].tobytes() == mine[n].tobytes() and loaded[n].shape == mine[n].shape for n in mine)
    read = ARRAYS + (
        "import safetensors.numpy as st\nfrom safetensors import safe_open\n"
        "got, want = st.load_file(sys.argv[1]), arrays()\n"
        "assert got.keys() == want.keys()\n"
        "assert all(got[n].tobytes() == want[n].tobytes() and got[n].shape == want[n].shape for n in want)\n"
        f"assert safe_open(sys.argv[1], 'np').metadata() == {metadata!r}"
    )
    ask(reference, read, str(tmp_path / "ours"))


def test_torch_both_ways(reference: str, tmp_path: Path) -> None:
    torch, stt = framework("torch"), framework("safetensors.torch")
    ask(reference, TENSORS + "import safetensors.torch as st; st.save_file(tensors(), sys.argv[1])", str(tmp_path / "theirs"))
    names: dict[str, Any] = {}
    exec(TENSORS, names)
    mine = names["tensors"]()
    stt.save_file(mine, tmp_path / "ours")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    loaded = stt.load_file(tmp_path / "theirs")
    for name, tensor in mine.items():
        assert loaded[name].dtype == tensor.dtype and names["bits"](loaded[name]) == names["bits"](tensor)
    read = TENSORS + (
        "import safetensors.torch as st\ngot, want = st.load_file(sys.argv[1]), tensors()\n"
        "assert got.keys() == want.keys() and all(bits(got[n]) == bits(want[n]) for n in want)"
    )
    ask(reference, read, str(tmp_path / "ours"))
    model = torch.nn.Linear(3, 4)
    stt.save_model(model, str(tmp_path / "model"))
    load = (
        "import sys, torch, safetensors.torch as st\nm = torch.nn.Linear(3, 4)\n"
        "assert st.load_model(m, sys.argv[1]) == (set(), []); st.save_model(m, sys.argv[2])"
    )
    ask(reference, load, str(tmp_path / "model"), str(tmp_path / "again"))
    assert (tmp_path / "model").read_bytes() == (tmp_path / "again").read_bytes()


# What docs/format.md lists under "Where we differ from the reference, on purpose".
STRICTER = {
    "duplicate_key": " is repeated",
    "json_leading_whitespace": "white space before the { that a header begins with",
    "json_type": (": a tensor's entry must be an object, found an array", "dtype must be a string, found an object"),
}
BORDER = b"1.7976931348623158e308"  # rounds to the largest double

# The first words of the reference's messages. Programs look for them.
PHRASES = {
    "header_too_small": "header too small",
    "header_too_large": "header too large",
    "invalid_header_length": "invalid header length",
    "invalid_utf8": "invalid UTF-8 in header",
    "invalid_offset": "invalid offset for tensor",
    "size_overflow": "overflow computing buffer size from shape and/or element type",
    "misaligned_size": "The slice is slicing for subbytes dtypes, and the slice does not end up at a byte boundary",
    "size_mismatch": "invalid shape, data type, or offset for tensor",
    "incomplete_data": "incomplete metadata, file not fully covered",
}
PREFIX = "Error while deserializing header: "


def verdicts_of_the_reference(reference: str, paths: list[Path]) -> list[dict[str, Any]]:
    script = Path(__file__).with_name("reference_verdicts.py")
    lines = "".join(json.dumps(str(path)) + "\n" for path in paths)
    done = subprocess.run([reference, str(script)], input=lines, capture_output=True, text=True, env=CLEAN)
    assert done.returncode == 0, done.stderr
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(verdicts) == len(paths)
    return verdicts


def our_verdict(path: Path) -> tuple[dict[str, Any], str]:
    """The verdict in the form of the reference's script, and the code of the error."""
    try:
        with safe_open(path, "np") as f:
            slices = {name: f.get_slice(name) for name in f.keys()}
            tensors = {name: [s.get_dtype(), s.get_shape()] for name, s in slices.items()}
            return {"keys": f.keys(), "metadata": f.metadata(), "tensors": tensors}, ""
    except SafetensorError as error:
        return {"error": f"SafetensorError: {error}"}, error.code  # type: ignore[attr-defined]


def on_purpose(code: str, ours: dict[str, Any], theirs: dict[str, Any], file: bytes) -> bool:
    """Whether this is a difference that the documentation lists."""
    if "error" not in ours:
        return BORDER in file and "number out of range" in theirs["error"]
    ends = STRICTER.get(code, ())
    return ours["error"].endswith(ends)


def judge(path: Path, theirs: dict[str, Any]) -> str:
    """The kind of the file, after a check that both have the same verdict."""
    ours, code = our_verdict(path)
    file = path.read_bytes()
    case = (path.name, file, ours, theirs)
    if on_purpose(code, ours, theirs, file):
        return f"{code or 'border'}, on purpose"
    if "error" not in ours:
        assert ours == theirs, case
        return "good"
    assert "error" in theirs, case
    said = [text.removeprefix(f"SafetensorError: {PREFIX}") for text in (ours["error"], theirs["error"])]
    phrase = PHRASES.get(code, "invalid JSON in header: ")
    assert said[0].startswith(phrase), case
    # In which order the reference looks at tensors that begin at one byte is random.
    swapped = {code: PHRASES[code] for code in ("invalid_offset", "size_mismatch")}
    allowed = tuple(swapped.values()) if code in swapped else (phrase,)
    assert said[1].startswith(allowed) or (BORDER in file and "number out of range" in said[1]), case
    return code


def test_both_judge_thousands_of_headers_alike(reference: str, tmp_path: Path) -> None:
    paths = [tmp_path / str(seed) for seed in range(8000)]
    for seed, path in enumerate(paths):
        path.write_bytes(generate(seed))
    kinds = Counter(judge(path, theirs) for path, theirs in zip(paths, verdicts_of_the_reference(reference, paths), strict=True))
    assert kinds["good"] > 2000
    # Each rule and each difference was met, so that a generator gone stale is seen.
    met = {*PHRASES, *(f"json_{what}" for what in ("syntax", "depth", "number", "type", "integer")), "unknown_dtype", "missing_field"}
    met |= {"border, on purpose", *(f"{code}, on purpose" for code in STRICTER)}
    assert {kind for kind, count in kinds.items() if count >= 5} >= met, kinds


def test_sorting_is_the_same(reference: str, tmp_path: Path) -> None:
    kinds = [("b", "<f4"), ("a", "<f8"), ("c", "<f4"), ("A", "u1"), ("\u00e9", "<f4"), ("z", "?"), ("\ufffd", "<f4")]
    st.save_file({name: np.zeros(1, dtype) for name, dtype in kinds}, tmp_path / "t")
    [theirs] = verdicts_of_the_reference(reference, [tmp_path / "t"])
    assert our_verdict(tmp_path / "t") == (theirs, "")
    code = "import sys, safetensors as s; print(ascii(s.safe_open(sys.argv[1], 'np').offset_keys()))"
    with safe_open(tmp_path / "t", "np") as f:
        assert ask(reference, code, str(tmp_path / "t")) == ascii(f.offset_keys()) + "\n"
