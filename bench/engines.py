#!/usr/bin/env python3
"""Races read_packed with the loops that engines write, and with the readers of engines whose checkouts you have.

usage: bench/engines.py [--mlx DIR] [--vllm-cpp DIR] [--sdcpp DIR] [--build DIR] [-- OPTIONS OF THE PROGRAM]

The program is bench/engines. Each DIR is the root of a checkout of MLX, vllm.cpp or stable-diffusion.cpp. This is what is
compiled from them:

- MLX: mlx/io/load.cpp, the file reader and its pool. Its parser needs all of MLX, so the names and offsets are ours.
- vllm.cpp: safetensors_reader.cpp, parser and map. The copy of each tensor to memory from malloc is ours.
- stable-diffusion.cpp: safetensors_io.cpp, the parser, with a small stand-in for ggml.h. The loop of its ModelLoader needs
  ggml and most of the engine, so we wrote a loop that does the same: per thread a std::ifstream, which takes the next
  tensor.

Without a checkout, the loops without any engine run: fread, ifstream, a map with memcpy (1 and 2 threads), one buffer with
pread. Options of the program: --file FILE, --size MIB (1024), --rounds N (5), --seconds N, --only NAME,..., --json. It runs twice: with the
file in the page cache, and with --cold.
"""
import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("mlx", "vllm-cpp", "sdcpp"):
        parser.add_argument(f"--{name}", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "engines", metavar="DIR")
    parser.add_argument("options", nargs="*", help="after --: options of the program")
    return parser.parse_args()


def build(given):
    paths = {"MLX": given.mlx, "VLLM_CPP": given.vllm_cpp, "SDCPP": given.sdcpp}
    checkouts = [f"-DSAFETENSORS_BENCH_{name}={path.resolve() if path else ''}" for name, path in paths.items()]
    subprocess.run(
        ["cmake", "-S", ROOT, "-B", given.build, "-DCMAKE_BUILD_TYPE=Release", "-DSAFETENSORS_BUILD_BENCH=ON", *checkouts],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(["cmake", "--build", given.build, "--target", "bench_engines"], check=True, stdout=sys.stderr)
    return given.build / "bench" / "engines" / "engines_race"


def main():
    given = arguments()
    program = build(given)
    for cache in ([], ["--cold"]):
        subprocess.run([program, *cache, *given.options], check=True)


if __name__ == "__main__":
    main()
