#!/usr/bin/env python3
"""Measures the processor time of a fresh release build, and compares it with a yardstick that it compiles in the same run.

The build is configured in a temporary folder, without a compiler cache. The program builds the library, then the command (with
the component hash, if OpenSSL is installed). It prints the processor time (user and system) of each, of all child processes
together. Processor time depends little on other work on the machine, but it differs between machines. So the program also
compiles a file of a few lines that includes <regex> and uses std::regex, before, between and after the builds. The ratio of a
build to the median of these times says how expensive the build is on any machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
YARDSTICK = """#include <regex>
bool matches(const char* text) { return std::regex_match(text, std::regex("[a-z]+(0|1)*")); }
"""


def children_seconds() -> float:
    """Return the processor time of all child processes that ended, and of their children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds_of(command: list[str], environment: dict[str, str], folder: Path) -> float:
    """Run a command and return its processor time. Its output is shown only if it fails."""
    before = children_seconds()
    result = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode != 0:
        sys.stdout.flush()
        sys.stderr.buffer.write(result.stdout[-8000:])
        sys.exit(f"failed: {shlex.join(command)}")
    return children_seconds() - before


def measure(folder: Path, arguments: argparse.Namespace) -> None:
    """Build the library and the command in a folder, and print the table."""
    environment = {name: os.environ[name] for name in ("PATH", "CC", "CXX") if name in os.environ}
    environment |= {"HOME": str(folder), "CCACHE_DISABLE": "1"}
    tree = folder / "build"
    configure = ["cmake", "-S", str(ROOT), "-B", str(tree), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    configure_seconds = seconds_of([*configure, *arguments.options], environment, folder)

    source = folder / "yardstick.cpp"
    source.write_text(YARDSTICK, encoding="utf-8")
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    compile_yardstick = [*compiler, "-std=c++20", "-O2", "-c", str(source), "-o", str(folder / "yardstick.o")]
    yardsticks = []
    builds = []
    # Ninja's target `safetensors` is the command, a file at the top of the build tree.
    for name, target in (("library", "libsafetensors.a"), ("command", "safetensors_cli")):
        yardsticks.append(seconds_of(compile_yardstick, environment, folder))
        start = time.perf_counter()
        command = ["cmake", "--build", str(tree), "--target", target, "-j", str(arguments.jobs)]
        seconds = seconds_of(command, environment, folder)
        builds.append((name, seconds, time.perf_counter() - start))
    yardsticks.append(seconds_of(compile_yardstick, environment, folder))

    yardstick = statistics.median(yardsticks)
    (_, library, library_time), (_, cli, cli_time) = builds
    builds.append(("library and command", library + cli, library_time + cli_time))
    print("| build | CPU s | yardsticks | wall s |")
    print("|---|---|---|---|")
    for name, seconds, elapsed in builds:
        print(f"| {name} | {seconds:.1f} | {seconds / yardstick:.1f} | {elapsed:.0f} |")
    spread = f"{min(yardsticks):.2f} to {max(yardsticks):.2f}"
    print(
        f"\nThe yardstick takes {yardstick:.2f} CPU s ({spread}), cmake's configuration {configure_seconds:.1f} CPU s."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at the same time")
    parser.add_argument("options", nargs="*", help="options for cmake, after --")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
