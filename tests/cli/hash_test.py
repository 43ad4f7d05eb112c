#!/usr/bin/env python3
"""The verb hash beside sha256sum and Python's hashlib: many files, large ones, odd names, and lists of digests.

hash_test.py SAFETENSORS [unittest's arguments]
"""

import hashlib
import json
import os
import random
import subprocess
import unittest

from command import PROGRAM, FolderTest, has_hashes


class HashTest(FolderTest):
    def setUp(self):
        super().setUp()
        if not has_hashes():
            self.skipTest("the command was built without OpenSSL")

    def sha256sum(self, *arguments):
        return subprocess.run(["sha256sum", *arguments], cwd=self.folder, capture_output=True, check=False)

    def test_sizes_at_the_edges_of_blocks_and_buffers(self):
        choose = random.Random(1)
        sizes = [0, 1, 55, 56, 63, 64, 65, (128 << 10) - 1, 128 << 10, (128 << 10) + 1, 3_000_000]
        for size in sizes:
            self.write(f"f{size}", choose.randbytes(size))
        names = [f"f{size}" for size in sizes]
        self.assertEqual(self.succeed("hash", *names), self.sha256sum(*names).stdout.decode())

    def test_threads_with_small_stacks(self):
        script = 'ulimit -s 128; "$0" hash "$0" "$0"'  # in KiB: what musl gives to a thread
        subprocess.run(["sh", "-c", script, PROGRAM], stdout=subprocess.DEVNULL, check=True)

    def test_odd_names_go_both_ways(self):
        names = ["a b", "a\\b", "a\nb", "a\rb", "\\", " x", "*x", "a:b", "\u00e9", "-"]
        for name in names:
            self.write(name, name.encode())
        paths = ["./" + name for name in names]
        ours, theirs = self.run_command("hash", *paths).stdout, self.sha256sum(*paths).stdout
        self.assertEqual(ours, theirs)
        self.write("SHA256SUMS", ours)
        self.assertEqual(self.sha256sum("--check", "--quiet", "SHA256SUMS").returncode, 0)
        self.assertEqual(self.run_command("hash", "--check", "SHA256SUMS").returncode, 0)
        self.write("./a:b", b"changed")
        lines = self.run_command("hash", "--check", "SHA256SUMS").stdout.decode().split("\n")[:-1]
        self.assertEqual([line for line in lines if not line.endswith(": OK")], ["./a:b: FAILED"])

    def test_tensors_have_the_digests_of_their_bytes(self):
        choose = random.Random(2)
        tensors = [
            (name, "U8", [size], choose.randbytes(size)) for name, size in (("a:b", 300_000), ("\n", 3), ("\u202e", 0))
        ]
        self.put("x:1.safetensors", tensors)
        document = json.loads(self.run_command("hash", "x:1.safetensors", "--tensors", "--json").stdout)
        found = {one["tensor"]: one["sha256"] for one in document["digests"]}
        self.assertEqual(found, {name: hashlib.sha256(data).hexdigest() for name, _, _, data in tensors})
        self.write("list", self.run_command("hash", "x:1.safetensors", "--tensors").stdout)
        self.assertEqual(self.run_command("hash", "--check", "list").returncode, 0)
        self.put("x:1.safetensors", tensors[1:])
        result = self.run_command("hash", "--check", "list")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"a:b", result.stderr)

    def test_a_list_of_windows_and_letters_in_upper_case(self):
        self.write("a", b"a")
        self.write("list", b"# a comment\r\n" + hashlib.sha256(b"a").hexdigest().upper().encode() + b" *a\r\n\r\n")
        self.assertEqual(self.succeed("hash", "--check", "list"), "a: OK\n")

    def test_a_signal_stops_a_large_file(self):
        with open(self.path("large"), "wb") as file:
            file.truncate(64 << 30)  # sparse: minutes of work
        with subprocess.Popen([PROGRAM, "hash", "large"], cwd=self.folder, stdout=subprocess.PIPE) as process:
            os.kill(process.pid, 2)
            self.assertEqual((process.wait(timeout=120), process.stdout.read()), (-2, b""))


if __name__ == "__main__":
    unittest.main()
