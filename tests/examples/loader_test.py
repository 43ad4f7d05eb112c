"""Runs examples/engines/loader.c on a model of two files: the buffer of each rank, and errors. usage: loader_test.py PROGRAM"""

import json
import pathlib
import struct
import sys
import tempfile

from support import check, fnv, run, write_file


def line(name, offset, data):
    return f"{name} {offset} {len(data)} {fnv(data)}\n"


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        shards = {"z": "one.safetensors", "a": "two.safetensors", "n": "two.safetensors"}
        write_file(f"{folder}/one.safetensors", {"z": ("BF16", [3, 2], [0.5, 1, 2, 3, 4, 5])})
        write_file(f"{folder}/two.safetensors", {"n": ("I64", [2], [7, 8]), "a": ("F32", [2, 2], [1, 2, 3, 4])})
        pathlib.Path(folder, "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
        whole = [line("a", 0, struct.pack("<4f", 1, 2, 3, 4)), line("n", 256, struct.pack("<2q", 7, 8)),
                 line("z", 512, struct.pack("<6f", 0.5, 1, 2, 3, 4, 5))]  # fmt: skip
        check(run(program, folder, 0, 1) == "".join(whole), "all rows, sorted, aligned, cast to F32")
        last = [line("a", 0, struct.pack("<2f", 3, 4)), whole[1], line("z", 512, struct.pack("<2f", 4, 5))]
        check(run(program, folder, 1, 2) == "".join(last), "the rows of the second rank")
        check("shard 2 of 2 of dimension 0" in run(program, folder, 2, 2, status=1), "a wrong rank")
        path = pathlib.Path(folder, "one.safetensors")
        path.write_bytes(path.read_bytes()[:-1])
        check(f"{path}: " in run(program, folder, 0, 1, status=1), "a cut file is named")


if __name__ == "__main__":
    main(sys.argv[1])
