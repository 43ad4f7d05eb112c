"""Runs the peers' processes in turns and keeps what they report."""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import files
from .adapters import ADAPTERS
from .used import available
from .worker import Report, Request, pretouch
from .works import Work

GROUP_PEERS = ("ours", "reference", "torch")  # eight processes of each are alive at once
OTHER_BYTES = "gave other bytes than the rest"
KEYS = ("seconds", "cpu", "peak", "read", "pss", "most", "device")


@dataclass
class Result:
    """What one contender took, as medians; or why there is nothing to tell."""

    peer: str
    variant: str
    missing: str = ""
    rounds: int = 0
    values: dict[str, float] = field(default_factory=dict)
    lowest: float = 0  # seconds
    highest: float = 0

    @property
    def seconds(self) -> float:
        return self.values["seconds"]

    @property
    def label(self) -> str:
        return f"{self.peer} {self.variant}".strip()

    @property
    def spread(self) -> float:
        """The highest time / the lowest."""
        return self.highest / self.lowest if self.lowest else 1


@dataclass
class Row:
    """A piece of work, what it took everybody, and the limit: its name and seconds."""

    work: Work
    says: str
    bytes: int  # of the set
    results: list[Result] = field(default_factory=list)
    limit: str = ""
    limit_seconds: float = 0
    limit_cpu: float = 0
    note: str = ""

    def first(self) -> Result | None:
        """Return the first of ours that this version has: ratios are told of it."""
        return next((r for r in self.results if r.peer == "ours" and not r.missing), None)

    def limit_bytes(self) -> float:
        return self.bytes * self.work.part if isinstance(self.work.part, float) else 0


class Process:
    """A worker of one peer, started when it is needed and again when it has died."""

    def __init__(self, script: Path, peer: str, python: str, more: dict[str, str] | None = None) -> None:
        self.command = [python, str(script), "--serve", peer]
        self.environment = os.environ | (more or {})
        if peer != "ours":
            self.environment.pop("PYTHONPATH", None)  # it may lead to this package
        self.errors = tempfile.TemporaryFile("w+")
        self.process: subprocess.Popen[str] | None = None
        self.version = ""

    def launch(self) -> str:
        """Begin to start. Return why it cannot, or nothing."""
        if self.process and self.process.poll() is None:
            return ""
        self.version = ""
        try:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.errors,
                text=True,
                env=self.environment,
            )
        except OSError as error:
            return str(error)
        return ""

    def start(self) -> str:
        """Return why it cannot start, or nothing; wait until it is there."""
        reason = self.launch()
        if reason or self.version:
            return reason
        report = self.receive()
        self.version = str(report.get("version", ""))
        return str(report.get("missing", ""))

    def send(self, request: Request) -> None:
        assert self.process and self.process.stdin
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # receive() tells

    def receive(self) -> Report:
        assert self.process and self.process.stdout
        line = self.process.stdout.readline()
        if line:
            report: Report = json.loads(line)
            return report
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().strip().splitlines()
        how = f"killed by signal {-code}" if code < 0 else f"ended with {code}"
        return {"missing": f"{how}: {said[-1][:160]}" if said else how}

    def ask(self, request: Request) -> Report:
        reason = self.start()
        if reason:
            return {"missing": reason}
        self.send(request)
        return self.receive()


class Limits:
    """bench/limits, as another contender."""

    def __init__(self, program: str, directory: Path) -> None:
        self.program = program
        self.directory = directory
        self.chosen: dict[tuple[object, ...], dict[str, Any]] = {}

    def _run(self, only: str, size: float, path: str, rounds: int) -> list[dict[str, Any]]:
        command = [self.program, "--json", "--only", only, "--size", repr(size / files.MIB), "--rounds", str(rounds)]
        command += ["--directory", str(self.directory), "--file", path]
        pretouch(int(size * 2.2))
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def best(self, names: tuple[str, ...], size: float, path: str) -> dict[str, Any]:
        """Return the fastest of these limits, or what says why there is none."""
        key = (names, size, path)
        if key not in self.chosen:
            tried = self._run(",".join(names), size, path, 3)
            able = [each for each in tried if "seconds" in each]
            self.chosen[key] = min(able, key=lambda each: float(each["seconds"])) if able else tried[0]
        return self.chosen[key]

    def chosen_for(self, row: Any, names: tuple[str, ...], size: float, path: str) -> Callable[[], Report] | None:
        """Name the fastest of these limits in the row, and return a function that measures it. If none runs, note the reason."""
        best = self.best(names, size, path)
        if "seconds" not in best:
            row.note = f"no limit: {best['missing']}"
            return None
        row.limit = str(best["says"])
        return lambda: self._run(str(best["name"]), size, path, 1)[0]


class Races:
    """All peers and the files, for one race after the other."""

    def __init__(
        self,
        script: Path,
        peers: dict[str, str],
        library: files.Library,
        limits: Limits | None,
        bounds: argparse.Namespace,
    ) -> None:
        self.script = script
        self.pythons = peers
        self.library = library
        self.limits = limits
        self.bounds = bounds  # rounds of a row, seconds of a row, and slow
        self.processes = {peer: Process(script, peer, python) for peer, python in peers.items()}
        self.unused = {peer: Process(script, peer, python) for peer, python in peers.items()}  # fresh turns are forks of them
        self.groups: dict[tuple[str, int], list[Process]] = {}  # by the peer and their number
        self.versions: dict[str, str] = {}
        self.failed: dict[str, str] = {}  # peers that cannot start
        self.evicted = ""
        self.made: set[tuple[str, str]] = set()

    def start(self, fresh: bool) -> None:
        """Start each peer. fresh: whether all works need new processes."""
        processes = self.unused if fresh else self.processes
        launch(processes.values())
        for peer, process in processes.items():
            reason = process.start()
            self.versions[peer] = process.version
            if reason:
                self.failed[peer] = reason

    def stop(self) -> None:
        stop([*self.processes.values(), *self.unused.values(), *(p for group in self.groups.values() for p in group)])

    def forget(self, name: str) -> None:
        """Remove what peers made of a set, and end the groups."""
        self.library.forget_forms(name)
        self.made = {made for made in self.made if made[0] != name}
        stop([process for group in self.groups.values() for process in group])
        self.groups = {}

    def _make_forms(self, name: str, peers: list[str]) -> dict[str, str]:
        # All peers make their own files of the set, at the same time. Returns the error of each peer that cannot do it.
        forms = {peer: ADAPTERS[peer].form for peer in peers}
        makers = [peer for peer, form in forms.items() if form != "safetensors" and (name, form) not in self.made]
        launch(self.processes[peer] for peer in makers)
        failed = {peer: reason for peer in makers if (reason := self.processes[peer].start())}
        made = self.library[name]
        for peer in (makers := [peer for peer in makers if peer not in failed]):
            self.processes[peer].send({"make": list(zip(made.paths, made.form(forms[peer]), strict=True))})
        for peer in makers:
            if reason := str(self.processes[peer].receive().get("missing", "")):
                failed[peer] = reason
            else:
                self.made.add((name, forms[peer]))
        os.sync()  # the system writes the new files now, not during a turn
        return failed

    def _request(self, work: Work, result: Result, op: str, check: bool) -> Request:
        form = "safetensors" if op.startswith("save") else ADAPTERS[result.peer].form
        paths = self.library[work.data].form(form)
        return {
            "op": op,
            "variant": result.variant,
            "paths": paths,
            "args": work.args,
            "then": work.then,
            "pretouch": int(self.library[work.data].bytes * (2.2 if work.cold or work.again else 1.1)) // work.processes,
            "target": str(self.library.directory / "saved"),
            "check": check,
        }

    def _contenders(self, work: Work) -> list[tuple[Result, str]]:
        entered = []
        for peer in self.pythons:
            if peer in self.failed or (work.processes > 1 and peer not in GROUP_PEERS):
                continue
            for op in work.ops:
                for variant in ADAPTERS[peer].contenders(op):
                    entered.append((Result(peer, variant), op))
        return entered

    def _group(self, work: Work, result: Result, request: Request) -> Report:
        key = result.peer, work.processes
        if key not in self.groups:
            python = self.pythons[result.peer]
            one = {"OMP_NUM_THREADS": "1"}  # as torchrun does: eight processes with threads each would fight
            group = [Process(self.script, result.peer, python, one) for _ in range(work.processes)]
            self.groups[key] = group
        group = self.groups[key]
        needs = self.library[work.data].bytes * (work.processes if request["op"] in ("whole", "load") else 1) * 1.1
        free = available()
        if needs > free:
            return {"missing": f"needs {files.human(needs)} of memory, {files.human(free)} are free"}
        launch(group)
        for process in group:
            before = process.ask({})
            if "missing" in before:
                return before
        own, device = sum(map(pss, group)), sum(map(device_bytes, group))
        for rank, process in enumerate(group):
            ranked = dict(request["args"], rank=rank) if "world" in request["args"] else request["args"]
            touched = min(int(needs), os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) if rank == 0 else 0
            process.send(dict(request, args=ranked, hold=True, group=True, pretouch=touched))  # at once, by one process
        reports = [process.receive() for process in group]  # they are ready, or cannot do it
        start = time.perf_counter()  # the same clock in all processes
        for process, report in zip(group, reports, strict=True):
            if "ready" in report:
                process.send({})
        reports = [process.receive() if "ready" in r else r for process, r in zip(group, reports, strict=True)]
        missing = [report["missing"] for report in reports if "missing" in report]
        held = sum(map(pss, group)) - own
        device = sum(map(device_bytes, group)) - device
        for process in group:
            process.ask({})
        if missing:
            return {"missing": missing[0]}
        return {
            "seconds": max(report["ended"] for report in reports) - start,
            "cpu": sum(report["cpu"] for report in reports),
            "peak": sum(report["peak"] for report in reports),
            "read": sum(report["read"] for report in reports),
            "most": max(report["read"] for report in reports),
            "pss": held,
            "device": device,
            "digest": [report.get("digest") for report in reports],
        }

    def _turn(self, work: Work, result: Result, op: str, check: bool) -> Report:
        request = self._request(work, result, op, check)
        if work.cold or work.again:
            try:
                self.evicted = files.evict(request["paths"])
            except OSError as error:
                return {"missing": f"cannot be made cold: {error}"}
        if work.processes > 1:
            return self._group(work, result, request)
        if not work.fresh:
            return self.processes[result.peer].ask(request)
        return [self.unused[result.peer].ask(request | {"fork": True}) for _ in range(2 if work.again else 1)][-1]

    def _prepare(self, work: Work, entered: list[tuple[Result, str]]) -> None:
        # Makes the files and starts the processes of a row, so that this is over before the first turn.
        peers = list(dict.fromkeys(result.peer for result, op in entered if not op.startswith("save")))
        failed = self._make_forms(work.data, peers)
        for result, _ in entered:
            result.missing = failed.get(result.peer, "")
        if work.fresh:
            launch(self.unused[peer] for peer in peers)
            for peer in peers:
                self.unused[peer].start()

    def race(self, work: Work, say: Callable[[str], None]) -> Row:
        """Let all peers do the work, in turns of changing order. The first turn counts only if each turn has a new process."""
        made = self.library[work.data]
        row = Row(work, work.says.format(**made.words()), made.bytes)
        entered = self._contenders(work)
        self._prepare(work, entered)
        reports: dict[str, list[Report]] = {result.label: [] for result, _ in entered}
        digests: dict[str, object] = {}
        limit = self._limit(work, row)
        limits: list[Report] = []
        slow: set[str] = set()
        end = time.monotonic() + self.bounds.seconds
        counted = 0 if work.fresh else 1  # the first turn that counts
        for turn in range(self.bounds.rounds + counted):
            if turn > counted and time.monotonic() > end:
                break
            for result, op in random.sample(entered, len(entered)):
                if result.missing or (result.label in slow and turn > counted):
                    continue
                say(f"{work.name}: {result.label}, {turn}/{self.bounds.rounds}")
                report = self._turn(work, result, op, turn == 0)
                result.missing = str(report.get("missing", ""))
                if result.missing:
                    continue
                if turn >= counted:
                    reports[result.label].append(report)
                if turn == 0:
                    digests[result.label] = report.pop("digest", None)
                    if report["seconds"] > self.bounds.slow:
                        slow.add(result.label)
            if limit and turn >= counted:
                limits.append(limit())
        different = others(digests)
        for result, _ in entered:
            if result.label in different:
                result.missing = OTHER_BYTES
            taken = reports[result.label]
            result.rounds = len(taken)
            if taken and not result.missing:
                result.values = {k: statistics.median(r[k] for r in taken) for k in KEYS if k in taken[0]}
                result.lowest = min(r["seconds"] for r in taken)
                result.highest = max(r["seconds"] for r in taken)
            row.results.append(result)
        if limits:
            row.limit_seconds = statistics.median(float(each["seconds"]) for each in limits)
            row.limit_cpu = statistics.median(float(each["cpu"]) for each in limits)
        (self.library.directory / "saved").unlink(missing_ok=True)
        return row

    def _limit(self, work: Work, row: Row) -> Callable[[], Report] | None:
        if not work.limits or not self.limits:
            return None
        made = self.library["model" if work.data == "shards" else work.data]
        if not work.cold:
            files.warm(made.paths[0])
        size = made.header if isinstance(work.part, str) else made.bytes * work.part
        return self.limits.chosen_for(row, work.limits, size, made.paths[0])


def launch(processes: Iterable[Process]) -> None:
    """Begin to start all of them."""
    for process in processes:
        process.launch()


def stop(processes: Sequence[Process]) -> None:
    """Stop all of them at once."""
    running = [process.process for process in processes if process.process]
    for each in running:
        assert each.stdin
        with suppress(BrokenPipeError):
            each.stdin.close()
    for each in running:
        each.wait()


def others(digests: dict[str, object]) -> list[str]:
    """Return the contenders whose tensors are not those of the most."""
    known = {label: json.dumps(digest) for label, digest in digests.items() if digest is not None}
    values = list(known.values())
    right = max(set(values), key=values.count, default="")
    return [label for label, digest in known.items() if digest != right]


def device_bytes(process: Process) -> int:
    """Return the bytes that a process made the device read; 0 where that cannot be asked."""
    return told_by_system(process, "io", "read_bytes:")


def pss(process: Process) -> int:
    """Return a process's share of the memory that it has mapped, in bytes; 0 where that cannot be asked."""
    return 1024 * told_by_system(process, "smaps_rollup", "Pss:")


def told_by_system(process: Process, file: str, field: str) -> int:
    """Return the number of a field of a file in the folder of a process in /proc; 0 without the file."""
    assert process.process
    try:
        text = Path(f"/proc/{process.process.pid}/{file}").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(field))
