"""Lets the peers' processes load the same files in turns, until the rounds are done or the time is up."""

from __future__ import annotations

import random
import select
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from comparison import files
from comparison.racing import OTHER_BYTES, Limits, Process, others

from .building import Built
from .loading import PEERS, Report

PAGE_CACHE = ("pread_touched",)
DISK = ("direct_8", "direct_16")
SPARE = 3.0  # seconds kept for the end
SLOW = 4.0  # a peer so many times slower than the fastest runs two rounds


class Worker(Process):
    """A peer's process that is not waited for longer than there is time."""

    def __init__(self, script: Path, peer: str, python: str, device: str, site: Path | None) -> None:
        super().__init__(script, peer, python)
        self.command += ["--device", device]
        self.deadline = float("inf")
        if site:
            self.environment["PYTHONPATH"] = str(site)

    def receive(self) -> Report:
        assert self.process and self.process.stdout
        left = self.deadline - time.monotonic()
        if left != float("inf") and not select.select([self.process.stdout], [], [], max(left, 0))[0]:
            self.process.kill()
            self.process.wait()
            return {"missing": "did not answer in time"}
        return super().receive()


@dataclass
class Entry:
    """A peer's way in one row: what it took."""

    peer: str
    way: str
    missing: str = ""
    first: float = 0  # seconds of the first load, which may set things up
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    digest: list[int] | None = None

    @property
    def label(self) -> str:
        return f"{self.peer} {self.way}".strip()

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def longest(self) -> float:
        return max([self.first, *self.seconds])

    def told(self) -> dict[str, Any]:
        """Return it for JSON."""
        told: dict[str, Any] = {"peer": self.peer, "way": self.way}
        if self.missing:
            return told | {"missing": self.missing}
        told |= {"first": self.first, "rounds": len(self.seconds), "seconds": self.seconds}
        return told | {"median": self.median, "cpu": statistics.median(self.cpu)}


@dataclass
class Row:
    """One way of loading one set of files."""

    name: str
    says: str
    bytes: int
    cold: bool
    entries: list[Entry] = field(default_factory=list)
    limit: str = ""  # what the system takes to read as much
    note: str = ""

    def entry(self, peer: str) -> Entry | None:
        """Return a peer's fastest way; of ours the first, which is the one to be judged."""
        able = [e for e in self.entries if e.peer == peer and e.seconds]
        return (able[0] if peer == "ours" else min(able, key=lambda e: e.median)) if able else None

    def told(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "row": self.name,
            "says": self.says,
            "bytes": self.bytes,
            "limit": self.limit,
            "note": self.note,
            "entries": [entry.told() for entry in self.entries],
        }


class Races:
    """The peers, the files and the clock."""

    def __init__(
        self,
        script: Path,
        python: str,
        device: str,
        built: Built,
        library: files.Library,
        limits: Limits | None,
        rounds: int,
    ) -> None:
        self.device = device
        self.library = library
        self.limits = limits
        self.rounds = rounds
        self.workers: dict[str, Worker] = {}
        self.versions: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        for peer in PEERS:
            # The reference and fastsafetensors may be the interpreter's own.
            if peer in ("ours", "reference9") and peer not in built.site:
                self.failed[peer] = built.missing.get(peer, "not built")
                continue
            self.workers[peer] = Worker(script, peer, python, device, built.site.get(peer))
        self.made: dict[str, str] = {}

    def start(self, deadline: float) -> None:
        """Start all processes at once: each opens the device."""
        for worker in self.workers.values():
            worker.deadline = deadline
            worker.launch()
        for peer, worker in self.workers.items():
            reason = worker.start()
            self.versions[peer] = worker.version
            if reason:
                self.failed[peer] = reason
        ours = self.versions.get("ours", "")
        if ours and self.versions.get("reference") == ours:
            self.failed["reference"] = f"what is installed is {ours}, this package"

    def stop(self) -> None:
        for worker in self.workers.values():
            if worker.process:
                worker.stop()

    def _path(self, peer: str, data: str, deadline: float) -> str:
        made = self.library[data]
        if peer == "pinned":
            return str(made.bytes)
        if peer != "torch":
            return made.paths[0]
        if data not in self.made:
            self.made[data] = made.form("pt")[0]
            self.workers[peer].deadline = deadline
            self.workers[peer].ask({"make": [made.paths[0], self.made[data]]})
        return self.made[data]

    def _turn(self, entry: Entry, data: str, cold: bool, check: bool, deadline: float) -> Report:
        path = self._path(entry.peer, data, deadline)
        if cold and entry.peer != "pinned":
            try:
                files.evict([path])
            except OSError as error:
                return {"missing": f"cannot be made cold: {error}"}
        elif entry.peer != "pinned" and check:
            files.warm(path)
        worker = self.workers[entry.peer]
        worker.deadline = deadline
        request = {"way": entry.way, "path": path, "device": self.device, "check": check}
        return worker.ask(request)

    def race(self, name: str, data: str, cold: bool, deadline: float) -> Row:
        """Run rounds of turns in changing order; the first warms up and is checked."""
        made = self.library[data]
        says = "{size} in {count} tensors, ".format(**made.words()) + ("cold" if cold else "warm")
        row = Row(name, says, made.bytes, cold)
        limit = None
        if self.limits and time.monotonic() < deadline:
            limit = self.limits.chosen_for(row, DISK if cold else PAGE_CACHE, row.bytes, made.paths[0])
        reading = Entry("system", "read")
        for peer in PEERS:
            row.entries += [Entry(peer, way) for way in PEERS[peer] if peer not in self.failed]
        out_of_time: set[str] = set()
        for turn in range(self.rounds + 1):
            for entry in random.sample(row.entries, len(row.entries)) if turn else row.entries:
                if entry.missing or (turn > 2 and slow(entry, row.entries)):
                    continue
                if time.monotonic() + 1.5 * entry.longest() + SPARE > deadline:
                    out_of_time.add(entry.label)
                    continue
                take(entry, self._turn(entry, data, cold, turn == 0, deadline), turn)
            if limit and turn and time.monotonic() + 1.5 * reading.longest() + SPARE < deadline:
                take(reading, limit(), turn)
        different = others({entry.label: entry.digest for entry in row.entries if entry.digest and entry.digest[0]})
        for entry in row.entries:
            if entry.label in different:
                entry.missing, entry.seconds = OTHER_BYTES, []
            if not entry.seconds and not entry.missing:
                entry.missing = "left out: no time"
        if reading.seconds:
            row.entries.append(reading)
        if out_of_time:
            row.note = (row.note + "; " if row.note else "") + "not all rounds: the time was up"
        return row


def slow(entry: Entry, entries: list[Entry]) -> bool:
    """Return whether two rounds show that an entry is far behind: its time goes to the others."""
    able = [each.median for each in entries if each.seconds and each.peer not in ("pinned", "system")]
    return bool(entry.seconds) and entry.median > SLOW * min(able)


def take(entry: Entry, report: Report, turn: int) -> None:
    """Keep what a turn took."""
    entry.missing = str(report.get("missing", ""))
    if entry.missing:
        return
    if turn == 0:
        entry.first = float(report["seconds"])
        entry.digest = report.get("digest")
        return
    entry.seconds.append(float(report["seconds"]))
    entry.cpu.append(float(report["cpu"]))


def reserve(deadline: float, share: float) -> float:
    """Return when a row must end that may take this share of the time left."""
    now = time.monotonic()
    return now + max(0.0, deadline - now) * share
