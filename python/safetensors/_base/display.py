"""Makes the HTML tables that notebooks show for files, checkpoints and writers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .._native import _printable, _size_text

__all__ = ["count_text", "table"]

_MAX_CELL = 120  # characters

# name, dtype, shape, size in bytes
Row = tuple[str, str, Sequence[int], int]


def _cell(text: str) -> str:
    """Return the HTML of a text in one line of visible characters, cut to the width of a cell."""
    return escape(_printable(text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"))


def count_text(tensors: int) -> str:
    """Return "1 tensor", "2,000 tensors"."""
    return f"{tensors:,} tensor{'' if tensors == 1 else 's'}"


def table(title: str, rows: Sequence[Row], count: int, size: int) -> str:
    """Return the HTML of a table. `rows` are the first ones of `count` tensors of `size` bytes."""
    head = f"{count_text(count)}, {_size_text(size)}"
    lines = [
        "<table>",
        f"<caption>{_cell(title)}: {head}</caption>",
        "<thead><tr><th>name</th><th>dtype</th><th>shape</th><th>size</th></tr></thead>",
        "<tbody>",
    ]
    for name, dtype, shape, nbytes in rows:
        cells = (name, dtype, str(list(shape)), _size_text(nbytes))
        lines.append("<tr>" + "".join(f"<td>{_cell(c)}</td>" for c in cells) + "</tr>")
    if count > len(rows):
        lines.append(f'<tr><td colspan="4">… {count - len(rows):,} more</td></tr>')
    return "\n".join([*lines, "</tbody>", "</table>"])
