"""Runs examples/tensor_parallel.cpp on one file and on two shards. usage: tensor_parallel_test.py PROGRAM"""

import json
import pathlib
import sys
import tempfile

from support import check, run, write_file

INNER, WIDTH = 6, 3  # 4 ranks get 2, 2, 1 and 1 rows
UP = [[(3 * i + 5 * j) % 7 - 3 for j in range(WIDTH)] for i in range(INNER)]
DOWN = [[(2 * i + 3 * j) % 5 - 2 for j in range(INNER)] for i in range(WIDTH)]


def expected():
    inner = [max(0, sum(row)) for row in UP]
    y = [sum(weight * x for weight, x in zip(row, inner)) for row in DOWN]
    lines = [f"rank {rank}: F32 [{size}, 3] and F32 [3, {size}]" for rank, size in enumerate([2, 2, 1, 1])]
    return "\n".join([*lines, "y: " + " ".join(map(str, y))]) + "\n"


def main(program):
    assert any(sum(row) > 0 for row in UP) and any(sum(row) < 0 for row in UP)
    up = ("BF16", [INNER, WIDTH], [x for row in UP for x in row])
    down = ("BF16", [WIDTH, INNER], [x for row in DOWN for x in row])
    with tempfile.TemporaryDirectory() as folder:
        whole = f"{folder}/whole.safetensors"
        write_file(whole, {"up.weight": up, "down.weight": down})
        found = run(program, whole)
        check(found == expected(), f"expected {expected()}, found {found}")

        sharded = pathlib.Path(folder, "sharded")
        sharded.mkdir()
        write_file(sharded / "model-1.safetensors", {"up.weight": up})
        write_file(sharded / "model-2.safetensors", {"down.weight": down})
        weight_map = {"up.weight": "model-1.safetensors", "down.weight": "model-2.safetensors"}
        (sharded / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        check(run(program, sharded) == expected(), "a folder of shards")

        write_file(whole, {"up.weight": up})
        check("no tensor `down.weight`" in run(program, whole, status=1), "the error of a missing tensor")
        check(run(program, status=2).startswith("usage: "), "usage")


if __name__ == "__main__":
    main(sys.argv[1])
