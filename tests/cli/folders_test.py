#!/usr/bin/env python3
"""Folders that stand for models in other ways than by an index or one file: numbered files without an index, pipelines
of diffusers, variants, and the cache of huggingface_hub. And what is missing in them.

folders_test.py SAFETENSORS [unittest's arguments]
"""

import json
import os
import sys
import unittest

import edit_test


class FoldersTest(edit_test.EditTest):
    def shards(self, folder, count, lost=(), stem="model"):
        """Numbered files with one tensor each."""
        for i in range(1, count + 1):
            if i not in lost:
                self.put(f"{folder}/{stem}-{i:05}-of-{count:05}.safetensors", [(f"t{i}", "U8", [4], b"abcd")])

    def model(self, name):
        self.put(f"{name}.safetensors", [("a", "U8", [4], b"abcd")])

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text)

    def answer(self, code, *arguments):
        """The output of a command and its messages."""
        result = self.run_command(*arguments)
        self.assertEqual(result.returncode, code, (arguments, result.stdout, result.stderr))
        return result.stdout.decode(), result.stderr.decode()

    def lines(self, code, *arguments):
        """The lines of a command that are no good verdicts."""
        return [line for line in self.answer(code, *arguments)[0].splitlines() if ": ok, " not in line]

    def names(self, path, *options):
        files = json.loads(self.answer(0, "ls", path, "--json", *options)[0])["files"]
        return [(file["path"], [tensor["name"] for tensor in file["tensors"]]) for file in files]


class RecursiveTest(FoldersTest):
    def test_verbs_without_recursive_say_what_to_do(self):
        for option in ("-R", "--recursive"):
            message = self.answer(2, "inspect", "x", option)[1]
            self.assertIn("inspect has no --recursive: it makes one page per model, run it for each", message)
            for verb in ("cat", "diff", "merge"):
                message = self.answer(2, verb, "x", option)[1]
                self.assertIn(f"{verb} has no --recursive: it takes one model at a time, run it for each", message)
            self.assertIn("unknown option", self.answer(2, "version", option)[1])


if __name__ == "__main__":
    edit_test.PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
