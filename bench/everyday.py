#!/usr/bin/env python3
"""Times the everyday verbs of the command beside what people use instead: a script with the reference, or a plain tool.

hyperfine measures the seconds. Each round starts every contender of a row once, in turn, so a change of the machine meets all of them. The
table has medians of seconds with lowest and highest, and ratios: the time of the other divided by ours. The page cache is warm.
Only the rows that say durable wait for the disk: the other verbs that write have `--durability none`, as the reference does not wait.
The limit is the time in which two threads read the file with pread(), without looking at the bytes.

The scripts are in SCRIPTS. They use what a user of the reference would use: NumPy where it is enough, torch for BF16.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Writes a BF16 model of argv[2] MiB in 16 layers, with names such as those of Llama.
MODEL = """
import torch
from safetensors.torch import save_file
rows = int(argv[2]) * (1 << 20) // (16 * 4) // 2048
tensors = {f"model.layers.{layer}.input_layernorm.weight": torch.ones(1024).bfloat16() for layer in range(16)}
for module in ("mlp.up_proj", "mlp.down_proj", "self_attn.q_proj", "self_attn.o_proj"):
    for layer in range(16):
        tensors[f"model.layers.{layer}.{module}.weight"] = (torch.randn(rows, 1024) * 0.02).bfloat16()
save_file(tensors, argv[1])
"""

# Each script gets the paths in sys.argv. It is written as a user would write it.
SCRIPTS = {
    "ls": """
from safetensors import safe_open
with safe_open(argv[1], "np") as f:
    for name in f.keys():
        part = f.get_slice(name)
        print(name, part.get_dtype(), part.get_shape())
""",
    "stats": """
from safetensors.torch import load_file
for name, tensor in load_file(argv[1]).items():
    wide = tensor.float()
    print(name, wide.min().item(), wide.max().item(), wide.mean().item(), wide.std().item(),
          wide.isnan().sum().item(), wide.isinf().sum().item())
""",
    "diff": """
import torch
from safetensors.torch import load_file
one, other = load_file(argv[1]), load_file(argv[2])
print(one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one))
""",
    "cat": """
from safetensors import safe_open
with safe_open(argv[1], "pt") as f:
    print(f.get_slice("model.layers.3.mlp.up_proj.weight")[0:1, 0:8])
""",
    "cast": """
import torch
from safetensors.torch import load_file, save_file
save_file({name: tensor.to(torch.float16) for name, tensor in load_file(argv[1]).items()}, argv[2])
""",
    "select": """
from safetensors import safe_open
from safetensors.torch import save_file
with safe_open(argv[1], "pt") as f:
    save_file({name: f.get_tensor(name) for name in f.keys() if ".layers.0." in name}, argv[2])
""",
    "merge": """
import glob
from safetensors.torch import load_file, save_file
tensors = {}
for path in sorted(glob.glob(argv[1] + "/*.safetensors")):
    tensors.update(load_file(path))
save_file(tensors, argv[2])
""",
    "meta": """
from safetensors import safe_open
from safetensors.torch import save_file
with safe_open(argv[1], "pt") as f:
    save_file({name: f.get_tensor(name) for name in f.keys()}, argv[2], {"step": "100"})
""",
}


def read_seconds(path: Path) -> float:
    """Return the seconds in which two threads read a file, each one half, 1 MiB at a time."""
    size = path.stat().st_size

    def read(begin: int, end: int) -> None:
        buffer = bytearray(1 << 20)
        with path.open("rb", buffering=0) as file:
            while begin < end:
                begin += os.preadv(file.fileno(), [buffer], begin)

    start = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(read, (0, size // 2), (size // 2, size)))
    return time.perf_counter() - start


def rows(program: str, python: str, folder: Path) -> dict[str, tuple[list[str], dict[str, list[str]]]]:
    """Return the races: our command line, and those of the others by name."""
    one, copy, model, out = (str(folder / name) for name in ("one.safetensors", "copy.safetensors", "model", "out.safetensors"))

    def script(name: str, *paths: str) -> dict[str, list[str]]:
        return {"script": [python, "-c", "from sys import argv\n" + SCRIPTS[name], *paths]}

    def ours(*words: str) -> list[str]:
        return [program, *words, *(["--durability", "none"] if out in words else [])]

    def synced(source: str) -> dict[str, list[str]]:
        return {"cp and sync": ["sh", "-c", f"cp -r {source} {out} && sync $(find {out} -type f)"]}

    sha256 = {"openssl": ["openssl", "dgst", "-sha256", one], "sha256sum": ["sha256sum", one]}
    meta = [program, "meta", "set", copy, "step=100", "--durability", "none"]  # replaces the file
    moved = {"cp and mv": ["sh", "-c", f"cp {one} {out} && mv {out} {copy}"]}
    part = ("model.layers.3.mlp.up_proj.weight", "--slice", "0:1,0:8")
    size = str(os.path.getsize(one) // 8 + (1 << 20))
    return {
        "ls": (ours("ls", one), script("ls", one)),
        "cat NAME --slice 0:1,0:8": (ours("cat", one, *part), script("cat", one)),
        "stats": (ours("stats", one), script("stats", one)),
        "diff, equal": (ours("diff", one, copy), {"cmp": ["cmp", one, copy]} | script("diff", one, copy)),
        "hash": (ours("hash", one), sha256),
        "cast --to f16": (ours("cast", one, out, "--to", "f16"), script("cast", one, out)),
        "select --layers 0": (ours("select", one, out, "--layers", "0"), script("select", one, out)),
        "merge": (ours("merge", model, "-o", out), {"cp": ["cp", "-r", model, out]} | script("merge", model, out)),
        "merge, durable": ([program, "merge", model, "-o", out], synced(model)),
        "split, durable": ([program, "split", one, out, "--max-shard-size", size], synced(one)),
        "meta set": (meta, moved | script("meta", copy, out)),
    }


def race(contenders: dict[str, list[str]], folder: Path, rounds: int) -> dict[str, list[float]]:
    """Run all contenders in turn and return their seconds. The first round fills the page cache and does not count."""
    results = folder / "results.json"
    output = shlex.quote(str(folder / "out.safetensors"))
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        names = list(contenders)
        names = names[turn % len(names) :] + names[: turn % len(names)]
        hyperfine = ["hyperfine", "--shell", "none", "--runs", "1", "--style", "none"]
        hyperfine += ["--prepare", f"rm -rf {output}", "--export-json", str(results)]
        commands = [shlex.join(contenders[name]) for name in names]
        done = subprocess.run(hyperfine + commands, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}{done.stderr}")
        if turn > 0:
            for name, result in zip(names, json.loads(results.read_text())["results"]):
                seconds[name] += result["times"]
    return seconds


def text(seconds: list[float]) -> str:
    """Return the median with lowest and highest."""
    return f"{statistics.median(seconds):.3f} ({min(seconds):.3f} to {max(seconds):.3f})"


def main() -> None:
    """Make the model, race all rows and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the command safetensors")
    parser.add_argument("--python", default=sys.executable, help="a Python with the reference and torch")
    parser.add_argument("--size", type=int, default=512, metavar="MIB", help="of the model")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="beginnings of the names of rows, with commas")
    parser.add_argument("--directory", help="where the files go (a temporary folder of it)")
    arguments = parser.parse_args()
    if not shutil.which("hyperfine"):
        sys.exit("bench/everyday.py needs hyperfine: apt-get install hyperfine")
    program = str(Path(arguments.program).resolve())
    only = tuple(filter(None, arguments.only.split(","))) or ("",)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        folder = Path(name)
        one = folder / "one.safetensors"
        script = "from sys import argv\n" + MODEL
        subprocess.run([arguments.python, "-c", script, str(one), str(arguments.size)], check=True)
        shutil.copyfile(one, folder / "copy.safetensors")
        parts = ["--max-shard-size", str(arguments.size * (1 << 20) // 8)]
        subprocess.run([program, "split", str(one), str(folder / "model"), *parts], check=True, capture_output=True)
        limit = statistics.median(read_seconds(one) for _ in range(arguments.rounds))
        start = [arguments.python, "-c", "import torch, safetensors.torch"]
        imports = statistics.median(race({"import": start}, folder, 3)["import"])
        print(
            f"{arguments.size} MiB of BF16, {arguments.rounds} rounds, {os.cpu_count()} processors\n"
            f"limit: two threads read the file in {limit:.3f} s\n"
            f"of each script with torch, the start of Python and the imports: {imports:.3f} s\n"
        )
        print("| verb | ours, s | other, s | ratio |\n|---|---|---|---|")
        for row, (command, others) in rows(program, arguments.python, folder).items():
            if not row.startswith(only):
                continue
            seconds = race({"ours": command, **others}, folder, arguments.rounds)
            for other, theirs in list(seconds.items())[1:]:
                ratio = statistics.median(theirs) / statistics.median(seconds["ours"])
                print(f"| `{row}` | {text(seconds['ours'])} | {other}: {text(theirs)} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
