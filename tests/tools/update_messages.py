#!/usr/bin/env python3
"""Fills in the messages that are missing in tests/data from what the library says. Read the change before you keep it.

usage: tests/tools/update_messages.py BUILD_DIRECTORY
"""

import pathlib
import subprocess
import sys
import tempfile


def printed(build):
    tests = pathlib.Path(build) / "tests"
    with tempfile.TemporaryDirectory() as folder:
        cases = pathlib.Path(folder, "cases")
        subprocess.run([tests / "write_cases", cases, pathlib.Path(folder, "expected")], check=True)
        out = subprocess.run(
            [tests / "cpp17_verdicts"], input=cases.read_bytes(), capture_output=True, check=True
        ).stdout.decode()
    verdicts = (line.split(" ", 3) for line in out.rstrip("\n").split("\n"))  # NAME ok, or NAME CODE OFFSET MESSAGE
    return {verdict[0]: verdict[3] for verdict in verdicts if verdict[1] != "ok"}


def fill_text(path, messages):
    blocks = path.read_text().rstrip("\n").split("\n\n")
    for i, block in enumerate(blocks):
        lines = block.split("\n")
        name = next((line[1:-1] for line in lines if line.startswith("[")), None)
        if name in messages and not any(line.startswith("message:") for line in lines):
            blocks[i] = block + "\nmessage: " + messages[name]
    path.write_text("\n\n".join(blocks) + "\n")


def fill_verdicts(path, messages):
    rows = [line.split("\t") for line in path.read_text().rstrip("\n").split("\n")]
    for row in rows[1:]:
        row[5] = row[5] or messages.get("conformance_" + row[0], "")
    path.write_text("".join("\t".join(row) + "\n" for row in rows))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    messages = printed(sys.argv[1])
    data = pathlib.Path(__file__).parent.parent / "data"
    for path in sorted((data / "cases").glob("*.txt")):
        fill_text(path, messages)
    fill_verdicts(data / "conformance" / "verdicts.tsv", messages)


main()
