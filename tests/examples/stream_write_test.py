"""Runs examples/stream_write.cpp: it writes 256 MiB in a process whose address space is limited to a part of that.

usage: stream_write_test.py PROGRAM [--memory-limit MEBIBYTES]
"""

import argparse
import os
import resource
import struct
import subprocess
import sys
import tempfile

from support import check, read_header, run

WIDTH, BLOCK = 256, 8192


def limited(mebibytes):
    if mebibytes is None:
        return None
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))


def row_of(row):
    return [(row * 31 + i) % 1000 / 1000 for i in range(WIDTH)]


def check_file(path, rows):
    header, start = read_header(path)
    check(header["__metadata__"] == {"format": "pt"}, "the metadata")
    check((header["table"]["dtype"], header["table"]["shape"]) == ("F32", [rows, WIDTH]), "the table")
    check((header["sums"]["dtype"], header["sums"]["shape"]) == ("F32", [rows]), "the sums")
    check(os.path.getsize(path) == start + 4 * rows * (WIDTH + 1), "the size of the file")
    with open(path, "rb") as file:
        for row in sorted({0, 1, BLOCK - 1, BLOCK, rows // 2, rows - BLOCK, rows - 1} & set(range(rows))):
            file.seek(start + header["table"]["data_offsets"][0] + row * 4 * WIDTH)
            check(file.read(4 * WIDTH) == struct.pack(f"<{WIDTH}f", *row_of(row)), f"row {row}")
            file.seek(start + header["sums"]["data_offsets"][0] + row * 4)
            check(abs(struct.unpack("<f", file.read(4))[0] - sum(row_of(row))) < 1e-2, f"the sum of row {row}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--memory-limit", type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
        path = f"{folder}/table.safetensors"
        rows = (256 << 20) // (4 * WIDTH) + 5 if given.memory_limit else 2 * BLOCK + 5
        printed = run(given.program, path, rows, before=limited(given.memory_limit))
        check(printed == f"sums F32 [{rows}]\ntable F32 [{rows}, {WIDTH}]\n", f"found {printed}")
        check_file(path, rows)
        if given.memory_limit:  # the limit counts: 8 MiB hold neither a block nor the program
            before = open(path, "rb").read(1000)
            failed = subprocess.run([given.program, path, "100000"], capture_output=True, preexec_fn=limited(8))
            check(failed.returncode != 0, "8 MiB are too little")
            check(open(path, "rb").read(1000) == before and os.listdir(folder) == ["table.safetensors"], "the old file")
        run(given.program, path, 0)
        check_file(path, 0)
        for arguments in ((path,), (path, ""), (path, "many"), (path, "5k"), (path, "-5"), (path, 10**30)):
            check(run(given.program, *arguments, status=2).startswith("usage: "), f"usage for {arguments}")


if __name__ == "__main__":
    sys.exit(main())
