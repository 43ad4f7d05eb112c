#!/usr/bin/env python3
"""The verbs that write a new file or model: select, drop, rename, cast, merge, split. Those of
rename and index are in rename_test.py and index_test.py.

    edit_test.py SAFETENSORS [unittest's arguments]
"""

import itertools
import json
import os
import shutil
import unittest

import make_inputs
from command import FolderTest, has_expressions, header_of

VERBS = {
    "select": ["--match", "*"],
    "drop": ["--match", "a*"],
    "rename": ["s/^/x/"],
    "cast": ["--to", "f32"],
    "merge": [],
    "split": [],
}


class OutputTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.put("in.safetensors", [("b", "F32", [2], bytes(range(8))), ("a", "U8", [3], b"abc")], {"k": "v"})
        self.succeed("split", "in.safetensors", "model", "--max-shard-size", "8")

    def test_every_verb_that_changes_nothing_gives_the_same_bytes(self):
        for verb in ("select", "cast", "merge"):
            options = ["--to", "f32", "--dtype", "f32"] if verb == "cast" else VERBS[verb]
            for source in ("in.safetensors", "model"):
                self.succeed(verb, source, "-o", "out.safetensors", *options, "--force")
                self.assertEqual(self.read("out.safetensors"), self.read("in.safetensors"), (verb, source))

    def test_a_dry_run_writes_nothing(self):
        before = self.state()
        for verb, options in VERBS.items():
            for source in ("in.safetensors", "model"):
                self.succeed(verb, source, "-o", "out", *options, "--dry-run")
                document = json.loads(self.succeed(verb, source, "-o", "out", *options, "--dry-run", "--json"))
                self.assertEqual(document["schema"], f"safetensors.{verb}/1")
                self.assertEqual((document["dry_run"], document["written"]), (True, False))
        self.assertEqual(self.state(), before)

    def test_an_output_is_replaced_only_with_force(self):
        self.put("out.safetensors", [("old", "U8", [1], b"o")])
        os.makedirs(self.path("full"))
        self.put("full/x-00001-of-00001.safetensors", [("old", "U8", [1], b"o")])
        for verb, options in VERBS.items():
            output = "full" if verb in ("split",) else "out.safetensors"
            for extra in ([], ["--json"], ["--dry-run"]):
                self.fail_with(1, "--force", verb, "in.safetensors", "-o", output, *options, *extra)
        for verb, options in VERBS.items():
            output = "full" if verb in ("split",) else "out.safetensors"
            self.succeed(verb, "in.safetensors", "-o", output, *options, "--force")
        self.assertEqual(sorted(os.listdir(self.path("full"))), ["model.safetensors", "x-00001-of-00001.safetensors"])

    def test_the_input_may_be_the_output(self):
        before = self.read("in.safetensors")
        for verb, options in VERBS.items():
            if verb in ("split",):
                continue
            self.fail_with(1, "exists", verb, "in.safetensors", "-o", "in.safetensors", *options)
            self.succeed(verb, "in.safetensors", "-o", "in.safetensors", *options, "--force")
            self.assertEqual(self.run_command("verify", "in.safetensors").returncode, 0, verb)
            self.write("in.safetensors", before)
        self.succeed("split", "model", "model", "--max-shard-size", "1GB", "--force")
        self.assertEqual(os.listdir(self.path("model")), ["model.safetensors"])
        self.assertEqual(self.read("model/model.safetensors"), before)

    def test_an_output_inside_of_the_input(self):
        self.succeed("cast", "model", "model/half", "--to", "f32")
        self.succeed("split", "model", "model/split", "--max-shard-size", "1")
        self.assertEqual(self.run_command("verify", "model", "model/half", "model/split").returncode, 0)

    def test_a_part_of_a_model_does_not_replace_the_model(self):
        part = "model/model-00001-of-00002.safetensors"
        os.symlink(part, self.path("link.safetensors"))
        lost = "would remove or replace `model-00002-of-00002.safetensors`"
        for source in (part, "link.safetensors"):
            for extra in ([], ["--dry-run"], ["--max-shard-size", "1"]):
                self.fail_with(1, lost, "split", source, "model", "--force", *extra)
        # Another folder is free, and so is what the caller leaves out.
        self.succeed("split", part, "other", "--max-shard-size", "1")
        self.succeed("split", "in.safetensors", "other", "--force")
        self.succeed("drop", "model", "model", "-m", "a", "--force")
        self.assertEqual(os.listdir(self.path("model")).count("model.safetensors"), 1)
        self.assertEqual(list(header_of(self.path("model/model.safetensors")))[-1], "b")

    def test_an_option_for_a_folder_is_refused_for_a_file(self):
        for option in (("--max-shard-size", "10"), ("--name", "x")):
            for source, output in (("in.safetensors", "out"), ("model", "out.safetensors")):
                for verb in VERBS.keys() - {"merge", "split"}:
                    arguments = (verb, source, output, *VERBS[verb], *option)
                    self.fail_with(2, f"{option[0]} is for a folder", *arguments)

    def test_a_forgotten_output_replaces_no_input(self):
        shards = [f"model/model-0000{i}-of-00002.safetensors" for i in (1, 2)]
        self.fail_with(2, "merge: which OUT? -o OUT names it\n", "merge", "-f", *shards)
        self.fail_with(2, "which OUT?", "merge", "model", "new.safetensors")

    def test_an_empty_path(self):
        self.fail_with(2, "IN is an empty path", "merge", "in.safetensors", "", "-o", "out")
        self.fail_with(2, "IN is an empty path", "split", "", "out")
        self.fail_with(2, "OUT is an empty path", "split", "in.safetensors", "")
        self.fail_with(2, "FOLDER is an empty path", "index", "")
        for output, text in (("", "OUT is an empty path"), ("-", "OUT is a path, not standard output")):
            self.fail_with(2, text, "page", "in.safetensors", "-o", output)
            self.fail_with(2, text, "cat", "in.safetensors", "a", "-o", output)

    def test_a_dry_run_fails_where_the_folder_is_missing(self):
        for verb in ("merge", "split", "cast"):
            for output in ("none/out", "in.safetensors/out"):
                arguments = (verb, "in.safetensors", "-o", output, *VERBS[verb])
                real = self.run_command(*arguments)
                self.assertEqual(real.returncode, 3, arguments)
                reason = real.stderr.decode().rsplit(": ", 1)[1]
                self.fail_with(3, reason, *arguments, "--dry-run")
        self.fail_with(2, "name it, such as out/in.safetensors", "merge", "in.safetensors", "-o", "out/", "--dry-run")
        self.succeed("split", "in.safetensors", "new/", "--dry-run")

    def test_symlinks(self):
        os.symlink("in.safetensors", self.path("link.safetensors"))
        os.symlink("nowhere", self.path("dangling"))
        self.succeed("merge", "link.safetensors", "-o", "copy.safetensors")
        self.assertEqual(self.read("copy.safetensors"), self.read("in.safetensors"))
        for output in ("link.safetensors", "dangling"):
            self.fail_with(1, "exists", "merge", "model", "-o", output)
        self.succeed("drop", "in.safetensors", "link.safetensors", "-m", "a", "--force")
        self.assertTrue(os.path.islink(self.path("link.safetensors")))
        self.assertEqual(list(header_of(self.path("in.safetensors"))), ["__metadata__", "b"])
        self.fail_with(3, "symlink to nothing", "split", "copy.safetensors", "dangling", "--force")

    def test_an_output_of_the_wrong_kind(self):
        self.fail_with(2, "name it, such as model/model.safetensors", "merge", "model", "-o", "model", "--force")
        self.fail_with(3, "is not a folder", "split", "model", "in.safetensors", "--force")
        self.fail_with(3, "cannot write: file name too long", "split", "model", "x" * 256)
        self.fail_with(3, "no such file or directory", "merge", "model", "-o", "none/out.safetensors")
        os.mkdir(self.path("empty"))
        self.succeed("split", "in.safetensors", "empty", "--max-shard-size", "8")
        wrong = [("split", "a", "b", "--max-shard-size", size) for size in ("5 X", "99999999999TB", "0")]
        wrong += [("cast", "a", "b"), ("cast", "a", "b", "--to", "f99"), ("cast", "-", "out", "--to", "f16")]
        wrong += [("merge",), ("merge", "in.safetensors"), ("merge", "a", "-o", "b", "--metadata", "x")]
        for arguments in (*wrong, ("select", "a", "b"), ("rename", "a", "b")):
            self.fail_with(2, "Try 'safetensors", *arguments)

    def test_a_model_becomes_a_folder_or_a_file(self):
        self.succeed("cast", "model", "half", "--to", "f32")
        self.assertEqual(sorted(os.listdir(self.path("half"))), sorted(os.listdir(self.path("model"))))
        self.succeed("cast", "model", "half.safetensors", "--to", "f32")
        self.succeed("cast", "model/model-00001-of-00002.safetensors", "one", "--to", "f32")
        self.assertTrue(os.path.isfile(self.path("one")))

    def test_a_damaged_model_is_refused(self):
        os.rename(self.path("model/model-00002-of-00002.safetensors"), self.path("x"))
        for verb, options in VERBS.items():
            self.fail_with(3, "model-00002-of-00002.safetensors", verb, "model", "-o", "out", *options)
        content = self.read("x")
        self.write("model/model-00002-of-00002.safetensors", content[:-1])
        for verb, options in VERBS.items():
            self.fail_with(1, "rule 10", verb, "model", "-o", "out", *options)


class ManyTensorsTest(FolderTest):
    """100,000 tensors of 64 bytes, with names as long as those of a mixture of experts."""

    COUNT = 100_000
    SIZE = 64

    def setUp(self):
        super().setUp()
        self.limit_memory(700 << 20)
        names = sorted(
            f"model.layers.{i // 800}.mlp.experts.{i // 2 % 400}.{'up' if i % 2 else 'down'}_proj.weight"
            for i in range(self.COUNT)
        )
        header = {
            name: {"dtype": "F32", "shape": [16], "data_offsets": [i * 64, i * 64 + 64]} for i, name in enumerate(names)
        }
        with open(self.path("in"), "wb") as file:
            text = json.dumps(header, separators=(",", ":"))
            file.write(make_inputs.container(text, bytes(self.COUNT * self.SIZE)))

    def expect_small(self, *arguments):
        self.assertLess(self.peak_memory(*arguments), 80 << 10, arguments)

    def test_every_verb_that_writes_takes_less_than_80_mib(self):
        options = {**VERBS, "cast": ["--to", "bf16"]}
        options["drop"] = ["--match", "*.layers.0.*"]
        options["split"] = ["--max-shard-size", "2MB"]
        for verb, more in options.items():
            if verb != "split":
                self.expect_small(verb, "in", "-o", f"{verb}.safetensors", *more)
        model = "parts"
        self.expect_small("split", "in", model, "--max-shard-size", "2MB")
        self.expect_small("split", model, "others", "--max-shard-size", "1MB")
        self.expect_small("merge", model, "-o", "merged")
        self.expect_small("select", model, "selected", "--match", "*")
        self.assertEqual(self.read("merged"), self.read("in"))

    def test_long_lists_take_less_than_80_mib(self):
        if "rename" in VERBS:
            self.expect_small("rename", "in", "other", "s/^model/x/", "--dry-run")
            self.expect_small("rename", "in", "renamed", "s/^model/x/", "--json")
        self.expect_small("cast", "in", "cast", "--to", "f16", "--json")


class ManyPairsTest(FolderTest):
    """Headers that are almost only metadata, in pairs as short as they can be."""

    PAIRS = 800_000

    def setUp(self):
        super().setUp()
        self.limit_memory(700 << 20)
        self.bytes = self.put_pairs("in", "0123456789abcdefghijklmnopqrstuvwxyz_.-")

    def put_pairs(self, name, characters):
        keys = itertools.islice(itertools.product(characters, repeat=4), self.PAIRS)
        pairs = ",".join(f'"{"".join(key)}":""' for key in keys)
        tensors = [
            f'"{n}":{{"dtype":"U8","shape":[4],"data_offsets":[{i * 4},{i * 4 + 4}]}}' for i, n in enumerate("abc")
        ]
        text = f'{{"__metadata__":{{{pairs}}},{",".join(tensors)}}}'
        self.write(name, make_inputs.container(text, bytes(12)))
        return len(text)

    def expect_at_most(self, times, *arguments, code=0):
        # The factors are those of docs/cli.md. 24 MiB is more than the program and its buffers take.
        peak = self.peak_memory(*arguments, code=code)
        self.assertLess(peak << 10, times * self.bytes + (24 << 20), arguments)

    def test_verbs_that_write(self):
        self.expect_at_most(15, "merge", "in", "-o", "merged")
        self.expect_at_most(15, "split", "in", "one")
        self.expect_at_most(7 * (1 + 3), "split", "in", "three", "--max-shard-size", "4")
        self.assertEqual(self.read("merged"), self.read("one/model.safetensors"))

    def test_merged_metadata(self):
        self.put_pairs("other", "ABCDEFGHIJKLMNOPQRSTUVWXYZ+=-0123456789_")
        self.succeed("rename", "other", "renamed", "--map", self.name_map())
        self.expect_at_most(15 * 2, "merge", "in", "renamed", "-o", "merged")
        self.assertEqual(len(header_of(self.path("merged"))["__metadata__"]), self.union())

    def name_map(self):
        self.write("names", "a\td\nb\te\nc\tf\n")
        return "names"

    def union(self):
        keys = set(header_of(self.path("in"))["__metadata__"])
        return len(keys | set(header_of(self.path("renamed"))["__metadata__"]))

    def test_meta(self):
        self.expect_at_most(8, "meta", "set", "in", "key=value", "--dry-run")
        self.expect_at_most(8, "meta", "set", "in", "key=value")
        self.expect_at_most(8, "meta", "rm", "in", "0000", "--json")
        metadata = header_of(self.path("in"))["__metadata__"]
        self.assertEqual((metadata["key"], len(metadata)), ("value", self.PAIRS))

    def test_diff(self):
        shutil.copy(self.path("in"), self.path("same"))
        self.expect_at_most(8 * 2, "diff", "in", "same")
        self.put_pairs("other", "ABCDEFGHIJKLMNOPQRSTUVWXYZ+=-0123456789_")
        self.expect_at_most(8 * 2, "diff", "in", "other", code=1)
        self.expect_at_most(8 * 2, "diff", "in", "other", "--json", code=1)


if __name__ == "__main__":
    if not has_expressions():
        print("rename is left out: the command was built without RE2")
        del VERBS["rename"]
    unittest.main()
