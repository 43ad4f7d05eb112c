#!/usr/bin/env python3
"""Manifests and digests of hostile names and paths: what golden files cannot hold.

manifest_test.py SAFETENSORS [unittest's arguments]
"""

import ctypes
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import unittest
from collections.abc import Callable
from typing import Any

import behaviour_test
from behaviour_test import CommandTest

BAD = ("missing.json", "folder", "fifo", "text.json", "schema.json")


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))


def limit_once() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (480 << 20, 480 << 20))


PTRACE_TRACEME, PTRACE_SYSCALL = 0, 24
NOT_TRACED = 99  # exit status
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def be_traced() -> None:
    if LIBC.ptrace(PTRACE_TRACEME, 0, None, None) != 0:
        os._exit(NOT_TRACED)


def run_swapping(
    arguments: list[str], when: int, swap: Callable[[], None]
) -> tuple[int, bytes, int]:
    """Run a program and call `swap` before a system call of its first thread.

    Returns the exit status, the output and the number of system calls.
    """
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0", "LSAN_OPTIONS": "detect_leaks=0"}
    process = subprocess.Popen(
        arguments,
        preexec_fn=be_traced,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    stops = 0
    while True:
        _, status = os.waitpid(process.pid, 0)
        if not os.WIFSTOPPED(status):
            break
        signal_number = os.WSTOPSIG(status)
        if stops % 2 == 0 and stops // 2 == when:  # every second stop is the end of a call
            swap()
        stops += signal_number == signal.SIGTRAP
        passed = None if signal_number == signal.SIGTRAP else signal_number
        LIBC.ptrace(PTRACE_SYSCALL, process.pid, None, passed)
    process.returncode = os.waitstatus_to_exitcode(status)
    output, _ = process.communicate()
    return process.returncode, output, (stops + 1) // 2


def file_of(header: str) -> bytes:
    text = header.encode().ljust(200)
    return struct.pack("<Q", len(text)) + text + bytes(8)


TWO = file_of(
    '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
    '"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}'
)
ONE = file_of('{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}')


class ManifestTest(CommandTest):  # type: ignore[misc]
    def setUp(self) -> None:
        self.work = self.path("work")
        os.mkdir(self.work)
        shutil.copy(self.path("good.safetensors"), self.at("a.safetensors"))

    def tearDown(self) -> None:
        shutil.rmtree(self.work)

    def at(self, name: str) -> str:
        return os.path.join(self.work, name)

    def write(self, name: str, text: str) -> str:
        with open(self.at(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.at(name)

    def make(self) -> Any:
        self.output("hash", self.at("a.safetensors"), "--manifest", "-o", self.at("m.json"))
        with open(self.at("m.json"), encoding="utf-8") as file:
            return json.load(file)

    def bad_manifests(self) -> list[str]:
        os.mkdir(self.at("folder"))
        os.mkfifo(self.at("fifo"))
        self.write("text.json", "{")
        manifest = self.make() | {"schema": "safetensors.manifest/9"}
        self.write("schema.json", json.dumps(manifest))
        return [self.at(name) for name in BAD]

    def test_statement_escapes_names(self) -> None:
        names = ["\u202egnp", "\u0085", "\u009b31m", "\x1b[31m", "\x7f", "\U000e0041", "\u00e4"]
        folder = self.at("\u202efolder")
        os.mkdir(folder)
        for name in names:
            with open(os.path.join(folder, name), "w", encoding="utf-8"):
                pass
        out = self.output("hash", folder, "--format", "model-signing").decode()
        for c in "\u202e\u0085\u009b\x1b\x7f\U000e0041":
            self.assertNotIn(c, out)
        statement = json.loads(out)
        found = [file["name"] for file in statement["predicate"]["resources"]]
        self.assertEqual(found, sorted(names, key=os.fsencode))
        self.assertEqual(statement["subject"][0]["name"], "\u202efolder")

    def test_statement_of_a_folder_that_is_not_utf8(self) -> None:
        folder = os.fsencode(self.at("x")) + b"\xff"
        os.mkdir(folder)
        result = self.run_command("hash", folder, "--format", "model-signing")
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        self.assertIn(b"the name is not UTF-8", result.stderr)

    def test_bad_manifest_is_a_json_document_with_an_error(self) -> None:
        paths = self.bad_manifests()
        for path, code in zip(paths, (3, 3, 3, 1, 1), strict=True):
            arguments = ["verify", self.at("a.safetensors"), "--manifest", path]
            result = self.run_command(*arguments, "--json")
            document = json.loads(result.stdout)
            self.assertEqual((result.returncode, document["files"]), (code, []), path)
            self.assertEqual(document["schema"], "safetensors.verify/1")
            self.assertEqual(document["manifest"], {"path": path})
            self.assertIn("message", document["error"])
            self.assertIn(os.fsencode(path), result.stderr)
            plain = self.run_command(*arguments)
            self.assertEqual((plain.returncode, plain.stdout), (code, b""))

    def test_all_bad_manifests_end_with_1(self) -> None:
        manifest = self.make()
        for changes in (
            {"schema": "safetensors.manifest/2"},
            {"algorithm": "md5"},
            {"chunk_bytes": 5},
            {"files": []},
            {"more": 1},
        ):
            path = self.write("bad.json", json.dumps(manifest | changes))
            result = self.run_command("verify", self.at("a.safetensors"), "--manifest", path)
            self.assertEqual((result.returncode, result.stdout), (1, b""), changes)

    def check_swaps(self, path: str, file: str) -> None:
        """Exchange a file of one tensor with the right one, before each system call of `verify`."""
        if run_swapping([sys.executable, "--version"], -1, lambda: None)[0] == NOT_TRACED:
            self.skipTest("this system does not let a process trace its child")
        manifest = self.at("m.json")
        self.output("hash", path, "--manifest", "-o", manifest)
        right = self.output("verify", path, "--manifest", manifest)
        command = [behaviour_test.PROGRAM, "verify", path, "--manifest", manifest]

        def attempt(before: bytes, after: bytes, when: int) -> tuple[int, int]:
            with open(file, "wb") as out:
                out.write(before)
            with open(self.at("other"), "wb") as out:
                out.write(after)
            code, text, calls = run_swapping(
                command, when, lambda: os.replace(self.at("other"), file)
            )
            self.assertIn(code, (0, 1, 3), text)
            if code == 0:
                self.assertEqual(text, right, when)
            return code, calls

        for before, after in ((ONE, TWO), (TWO, ONE)):
            code, most = attempt(before, after, -1)
            self.assertEqual(code, 0 if before == TWO else 1)
            codes: set[int] = set()
            when = 0
            while when < most:
                code, calls = attempt(before, after, when)
                codes.add(code)
                most = max(most, calls)
                when += 1
            self.assertGreater(len(codes), 1)

    def test_swapped_file_is_never_accepted(self) -> None:
        with open(self.at("x.safetensors"), "wb") as out:
            out.write(TWO)
        self.check_swaps(self.at("x.safetensors"), self.at("x.safetensors"))

    def test_swapped_shard_is_never_accepted(self) -> None:
        os.mkdir(self.at("swapped"))
        with open(self.at("swapped/x.safetensors"), "wb") as out:
            out.write(TWO)
        with open(self.at("swapped/y.safetensors"), "wb") as out:
            out.write(file_of('{"c":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}'))
        names = {"a": "x.safetensors", "b": "x.safetensors", "c": "y.safetensors"}
        self.write("swapped/model.safetensors.index.json", json.dumps({"weight_map": names}))
        self.check_swaps(self.at("swapped"), self.at("swapped/x.safetensors"))

    def test_swapped_shard_is_hashed_as_it_was_opened_when_another_one_is_missing(self) -> None:
        if run_swapping([sys.executable, "--version"], -1, lambda: None)[0] == NOT_TRACED:
            self.skipTest("this system does not let a process trace its child")
        os.mkdir(self.at("torn"))
        shard, other = self.at("torn/x.safetensors"), self.at("other")
        with open(shard, "wb") as out:
            out.write(TWO)
        self.output("hash", shard, "--manifest", "-o", self.at("m.json"))
        names = {"a": "x.safetensors", "c": "y.safetensors"}
        self.write("torn/model.safetensors.index.json", json.dumps({"weight_map": names}))
        command = [behaviour_test.PROGRAM, "verify", self.at("torn"), "--manifest", self.at("m.json")]
        found: set[tuple[bool, bool]] = set()
        when, most = 0, 1
        while when < most:
            for path, data in ((shard, ONE), (other, TWO)):
                with open(path, "wb") as out:
                    out.write(data)
            code, text, calls = run_swapping(command, when, lambda: os.replace(other, shard))
            self.assertEqual(code, 3, text)
            right = b"x.safetensors: ok, 2 tensors" in text
            self.assertEqual(b"x.safetensors: matches the manifest" in text, right, (when, text))
            found.add((right, b"x.safetensors: differs: " in text))
            most = max(most, calls)
            when += 1
        self.assertEqual(found, {(True, False), (False, True)})

    def skip_unless_it_starts(self, limit: Callable[[], None]) -> None:
        """Sanitizers reserve more address space than the limit."""
        if self.run_command("--version", preexec_fn=limit).returncode != 0:
            self.skipTest("the program does not start within this address space: it has a sanitizer")

    def test_large_manifest_is_refused_before_it_is_read(self) -> None:
        self.skip_unless_it_starts(limit_memory)
        path = self.write("huge.json", "")
        os.truncate(path, 1 << 30)
        result = self.run_command(
            "verify", self.at("a.safetensors"), "--manifest", path, preexec_fn=limit_memory
        )
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"1073741824 bytes, at most 268435456 are read", result.stderr)

    def test_large_text_is_in_memory_once(self) -> None:
        self.skip_unless_it_starts(limit_once)
        path = self.write("zeros.json", "")
        os.truncate(path, 256 << 20)
        result = self.run_command(
            "verify", self.at("a.safetensors"), "--manifest", path, preexec_fn=limit_once
        )
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"not a manifest: ", result.stderr)

    def test_names_come_from_regular_files_only(self) -> None:
        a = self.at("a.safetensors")
        os.mkfifo(self.at("fifo"))
        os.truncate(self.write("huge.tsv", ""), 1 << 30)
        for name, code, text in (
            ("fifo", 3, b"not a regular file"),
            ("", 3, b"not a regular file"),
            ("huge.tsv", 1, b"more than 256 MiB"),
        ):
            result = self.run_command("diff", a, a, "--map", self.at(name))
            self.assertEqual((result.returncode, result.stdout), (code, b""))
            self.assertIn(text, result.stderr)

    def test_manifest_refuses_names_that_it_cannot_hold(self) -> None:
        for name, why in (
            (b"a:b.safetensors", b"it holds a colon"),
            (b"a\x1bb.safetensors", b"it holds a control or invisible character"),
            (b"a\xff.safetensors", b"it is not UTF-8"),
        ):
            path = os.path.join(os.fsencode(self.work), name)
            shutil.copy(self.at("a.safetensors"), path)
            for arguments in (["--manifest"], ["--manifest", "-o", self.at("m.json")]):
                result = self.run_command("hash", path, *arguments)
                self.assertEqual((result.returncode, result.stdout), (1, b""), name)
                self.assertIn(why, result.stderr)
                self.assertIn(b".safetensors", result.stderr)
        self.assertEqual([name for name in os.listdir(self.work) if name.endswith("json")], [])

    def test_output_never_replaces_an_input(self) -> None:
        a = self.at("a.safetensors")
        os.link(a, self.at("hard"))
        os.symlink(a, self.at("soft"))
        folder = self.path("model")
        shards = [os.path.join(folder, n) for n in os.listdir(folder) if n.endswith("safetensors")]
        self.assertGreater(len(shards), 1)
        index = self.path("model/model.safetensors.index.json")
        cases = [(a, a), (a, self.at("hard")), (a, self.at("soft")), (index, index)]
        cases += [(folder, shard) for shard in shards] + [(folder, index)]
        for path, out in cases:
            with open(out, "rb") as file:
                before = file.read()
            for arguments, code in (
                (["page", path, "--output", out, "--force"], 2),
                (["page", path, "--output", out, "--force", "--dry-run"], 2),
                (["hash", path, "--manifest", "-o", out, "--force"], 1),
                (["hash", path, "--manifest", "-o", out, "--force", "--dry-run"], 1),
            ):
                result = self.run_command(*arguments)
                self.assertEqual((result.returncode, result.stdout), (code, b""), arguments)
                self.assertIn(b"is a file that is read", result.stderr)
            with open(out, "rb") as file:
                self.assertEqual(file.read(), before)

    def test_cat_and_page_replace_no_file_of_the_model(self) -> None:
        folder = self.path("model")
        config = os.path.join(folder, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            file.write("{}")
        listed = json.loads(self.run_command("ls", folder, "--json").stdout)["files"][0]
        shard = listed["files"][0]["path"]
        name = next(tensor["name"] for tensor in listed["tensors"] if tensor["file"] == 0)
        index = os.path.join(folder, "model.safetensors.index.json")
        for out, arguments in (
            (index, ["cat", folder, name]),
            (shard, ["cat", folder, name]),
            (shard, ["cat", shard, name, "--dry-run"]),
        ):
            with open(out, "rb") as file:
                before = file.read()
            result = self.run_command(*arguments, "--output", out, "--force")
            self.assertEqual((result.returncode, result.stdout), (2, b""), arguments)
            self.assertIn(b"is a file that is read: choose another OUT", result.stderr)
            with open(out, "rb") as file:
                self.assertEqual(file.read(), before)

    def test_standard_input_is_not_replaced(self) -> None:
        with open(self.at("a.safetensors"), "rb") as file:
            result = self.run_command(
                "page", "-", "--output", self.at("a.safetensors"), "--force", stdin=file
            )
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"is a file that is read", result.stderr)

    def test_lines_are_those_of_sha256sum(self) -> None:
        sha256sum = shutil.which("sha256sum")
        if sha256sum is None:
            self.skipTest("no sha256sum")
        names = ["b\\s.safetensors", "line\nfeed.safetensors", "plain.safetensors"]
        for name in names:
            shutil.copy(self.at("a.safetensors"), self.at(name))
        paths = [self.at(name) for name in names]
        out = self.output("hash", *paths)
        self.assertEqual(out, subprocess.check_output([sha256sum, *paths]))
        check = [sha256sum, "--check", "--strict"]
        subprocess.run(check, input=out, check=True, stdout=subprocess.DEVNULL)
        self.write("invisible\u202e", "")
        shutil.copy(self.at("a.safetensors"), self.at("invisible\u202e"))
        out = self.output("hash", self.at("invisible\u202e"))
        self.assertEqual((out[:1], b"\xe2" in out), (b"\\", False))

    def test_empty_output_is_named(self) -> None:
        result = self.run_command("hash", self.at("a.safetensors"), "--manifest", "-o", "")
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"OUT is empty", result.stderr)

    def test_empty_manifest_is_named(self) -> None:
        result = self.run_command("verify", self.at("a.safetensors"), "--manifest", "")
        self.assertEqual((result.returncode, result.stdout), (2, b""))
        self.assertIn(b"--manifest FILE is an empty path", result.stderr)

    def test_manifest_lies_in_the_folder_that_all_files_have_in_common(self) -> None:
        shutil.copytree(self.path("model"), self.at("model/sub"))
        index = self.at("model/model.safetensors.index.json")
        os.rename(self.at("model/sub/model.safetensors.index.json"), index)
        with open(index, encoding="utf-8") as file:
            document = json.load(file)
        for name, shard in document["weight_map"].items():
            document["weight_map"][name] = "sub/" + shard
        self.write("model/model.safetensors.index.json", json.dumps(document))
        self.output("hash", self.at("model"), "--manifest")
        manifest = self.at("model/sub/manifest.json")
        with open(manifest, encoding="utf-8") as file:
            names = [entry["name"] for entry in json.load(file)["files"]]
        self.assertEqual(names, sorted(set(names) & set(os.listdir(self.at("model/sub")))))
        for path in (self.at("model"), index):
            out = self.output("verify", path, "--manifest", manifest)
            self.assertEqual(out.count(b"matches the manifest"), len(names))

    def test_page_error_of_the_page_is_a_json_document(self) -> None:
        for out in ("nodir/x.html", "a.safetensors/x.html"):
            path = self.at(out)
            result = self.run_command("page", self.at("a.safetensors"), "--output", path, "--json")
            self.assertEqual(result.returncode, 3)
            document = json.loads(result.stdout)
            self.assertEqual((document["output"], document["file"]), (path, path))
            self.assertEqual(document["error"]["code"], "open_failed")
            self.assertIn(os.fsencode(path), result.stderr)


if __name__ == "__main__":
    behaviour_test.PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
