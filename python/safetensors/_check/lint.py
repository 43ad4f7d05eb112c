"""Finds things in valid files that cost time, break some programs, or mislead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .. import _native
from .._base.options import Progress, reporter
from .._base.paths import to_paths
from .._types import Paths

__all__ = ["LintFinding", "lint"]


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A finding of `lint`. The members are those of `safetensors lint --json`.

    `code`: what was found, such as "misaligned". `docs/cli.md` lists the codes, and new ones may
    come. `severity`: "error" (the format forbids it), "warning" (it costs time, or some programs
    fail), or "note". `path`: the path of the file, or None if the finding is about the whole model.
    `tensor`: the name of the first tensor, or None. It may hold any character. `count`: number of
    tensors, metadata keys, files or spaces. `nbytes`: bytes of these tensors. `message`: the facts in
    one clause, without invisible characters. `advice`: one sentence that says what to do.
    """

    code: str
    severity: Literal["note", "warning", "error"]
    path: str | None
    tensor: str | None
    count: int
    nbytes: int
    message: str
    advice: str


def lint(
    paths: Paths,
    *,
    peek: bool = True,
    duplicates: bool = False,
    progress: bool | Progress | None = False,
) -> list[LintFinding]:
    """Return findings about a valid file, or about the files of a model and their index.

    A finding is a property that costs time, breaks some programs, or misleads.

    `paths`: as in `load`. `peek`: read a few bytes of each file, to look for signatures of other kinds
    of files and for padding: at most 161 KiB per file, and 64 bytes per tensor of U8, I8 or BOOL.
    Without it, only headers are read. `duplicates`: read tensors of at least 4096 bytes whose dtype
    and shape another tensor has, to find equal ones. `progress`: as in `load`, for the tensors that
    `duplicates` reads.

    The findings are sorted by file, then by code. Those about the whole model come last. A file has
    at most one finding per code, except "foreign_signature", "embedded_file" and "duplicate_data".
    White space before the header, which `load` refuses, is a finding. The GIL is released.

    Raises SafetensorError (an invalid file, a file that became shorter), TypeError, OSError, and what
    `progress` raises.
    """
    report, end_progress = reporter(progress, "Reading")
    try:
        found = _native._lint(to_paths(paths, "paths"), peek=peek, duplicates=duplicates, progress=report)
    finally:
        end_progress()
    return [LintFinding(*each) for each in found]
