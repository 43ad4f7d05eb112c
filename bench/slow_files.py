#!/usr/bin/env python3
"""Loads from a FUSE file system with a fixed latency per request, beside the reference, and prints a table.

Run it with the interpreter of an environment that holds this package, torch, transformers and mfusepy. The reference needs an
environment with the same packages. /dev/fuse and libfuse are needed. Each measurement is a process of its own, which opens the
file for the first time after it was mounted, so nothing is cached. The time does not count imports. The packages take turns.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))

import slow_files  # noqa: E402

PROGRAM = """
import sys, time, warnings
import torch
from safetensors import safe_open
from safetensors.torch import load_file
work, folder, file = sys.argv[1:]
path = folder + "/" + file
if work == "from_pretrained":
    import transformers
    transformers.utils.logging.disable_progress_bar()
start = time.perf_counter()
if work == "load_file":
    total = sum(t.sum(dtype=torch.float64).item() for t in load_file(path).values())
elif work == "from_pretrained":
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    total = sum(t.sum(dtype=torch.float64).item() for t in model.state_dict().values())
else:
    total = 0.0
    with safe_open(path, "pt") as f:
        for name in f.keys():
            if work == "get_tensor":
                part = f.get_tensor(name)
            else:
                part = f.get_slice(name)
                part = part[: part.get_shape()[0] // 8]
            total += part.sum(dtype=torch.float64).item()
print(time.perf_counter() - start, total)
"""
MAKE = """
import sys, torch, transformers
from safetensors.torch import save_file
torch.manual_seed(0)
large = {f"layers.{i}.weight": torch.randn(1024, 1024) for i in range(16)}
save_file(large | {f"layers.{i}.bias": torch.randn(2048) for i in range(64)}, sys.argv[1] + "/large")
save_file({f"layers.{i:04}.weight": torch.randn(64, 64) for i in range(2048)}, sys.argv[1] + "/small")
config = transformers.LlamaConfig(
    vocab_size=8192, hidden_size=512, intermediate_size=1408, num_hidden_layers=6, num_attention_heads=8,
    num_key_value_heads=8, max_position_embeddings=512)
transformers.LlamaForCausalLM(config).save_pretrained(sys.argv[1])
"""
WORKS = [
    ("load_file", "large", "`load_file`, 16 tensors of 4 MiB, 64 of 8 KiB"),
    ("load_file", "small", "`load_file`, 2,048 tensors of 16 KiB"),
    ("get_tensor", "large", "`get_tensor` of each, 16 of 4 MiB, 64 of 8 KiB"),
    ("get_tensor", "small", "`get_tensor` of each, 2,048 of 16 KiB"),
    ("get_slice", "large", "`get_slice`, an eighth of the rows of each, large"),
    ("get_slice", "small", "`get_slice`, an eighth of the rows of each, small"),
    ("from_pretrained", "model.safetensors", "transformers `from_pretrained`"),
]


def measure(python: str, work: str, file: str, files: slow_files.Mounted) -> tuple[float, float, int, int]:
    """Returns seconds, the sum of all elements, the number of reads, and their bytes."""
    files.counts()
    done = subprocess.run(
        [python, "-c", PROGRAM, work, str(files.path), file], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{python}: {work} ends with {done.returncode}\n{done.stderr}")
    counts = files.counts()
    seconds, total = map(float, done.stdout.split()[-2:])
    return seconds, total, counts["read"], counts["bytes"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", metavar="PYTHON", required=True)
    parser.add_argument("--latency", type=float, default=20, metavar="MS", help="per request")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--direct-io", action="store_true", help="a file system that does not use the page cache")
    arguments = parser.parse_args()
    reason = slow_files.why_not()
    if reason:
        sys.exit(f"no FUSE file system can be mounted: {reason}")
    print("| work | MiB | reference: s | requests | ours: s | requests | reference / ours |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        source, path = Path(folder) / "source", Path(folder) / "mounted"
        source.mkdir()
        path.mkdir()
        subprocess.run([sys.executable, "-c", MAKE, str(source)], check=True, stderr=subprocess.DEVNULL)
        with slow_files.mounted(source, path, cached=not arguments.direct_io) as files:
            for work, file, text in WORKS:
                results: dict[str, list[tuple[float, float, int, int]]] = {arguments.reference: [], sys.executable: []}
                for turn in range(arguments.rounds):
                    for python in sorted(results, reverse=turn % 2 == 1):
                        files.set(latency=arguments.latency / 1000)
                        results[python].append(measure(python, work, file, files))
                reference, ours = ([*zip(*found)] for found in results.values())
                if set(reference[1]) != set(ours[1]):
                    sys.exit(f"{work} {file}: the values differ")
                a, b = statistics.median(reference[0]), statistics.median(ours[0])
                size = (source / file).stat().st_size / 2**20
                requests = [statistics.median(found[2]) for found in (reference, ours)]
                print(f"| {text} | {size:.0f} | {a:.2f} | {requests[0]:.0f} | {b:.2f} | {requests[1]:.0f} | {a / b:.1f} x |", flush=True)


if __name__ == "__main__":
    main()
