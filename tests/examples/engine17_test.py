"""Runs examples/engine17.cpp: the list of a model, and the messages of errors. usage: engine17_test.py PROGRAM"""

import struct
import sys
import tempfile

from support import check, run, write_file

# The size of its tensor overflows 64 bits to 0.
HOSTILE = b'{"w":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}}'


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        write_file(f"{folder}/a.safetensors", {
            "bias": ("F32", [2], [0.5, 1.5]),
            "steps": ("I64", [], [7]),
        })  # fmt: skip
        write_file(f"{folder}/b.safetensors", {"linear.weight": ("F32", [17, 1], list(range(17)))})
        listed = run(program, f"{folder}/*.safetensors")
        lines = ["bias F32 2", "linear.weight F32 17 1", f"{64 + 64 + 128} bytes of memory are filled", "steps I64"]
        check(sorted(listed.splitlines()) == sorted(lines), f"the list of tensors: {listed}")
        with open(f"{folder}/hostile", "wb") as file:
            file.write(struct.pack("<Q", len(HOSTILE)) + HOSTILE)
        for name, message in [("none", "cannot open: no such file or directory"), ("hostile", "F32 [4611686018427387904], has more than 2^64-1 bits (byte 9)")]:
            printed = run(program, f"{folder}/{name}", status=1)
            check(printed.startswith(f"{folder}/{name}: ") and message in printed, f"the error of {name}: {printed}")
        check(run(program, status=2).startswith("usage: "), "usage")


if __name__ == "__main__":
    main(sys.argv[1])
