"""Kills a rank at a random point of a save, again and again, and checks that the old or the new checkpoint is there.

`run(folder, seeds)` starts one process that imports torch once. It forks the ranks of each save, and one of them kills itself: at
any time, or a short time after it has begun a step of its part. The old and the new files have the same names in half of the
saves. The next save must leave nothing but its own files. Each line of the result says what was found for a seed.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

LIMIT = 20  # seconds that a rank may live
RAISED = 3  # the exit status of a rank whose save has raised an error
STEPS = ["any time", "create", "write", "receipt", "commit"]  # the others are functions of PartWriter
WAYS = ["dcp.save", "save_sharded"]
SIZES = [40_000, 60_000]  # of shards: 4 files and 3 files


def run(folder: Path, seeds: list[int], timeout: float) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, __file__, str(folder), *map(str, seeds)]
    done = subprocess.run(command, cwd=Path(__file__).parent, env=environment, timeout=timeout, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("seed ")]
    return lines if len(lines) == len(seeds) else [*lines, f"the program ended with {done.returncode}: {done.stdout[-3000:]}{done.stderr[-3000:]}"]


def state_of(value: float) -> dict[str, Any]:
    import torch

    return {f"layer{i}.weight": torch.full((64, 40), value + i) for i in range(12)} | {"bias": torch.full((7,), value)}


def kill_after(seconds: float) -> None:
    import threading

    if seconds == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()


def die_in(step: str, seconds: float) -> None:
    """From now on, this process dies a short time after it has begun the step."""
    from safetensors._ranks.part_writer import PartWriter

    original = getattr(PartWriter, step)

    def deadly(*arguments: Any, **options: Any) -> Any:
        kill_after(seconds)
        return original(*arguments, **options)

    setattr(PartWriter, step, deadly)


def save(way: str, folder: Path, meeting: Path, rank: int, count: int, size: int, kill: tuple[str, float] | None) -> None:
    import datetime

    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    from safetensors.distributed import StorageWriter, save_sharded

    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count, timeout=datetime.timedelta(seconds=LIMIT / 2))
    mesh = init_device_mesh("cpu", (count,))
    state = {name: distribute_tensor(t, mesh, [Shard(t.dim() - 1)], src_data_rank=None) for name, t in state_of(2.0).items()}
    dist.barrier()
    if kill is not None:
        kill_after(kill[1]) if kill[0] == STEPS[0] else die_in(*kill)
    start = time.monotonic()
    if way == "dcp.save":
        dcp.save(state, storage_writer=StorageWriter(folder, max_shard_size=size))
    else:
        save_sharded(state, folder, max_shard_size=size)
    meeting.with_name(f"seconds{rank}").write_text(str(time.monotonic() - start))


def fork(call: Any) -> int:
    child = os.fork()
    if child:
        return child
    signal.alarm(LIMIT)
    status = 0
    try:
        call()
    except BaseException as error:
        print(type(error).__name__, str(error)[:200], flush=True)
        status = RAISED
    gc.collect()
    os._exit(status)


def statuses(children: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def check(folder: Path, old: dict[str, Any] | None, victim: int, codes: list[int]) -> str:
    """Returns "old", "new", or a sentence about a fault."""
    import torch

    from safetensors import load

    others = [code for rank, code in enumerate(codes) if rank != victim]
    if codes[victim] not in (-signal.SIGKILL, 0) or any(code not in (0, RAISED) for code in others):
        return f"the ranks ended with {codes}"
    left = [path for place in (folder, folder.parent) if place.exists() for path in place.iterdir() if path.name.startswith(".safetensors-")]
    if victim != 0 and left:
        return f"temporary files are left: {left}"
    found = load(folder, framework="pt") if folder.exists() else None
    verdict = ""
    for name, expected in (("old", old), ("new", state_of(2.0))):
        same = found is None or expected is None or all(torch.equal(found[key], expected[key]) for key in expected if key in found)
        if same and (found is None) == (expected is None) and (found or {}).keys() == (expected or {}).keys():
            verdict = name
    if not verdict:
        return f"it is a mix: {found and {name: tensor.flatten()[0] for name, tensor in found.items()}}"
    if verdict == "old" and 0 in others:
        return f"a rank succeeded, and the old checkpoint is there: {codes}"
    return verdict


def left_over(folder: Path) -> str:
    """Returns a sentence about files that do not belong to the checkpoint, or nothing."""
    from safetensors import Checkpoint

    expected = {Path(path).name for path in Checkpoint(folder, "pt").files} | {"model.safetensors.index.json"}
    found = {path.name for path in folder.iterdir()} | {path.name for path in folder.parent.iterdir() if path.name.startswith(".")}
    return "" if found == expected else f"files are left: {sorted(found ^ expected)}"


def kill_one(folder: Path, seed: int, durations: dict[str, float]) -> str:
    import safetensors

    choose = random.Random(seed)
    way = WAYS[seed % len(WAYS)]
    count = choose.choice([2, 2, 4])
    made, old = folder / "made", None
    if choose.random() < 0.7:  # otherwise a new folder
        old = state_of(1.0)
        safetensors.save(old, made, max_shard_size=choose.choice(SIZES), durability="none")
    step = choose.choice(STEPS + STEPS[-1:])
    victim = {"create": 0, "commit": 0, "receipt": choose.randrange(1, count)}.get(step, choose.randrange(count))
    delay = choose.uniform(0, durations[way]) if step == "any time" else choose.choice([0.0, choose.uniform(0, 0.002), choose.uniform(0, 0.02)])
    meeting = folder / "meet"
    children = [fork(lambda rank=rank: save(way, made, meeting, rank, count, SIZES[0], (step, delay) if rank == victim else None)) for rank in range(count)]
    verdict = check(made, old, victim, statuses(children))
    safetensors.save(state_of(3.0), made, max_shard_size=choose.choice(SIZES), durability="none")
    left = left_over(made)
    return f"seed {seed}: {left or verdict} (rank {victim} of {count}, {1000 * delay:.1f} ms after {step} of {way})"


def main(folder: Path, seeds: list[int]) -> None:
    import torch._dynamo  # noqa: F401  # DTensor imports it late: once here, and not in every rank
    import torch.distributed.checkpoint  # noqa: F401
    import torch.distributed.tensor  # noqa: F401

    import safetensors.distributed  # noqa: F401
    import safetensors.torch  # noqa: F401

    gc.freeze()  # so that gc.collect() of a rank is fast
    durations = {}
    for way in WAYS:
        whole = folder / way
        whole.mkdir()
        assert statuses([fork(lambda rank=rank: save(way, whole / "made", whole / "meet", rank, 2, SIZES[0], None)) for rank in range(2)]) == [0, 0]
        durations[way] = 1.2 * float((whole / "seconds0").read_text())
    for seed in seeds:
        own = folder / str(seed)
        own.mkdir()
        print(kill_one(own, seed, durations), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(seed) for seed in sys.argv[2:]])
