"""Decides the cells. Each function runs the experiment of one column for one row, by rules that are the same for all rows.

A cell is "yes", "partly", "no" or "not run", with the evidence that was measured.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from .measure import MIB, files_under
from .running import Failed, Trials

SIZE = 64 * MIB  # elements of float32: 256 MiB
MANY = 64  # tensors of 4 MiB
ORDER = ["yes", "partly", "no", "not run"]


class Cell(NamedTuple):
    verdict: str
    remark: str  # a few words beside the verdict
    evidence: str


def mib(count: int) -> str:
    return f"{count / MIB:.0f} MiB" if abs(count) >= 10 * MIB else f"{count / MIB:.1f} MiB"


def best(cells: list[Cell]) -> Cell:
    """Return the best cell, with the evidence of all."""
    chosen = min(cells, key=lambda cell: ORDER.index(cell.verdict))
    return Cell(chosen.verdict, chosen.remark, "; ".join(cell.evidence for cell in cells))


# --- safe ---------------------------------------------------------------------------------------------------------


class Attempts:
    """Loads one hostile file in every way, and collects the verdicts."""

    def __init__(self, trials: Trials, loaders: list[Any]) -> None:
        self.trials = trials
        self.loaders = loaders
        self.ran: list[
            str
        ] = []  # loaders that ran code, and for each whether the caller has to ask for it
        self.ran_by_default = False
        self.faults: list[str] = []
        self.evidence: list[str] = []

    def _one(self, kind: str, target: str, index: int, size: int) -> tuple[str, str]:
        # Return what happened, and the fault in a few words.
        try:
            got = self.trials.run(
                "attempt", path=target, warm=self.trials.path("good"), loader=index
            )
        except Failed as error:
            return str(error), f"{kind}: {error}"
        said = (
            f"error ({self.trials._clean(got['said'])})"
            if got["outcome"] == "refused"
            else "loaded"
        )
        if got["peak"] > 64 * MIB + 4 * size:
            much = f"{mib(got['peak'])} of memory for {mib(size)}"
            return f"{said}, {much}", f"{kind}: {much}"
        if got["secret"]:
            return "read the other file", f"{kind}: reads another file"
        said += f", {mib(got['peak'])} of memory" if kind == "bomb" else ""
        if kind in ("truncated", "lie") and got["outcome"] == "returned":
            return "loaded without an error", f"{kind}: loaded without an error"
        return said, ""

    def load(self, kind: str, target: str, how: str, size: int, marker: str = "") -> None:
        said = []
        for index, (label, opt_in) in enumerate(self.loaders):
            if marker:
                Path(marker).unlink(missing_ok=True)
            what, fault = self._one(kind, target, index, size)
            if marker and os.path.exists(marker):
                what = "the code ran"
                self.ran.append(label)
                self.ran_by_default = self.ran_by_default or not opt_in
            elif fault and not opt_in:
                self.faults.append(fault)
            said.append(f"`{label}`: {what}")
        if len({each.partition("`: ")[2] for each in said}) == 1:
            said = ["all ways: " + said[0].partition("`: ")[2]] if len(said) > 1 else said
        self.evidence.append(f"*{kind}* ({how}, {size:,} bytes): " + ", ".join(said))


def truncate(path: str) -> None:
    """Cut the largest file under the path in half."""
    largest = max(files_under(path), key=os.path.getsize)
    os.truncate(largest, os.path.getsize(largest) // 2)


def safe(trials: Trials, about: dict[str, Any]) -> Cell:
    trials.run("write", path=trials.path("good"), count=4, elements=1 << 18)
    attempts = Attempts(trials, about["loaders"])
    marker = str(trials.folder / "marker")
    secret = trials.folder / "secret"
    secret.write_bytes((b"SECRET" * (1 << 18))[: 1 << 20])
    (trials.folder / "inner").mkdir(exist_ok=True)
    for kind in ("code", "truncated", "lie", "bomb", "deep", "outside"):
        target = trials.path("inner/" + kind)
        if kind == "truncated":
            size = trials.run("write", path=target, count=4, elements=1 << 18)["bytes"]
            truncate(target)
            attempts.load(kind, target, "half of a file", size // 2)
            continue
        extra = {"code": marker, "outside": str(secret)}.get(kind, "")
        try:
            made = trials.run("hostile", kind=kind, path=target, marker=extra)
        except Failed as error:
            attempts.evidence.append(f"*{kind}*: not run ({error})")
            attempts.faults += ["code: not run"] if kind == "code" else []
            continue
        if "none" in made:
            attempts.evidence.append(f"*{kind}*: none ({made['none']})")
            continue
        attempts.load(kind, target, made["how"], made["bytes"], marker if kind == "code" else "")
        trials.remove("inner/" + kind)
    evidence = "; ".join(attempts.evidence)
    kinds = list(dict.fromkeys(each.partition(":")[0] for each in attempts.faults))
    if attempts.ran_by_default:
        return Cell("no", ", ".join(["runs code", *kinds]), evidence)
    if attempts.ran:
        option = attempts.ran[0].partition("(")[2].rstrip(")")
        return Cell("partly", ", ".join([f"runs code with `{option}`", *kinds]), evidence)
    return Cell(
        "partly" if kinds else "yes", ", ".join(["no code", *kinds]) if kinds else "", evidence
    )


# --- zero-copy and lazy loading -----------------------------------------------------------------------------------


def view(
    trials: Trials, about: dict[str, Any], index: int, count: int, elements: int, name: str
) -> dict[str, Any]:
    _, variant, _ = about["readers"][index]
    target, warm = trials.path(name + variant), trials.path("small" + variant)
    if not os.path.exists(target):
        trials.run("write", path=warm, count=MANY, elements=64, variant=variant)
        trials.run("write", path=target, count=count, elements=elements, variant=variant)
    wanted = count // 2
    got = trials.run("view", path=target, warm=warm, reader=index, index=wanted, elements=elements)
    if not got["right"]:
        raise Failed("the values are wrong")
    return got


def zero_copy(trials: Trials, about: dict[str, Any]) -> Cell:
    cells = []
    for index, (label, _, cap) in enumerate(about["readers"]):
        try:
            got = view(trials, about, index, 1, SIZE, "one")
        except Failed as error:
            cells.append(Cell("not run", "", f"`{label}`: {error}"))
            continue
        mapped = got["map"] in got["files"]
        # "one copy": the tensor lies once in memory, and nothing else was needed on the way.
        verdict = "yes" if mapped and got["anonymous"] < got["file"] // 10 else "no"
        if verdict == "no" and got["peak"] < got["file"] * 1.25:
            verdict = "partly"
        remark = {
            "yes": "",
            "partly": "one copy",
            "no": f"{got['peak'] / got['file']:.1f} x the file",
        }[verdict]
        where = (
            "its address lies in a map of the file"
            if mapped
            else "its address lies in no map of the file"
        )
        cells.append(
            Cell(
                "partly" if verdict == "yes" and cap else verdict,
                ", ".join(filter(None, [remark, cap])),
                f"`{label}`: {where}, anonymous memory +{mib(got['anonymous'])}, peak +{mib(got['peak'])} of "
                f"{mib(got['file'])}",
            )
        )
    return best(cells)


def lazy(trials: Trials, about: dict[str, Any]) -> Cell:
    cells = []
    for index, (label, _, cap) in enumerate(about["readers"]):
        try:
            got = view(trials, about, index, MANY, SIZE // MANY, "many")
        except Failed as error:
            cells.append(Cell("not run", "", f"`{label}`: {error}"))
            continue
        # Pages that read calls or maps brought in, and bytes that read calls took twice.
        # The system reads up to 8 MiB ahead at each place, so 10 % are no sign of more than one tensor.
        part = max(got["resident"], got["read"]) / got["file"]
        verdict = "yes" if part < 0.15 else "partly" if part < 0.5 else "no"
        cells.append(
            Cell(
                "partly" if verdict == "yes" and cap else verdict,
                cap or ("" if verdict == "yes" else f"reads {part:.0%}"),
                f"`{label}`: for 4.0 MiB of {mib(got['file'])}, {mib(got['resident'])} came into the page cache "
                f"and read calls took {mib(got['read'])}",
            )
        )
    return best(cells)


# --- size ---------------------------------------------------------------------------------------------------------


def room(folder: Path) -> str:
    """Return why there is no room for the experiments with 4 GiB; empty if there is."""
    free = shutil.disk_usage(folder).free
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(
        int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")
    )
    if free < 20 << 30 or available < 11 << 30:
        return f"{free >> 30} GiB of disk and {available >> 30} GiB of memory are free, 20 and 11 are needed"
    return ""


def big(
    trials: Trials, about: dict[str, Any], variant: str, count: int, elements: int
) -> tuple[bool, str]:
    """Write and read back a file of more than 4 GiB. Return success and the evidence."""
    what = f"{count} x {elements * 4 / MIB:,.0f} MiB"
    index = next(at for at, (_, each, _) in enumerate(about["readers"]) if each == variant)
    target = trials.path("big")
    try:
        wrote = trials.run(
            "big_write", path=target, count=count, elements=elements, variant=variant
        )
        if wrote["bytes"] < count * elements * 4:
            return False, f"{what}: the file has {wrote['bytes']:,} bytes"
        read = trials.run("big_read", path=target, count=count, elements=elements, reader=index)
        took = f"written in {wrote['seconds']:.0f} s, read in {read['seconds']:.0f} s"
        return read["right"], f"{what}: {took}" + (
            "" if read["right"] else ", the values are wrong"
        )
    except Failed as error:
        return False, f"{what}: {error}"
    finally:
        trials.remove("big")


def size(trials: Trials, about: dict[str, Any]) -> Cell:
    lacking = room(trials.folder)
    if lacking:
        return Cell("not run", "", lacking)
    evidence = []
    for variant, cap in dict.fromkeys((variant, cap) for _, variant, cap in about["readers"]):
        for count, elements, limit in (
            (1, (1 << 30) + (1 << 18), ""),
            (17, 64 * MIB, "per tensor"),
        ):
            done, said = big(trials, about, variant, count, elements)
            evidence.append(f"{variant}: {said}" if variant else said)
            if done:
                remark = "; ".join(filter(None, (cap, limit and f"limit {limit}")))
                return Cell("partly" if remark else "yes", remark, "; ".join(evidence))
    return Cell("no", "", "; ".join(evidence))


# --- layout, flexibility, dtypes ----------------------------------------------------------------------------------


def layout(trials: Trials, about: dict[str, Any]) -> Cell:
    got = trials.run("layout", path=str(trials.folder / "layout"))
    order = got["orders"] == ["zam", "maz"] and got["whole"]
    listed = got["listed"] == got["orders"]
    align = bool(got.get("align4096") and got.get("align64") and got.get("read4096"))
    evidence = f"written as z a m and m a z, in the file as {' and '.join(' '.join(each) for each in got['orders'])}"
    if not got["whole"]:
        evidence = "the bytes of the tensors are not in the file in one piece"
    names = [" ".join(each) if len(each) == 3 else each for each in dict.fromkeys(got["listed"])]
    evidence += f", listed as {' and '.join(names)}"
    if "align" in got:
        evidence += f"; alignment: {got['align']}"
    else:
        kept = [str(each) for each in (4096, 64) if got[f"align{each}"]]
        evidence += f"; alignments of 4096 and 64 asked, kept: {' and '.join(kept) or 'none'}"
        evidence += f" ({got['aligned_by']})" if got.get("aligned_by") else ""
    ordered = "order" if order and listed else "order, not listed" if order else ""
    remarks = ", ".join(filter(None, [ordered, "alignment" if align else ""]))
    verdict = "yes" if order and align else "partly" if order or align else "no"
    return Cell(verdict, "" if verdict == "yes" else remarks, evidence)


def flexibility(trials: Trials, about: dict[str, Any]) -> Cell:
    done, evidence = {}, []
    for kind, what in (("code", "code"), ("nested", "nested values"), ("text", "text")):
        target = trials.path(f"flexible-{kind}")
        try:
            trials.run("store", path=target, kind=kind)
            got = trials.run("fetch", path=target, kind=kind)
            done[kind] = got["right"]
            evidence.append(
                f"{what if kind != 'code' else about['code_is']}: "
                + ("came back" if got["right"] else f"became {got['got']}")
            )
        except Failed as error:
            evidence.append(f"{what}: {error}")
    if done.get("code"):
        return Cell("yes", about["code_is"], "; ".join(evidence))
    if done.get("nested"):
        return Cell("partly", "nested values", "; ".join(evidence))
    return Cell(
        "partly" if done.get("text") else "no",
        "text" if done.get("text") else "",
        "; ".join(evidence),
    )


def dtypes(trials: Trials, about: dict[str, Any]) -> Cell:
    kept: list[str] = []
    tagged: list[str] = []
    evidence = []
    for name, short in (("bfloat16", "BF16"), ("float8_e4m3fn", "FP8")):
        try:
            got = trials.run("dtype", path=trials.path(name), name=name)
        except Failed as error:
            evidence.append(f"{short}: {error}")
            continue
        if got["intact"] and got["bytes"]:
            (tagged if " as " in got["dtype"] else kept).append(short)
        equal = "the same bytes" if got["bytes"] else "other bytes"
        evidence.append(f"{short}: came back as {got['dtype']}, {equal}")
    verdict = "yes" if len(kept) == 2 else "partly" if kept or tagged else "no"
    remarks = [f"{each} only" for each in kept] + [f"{each} as bytes and a tag" for each in tagged]
    return Cell(verdict, ", ".join(remarks) if verdict == "partly" else "", "; ".join(evidence))


COLUMNS: dict[str, Callable[[Trials, dict[str, Any]], Cell]] = {
    "safe": safe,
    "zero-copy": zero_copy,
    "lazy loading": lazy,
    "no file-size limit": size,
    "layout control": layout,
    "flexibility": flexibility,
    "BF16/FP8": dtypes,
}
