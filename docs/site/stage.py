"""Copies the documents of the repository to a directory for MkDocs, in the same layout: their links stay as they are.

usage: stage.py OUTPUT_DIRECTORY

If a link leads to another kind of file, this file is copied, too. A link to a directory becomes plain text. A link that
leads nowhere ends the program with an error. Also writes a page for each Python module.
"""

import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"]
DOCUMENTS += sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))
# Whichever comes first: a block of code, a link (its text may hold code), or code in a line.
LINK = re.compile(r"^```.*?^```|\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)|`[^`\n]+`", re.M | re.S)
MODULES = ["torch", "numpy", "flax", "tensorflow", "mlx", "paddle", "distributed"]


def stage(document, output, broken):
    def replace(match):
        target = (match["target"] or "").partition("#")[0]
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = (ROOT / document).parent / target
        if path.is_dir():
            return match["text"]
        if not path.is_file():
            broken.append(f"{document}: a link to {target}, which does not exist")
        elif path.suffix != ".md":
            copy = output / path.resolve().relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        return match[0]

    text = (ROOT / document).read_text(encoding="utf-8")
    copy = output / document
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(LINK.sub(replace, text), encoding="utf-8")


def exported():
    """The names of safetensors.__all__ that users may need."""
    text = (ROOT / "python/safetensors/__init__.py").read_text(encoding="utf-8")
    names = re.findall(r'"(\w+)"', re.search(r"__all__ = \[(.*?)\]", text, re.S)[1])
    return [name for name in names if not name.startswith("_")]


def python_pages(output):
    output.mkdir(parents=True, exist_ok=True)
    members = "".join(f"\n        - {name}" for name in exported())
    options = "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"
    page = f"# safetensors\n\n::: safetensors\n{options}      members:{members}\n"
    (output / "safetensors.md").write_text(page, encoding="utf-8")
    for name in MODULES:
        page = f"# safetensors.{name}\n\n::: safetensors.{name}\n{options}"
        (output / f"{name}.md").write_text(page, encoding="utf-8")


def main(output):
    broken = []
    for document in DOCUMENTS:
        stage(document, output, broken)
    python_pages(output / "python")
    shutil.copyfile(ROOT / "docs/site/site.css", output / "site.css")
    if broken:
        sys.exit("\n".join(broken))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
