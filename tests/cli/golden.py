#!/usr/bin/env python3
"""Runs the commands in golden/*.txt and compares what they print, letter by letter.

    golden.py SAFETENSORS [--update] [FILE...]

A case is a line `$ COMMAND`, run by sh in a fresh folder of inputs for each file of cases (make_inputs.py), then its
standard output behind `> `, its standard error behind `! ` and its exit code behind `? `, unless that is 0. So a step
that prepares the next case is one line. A last line without a line feed ends in `<no line feed>`; characters that
cannot be seen stand as <hex>. Output of a command with --json must also be JSON.

A line `% COMMAND => MESSAGE` is the case of a command that is called wrongly: it prints only the message and the hint
to its help, and ends with 2. Everything else, before the first case or between cases, is a comment and begins with `#`.
--update writes what the commands print now: read the difference before it is committed.
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

import make_inputs

HERE = os.path.dirname(os.path.abspath(__file__))


def visible(character):
    if character == "\n" or character.isprintable():
        return character
    code = ord(character)
    return f"<{code - 0xDC00:02x}>" if 0xDC80 <= code <= 0xDCFF else f"<{code:02x}>"


def marked(mark, output):
    """The lines of an output, each behind its mark."""
    text = "".join(map(visible, output.decode("utf-8", "surrogateescape")))
    if not text:
        return []
    if text.endswith("\n"):
        text = text[:-1]
    else:
        text += "<no line feed>"
    return [f"{mark} {line}".rstrip() if not line else f"{mark} {line}" for line in text.split("\n")]


def run(command, folder, program):
    environment = {"PATH": os.path.dirname(program) + ":/usr/bin:/bin", "LC_ALL": "C", "TERM": "xterm"}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LD_LIBRARY_PATH"):
        if name in os.environ:
            environment[name] = os.environ[name]
    result = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120
    )
    lines = marked(">", result.stdout) + marked("!", result.stderr)
    if result.returncode != 0:
        lines.append(f"? {result.returncode}")
    if "--json" in command and "|" not in command and "&&" not in command and "--help" not in command and result.stdout:
        try:
            json.loads(result.stdout)
        except ValueError as error:
            lines.append(f"! not JSON: {error}")
    return lines


def usage_error(message):
    """The lines of a command that is called wrongly. The message begins with the name of the command."""
    return [f"! {message}", f"! Try '{message.split(':')[0]} --help'.", "? 2"]


def written(command, lines):
    """The lines of a case in a file."""
    if lines and lines == usage_error(lines[0][2:]):
        return [f"% {command} => {lines[0][2:]}"]
    return ["$ " + command, *lines]


def split(lines):
    """(comment lines, command, expected lines) of each case, and the lines left at the end."""
    cases, comment, index = [], [], 0
    while index < len(lines):
        line = lines[index]
        index += 1
        if line.startswith("% "):
            command, _, message = line[2:].partition(" => ")
            cases.append((comment, command, usage_error(message)))
            comment = []
            continue
        if not line.startswith("$ "):
            if not line.startswith("#"):
                sys.exit(f"neither a case nor a comment: {line}")
            comment.append(line)
            continue
        expected = []
        while index < len(lines) and lines[index][:1] in (">", "!", "?"):
            expected.append(lines[index])
            index += 1
        cases.append((comment, line[2:], expected))
        comment = []
    return cases, comment


def check_file(path, program, update):
    with open(path, encoding="utf-8") as file:
        cases, rest = split(file.read().splitlines())
    failures, updated = 0, []
    with tempfile.TemporaryDirectory() as folder:
        make_inputs.main(folder)
        for comment, command, expected in cases:
            actual = run(command, folder, program)
            updated += comment + written(command, actual)
            if actual == expected or update:
                continue
            failures += 1
            print(f"{os.path.basename(path)}: $ {command}")
            print("\n".join(["  expected:"] + ["    " + x for x in expected]))
            print("\n".join(["  actual:"] + ["    " + x for x in actual]))
    if update:
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(updated + rest) + "\n")
    print(f"{os.path.basename(path)}: {len(cases)} cases, {failures} failed")
    return failures, len(cases)


def left_out(program):
    """The files of cases that need a library without which the command was built, and the library."""
    version = subprocess.run([program, "--version"], capture_output=True, check=True, timeout=120)
    if b"sha256      none" in version.stdout:
        yield "hash.txt", "OpenSSL"
    if b"RE2" not in version.stdout:
        yield "rename.txt", "RE2"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    files = options.files or sorted(glob.glob(os.path.join(HERE, "golden", "*.txt")))
    for name, library in left_out(options.program):
        print(f"{name}: skipped, the command was built without {library}")
        files = [file for file in files if os.path.basename(file) != name]
    results = [check_file(path, os.path.abspath(options.program), options.update) for path in files]
    total = sum(count for _, count in results)
    if total == 0:
        sys.exit("no cases found")
    sys.exit(1 if any(failed for failed, _ in results) else 0)


if __name__ == "__main__":
    main()
