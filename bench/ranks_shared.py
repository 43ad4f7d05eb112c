#!/usr/bin/env python3
"""Counts the requests of ranks that load a model from a slow file system, with and without shared reads.

The file system is the FUSE one of the tests. It has no page cache, so each read of each rank is a request
with a fixed time, as if each rank had a machine of its own. Each way runs in processes of its own: the
time is that of the load, of the slowest rank. The ways take turns in random order.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20
NEEDS = {"all": "all tensors", "rows": "1/N of the rows", "columns": "1/N of the columns"}


def make(folder: Path, size: int) -> None:
    import torch
    from safetensors.torch import save_file

    count = max(1, size // (4 * MIB))
    tensors = {f"layers.{i}.weight": torch.rand(1024, 1024) for i in range(count)}
    save_file(tensors, folder / "model.safetensors", durability="none")


def serve(folder: str, store: str, ranks: int, needs: str, share: Any) -> None:
    """Load in a process per rank. Each prints a line. torch is imported once."""
    import safetensors.distributed
    import torch.distributed.device_mesh

    assert torch and safetensors
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            load(folder, store, rank, ranks, needs, share)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def load(folder: str, store: str, rank: int, ranks: int, needs: str, share: Any) -> None:
    """Load in one rank, and print the seconds."""
    import torch.distributed as dist
    from safetensors.distributed import load_sharded
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    placement = {"all": Replicate(), "rows": Shard(0), "columns": Shard(1)}[needs]
    mesh = init_device_mesh("cpu", (ranks,))
    dist.barrier()
    reports: list[Any] = []
    load_sharded(
        None,
        folder,
        mesh=mesh,
        placements={"*": placement},
        threads=2,
        share=share,
        report=reports.append,
    )
    line = json.dumps({"share": reports[0].share, "seconds": reports[0].seconds}) + "\n"
    os.write(1, line.encode())
    dist.barrier()
    dist.destroy_process_group()


def turn(files: Any, ranks: int, needs: str, share: str) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    files.counts()
    with tempfile.TemporaryDirectory() as meeting:
        command = [sys.executable, __file__, "--serve", str(files.path), f"{meeting}/store"]
        done = subprocess.run(
            [*command, str(ranks), needs, share],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            check=True,
        )
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == ranks
    counts = files.counts()
    return {"seconds": max(r["seconds"] for r in reports), **counts, "share": reports[0]["share"]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--size", type=int, default=128, metavar="MIB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, default=5, metavar="MS", help="of a request")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests" / "python"))
    import slow_files

    reason = slow_files.why_not()
    if reason is not None:
        sys.exit(f"no FUSE file system can be mounted: {reason}")
    with tempfile.TemporaryDirectory() as folder:
        source, path = Path(folder, "source"), Path(folder, "mounted")
        source.mkdir()
        path.mkdir()
        make(source, arguments.size * MIB)
        print(f"{arguments.size} MiB, {arguments.latency} ms per request.")
        print(f"{os.cpu_count()} processors, load before: {os.getloadavg()[0]:.1f} (0 is idle)\n")
        print("| ranks | each rank needs | share | time | requests | bytes read |")
        print("|---|---|---|---|---|---|")
        latency = arguments.latency / 1000
        with slow_files.mounted(source, path, latency, cached=False) as files:
            for ranks in map(int, arguments.ranks.split(",")):
                race(files, ranks, arguments.rounds)


def race(files: Any, ranks: int, rounds: int) -> None:
    ways = [(needs, share) for needs in NEEDS for share in ("never", "auto")]
    turns: dict[tuple[str, str], list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in random.sample(ways, len(ways)):
            turns[way].append(turn(files, ranks, *way))
    for needs, share in ways:
        found = turns[needs, share]
        mid = {
            key: statistics.median(one[key] for one in found)
            for key in ("seconds", "read", "bytes")
        }
        chosen = f'"{share}"' + (f' ("{found[0]["share"]}")' if share == "auto" else "")
        print(
            f"| {ranks} | {NEEDS[needs]} | {chosen} | {mid['seconds'] * 1000:.0f} ms"
            f" | {mid['read']:.0f} | {mid['bytes'] / MIB:,.0f} MiB |",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]), *sys.argv[5:])
    else:
        main()
