"""Runs functions in several processes of torch.distributed (gloo), which meet at a file.

`run(module, world_size, folder, cases)` starts one process that imports torch and the module once, and then forks a process per
rank. Each rank runs the cases one after the other, each in a folder of its own. The result has the failures of each case, by rank.
Everything ends within a time limit, whatever the cases do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LIMIT = 600  # seconds for all cases of a world size
GLOO_LIMIT = 30  # seconds that a collective waits for other ranks

Results = dict[str, dict[int, str]]


def run(module: str, world_size: int, folder: Path, cases: list[str]) -> Results:
    """Returns the texts of the failures per case and rank. A rank that did not run a case has the text "did not run"."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, __file__, module, str(world_size), str(folder), *cases]
    log = folder / "log"
    with open(log, "w") as output:
        try:
            subprocess.run(command, cwd=Path(__file__).parent, env=environment, timeout=LIMIT, stdout=output, stderr=output)
        except subprocess.TimeoutExpired:
            output.write("the time is over\n")
    results: Results = {}
    for case in cases:
        results[case] = {}
        for rank in range(world_size):
            path = folder / f"{case}.{rank}"
            text = path.read_text() if path.exists() else "did not run\n" + log.read_text()[-4000:]
            if text != "passed":
                results[case][rank] = text
    return results


def _work(module: Any, rank: int, world_size: int, folder: Path, cases: list[str]) -> None:
    import datetime
    import traceback

    import torch.distributed as dist

    limit = datetime.timedelta(seconds=GLOO_LIMIT)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world_size, timeout=limit)
    for case in cases:
        own = folder / case
        own.mkdir(exist_ok=True)
        try:
            getattr(module, case)(own)
            text = "passed"
        except BaseException:
            text = traceback.format_exc()
        (folder / f"{case}.{rank}").write_text(text)
        if text != "passed":
            print(f"rank {rank}, {case}: {text}", flush=True)


def _main(module_name: str, world_size: int, folder: Path, cases: list[str]) -> None:
    import gc
    import importlib
    import signal

    module = importlib.import_module(module_name)
    importlib.import_module("torch._dynamo")  # DTensor imports it late: once here, and not in every rank
    gc.freeze()  # so that gc.collect() of a case is fast
    signal.alarm(LIMIT)  # also if the tests are killed
    children = []
    for rank in range(world_size):
        child = os.fork()
        if child == 0:
            signal.alarm(LIMIT)  # a child does not inherit it
            _work(module, rank, world_size, folder, cases)
            sys.stdout.flush()
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
