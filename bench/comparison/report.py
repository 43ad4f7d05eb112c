"""The table, as text, as Markdown, and as a picture."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

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
        return f"CPU seconds a GiB <= {gate.value:g}: {value:.3f}", value <= gate.value
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


def _cell(results: list[Result], ours: Result | None) -> str:
    able = [r for r in results if not r.missing]
    if not able:
        return "; ".join(sorted({r.missing for r in results})) or "-"
    best = min(able, key=lambda r: r.seconds)
    ratio = f" ({ratio_of(best.seconds / ours.seconds)})" if ours else ""
    return f"{time_of(best.seconds)}{ratio}"


def markdown(rows: list[Row], head: dict[str, str], versions: dict[str, str], rounds: int) -> str:
    """Return both tables for GitHub: one line a piece of work, then one a contender."""
    peers = [peer for peer in versions if peer != "ours"]
    text = [f"{key}: {value}  " for key, value in head.items()] + [""]
    titles = ["work", "ours", "limit", "of limit", *(f"{peer} {versions[peer]}".strip() for peer in peers)]
    text += [_line(titles), _line(["---"] * len(titles))]
    for row in rows:
        ours = row.first()
        told = "not in this version"
        if ours:
            told = f"**{time_of(ours.seconds)}**" + (f" {ours.variant}" if ours.variant else "")
            told += f" ({range_of(ours)})" if range_of(ours) else ""
        fraction = f"{row.limit_seconds / ours.seconds:.2f}" if ours and row.limit_seconds else ""
        limit = time_of(row.limit_seconds) if row.limit_seconds else row.note
        cells = [_cell([r for r in row.results if r.peer == peer], ours) for peer in peers]
        text.append(_line([f"`{row.work.name}` {row.says}", told, limit, fraction, *cells]))
    text += ["", "In brackets: a peer's time / ours, each peer in its fastest way.", ""]
    titles = ["work", "who", "time", "lowest to highest", "time / ours", "of limit", "CPU", "peak memory", "bytes read", ""]
    text += [_line(titles), _line(["---"] * len(titles))]
    for row in rows:
        text += _details(row, rounds)
    missed = [f"`{row.work.name}`: {says}" for row in rows for says, passed in gates(row) if not passed]
    text += ["", "Wanted and missed:" if missed else "Nothing that was wanted is missed.", ""]
    text += [f"- {each}" for each in missed]
    return "\n".join(text).rstrip() + "\n"


def _details(row: Row, rounds: int) -> list[str]:
    name = f"`{row.work.name}`"
    ours = row.first()
    made = []
    if row.limit_seconds:
        limit = [name, f"limit: {row.limit}", time_of(row.limit_seconds), "", "", ""]
        made.append(_line([*limit, f"{row.limit_cpu:.3f} s", "", "", ""]))
    for result in row.results:
        if result.missing:
            made.append(_line([name, result.label, result.missing] + [""] * 7))
            continue
        ratio = ratio_of(result.seconds / ours.seconds) if ours else ""
        fraction = f"{row.limit_seconds / result.seconds:.2f}" if row.limit_seconds else ""
        values = result.values
        told = [f"{values['cpu']:.3f} s", human(values["peak"]), human(values["read"]), _notes(result, rounds)]
        made.append(_line([name, result.label, time_of(result.seconds), range_of(result), ratio, fraction, *told]))
    return made


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


COLOURS = {
    "ours": "#000000",
    "reference": "#d55e00",
    "reference9": "#e69f00",
    "fastsafetensors": "#0072b2",
    "runai": "#56b4e9",
    "torch": "#cc79a7",
    "numpy": "#009e73",
    "h5py": "#8a8a00",
}
MARKS = {"ours": "D", "reference": "o", "reference9": "s", "fastsafetensors": "^", "runai": "v", "torch": "P"}


def plot(rows: list[Row], path: str, title: str) -> None:
    """Draw every time as a multiple of ours; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    from matplotlib import pyplot

    shown: list[Row] = [row for row in rows if row.first()]
    if not shown:
        raise ValueError("there is nothing of ours to draw")
    figure, axes = pyplot.subplots(figsize=(11, 1.6 + 0.42 * len(shown)), layout="constrained")
    named: dict[str, Any] = {}
    for y, row in enumerate(shown):
        ours = row.first()
        assert ours
        axes.axhline(y, color="#e6e6e6", linewidth=0.8, zorder=0)
        if row.limit_seconds:
            x = row.limit_seconds / ours.seconds
            (mark,) = axes.plot([x, x], [y - 0.36, y + 0.36], color="#cc0000", linewidth=2, zorder=2)
            named.setdefault("limit", mark)
        for peer in COLOURS:
            able = [r for r in row.results if r.peer == peer and not r.missing]
            if not able:
                continue
            best = ours if peer == "ours" else min(able, key=lambda r: r.seconds)
            mark = MARKS.get(peer, "X")
            x = best.seconds / ours.seconds
            named[peer] = axes.scatter(x, y, s=44, color=COLOURS[peer], marker=mark, zorder=3, alpha=0.9)
        beside: Any = ("axes fraction", "data")
        told = time_of(ours.seconds)
        axes.annotate(told, (1.01, y), xycoords=beside, va="center", fontsize=8, annotation_clip=False)
    axes.axvline(1, color="#000000", linewidth=0.8, zorder=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} x")
    axes.set_yticks(range(len(shown)), [row.says for row in shown], fontsize=8)
    axes.set_ylim(len(shown) - 0.5, -0.7)
    axes.set_xlabel("time / ours (log): left of the line is faster than ours; at the right: our time")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    order = [name for name in ["ours", "limit", *COLOURS] if name in named]
    order = list(dict.fromkeys(order))
    marks = [named[name] for name in order]
    figure.legend(marks, order, loc="outside upper center", ncols=len(order), frameon=False, fontsize=8)
    axes.set_title(title, fontsize=8, loc="right", color="#666666")
    figure.savefig(path)
    pyplot.close(figure)
