"""Prints the cells as Markdown: a table, and then the evidence per row."""

from __future__ import annotations

from typing import Any

from .columns import COLUMNS

NO_ROW = "not run"


def table(rows: dict[str, Any]) -> str:
    """Return the table. `rows`: for each key the title, and under "cells" (verdict, remark, evidence) by column."""
    lines = ["| format | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for row in rows.values():
        cells = []
        for column in COLUMNS:
            verdict, remark, _ = row["cells"].get(column, (NO_ROW, "", ""))
            cells.append(f"{verdict}: {remark}" if remark else verdict)
        lines.append(f"| {row['title']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Return the text with characters that Markdown would take for HTML escaped, outside of code."""
    pieces = text.split("`")
    pieces[::2] = [each.replace("<", "&lt;").replace("__", r"\_\_") for each in pieces[::2]]
    return "`".join(pieces)


def evidence(rows: dict[str, Any]) -> str:
    parts = []
    for row in rows.values():
        parts.append(f"### {row['title']}\n\n{row['versions']}\n")
        for column in COLUMNS:
            verdict, _, text = row["cells"].get(column, (NO_ROW, "", ""))
            parts.append(f"- **{column}**: {verdict}. " + escaped(text))
        parts.append("")
    return "\n".join(parts)
