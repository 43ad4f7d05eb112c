"""The README as a package index shows it, where the repository's files are not beside it.

scikit-build-core asks for it while it builds (pyproject.toml). Links to files of the repository become absolute where
the repository has a public address, else the files' paths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_LINK = re.compile(r"\[([^\]\n]+)\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"^(```.*?^```[^\S\n]*$)", re.M | re.S)
_NOTE = "\nPaths such as `docs/python.md` are those of the source distribution.\n"


def rewrite(text: str, base: str) -> str:
    """Return a README without relative links.

    base: the address below which the repository's files are shown, ending in a slash; empty if there is none.
    """
    link = rf"[\1]({base}\2\3)" if base else r"\1 (`\2`)"
    parts = _CODE.split(text)
    parts[::2] = [_LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts) + ("" if base else _NOTE)


def dynamic_metadata(field: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the field `readme` for scikit-build-core."""
    if field != "readme":
        raise ValueError(f"this makes the readme, not {field}")
    text = Path("README.md").read_text(encoding="utf-8")
    if "preface" in settings:
        title, rest = text.split("\n\n", 1)
        text = f"{title}\n\n{Path(settings['preface']).read_text(encoding='utf-8')}{rest}"
    return {"content-type": "text/markdown", "text": rewrite(text, settings["base-url"])}
