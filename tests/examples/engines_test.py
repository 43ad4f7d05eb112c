"""Runs examples/engines: each adapter gives its engine the same tensors, and none accepts an invalid file.

usage: engines_test.py PROGRAM
"""

import json
import pathlib
import struct
import sys
import tempfile

from support import check, fnv, run, write_file

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "conformance"
# (name, dtype, shape, bytes): together they make the engines use every conversion of dtypes and shapes that they have.
TENSORS = [
    ("a.bf16", "BF16", [2, 3], bytes(range(12))),
    ("b.f32", "F32", [], struct.pack("<f", 1.5)),
    ("c.f16", "F16", [1, 2, 3, 1, 2], bytes(range(24))),
    ("d.i64", "I64", [2], struct.pack("<2q", -1, 7)),
    ("e.empty", "F32", [0, 4], b""),
    ("f.i32", "I32", [3], bytes(range(12))),
]
ONLY_SDCPP = [("g.f8", "F8_E4M3", [4], b"wxyz"), ("h.f64", "F64", [1], b"12345678"), ("i.f8", "F8_E5M2", [2], b"ab")]
MLX_DTYPES = {"BF16": 11, "F32": 10, "F16": 9, "I64": 8, "I32": 7}
GGML_TYPES = {"BF16": 30, "F32": 0, "F16": 1, "I64": 26, "I32": 26, "F8_E4M3": 1, "F8_E5M2": 1, "F64": 0}


def write(path, tensors, metadata=None):
    write_file(path, {name: rest for name, *rest in tensors}, metadata)


def line(name, dtype, shape, data):
    return f"{name} {dtype} {shape} {fnv(data)}"


def ggml_shape(shape):
    """Innermost first. The engine joins the first two of five dimensions, and a scalar has one."""
    if len(shape) == 5:
        shape = [shape[0] * shape[1], *shape[2:]]
    return shape[::-1] or [1]


def check_valid(program, folder):
    path = folder / "model.safetensors"
    write(path, TENSORS, {"format": "pt"})
    expected = {
        "mlx": [line(n, MLX_DTYPES[d], s, b) for n, d, s, b in TENSORS] + ["format=pt"],
        "vllm": [line(*tensor) for tensor in TENSORS] + ["format=pt"],
        "sdcpp": [line(n, GGML_TYPES[d], ggml_shape(s), b) for n, d, s, b in TENSORS],
    }
    for engine, lines in expected.items():
        found = run(program, engine, path).splitlines()
        check(sorted(found) == sorted(lines), f"{engine}: {found}, expected {lines}")

    write(path, TENSORS + ONLY_SDCPP + [("skipped", "U8", [2], b"ab")])
    lines = expected["sdcpp"] + [line(n, GGML_TYPES[d], ggml_shape(s), b) for n, d, s, b in ONLY_SDCPP]
    check(sorted(run(program, "sdcpp", path).splitlines()) == sorted(lines), "sdcpp: its own conversions")
    check("g.f8 has an unsupported dtype, F8_E4M3" in run(program, "mlx", path, status=1), "mlx: a dtype that it lacks")

    write(path, [("w", "MXFP5", [4], b"123")])
    check(run(program, "vllm", path) == line("w", "MXFP5", [4], b"123") + "\n", "vllm: unknown dtypes are bytes")
    check("MXFP5" in run(program, "sdcpp", path, status=1), "sdcpp refuses unknown dtypes")


def check_index(program, folder):
    for number, name in enumerate(("x", "y"), 1):
        write(folder / f"model-{number:05}-of-00002.safetensors", [(name, "U8", [1], b"a")])
    shards = {"x": "model-00001-of-00002.safetensors", "y": "model-00002-of-00002.safetensors"}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": shards}))
    check(run(program, "index", index) == "".join(f"{n} {f}\n" for n, f in shards.items()), "the index")
    index.write_text(json.dumps({"weight_map": {"x": "../model-00001-of-00002.safetensors"}}))
    check("leads out of a folder" in run(program, "index", index, status=1), "an index that leaves its folder")


def check_refused(program):
    """Returns the number of invalid files."""
    invalid = 0
    for row in (DATA / "verdicts.tsv").read_text().splitlines()[1:]:
        case, code = row.split("\t")[:2]
        path = DATA / "cases" / f"{case}.safetensors"
        for engine in ("mlx", "vllm", "sdcpp"):
            if code == "ok" or (code == "unknown_dtype" and engine == "vllm"):
                continue
            invalid += engine == "mlx"
            error = run(program, engine, path, status=1)
            check(len(error.strip()) > 10, f"{engine}: an error for {case}")
    return invalid


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        check_valid(program, pathlib.Path(folder))
        check_index(program, pathlib.Path(folder))
    print(f"{check_refused(program)} invalid files refused by each adapter")


if __name__ == "__main__":
    main(sys.argv[1])
