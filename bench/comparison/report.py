"""The results as text, as one table, and as CSV."""

from __future__ import annotations

import csv
import os
import platform
from pathlib import Path

from .files import MIB, human
from .racing import Result, Row
from .works import Gate


MOST_SPREAD = 1.5


def time_of(seconds: float) -> str:
    """Return a time for people."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def range_of(result: Result) -> str:
    """Return the lowest and the highest time, for people."""
    return f"{time_of(result.lowest)} to {time_of(result.highest)}" if result.rounds > 1 else ""


def ratio_of(ratio: float) -> str:
    """Return a ratio for people."""
    return f"{ratio:.0f} x" if ratio >= 99.5 else f"{ratio:.3g} x" if ratio >= 9.95 else f"{ratio:.2f} x"


def _gate(row: Row, ours: Result, gate: Gate) -> tuple[str, bool] | None:
    # What was wanted and what there is, and whether that is enough.
    if gate.kind == "limit":
        if not row.limit_seconds:
            return None
        value = ours.seconds / row.limit_seconds
        return f"time <= {gate.value:.3g} x limit: {value:.2f}", value <= gate.value
    if gate.kind == "ratio":
        peers = [r for r in row.results if r.peer == gate.peer and not r.missing]
        peers = [r for r in peers if r.variant == gate.variant or not gate.variant]
        if not peers:
            return None
        fastest = min(peers, key=lambda r: r.seconds)
        value = fastest.seconds / ours.seconds
        return f"{gate.value:g} x as fast as {fastest.label}: {value:.2f}", value >= gate.value
    have = ours.values.get(gate.kind, 0)
    if gate.kind == "cpu":
        value = have / row.bytes * (1 << 30)
        return f"CPU seconds per GiB <= {gate.value:g}: {value:.3f}", value <= gate.value
    base = row.bytes if gate.kind != "read" or row.work.processes > 1 else row.limit_bytes()
    spare = 16 * MIB if gate.kind == "peak" else 0
    says = {
        "read": "bytes read / needed",
        "peak": "peak memory / tensors",
        "pss": "PSS in sum / file",
        "device": "bytes from the device / file",
    }[gate.kind]
    return f"{says} <= {gate.value:g}: {have / base:.3f}", have <= gate.value * base + spare


def unsteady(rows: list[Row]) -> list[str]:
    """Return what says that our own times of a row differ too much for its median to mean something."""
    return [
        f"{row.work.name}: our highest time is {ours.spread:.2f} x the lowest ({range_of(ours)})"
        for row in rows
        if (ours := row.first()) and ours.spread > MOST_SPREAD
    ]


def gates(row: Row) -> list[tuple[str, bool]]:
    """Return each gate's words and whether it is passed."""
    ours = row.first()
    return [told for gate in row.work.gates if (told := _gate(row, ours, gate))] if ours else []


def _notes(result: Result, rounds: int) -> str:
    values = result.values
    notes = []
    if "most" in values:
        notes.append(f"one process read at most {human(values['most'])}")
        notes.append(f"PSS in sum {human(max(0, values['pss']))}")
        notes.append(f"{human(values['device'])} from the device")
    if result.rounds < rounds:
        notes.append(f"{result.rounds} round{'s' if result.rounds != 1 else ''} only")
    return ", ".join(notes)


def lines(row: Row, rounds: int) -> list[str]:
    """Return the rows of the table as text."""
    made = [f"{row.work.name}: {row.says}"]
    if row.limit_seconds:
        made.append(f"  {'limit: ' + row.limit:66s} {time_of(row.limit_seconds):>9s}{'':47s}CPU {row.limit_cpu:7.3f} s")
    if row.note:
        made.append("  " + row.note)
    ours = row.first()
    for result in row.results:
        if result.missing:
            made.append(f"  {result.label:30s} {result.missing}")
            continue
        ratio = ratio_of(result.seconds / ours.seconds) if ours else ""
        fraction = f"{row.limit_seconds / result.seconds:.2f} of limit" if row.limit_seconds else ""
        values = result.values
        made.append(
            f"  {result.label:66s} {time_of(result.seconds):>9s} {range_of(result):>20s} {ratio:>8s}  {fraction:15s} "
            f"CPU {values['cpu']:7.3f} s  peak {human(values['peak']):>9s}  read {human(values['read']):>9s}  "
            f"{_notes(result, rounds)}".rstrip()
        )
    for says, passed in gates(row):
        made.append(f"  {'wanted' if passed else 'MISSED'}: {says}")
    return made


def machine() -> str:
    """Return what these figures were taken on."""
    name = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            name = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{os.cpu_count()} cores ({name}), {human(memory)} of memory, Linux {platform.release()}"


def table(rows: list[Row]) -> list[str]:
    """Return one line per row: our time, the limit, and the fastest peer with its time and that time / ours."""
    made = [f"{'work':21s} {'ours':>9s} {'limit':>9s} {'of limit':>8s} {'peer':>9s} {'/ ours':>8s}  fastest peer"]
    for row in rows:
        ours = row.first()
        peers = [result for result in row.results if result.peer != "ours" and not result.missing]
        best = min(peers, key=lambda result: result.seconds, default=None)
        cells = [
            time_of(ours.seconds) if ours else "-",
            time_of(row.limit_seconds) if row.limit_seconds else "-",
            f"{row.limit_seconds / ours.seconds:.2f}" if ours and row.limit_seconds else "-",
            time_of(best.seconds) if best else "-",
            ratio_of(best.seconds / ours.seconds) if best and ours else "-",
        ]
        widths = (9, 9, 8, 9, 8)
        told = " ".join(f"{cell:>{width}s}" for cell, width in zip(cells, widths))
        made.append(f"{row.work.name:21s} {told}  {best.label if best else '-':.29s}")
    return made


def write_csv(path: str, rows: list[Row], head: dict[str, str], rounds: int) -> None:
    """Write every result: a line per row and contender, below lines that begin with "#" and describe the run."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.writelines(f"# {key}: {value}\n" for key, value in head.items())
        lines = csv.writer(file)
        lines.writerow(("work", "who", "way", "seconds", "lowest", "highest", "cpu", "peak", "read", "note"))
        for row in rows:
            if row.limit_seconds:
                lines.writerow((row.work.name, "limit", row.limit, row.limit_seconds, "", "", row.limit_cpu, "", "", ""))
            for result in row.results:
                told = [row.work.name, result.peer, result.variant]
                if result.missing:
                    lines.writerow([*told, *[""] * 6, result.missing])
                    continue
                values = [result.values[name] for name in ("cpu", "peak", "read")]
                lines.writerow([*told, result.seconds, result.lowest, result.highest, *values, _notes(result, rounds)])
