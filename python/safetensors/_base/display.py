"""Makes the HTML tables that notebooks show for files, checkpoints and writers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["count_text", "printable", "size_text", "table"]

_MAX_CELL = 120  # characters

# name, dtype, shape, size in bytes
Row = tuple[str, str, Sequence[int], int]


def printable(text: str) -> str:
    """Return the text in one line of visible characters, cut to the width of a cell.

    Control characters, line breaks and marks that change the direction of text become escapes.
    """
    cut = text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def count_text(tensors: int) -> str:
    """Return "1 tensor", "2,000 tensors"."""
    return f"{tensors:,} tensor{'' if tensors == 1 else 's'}"


def size_text(size: int) -> str:
    """Return a number of bytes as the command prints it: "24 B", "1.5 KiB"."""
    if size < 1024:
        return f"{size} B"
    unit, value = "", float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        value /= 1024
        if round(value, 1) < 1024:
            break
    return f"{value:.1f} {unit}"


def table(title: str, rows: Sequence[Row], count: int, size: int) -> str:
    """Return the HTML of a table. `rows` are the first ones of `count` tensors of `size` bytes."""
    head = f"{count_text(count)}, {size_text(size)}"
    lines = [
        "<table>",
        f"<caption>{escape(printable(title))}: {head}</caption>",
        "<thead><tr><th>name</th><th>dtype</th><th>shape</th><th>size</th></tr></thead>",
        "<tbody>",
    ]
    for name, dtype, shape, nbytes in rows:
        cells = (name, dtype, str(list(shape)), size_text(nbytes))
        lines.append("<tr>" + "".join(f"<td>{escape(printable(c))}</td>" for c in cells) + "</tr>")
    if count > len(rows):
        lines.append(f'<tr><td colspan="4">… {count - len(rows):,} more</td></tr>')
    return "\n".join([*lines, "</tbody>", "</table>"])
