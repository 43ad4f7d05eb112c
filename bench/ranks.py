#!/usr/bin/env python3
"""Times how the ranks of torch.distributed load or save their parts of a model, beside other ways. Prints a table.

Run it with the interpreter of an environment that holds this package and torch. `--reference` is the
interpreter of an environment with the reference package and torch. The model lies in several files.
Each rank needs an equal part of the rows of every tensor, and has memory for it, which was touched
before. One turn of a way: all ranks wait for each other, load, and the turn ends when the last rank
has its part. The ways take turns in random order. The first turn of each is not counted: it compares
the tensors. The processes stay alive, so the time does not count imports.

With `--save`, each rank saves these parts instead, into a folder that was removed before the turn. The
first turn compares the sum of the elements that the files hold, if these are safetensors files.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from comparison.files import MIB, evict, warm
from comparison.worker import status

# Ways to load: the environment, the name, the function of Ways, and its arguments in JSON.
WAYS = [
    ("ours", "`dcp.load`, our `StorageReader`", "storage_reader"),
    ("ours", "limit: `preadv` into the tensors, no agreement", "limit"),
    ("ours", "`load_sharded`", "load_sharded"),
    ("ours", "our `safe_open`, `get_slice` of each tensor", "safe_open"),
    ("ours", "`dcp.load`, DCP's reader on our `safe_open`", "dcp"),
    ("reference", "`dcp.load`, DCP's reader on the reference", "dcp"),
    ("reference", "... with 4 threads per rank", 'dcp {"threads": 4}'),
    ("reference", "the reference's `safe_open`, `get_slice` of each tensor", "safe_open"),
    ("reference", "`torch.load` of the whole model, then a copy of the part", "torch_load"),
    ("reference", "... with `mmap=True`", 'torch_load {"mmap": true}'),
    ("fastsafetensors", "fastsafetensors, each file read by one rank, `get_sharded` of each tensor", "fast"),
]

# Ways to save. Those of DCP and torch run in the environment of the reference, if there is one.
SAVING = [
    ("ours", "`dcp.save`, our `StorageWriter`", "save_storage_writer"),
    ("ours", '... with `durability="none"`', 'save_storage_writer {"durability": "none"}'),
    ("ours", "`save_sharded`", "save_sharded"),
    ("reference", "`dcp.save`, DCP's Hugging Face writer with consolidation", "save_hf"),
    ("reference", "... without: not loadable by `from_pretrained`", 'save_hf {"consolidated": false}'),
    ("reference", "`dcp.save`, DCP's own format", "save_distcp"),
    ("reference", "`full_tensor` of each, `save_file` on rank 0", "save_gathered"),
    ("reference", "`full_tensor` of each, `torch.save` on rank 0", "save_gathered_pickle"),
]


class Ways:
    """The ways to load and save, in one process. `state` has a DTensor for each tensor of the model."""

    def __init__(self, folder: str, mesh: Any) -> None:
        import torch
        from torch.distributed.tensor import DTensor, Shard

        self.folder, self.saved = folder, saved_folder(folder)
        self.state = {}
        for name, shape in shapes(folder).items():
            rows, rank, ranks = shape[0], mesh.get_rank(), mesh.size()
            local = torch.zeros(rows // ranks, *shape[1:])
            self.state[name] = DTensor.from_local(local, mesh, [Shard(0)], run_check=False)
            assert rows % ranks == 0 and 0 <= rank < ranks
        self.rank = mesh.get_rank()
        self.shard_size = sum(tensor.nbytes for tensor in self.state.values()) // 8  # as those that are loaded
        self.parts = {name: value.to_local() for name, value in self.state.items()}
        self.places = places(folder)

    def storage_reader(self) -> None:
        import torch.distributed.checkpoint as dcp
        from safetensors.distributed import StorageReader

        dcp.load(self.state, storage_reader=StorageReader(self.folder))

    def limit(self) -> None:
        for file, parts in self.places.items():
            descriptor = os.open(file, os.O_RDONLY)
            for name, begin in parts:
                part = memoryview(self.parts[name].numpy()).cast("B")
                offset, done = begin + self.rank * len(part), 0
                while done < len(part):
                    done += os.preadv(descriptor, [part[done:]], offset + done)
            os.close(descriptor)

    def load_sharded(self) -> None:
        from safetensors.distributed import load_sharded

        load_sharded(self.state, self.folder)

    def dcp(self, threads: int = 1) -> None:
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

        dcp.load(self.state, storage_reader=HuggingFaceStorageReader(self.folder, threads))

    def safe_open(self) -> None:
        import safetensors

        for file in sorted(Path(self.folder).glob("*.safetensors")):
            with safetensors.safe_open(str(file), "pt") as opened:
                for name in opened.keys():
                    part = self.parts[name]
                    first = self.rank * len(part)
                    part.copy_(opened.get_slice(name)[first : first + len(part)])

    def torch_load(self, mmap: bool = False) -> None:
        import torch

        for file in sorted(Path(self.folder).glob("*.pt")):
            for name, tensor in torch.load(file, mmap=mmap, weights_only=True).items():
                part = self.parts[name]
                part.copy_(tensor[self.rank * len(part) : (self.rank + 1) * len(part)])

    def fast(self) -> None:
        import torch.distributed as dist
        from fastsafetensors import SafeTensorsFileLoader

        files = sorted(str(file) for file in Path(self.folder).glob("*.safetensors"))
        loader = SafeTensorsFileLoader(dist.group.WORLD, device="cpu", nogds=True)
        try:
            ranks = dist.get_world_size()
            loader.add_filenames({rank: files[rank::ranks] for rank in range(ranks)})
            buffers = loader.copy_files_to_device()
            for name, part in self.parts.items():
                part.copy_(buffers.get_sharded(name, dim=0))
            buffers.close()
        finally:
            loader.close()

    def save_storage_writer(self, durability: Any = "full") -> None:
        import torch.distributed.checkpoint as dcp
        from safetensors.distributed import StorageWriter

        writer = StorageWriter(self.saved, max_shard_size=self.shard_size, durability=durability)
        dcp.save(self.state, storage_writer=writer)

    def save_sharded(self) -> None:
        from safetensors.distributed import save_sharded

        save_sharded(self.state, self.saved, max_shard_size=self.shard_size)

    def save_hf(self, consolidated: bool = True) -> None:
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

        files = {name: int(name.split(".")[1]) + 1 for name in self.state}
        writer = HuggingFaceStorageWriter(self.saved, files, save_distributed=True, enable_consolidation=consolidated)
        dcp.save(self.state, storage_writer=writer)

    def save_distcp(self) -> None:
        import torch.distributed.checkpoint as dcp

        dcp.save(self.state, storage_writer=dcp.FileSystemWriter(self.saved))

    def gathered(self) -> dict[str, Any]:
        whole = {name: tensor.full_tensor() for name, tensor in self.state.items()}
        os.makedirs(self.saved, exist_ok=True)
        return whole

    def save_gathered(self) -> None:
        import torch.distributed as dist
        from safetensors.torch import save_file

        whole = self.gathered()
        if self.rank == 0:
            save_file(whole, f"{self.saved}/model.safetensors")
        dist.barrier()

    def save_gathered_pickle(self) -> None:
        import torch
        import torch.distributed as dist

        whole = self.gathered()
        if self.rank == 0:
            torch.save(whole, f"{self.saved}/model.pt")
        dist.barrier()


def saved_folder(folder: str) -> str:
    return f"{folder}/saved"


def shapes(folder: str) -> dict[str, list[int]]:
    loaded: dict[str, list[int]] = json.loads(Path(folder, "shapes").read_text())
    return loaded


def places(folder: str) -> dict[Path, list[tuple[str, int]]]:
    """Return the names and the offsets of the tensors of each file."""
    found = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        with open(file, "rb") as opened:
            size = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(size))
        found[file] = [
            (name, 8 + size + entry["data_offsets"][0]) for name, entry in header.items() if name != "__metadata__"
        ]
    return found


def moved() -> tuple[int, int]:
    """Return the bytes that this process has read and written."""
    words = Path("/proc/self/io").read_text().split()
    return int(words[1]), int(words[3])


def serve(folder: str, store: str, rank: int, ranks: int) -> None:
    """Load in the way that each line of the standard input names, and print a report for each."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    ways = Ways(folder, init_device_mesh("cpu", (ranks,)))
    for line in iter(sys.stdin.readline, ""):
        for part in ways.parts.values():
            part.fill_(rank + 1 if line.startswith("save") else -1)
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before, (read, written) = status("self", "VmRSS"), moved()
        dist.barrier()
        used, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        try:
            name, _, given = line.strip().partition(" ")
            getattr(ways, name)(**json.loads(given or "{}"))
            report: dict[str, Any] = {}
        except Exception as error:
            report = {"missing": f"{type(error).__name__}: {error}"[:300]}
        end, spent = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        report |= {
            "start": start,
            "end": end,
            "cpu": spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime,
            "peak": max(0, status("self", "VmHWM") - before),
            "read": moved()[0] - read,
            "written": moved()[1] - written,
            "sum": sum(part.sum(dtype=torch.float64).item() for part in ways.parts.values()),
        }
        print(json.dumps(report), file=out, flush=True)
    dist.destroy_process_group()


MAKE = """
import json, sys, torch
from safetensors.torch import save_file
folder, size, files = sys.argv[1], int(sys.argv[2]), 8
layers = max(1, round(size / files / (4 * (2 * 1024 * 1024 + 1024))))
shapes = {}
for file in range(files):
    tensors = {}
    for layer in range(layers):
        for name, shape in (("up", (2048, 1024)), ("norm", (1024,))):
            tensors[f"layers.{file}.{layer}.{name}.weight"] = torch.rand(shape)
    shapes |= {name: list(tensor.shape) for name, tensor in tensors.items()}
    save_file(tensors, f"{folder}/model-{file + 1:05}-of-{files:05}.safetensors")
    torch.save(tensors, f"{folder}/model-{file + 1:05}.pt")
names = {name: f"model-{int(name.split('.')[1]) + 1:05}-of-{files:05}.safetensors" for name in shapes}
json.dump({"metadata": {}, "weight_map": names}, open(f"{folder}/model.safetensors.index.json", "w"))
json.dump(shapes, open(f"{folder}/shapes", "w"))
"""


class Group:
    """The ranks of one environment."""

    def __init__(self, python: str, folder: str, ranks: int) -> None:
        self.meeting = tempfile.TemporaryDirectory()
        command = [python, __file__, "--serve", folder, f"{self.meeting.name}/store"]
        self.processes = [
            subprocess.Popen(
                [*command, str(rank), str(ranks)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for rank in range(ranks)
        ]

    def turn(self, way: str) -> dict[str, Any]:
        for process in self.processes:
            assert process.stdin
            process.stdin.write(way + "\n")
            process.stdin.flush()
        reports = [json.loads(process.stdout.readline()) for process in self.processes if process.stdout]
        for report in reports:
            if "missing" in report:
                return report
        return {
            "seconds": max(r["end"] for r in reports) - min(r["start"] for r in reports),
            "cpu": sum(r["cpu"] for r in reports),
            "peak": max(r["peak"] for r in reports),
            "read": sum(r["read"] for r in reports),
            "written": sum(r["written"] for r in reports),
            "sum": sum(r["sum"] for r in reports),
        }

    def stop(self) -> None:
        for process in self.processes:
            assert process.stdin
            process.stdin.close()
        for process in self.processes:
            process.wait()
        self.meeting.cleanup()


def files_of(folder: str) -> list[str]:
    return [str(file) for file in Path(folder).iterdir() if file.is_file()]  # not the folder that fewer ranks saved


def check_saved(folder: str, expected: float) -> None:
    """Compare the sum of all elements, if there are safetensors files."""
    from safetensors import load

    saved = Path(saved_folder(folder))
    files = sorted(saved.glob("*.safetensors"))
    tensors = [tensor for file in files for tensor in load(file, framework="np").values()]
    found = sum(float(tensor.sum(dtype="float64")) for tensor in tensors)
    assert not files or abs(found - expected) < 1e-6 * expected, f"{saved} has other values"


def race(arguments: argparse.Namespace, folder: str, ranks: int, cold: bool) -> None:
    others = {"reference": arguments.reference, "fastsafetensors": arguments.fastsafetensors}
    if arguments.save:
        del others["fastsafetensors"]  # it has no way to save a part per rank
    pythons = {"ours": sys.executable} | {name: path for name, path in others.items() if path}
    ways = [way for way in WAYS if way[0] in pythons]
    if arguments.save:
        ways = [(name if name in pythons else "ours", says, way) for name, says, way in SAVING]
    groups = {name: Group(python, folder, ranks) for name, python in pythons.items()}
    for file in files_of(folder):
        warm(file)
    measured: dict[int, list[dict[str, Any]]] = {i: [] for i in range(len(ways))}
    expected: float | None = None
    for turn in range(arguments.rounds + 1):
        for i in random.sample(range(len(ways)), len(ways)):
            if cold:
                evict(files_of(folder))
            if arguments.save:
                shutil.rmtree(saved_folder(folder), ignore_errors=True)
                os.sync()  # no turn waits for the bytes of another one
            report = groups[ways[i][0]].turn(ways[i][2])
            if arguments.save and turn == 0 and "missing" not in report:
                check_saved(folder, report["sum"])
            if "missing" not in report:
                expected = report["sum"] if expected is None else expected
                assert abs(report["sum"] - expected) < 1e-6 * expected, f"{ways[i]} loaded other values"
            if turn > 0 or "missing" in report:
                measured[i].append(report)
    for group in groups.values():
        group.stop()
    print(f"\n{ranks} ranks, {'saving' if arguments.save else 'cold' if cold else 'warm'}:\n")
    print_table([says for _, says, _ in ways], measured, "written" if arguments.save else "read")


def print_table(names: list[str], measured: dict[int, list[dict[str, Any]]], moves: str) -> None:
    """Print the medians of each way. `moves`: "read" or "written"."""
    print(f"| way | time | time / ours | CPU of all ranks | peak memory per rank | bytes {moves} by all ranks |")
    print("|---|---|---|---|---|---|")
    first = None
    for i, says in enumerate(names):
        turns = measured[i]
        if "missing" in turns[0]:
            print(f"| {says} | {turns[0]['missing']} | | | | |")
            continue
        mid = {key: statistics.median(turn[key] for turn in turns) for key in ("seconds", "cpu", "peak", moves)}
        first = first or mid["seconds"]
        print(
            f"| {says} | {mid['seconds'] * 1000:.0f} ms | {mid['seconds'] / first:.2f} | {mid['cpu']:.2f} s"
            f" | {mid['peak'] / MIB:.0f} MiB | {mid[moves] / MIB:,.0f} MiB |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", metavar="PYTHON", help="without it, only ours runs")
    parser.add_argument("--fastsafetensors", metavar="PYTHON", help="with fastsafetensors and torch")
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--size", type=int, default=1024, metavar="MIB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="measure cold reads, too")
    parser.add_argument("--save", action="store_true", help="measure saving instead")
    parser.add_argument("--directory", help="where the files go (a temporary folder of it)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        subprocess.run([sys.executable, "-c", MAKE, folder, str(arguments.size * MIB)], check=True)
        total = sum(file.stat().st_size for file in Path(folder).glob("*.safetensors"))
        print(f"{total / MIB:,.0f} MiB in 8 files. Medians of {arguments.rounds} turns, after one that compares.")
        print(f"{os.cpu_count()} processors, load before: {os.getloadavg()[0]:.1f} (0 is idle)")
        for ranks in map(int, arguments.ranks.split(",")):
            for cold in (False, True) if arguments.cold and not arguments.save else (False,):
                race(arguments, folder, ranks, cold)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
