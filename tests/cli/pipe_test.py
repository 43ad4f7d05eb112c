#!/usr/bin/env python3
"""Pipes on standard input: verbs that read values keep the data in a file without a name.

pipe_test.py SAFETENSORS [unittest's arguments]
"""

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import make_inputs
from command import PROGRAM, CommandTest, environment, make_sparse


def endless(start):
    """The end of a pipe that gives these bytes, then zeros until nobody reads, and the process that writes."""
    read, write = os.pipe()
    script = "import sys, os\nos.write(1, bytes.fromhex(sys.argv[1]))\nwhile True: os.write(1, bytes(65536))"
    writer = subprocess.Popen([sys.executable, "-c", script, start.hex()], stdout=write, stderr=subprocess.DEVNULL)
    os.close(write)
    return read, writer


class PipeTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        command = [PROGRAM, "hash", os.path.join(cls.folder, "good.safetensors")]
        cls.hashes = subprocess.run(command, capture_output=True).returncode == 0  # some builds have no hash functions

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.variables = {"TMPDIR": self.temporary.name}

    def from_pipe(self, name, *arguments):
        with open(self.path(name), "rb") as file:
            return self.run_command(*arguments, input=file.read(), variables=self.variables)

    def start(self, *arguments, **options):
        """Starts the command. SIGINT ends it even if this process ignores the signal."""
        options |= {"cwd": self.folder, "env": environment() | self.variables}
        options["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
        child = subprocess.Popen([PROGRAM, *arguments], **options)
        self.addCleanup(child.kill)
        return child

    def test_values_of_a_pipe_are_those_of_the_file(self):
        verbs = (["stats"], ["stats", "--histogram", "--json"], ["hash", "--tensors"], ["verify", "--no-nan"])
        for arguments in verbs:
            if arguments[0] == "hash" and not self.hashes:
                continue
            with self.subTest(arguments=arguments):
                piped = self.from_pipe("good.safetensors", *arguments, "-")
                with open(self.path("good.safetensors"), "rb") as file:
                    direct = self.run_command(*arguments, "-", stdin=file)
                self.assertEqual((piped.returncode, piped.stdout), (direct.returncode, direct.stdout), piped.stderr)
                self.assertEqual(os.listdir(self.temporary.name), [])

    def test_a_pipe_of_the_wrong_length_is_invalid(self):
        whole = self.read("good.safetensors")
        for data in (whole[:4], whole[:40], whole[:-1], whole + b"x", b""):
            with self.subTest(size=len(data)):
                result = self.run_command("stats", "-", input=data, variables=self.variables)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertEqual(os.listdir(self.temporary.name), [])

    def test_header_of_a_cut_file_is_printed(self):
        whole = self.read("good.safetensors")
        text = whole[8 : 8 + struct.unpack("<Q", whole[:8])[0]]
        data_bytes = len(whole) - 8 - len(text)
        for data in (whole[:-1], whole[: 8 + len(text)]):
            missing = len(whole) - len(data)
            message = f"safetensors: standard input: notice: {missing} of {data_bytes} bytes of the data are missing"
            with tempfile.TemporaryFile() as file:
                file.write(data)
                file.flush()
                for given in ({"input": data}, {"stdin": file}):
                    result = self.run_command("info", "--header", "-", **given)
                    self.assertEqual((result.returncode, result.stdout), (0, text))
                    self.assertTrue(result.stderr.startswith(message.encode()), result.stderr)
                    document = json.loads(self.run_command("info", "--header", "-", "--json", **given).stdout)
                    self.assertEqual((document["valid"], document["header"]), (True, json.loads(text)))
        result = self.run_command("info", "--header", "-", input=whole[:40])
        self.assertEqual((result.returncode, result.stdout), (1, b""))

    def test_no_more_is_read_than_the_header_promises(self):
        good = make_inputs.of_tensors([("a", "U8", [4], bytes(4))])
        bad = struct.pack("<Q", 16) + b'{"a": 1}        '
        for start, text in ((good, b"tensors end at byte 4 of the data"), (bad, b"invalid JSON")):
            with self.subTest(text=text):
                pipe, writer = endless(start)
                try:
                    result = self.run_command("stats", "-", stdin=pipe, variables=self.variables)
                finally:
                    os.close(pipe)
                    writer.kill()
                    writer.wait()
                self.assertEqual(result.returncode, 1)
                self.assertIn(text, result.stderr)

    def test_without_room_the_error_says_what_to_do(self):
        self.variables["TMPDIR"] = self.path("missing")
        result = self.from_pipe("good.safetensors", "stats", "-")
        self.assertEqual(result.returncode, 3)
        self.assertIn(b"TMPDIR", result.stderr)
        result = self.from_pipe("good.safetensors", "ls", "-")  # needs only the header
        self.assertEqual((result.returncode, result.stderr), (0, b""))

    def test_a_signal_ends_the_wait_for_the_pipe(self):
        read, write = os.pipe()
        with open(self.path("good.safetensors"), "rb") as file:
            os.write(write, file.read()[:-1])
        for verb in ("stats", "hash") if self.hashes else ("stats",):
            child = self.start(verb, "-", stdin=read)
            time.sleep(0.3)
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.wait(60), -signal.SIGINT)
        os.close(read)
        os.close(write)
        self.assertEqual(os.listdir(self.temporary.name), [])

    def test_a_signal_ends_the_reading_of_values(self):
        make_sparse(self.path("large"), 1 << 37)  # of which the signal lets it read a small part
        for arguments in (("stats", "large"), ("diff", "large", "large")):
            child = self.start(*arguments, stdout=subprocess.PIPE)
            read = 0
            while read < 4 << 20:
                self.assertIsNone(child.poll(), arguments)
                with open(f"/proc/{child.pid}/io") as counts:
                    read = int(counts.readline().removeprefix("rchar: "))
            child.send_signal(signal.SIGINT)
            output = child.communicate(timeout=60)[0]
            self.assertEqual((child.returncode, output), (-signal.SIGINT, b""), arguments)

    def test_a_signal_ends_the_wait_for_the_reader(self):
        self.put("many.safetensors", [(f"{'name' * 60}.{i}", "F32", [1], bytes(4)) for i in range(900)])
        verbs = (["stats", "many.safetensors"], ["diff", "good.safetensors", "many.safetensors"])
        for arguments in (*verbs, *([["hash", "--tensors", "many.safetensors"]] if self.hashes else [])):
            with self.start(*arguments, stdout=subprocess.PIPE) as child:
                self.assertEqual(len(child.stdout.read1(1)), 1)  # it writes more than a pipe holds
                child.send_signal(signal.SIGINT)
                self.assertEqual(child.wait(60), -signal.SIGINT, arguments)

    def test_an_error_of_reading_names_the_tensor(self):
        whole = make_inputs.of_tensors([("first", "U8", [8], bytes(8)), ("cut", "U8", [8 << 20], bytes(8 << 20))])
        self.write("cut.safetensors", whole)
        child = self.start("diff", "cut.safetensors", "-", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        child.stdin.write(whole[: 4 << 20])  # more than a pipe holds, so the command has opened the file
        child.stdin.flush()
        os.truncate(self.path("cut.safetensors"), 1 << 21)
        message = child.communicate(whole[4 << 20 :], timeout=60)[1]
        self.assertEqual(child.returncode, 3, message)
        self.assertRegex(message, b"^safetensors: cut.safetensors: tensor `cut`: ")

    def test_only_one_side_of_diff_is_a_pipe(self):
        self.assertEqual(self.from_pipe("good.safetensors", "diff", "-", "-").returncode, 2)
        result = self.from_pipe("good.safetensors", "diff", "good.safetensors", "-")
        self.assertEqual((result.returncode, result.stderr), (0, b""))


if __name__ == "__main__":
    unittest.main()
