#!/usr/bin/env python3
"""Times the Python package against its peers and against what the system takes, in one run on the same files.

Run it with the interpreter of an environment that holds this package, NumPy and torch. Each peer is a process in an
environment of its own, which does one piece of work on request. The peers take turns in changing order, and bench/limits
takes turns with them. The first turn compares the tensors that all peers loaded, and does not count. In the rows first_load
and again_load, each turn has a new process that has only imported torch or NumPy, and all turns count. The output is medians
with the lowest and the highest time, time / ours, the fraction of the limit, CPU seconds, peak memory, and bytes read.

Before it begins, the program uses the memory of the machine: it fills the page cache and frees every second piece of it, so
huge pages are scarce, as after hours of work. --fresh leaves that out. If our own times of a row differ by more than
1.5 x, the program ends with status 3 and names the row. With --size 2048 the run needs about 15 GiB of disk and 24 GiB of
memory. On a shared machine absolute figures are noise. Compare the ratios within one run.
"""

from __future__ import annotations

import argparse
import datetime
import glob
import os
import re
import shlex
import signal
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from comparison import environments, report
from comparison.adapters import ADAPTERS
from comparison.files import Library
from comparison.racing import Limits, Races, Row
from comparison.used import used
from comparison.worker import serve
from comparison.works import WORKS

ROOT = Path(__file__).resolve().parent.parent
LOAD = os.getloadavg()[0]
PEERS = [peer for peer in ADAPTERS if peer != "ours"]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON", help="one of " + ", ".join(PEERS))
    parser.add_argument("--make-environments", metavar="DIR", help="make the environments of the other peers in DIR")
    parser.add_argument("--ours", metavar="PYTHON", default=sys.executable, help="interpreter with this package (default: this one)")
    parser.add_argument("--limits", metavar="PROGRAM", help="bench/limits (default: the newest in build/)")
    parser.add_argument("--size", type=int, default=2048, metavar="MIB", help="size of the large files (default 2048)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no round of a row after these, except the first (default: no limit)")
    parser.add_argument("--slow", type=float, default=5, metavar="SECONDS", help="a work that takes longer gets one round (default 5)")
    parser.add_argument("--fresh", action="store_true", help="begin without using the memory of the machine")
    parser.add_argument("--only", default="", help="pieces of work: " + " ".join(w.name for w in WORKS))
    parser.add_argument("--directory", help="make a temporary folder for the files here")
    results = ROOT / "bench" / "results" / f"compare-{datetime.date.today()}.csv"
    parser.add_argument("--csv", metavar="FILE", default=results, help="write all results here (default: in bench/results)")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    chosen = set(filter(None, arguments.only.split(",")))
    arguments.works = [work for work in WORKS if not chosen or work.name in chosen]
    unknown = chosen - {work.name for work in WORKS}
    if unknown:
        parser.error(f"no work is called {', '.join(sorted(unknown))}")
    for each in arguments.peer:
        if each.partition("=")[0] not in PEERS or not each.partition("=")[2]:
            parser.error(f"--peer {each}: it takes NAME=PYTHON, NAME one of {', '.join(PEERS)}")
    return arguments


def find_limits(given: str | None) -> str | None:
    """Return the program bench/limits."""
    if given:
        return given
    found = [path for tree in ("*", "check/gcc") for path in glob.glob(f"{ROOT}/build/{tree}/bench/limits")]
    return max((path for path in found if not re.search("asan|tsan|fuzz", path)), key=os.path.getmtime, default=None)


def pythons(arguments: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """Return the interpreters by peer, ours first, and for each peer without one the reason."""
    given = dict(each.split("=", 1) for each in arguments.peer)
    absent = {}
    for peer in PEERS if arguments.make_environments else []:
        if peer not in given:
            python, reason = environments.make(Path(arguments.make_environments), peer)
            if reason:
                absent[peer] = reason
            else:
                given[peer] = python
    return {"ours": arguments.ours} | {peer: given[peer] for peer in PEERS if peer in given}, absent


def say(what: str) -> None:
    """Show the current step if the output is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{what[:100]}", end="", file=sys.stderr, flush=True)


def race(races: Races, arguments: argparse.Namespace) -> list[Row]:
    """Do all the requested work, and print each row as soon as it is complete."""
    rows = []
    works = arguments.works
    for i, work in enumerate(works):
        row = races.race(work, say)
        rows.append(row)
        say("")
        print("\n".join(report.lines(row, arguments.rounds)), flush=True)
        if i + 1 == len(works) or works[i + 1].data != work.data:
            races.forget(work.data)
    return rows


def without_folder(argument: str) -> str:
    """Return an argument without the folders of this machine."""
    return re.sub(r"(^|=)/.*/([^/]+)$", r"\1\2", argument)


def head(races: Races, arguments: argparse.Namespace) -> dict[str, str]:
    """Return the facts of the run that a reader of the table needs."""
    made = {
        "Machine": report.machine(),
        "Date": datetime.date.today().isoformat(),
        "Command": "`" + shlex.join(["bench/compare.py", *map(without_folder, sys.argv[1:])]) + "`",
        "Versions": ", ".join(f"{peer} {version}" for peer, version in races.versions.items() if version),
        "Medians of": f"at most {arguments.rounds} rounds, interleaved",
        "Load before": f"{LOAD:.1f} processes (1 is noise already)" if LOAD >= 0.5 else "none",
    }
    if not races.limits:
        made["Limits"] = "not measured: bench/limits is not built"
    if races.evicted:
        made["Cold"] = f"by {races.evicted}"
    return made


def tell_absent(absent: dict[str, str], races: Races) -> None:
    """Say which peers did not take part, and why."""
    for peer in PEERS:
        reason = absent.get(peer) or races.failed.get(peer)
        if reason or peer not in races.pythons:
            print(f"{peer} does not take part: {reason or f'no --peer {peer}=PYTHON'}")


def main() -> None:
    arguments = parse()
    if arguments.serve:
        serve(arguments.serve)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the files are removed
    interpreters, absent = pythons(arguments)
    program = find_limits(arguments.limits)
    with (
        tempfile.TemporaryDirectory(dir=arguments.directory) as name,
        nullcontext("as it was") if arguments.fresh else used(arguments.directory) as memory,
    ):
        library = Library(Path(name), arguments.size)
        limits = Limits(program, Path(name)) if program else None
        races = Races(Path(__file__), interpreters, library, limits, arguments)
        try:
            races.start(fresh=all(work.fresh for work in arguments.works))
            if "ours" in races.failed:
                sys.exit(f"this package cannot be imported: {races.failed['ours']}")
            if races.versions["ours"] == races.versions.get("reference"):
                sys.exit(f"ours and the reference are both safetensors {races.versions['ours']}")
            told = head(races, arguments) | {"Memory before": memory}
            for key, value in told.items():
                print(f"{key}: {value}")
            tell_absent(absent, races)
            rows = race(races, arguments)
        finally:
            races.stop()
    print("\n" + "\n".join(report.table(rows)))
    report.write_csv(arguments.csv, rows, told, arguments.rounds)
    for each in report.unsteady(rows):
        print(f"UNSTEADY: {each}", file=sys.stderr)
    if report.unsteady(rows):
        sys.exit(3)


if __name__ == "__main__":
    main()
