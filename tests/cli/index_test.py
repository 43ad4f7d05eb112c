#!/usr/bin/env python3
"""The verb index, and what verify says about an index.

index_test.py SAFETENSORS [unittest's arguments]
"""

import json
import os
import shutil
import sys
import unittest

import edit_test


class IndexTest(edit_test.EditTest):
    def setUp(self):
        super().setUp()
        self.put("in", [("a", "U8", [3], b"abc"), ("b", "U8", [4], b"defg")])
        self.succeed("split", "in", "model", "--max-shard-size", "4")
        self.index = "model/model.safetensors.index.json"

    def change(self, function):
        with open(self.path(self.index)) as file:
            index = json.load(file)
        function(index)
        with open(self.path(self.index), "w") as file:
            json.dump(index, file)

    def test_make_gives_the_index_that_split_wrote(self):
        before = self.read(self.index)
        self.fail_with(1, "--force", "index", "model")
        os.remove(self.path(self.index))
        self.succeed("index", "model", "--dry-run")
        self.assertFalse(os.path.exists(self.path(self.index)))
        self.succeed("index", "model")
        self.assertEqual(self.read(self.index), before)

    def test_make_refuses_names_that_no_index_may_hold(self):
        for stem in ("../esc", "", ".", "..", "a/b", "a\n", "a:b", "\u202e", ".hidden", b"\xff"):
            for extra in ([], ["--dry-run"]):
                self.fail_with(
                    1,
                    "safetensors: model: ",
                    "index",
                    "model",
                    "--name",
                    stem,
                    "--force",
                    *extra,
                )
        for name, shown in (
            (b"a:b", "`a:b.safetensors`: it holds a colon"),
            (b"a\x07", "`a\\u{7}.safetensors`"),
            ("a\u202e".encode(), "`a\\u{202e}.safetensors`"),
            (b"a\xff", "`a\\xff.safetensors`: it is not valid UTF-8"),
        ):
            self.put("d/b.safetensors", [("b", "U8", [1], b"1")])
            os.rename(
                self.path("d/b.safetensors"),
                self.path("d").encode() + b"/" + name + b".safetensors",
            )
            self.fail_with(1, shown, "index", "d")
            shutil.rmtree(self.path("d"))

    def test_make_names_the_numbers_that_are_missing(self):
        for number in (0, 3):
            self.put(f"d/s-0000{number}-of-00009.safetensors", [(f"t{number}", "U8", [1], b"1")])
        names = "2 of the 9 files `s-*-of-00009.safetensors`"
        lost = ", ".join(f"`s-0000{i}-of-00009.safetensors`" for i in (1, 2, 4, 5))
        self.fail_with(1, f"{names}: {lost} and 3 more are missing\n", "index", "d", "--dry-run")
        os.rename(self.path("d/s-00000-of-00009.safetensors"), self.path("d/s-00009-of-00009.safetensors"))
        self.fail_with(1, f"{names}: {lost} and 3 more are missing\n", "index", "d", "--dry-run")

    def test_all_problems_are_reported_when_a_file_is_missing(self):
        first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"

        def wrong(index):
            index["metadata"]["total_size"] = 0
            index["weight_map"]["c"] = second

        self.change(wrong)
        os.remove(self.path("model", first))
        size = edit_test.header_of(self.path("model", second))["b"]["data_offsets"][1]
        total = f"total_size is 0, the tensors of the files that can be opened have {size} bytes"
        tensor = f"tensor `c` is not in `{second}`"
        result = self.run_command("verify", "model")
        self.assertEqual(result.returncode, 3)
        self.assertIn(f"safetensors: model/{first}: cannot open", result.stderr.decode())
        lines = result.stdout.decode().splitlines()
        self.assertRegex(lines[0], f"^model/{second}: ok, 1 tensor")
        self.assertEqual(lines[1:3], [f"model: invalid: {tensor}", f"model: note: {total}"])
        self.assertEqual(lines[3:], ["model: incomplete: 1 of 2 files missing: model-00001-of-00002.safetensors"])
        document = json.loads(self.run_command("verify", "model", "--json").stdout)
        self.assertEqual(document["files"][0]["set"], {"valid": None, "problems": [tensor, total]})

    def test_force_writes_the_right_index(self):
        right = self.read(self.index)
        self.change(lambda index: index["weight_map"].pop("a"))
        self.assertIn("note", self.run_command("verify", "model").stdout.decode())
        self.succeed("index", "model", "--force")
        self.assertEqual(self.read(self.index), right)

    def test_files_that_are_missing_or_invalid(self):
        second = self.path("model/model-00002-of-00002.safetensors")
        content = self.read("model/model-00002-of-00002.safetensors")
        with open(second, "wb") as file:
            file.write(content[:-1])
        self.fail_with(1, "rule 10", "index", "model", "--force")
        os.remove(second)
        lost = "1 of the 2 files `model-*-of-00002.safetensors`: `model-00002-of-00002.safetensors` is missing"
        self.fail_with(1, lost, "index", "model", "--force")
        self.fail_with(2, "Try", "index")
        self.fail_with(2, "Try", "index", "model", "in")


if __name__ == "__main__":
    edit_test.PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
