#!/usr/bin/env python3
"""The verb index, and what verify says about an index.

index_test.py SAFETENSORS [unittest's arguments]
"""

import json
import os
import unittest

from command import FolderTest


class IndexTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.put("in", [("a", "U8", [3], b"abc"), ("b", "U8", [4], b"defg")])
        self.succeed("split", "in", "model", "--max-shard-size", "4")
        self.index = "model/model.safetensors.index.json"

    def change(self, function):
        index = json.loads(self.read(self.index))
        function(index)
        self.write(self.index, json.dumps(index))

    def test_an_error_names_the_path_as_it_was_given(self):
        self.put("one.safetensors", [("a", "U8", [1], b"x")])
        self.fail_with(3, "safetensors: one.safetensors: cannot open: not a directory", "index", "one.safetensors")
        self.fail_with(3, "safetensors: gone: cannot open: no such file or directory", "index", "gone")

    def test_make_gives_the_index_that_split_wrote(self):
        before = self.read(self.index)
        right = "model.safetensors.index.json: 2 tensors in 2 files, 7 B\n"
        self.assertEqual(self.succeed("index", "model"), f"no change to {right}")
        os.remove(self.path(self.index))
        self.assertEqual(self.succeed("index", "model", "--dry-run"), f"would write {right}")
        self.assertFalse(os.path.exists(self.path(self.index)))
        self.assertEqual(self.succeed("index", "model"), f"wrote {right}")
        self.assertEqual(self.read(self.index), before)

    def test_a_shard_that_the_index_lacks(self):
        """Its tensor is in the index, with another shard."""
        first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
        right = self.read(self.index)
        self.change(lambda index: index["weight_map"].update(b=first))
        moved = f"tensor `b` is not in `{first}`, but in `{second}`"
        lacks = f"file `{second}` belongs to the model, but is not in the index"
        result = self.run_command("verify", "model", "--quiet")
        expected = f"model: invalid: {lacks}\nmodel: invalid: {moved}\n"
        self.assertEqual((result.returncode, result.stdout.decode()), (1, expected))
        self.assertIn("note: `safetensors index model` shows", self.run_command("verify", "model").stdout.decode())
        changes = f"{self.index}: old index: {lacks}\n{self.index}: old index: {moved}\n"
        for options in ([], ["--dry-run"]):
            self.fail_with(1, "exists; --force replaces it", "index", "model", *options)
            self.assertEqual(self.run_command("index", "model", *options).stdout.decode(), changes)
        self.change(lambda index: index.update(more=1))
        lost = f"{self.index}: old index: the new one lacks 1 member beside metadata and weight_map\n"
        document = json.loads(self.run_command("index", "model", "--json", "--force", "--dry-run").stdout)
        self.assertEqual(document["lost_members"], 1)
        self.assertEqual([change["kind"] for change in document["changes"]], ["unindexed_file", "wrong_file"])
        self.assertEqual((document["written"], document["tensor_count"]), (False, 2))
        wrote = "wrote model.safetensors.index.json: 2 tensors in 2 files, 7 B\n"
        self.assertEqual(self.succeed("index", self.index, "--force"), changes + lost + wrote)
        self.assertEqual(self.read(self.index), right)
        self.change(lambda index: index["weight_map"].pop("b"))
        self.assertEqual(self.run_command("verify", "model").returncode, 1)
        self.succeed("index", "model", "--force")
        self.assertEqual(self.read(self.index), right)

    def test_an_unnumbered_file_of_the_old_index_stays(self):
        self.put("model/mtp.safetensors", [("m", "U8", [1], b"x")])
        self.change(lambda index: index["weight_map"].update(m="mtp.safetensors", b="gone.safetensors"))
        self.succeed("index", "model", "--force")
        names = json.loads(self.read(self.index))["weight_map"]
        self.assertEqual((names["b"], names["m"]), ("model-00002-of-00002.safetensors", "mtp.safetensors"))

    def test_a_tensor_without_bytes_keeps_the_old_index(self):
        self.change(lambda index: index["weight_map"].update(gone="model-00001-of-00002.safetensors"))
        lost = f"{self.index}: tensor `gone` is in no file of the model, the index has it in "
        lost += "`model-00001-of-00002.safetensors`"
        self.fail_with(1, f"{lost} (get the file again, or remove this index", "index", "model", "--force")

    def test_an_index_that_cannot_be_parsed(self):
        right = self.read(self.index)
        self.write(self.index, "{]")
        self.fail_with(1, "--force replaces it", "index", "model")
        self.assertIn("old index: invalid JSON", self.succeed("index", "model", "--force"))
        self.assertEqual(self.read(self.index), right)

    def test_make_names_the_numbers_that_are_missing(self):
        for number in (0, 3):
            self.put(f"d/s-0000{number}-of-00009.safetensors", [(f"t{number}", "U8", [1], b"1")])
        names = "2 of the 9 files `s-*-of-00009.safetensors`"
        lost = ", ".join(f"`s-0000{i}-of-00009.safetensors`" for i in (1, 2, 4, 5))
        step = "(get what is missing, such as with `hf download`, then run `safetensors index d` again)\n"
        self.fail_with(1, f"{names}: {lost} and 3 more are missing {step}", "index", "d", "--dry-run")
        os.rename(self.path("d/s-00000-of-00009.safetensors"), self.path("d/s-00009-of-00009.safetensors"))
        self.fail_with(1, f"{names}: {lost} and 3 more are missing (get", "index", "d", "--dry-run")

    def test_files_that_are_missing_or_invalid(self):
        second = self.path("model/model-00002-of-00002.safetensors")
        content = self.read("model/model-00002-of-00002.safetensors")
        with open(second, "wb") as file:
            file.write(content[:-1])
        self.fail_with(1, "rule 10", "index", "model", "--force")
        os.remove(second)
        lost = "1 of the 2 files `model-*-of-00002.safetensors`: `model-00002-of-00002.safetensors` is missing "
        lost += "(get what is missing, such as with `hf download`, then run `safetensors index model` again)\n"
        self.fail_with(3, lost, "index", "model", "--force")  # as all verbs that open it
        os.makedirs(self.path("d"))
        self.write("d/x.safetensors", content[:-1])
        self.fail_with(2, "Try", "index")
        self.fail_with(2, "Try", "index", "model", "in")
        self.fail_with(1, "see all problems with `safetensors verify d`", "index", "d")


if __name__ == "__main__":
    unittest.main()
