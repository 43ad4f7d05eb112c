#!/usr/bin/env python3
"""Compares file formats for tensors by experiments with the library of each format, and prints a table in Markdown.

Each experiment runs in a process of its own, with limits of time and memory, in an interpreter that has the library:
--environment torch=PYTHON. A row without one uses the interpreter that runs this. A row whose library is missing says
"not run". Two control rows run first: they must give the verdicts that are known for them, otherwise the program ends.
The largest files have 4.25 GiB. The run needs Linux, 20 GiB of disk and 11 GiB of memory. Hostile files are harmless:
they create an empty file in a temporary folder. docs/formats.md explains the columns.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any


def parse(keys: list[str], columns: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--environment",
        action="append",
        default=[],
        metavar="NAME=PYTHON",
        help="see --only for names",
    )
    parser.add_argument("--only", action="append", default=[], metavar="ROW", help=", ".join(keys))
    parser.add_argument(
        "--column", action="append", default=[], metavar="COLUMN", help=", ".join(columns)
    )
    parser.add_argument("--directory", help="where the files go (temporary folders of it)")
    parser.add_argument("--seconds", type=float, default=120, help="limit of time for each step")
    parser.add_argument(
        "--json", metavar="FILE", help="keep the cells here, and print those of earlier runs, too"
    )
    parser.add_argument("--markdown", metavar="FILE", help="write the table and the evidence here")
    parser.add_argument("--no-controls", action="store_true", help="leave the control rows out")
    arguments = parser.parse_args()
    for given, known in ((arguments.only, keys), (arguments.column, columns)):
        if unknown := set(given) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}. It takes {', '.join(known)}")
    arguments.pythons = {}
    for each in arguments.environment:
        name, _, python = each.partition("=")
        if name not in keys or not python:
            parser.error(
                f"--environment {each}: it takes NAME=PYTHON, NAME one of {', '.join(keys)}"
            )
        arguments.pythons[name] = python
    return arguments


def run_row(
    key: str, arguments: argparse.Namespace, columns: list[str], old: dict[str, Any]
) -> dict[str, Any]:
    """Return title, versions and cells of a row. Cells of other columns come from `old`."""
    from format_trials.columns import COLUMNS, Cell
    from format_trials.running import Failed, Trials

    python = arguments.pythons.get(key, sys.executable)
    with Trials(key, python, arguments.directory, arguments.seconds) as trials:
        try:
            about = trials.run("describe")
        except Failed as error:
            print(f"{key}: not run: {error}", file=sys.stderr)
            return old or {"title": key, "versions": f"not run: {error}", "cells": {}}
        trials.suffix = about["suffix"]
        row = {
            "title": about["title"],
            "versions": about["versions"],
            "cells": dict(old.get("cells", {})),
        }
        for column in columns:
            start = time.monotonic()
            try:
                cell = COLUMNS[column](trials, about)
            except Failed as error:
                cell = Cell("not run" if error.offered else "no", "", str(error))
            row["cells"][column] = list(cell)
            print(
                f"{key}: {column}: {': '.join(cell)} [{time.monotonic() - start:.0f} s]",
                file=sys.stderr,
                flush=True,
            )
    return row


def check_controls(arguments: argparse.Namespace, columns: list[str]) -> list[str]:
    """Return a line for each cell of the control rows that has another verdict than expected."""
    wrong = []
    for key, verdict in (("control_yes", "yes"), ("control_no", "no")):
        cells = run_row(key, arguments, columns, {})["cells"]
        for column in columns:
            wanted = verdict if column != "flexibility" else {"yes": "no", "no": "yes"}[verdict]
            got = cells.get(column, ["not run", "", ""])
            if got[0] != wanted:
                wrong.append(f"{key}: {column} is {got[0]!r}, expected {wanted!r} ({got[2]})")
    return wrong


def main() -> int:
    """Run the rows, and print the table. Exit with 2 if a control fails."""
    from format_trials import report
    from format_trials.columns import COLUMNS
    from format_trials.running import ROWS

    arguments = parse(ROWS, list(COLUMNS))
    columns = arguments.column or list(COLUMNS)
    kept: dict[str, Any] = {}
    if arguments.json and Path(arguments.json).exists():
        kept = json.loads(Path(arguments.json).read_text())
    if not arguments.no_controls and (wrong := check_controls(arguments, columns)):
        print("\n".join(wrong), file=sys.stderr)
        return 2
    for key in ROWS:
        if not arguments.only or key in arguments.only:
            kept[key] = run_row(key, arguments, columns, kept.get(key, {}))
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(kept, indent=1))
    rows = {key: kept[key] for key in ROWS if key in kept}
    text = f"{report.table(rows)}\n\n{report.evidence(rows)}"
    if arguments.markdown:
        Path(arguments.markdown).write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        from format_trials.steps import main as step

        step(sys.argv[2])
    sys.exit(main())
