#!/usr/bin/env python3
"""Kills commands that write a model over another one with the same names of files, at random moments. The folder must hold the
old model or the new one, and the next command that writes there must leave nothing but its own files.

    killed_test.py SAFETENSORS [unittest's arguments]

SAFETENSORS_TEST_KILLS is the number of kills per verb.
"""
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = ""
KILLS = int(os.environ.get("SAFETENSORS_TEST_KILLS", "6"))
TENSORS = 8
BYTES = 200_000  # of each tensor, which has a file of its own
VERBS = {
    "repack": ["repack", "IN", "OUT", "--force"],
    "split": ["split", "IN", "OUT", "--max-shard-size", str(BYTES), "--force"],
    "cast": ["cast", "IN", "OUT", "--to", "U8", "--force"],
}


def write_file(path, value):
    data = bytes([value]) * BYTES
    tensors, offset = {}, 0
    for i in range(TENSORS):
        tensors[f"t{i}"] = {"dtype": "U8", "shape": [BYTES], "data_offsets": [offset, offset + BYTES]}
        offset += BYTES
    header = json.dumps(tensors).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data * TENSORS)


class KilledTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = os.path.join(self.folder, "out")
        for value, name in enumerate(["old", "new"]):
            write_file(os.path.join(self.folder, name + ".safetensors"), value)
            self.run_command("split", name + ".safetensors", name, "--max-shard-size", str(BYTES))

    def run_command(self, *arguments, expected=0):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, capture_output=True, timeout=120, text=True)
        self.assertEqual(done.returncode, expected, (arguments, done.stdout, done.stderr))
        return done

    def holds(self):
        """Returns which models the folder equals."""
        self.run_command("verify", "out")
        answers = {name: subprocess.run([PROGRAM, "diff", name, "out"], cwd=self.folder, capture_output=True, timeout=120).returncode
                   for name in ("old", "new")}
        return [name for name, code in answers.items() if code == 0]

    def arguments_of(self, verb, model):
        return [{"IN": model, "OUT": "out"}.get(word, word) for word in VERBS[verb]]

    def check(self, verb):
        choose = random.Random(verb)
        shutil.copytree(os.path.join(self.folder, "old"), self.out)
        start = time.monotonic()
        self.run_command(*self.arguments_of(verb, "new"))
        duration = 1.2 * (time.monotonic() - start)
        self.assertEqual(self.holds(), ["new"])
        for kill in range(KILLS):
            shutil.rmtree(self.out)
            shutil.copytree(os.path.join(self.folder, "old"), self.out)
            process = subprocess.Popen([PROGRAM, *self.arguments_of(verb, "new")], cwd=self.folder, stdout=subprocess.DEVNULL)
            time.sleep(choose.uniform(0, duration))
            process.kill()
            process.wait()
            self.assertIn(self.holds(), (["old"], ["new"]), kill)
            self.run_command(*self.arguments_of(verb, "new"))
            self.assertEqual(self.holds(), ["new"])
            self.assertEqual(len(os.listdir(self.out)), TENSORS + 1, os.listdir(self.out))
            self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".")], [])


for each in VERBS:
    setattr(KilledTest, "test_" + each, lambda self, verb=each: self.check(verb))

if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
