"""Copies the tracked files of this clone into a folder, as the source of one of the two distributions.

usage: python3 python/packaging/source_tree.py safetensors|safetensors-cpp FOLDER

Both distributions have the same files. The second one has its package in python/safetensors_cpp, and other names in
pyproject.toml, of which a tree can have only one. A file that is already in the folder and has the same content keeps
its time, so that a build compiles only what has changed.
"""

from __future__ import annotations

import filecmp
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Lines of pyproject.toml, and what safetensors-cpp has in their place. An index accepts no version with "+".
CHANGES = (
    ('name = "safetensors"\n', 'name = "safetensors-cpp"\n'),
    ('"safetensors[', '"safetensors-cpp['),
    ('description = "Read, check and write safetensors files: a drop-in for', 'description = "Read, check and write safetensors files: `import safetensors_cpp`, or in the place of'),
    ('wheel.packages = ["python/safetensors"]\n', 'wheel.packages = ["python/safetensors_cpp"]\n'),
    ("regex = '(?P<value>\\S+)'\n", "regex = '(?P<base>[0-9.]+)\\+cpp\\.(?P<release>[0-9]+)'\nresult = \"{base}.{release}\"\n"),
    ('SAFETENSORS_PYTHON_PACKAGE = "safetensors"', 'SAFETENSORS_PYTHON_PACKAGE = "safetensors_cpp"'),
    ('base-url = ""', 'preface = "python/packaging/safetensors_cpp.md"\nbase-url = ""'),
)  # fmt: skip


def pyproject(text: str, distribution: str) -> str:
    """Return the pyproject.toml of a distribution. Raises ValueError if a line to change is not there."""
    if distribution == "safetensors":
        return text
    for old, new in CHANGES:
        if old not in text:
            raise ValueError(f"pyproject.toml has no {old.strip()!r}")
        text = text.replace(old, new)
    return text


def place(name: str, distribution: str) -> str:
    """Return the name of the copy of a file."""
    if distribution == "safetensors":
        return name
    return re.sub("^python/safetensors/", "python/safetensors_cpp/", name)


def copy_tree(distribution: str, folder: Path) -> None:
    """Make the folder hold the tracked files and nothing else, not even empty folders."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    sources = {}  # by the names of the copies
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            sources[place(name, distribution)] = ROOT / name
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in sources:
            path.unlink()
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    for name, source in sources.items():
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if name == "pyproject.toml":
            text = pyproject(source.read_text(encoding="utf-8"), distribution)
            if not copy.exists() or copy.read_text(encoding="utf-8") != text:
                copy.write_text(text, encoding="utf-8")
        elif not copy.exists() or not filecmp.cmp(source, copy, shallow=False):
            shutil.copy2(source, copy)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("safetensors", "safetensors-cpp"):
        sys.exit(__doc__)
    copy_tree(sys.argv[1], Path(sys.argv[2]))
