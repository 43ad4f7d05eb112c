"""Runs examples/load.c: the list of tensors, a matrix, and the messages of errors. usage: load_test.py PROGRAM"""

import sys
import tempfile

from support import check, run, write_file

LISTED = "bias F32 [2]\nlinear.weight F32 [2, 3]\nsteps I64 []\n"


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a.safetensors"
        write_file(path, {
            "bias": ("F32", [2], [0.5, 1.5]),
            "linear.weight": ("F32", [2, 3], [0, 1, 2, 3, 4, 5.25]),
            "steps": ("I64", [], [7]),
        })  # fmt: skip
        check(run(program, path) == LISTED, "the list of tensors")
        check(run(program, path, "linear.weight", 2, 3) == LISTED + " 0 1 2\n 3 4 5.25\n", "the matrix")
        for arguments, message in [
            ((path, "linear.weight", 3, 2), "not the matrix that was expected: linear.weight F32 [2, 3]"),
            ((path, "steps", 1, 1), "not the matrix that was expected: steps I64 []"),
            ((path, "linear.wieght", 2, 3), f"{path}: no tensor `linear.wieght` in 1 file of 3 tensors: is it `linear.weight`?"),
        ]:
            printed = run(program, *arguments, status=1)
            check(printed == f"{message}\n", f"expected {message}, found {printed}")
        check("cannot open: no such file or directory" in run(program, f"{folder}/none", status=1), "the error of a missing file")
        for arguments in ((), (path, "bias"), (path, "bias", "two", 1), (path, "bias", 2, "1x"), (path, "bias", -2, "")):
            check(run(program, *arguments, status=2).startswith("usage: "), f"usage for {arguments}")


if __name__ == "__main__":
    main(sys.argv[1])
