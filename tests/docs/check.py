#!/usr/bin/env python3
"""Compiles and runs the examples of README.md and docs/*.md (CONTRIBUTING.md says how they are marked).

usage: tests/docs/check.py --build DIRECTORY [DOCUMENT...]

DIRECTORY is a build tree with libsafetensors.a and the command. Each document gets an empty directory of its own, in
which its examples run in the order in which they stand.

The examples of docs/recipes.md use each command that `safetensors --help` lists.
"""
import argparse
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FLAGS = ["-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include"]
MARKER = re.compile(r"^<!--\s*(example|output|fragment)\s*(?::\s*(\S+))?\s*-->$")


class Failure(Exception):
    pass


def blocks(text):
    """Yields (line, marker, argument, language, body) of each fenced block."""
    marker, argument, fence = None, None, None
    for number, line in enumerate(text.splitlines(), 1):
        if fence is not None:
            if line.strip() == "```":
                yield (*fence, body)
                fence, marker, argument = None, None, None
            else:
                body.append(line)
        elif line.startswith("```"):
            fence, body = (number, marker, argument, line[3:].strip()), []
        elif match := MARKER.match(line.strip()):
            marker, argument = match[1], match[2]
        elif line.strip():
            marker, argument = None, None
    if fence is not None:
        raise Failure(f"{fence[0]}: the block does not end")


def compare(expected, actual, what):
    """expected may hold lines `...` that stand for any number of lines."""
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()) + "\n" for line in expected)
    actual = [line.rstrip() for line in actual.splitlines()]
    while actual and not actual[-1]:
        actual.pop()
    if not re.fullmatch(pattern, "".join(line + "\n" for line in actual)):
        diff = "\n".join(difflib.unified_diff(expected, actual, "the document", "what happens", lineterm=""))
        raise Failure(f"{what}: the output is another one\n{diff}")


def call(command, scratch, environment):
    result = subprocess.run(command, cwd=scratch, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=120)
    return result.returncode, result.stdout


class Document:
    def __init__(self, build, scratch):
        self.build, self.scratch = pathlib.Path(build).resolve(), pathlib.Path(scratch)
        self.outputs = {}
        self.counts = {"programs": 0, "commands": 0, "unchecked": 0}
        self.environment = {"PATH": f"{self.build}:{os.environ['PATH']}", "NO_COLOR": "1", "LC_ALL": "C.UTF-8",
                            "HOME": str(scratch), "COLUMNS": "100"}

    def program(self, name, body):
        source = self.scratch / name
        source.write_text("\n".join(body) + "\n")
        binary = source.stem
        if source.suffix == ".c":
            compile_c = ["gcc", "-std=c11", "-pedantic", *FLAGS, "-c", name, "-o", binary + ".o"]
            commands = [compile_c, ["g++", binary + ".o", "-o", binary]]
        else:
            plain = ["-fno-exceptions", "-fno-rtti"] if source.stem.startswith("cpp17") else []
            commands = [["g++", "-std=c++17", "-pedantic", *plain, *FLAGS, name, "-o", binary]]
        commands[-1] += [str(self.build / "libsafetensors.a"), "-pthread"]
        for command in commands:
            code, output = call(command, self.scratch, {**self.environment, "PATH": os.environ["PATH"]})
            if code:
                raise Failure(f"{name} does not compile\n{output}")
        code, self.outputs[name] = call([f"./{binary}"], self.scratch, self.environment)
        if code:
            raise Failure(f"{name} ends with {code}\n{self.outputs[name]}")
        self.counts["programs"] += 1

    def shell(self, body):
        if not body or not body[0].startswith("$ "):
            raise Failure("a shell example begins with a line `$ command`")
        if any("| jq " in line for line in body) and not shutil.which("jq"):  # jq is an optional package
            self.counts["unchecked"] += 1
            return
        commands = []  # (text, expected output)
        for line in body:
            if line.startswith("$ "):
                commands.append([line[2:], []])
            elif commands[-1][0].endswith("\\") and not commands[-1][1]:
                commands[-1][0] += "\n" + line
            else:
                commands[-1][1].append(line)
        mark = "@@end of command@@"
        script = "".join(f"{text}\n__status=$?; echo '{mark}'; (exit $__status)\n" for text, _ in commands)
        _, output = call(["bash", "-c", script], self.scratch, self.environment)
        parts = output.split(mark + "\n")
        if len(parts) != len(commands) + 1:
            raise Failure(f"the commands do not run to their end\n{output}")
        for (text, expected), actual in zip(commands, parts):
            while expected and not expected[-1].strip():
                expected.pop()
            compare(expected, actual, f"$ {text}")
            self.counts["commands"] += 1

    def block(self, marker, argument, language, body):
        if marker == "example" and language in ("cpp", "c"):
            if not argument or not re.fullmatch(rf"\w+\.{language}", argument):
                raise Failure(f"an example in {language} needs a name, such as <!-- example: name.{language} -->")
            self.program(argument, body)
        elif marker == "example" and argument == "run" and language in ("sh", "console", "bash"):
            self.shell(body)
        elif marker == "example":
            raise Failure(f"an example: {argument} of a block {language or 'without a language'} means nothing")
        elif marker == "output":
            if argument not in self.outputs:
                raise Failure(f"the output of {argument}, which is no example before it")
            compare(body, self.outputs[argument], argument)
        elif language in ("cpp", "c"):
            if marker != "fragment" and any(re.match(r"int main\b", line) for line in body):
                raise Failure("a whole program that is not marked as an example")
            self.counts["unchecked"] += 1


def check(path, build):
    """Returns the counts; raises Failure with the line."""
    with tempfile.TemporaryDirectory(prefix="docs-") as scratch:
        document = Document(build, scratch)
        for line, marker, argument, language, body in blocks(path.read_text()):
            try:
                document.block(marker, argument, language, body)
            except Failure as failure:
                raise Failure(f"{path}:{line}: {failure}") from None
        return document.counts


def unused_commands(text, help_text):
    """Returns the commands that no example of the document uses."""
    used = " ".join(" ".join(body) for _, marker, _, _, body in blocks(text) if marker == "example")
    return set(re.findall(r"^  ([a-z]+)  ", help_text, re.MULTILINE)) - set(re.findall(r"safetensors ([a-z]+)", used))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("documents", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    documents = arguments.documents or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    failed = False
    for path in documents:
        if path.name == "recipes.md":
            program = pathlib.Path(arguments.build) / "safetensors"
            help_text = subprocess.run([program, "--help"], check=True, capture_output=True, text=True, timeout=120).stdout
            if unused := unused_commands(path.read_text(), help_text):
                print(f"{path}:1: no example uses {', '.join(sorted(unused))}", file=sys.stderr)
                failed = True
        try:
            counts = check(path, arguments.build)
            print(f"{path.name}: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
        except Failure as failure:
            print(failure, file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
