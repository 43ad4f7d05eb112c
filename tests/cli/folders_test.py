#!/usr/bin/env python3
"""Folders that stand for models in other ways than by an index or one file: numbered files without an index, pipelines
of diffusers, variants, and the cache of huggingface_hub. And what is missing in them.

folders_test.py SAFETENSORS [unittest's arguments]
"""

import hashlib
import json
import os
import unittest

from command import FolderTest, has_hashes

HASH = ["hash"] if has_hashes() else []


class FoldersTest(FolderTest):
    def shards(self, folder, count, lost=(), stem="model"):
        """Numbered files with one tensor each."""
        for i in range(1, count + 1):
            if i not in lost:
                self.put(f"{folder}/{stem}-{i:05}-of-{count:05}.safetensors", [(f"t{i}", "U8", [4], b"abcd")])

    def model(self, name):
        self.put(f"{name}.safetensors", [("a", "U8", [4], b"abcd")])

    def names(self, path, *options):
        files = json.loads(self.answer(0, "ls", path, "--json", *options)[0])["files"]
        return [(file["path"], [tensor["name"] for tensor in file["tensors"]]) for file in files]


class NumberedFilesTest(FoldersTest):
    def test_a_missing_file_without_an_index_is_incomplete(self):
        self.shards("d/m", 6, lost=[3])
        pattern, lost = "d/m/model-?????-of-00006.safetensors", "model-00003-of-00006.safetensors"
        for path, shown in (("d/m", pattern), ("d/m/", pattern), ("d/m/*.safetensors", "d/m/*.safetensors")):
            expected = [f"{shown}: incomplete: 1 of 6 files missing: {lost}"]
            self.assertEqual(self.lines(1, "verify", path), expected)
            self.assertEqual(self.lines(1, "verify", path, "--quiet"), expected)
        self.assertIn(f"{pattern}: incomplete: 1 of 6 files missing: {lost}", self.lines(1, "verify", "d", "-R"))
        file = json.loads(self.answer(1, "verify", "d/m", "--json")[0])["files"][0]
        self.assertEqual((file["download"]["file_count"], file["download"]["missing_files"]), (6, [f"d/m/{lost}"]))
        self.assertIs(file["valid"], False)
        for verb in (["ls", "d/m"], ["cat", "d/m", "t1"], ["cast", "d/m", "out", "--to", "f16"]):
            message = self.answer(1, *verb)[1]
            shown = os.path.basename(pattern).replace("?????", "*")
            self.assertIn(f"d/m: a folder with 5 of the 6 files `{shown}`: `{lost}` is missing", message)

    def test_one_file_of_the_largest_count_is_incomplete(self):
        self.shards("m", 99_999, lost=range(2, 100_000))
        missing = ", ".join(f"model-0000{i}-of-99999.safetensors" for i in range(2, 6)) + " and 99,994 more"
        expected = f"m/model-?????-of-99999.safetensors: incomplete: 99,998 of 99,999 files missing: {missing}"
        self.assertEqual(self.lines(1, "verify", "m"), [expected])

    def test_many_sets_of_the_largest_count_take_little_memory(self):
        for i in range(100):
            self.shards("m", 99_999, lost=range(2, 100_000), stem=f"m{i}")
        self.assertIn("m: invalid: a folder of 100 safetensors files without an index", self.answer(1, "verify", "m")[0])
        self.assertLess(self.peak_memory("verify", "m/*.safetensors", code=1), 600 << 10)

    def test_a_lost_file_beside_other_files(self):
        self.shards("m", 3, lost=[2])
        self.model("m/other")
        lost = "m/*.safetensors: incomplete: 1 of 4 files missing: model-00002-of-00003.safetensors"
        self.assertEqual(self.lines(1, "verify", "m/*.safetensors"), [lost])
        self.assertIn("2 of the 3 files", self.answer(1, "verify", "m")[0])
        os.remove(self.path("m/other.safetensors"))
        self.model("m/model")  # replaced the shards
        self.answer(0, "verify", "m")
        self.answer(0, "verify", "m", "-R")

    def test_a_chosen_part_of_the_files_is_good(self):
        self.shards("m", 6, lost=[3])
        self.answer(0, "verify", "m/model-0000[12]-of-00006.safetensors")
        self.answer(0, "verify", "m/model-00001-of-00006.safetensors")

    def test_a_complete_model_without_an_index_is_read(self):
        self.shards("m", 2)
        self.assertEqual(self.names("m"), [("m", ["t1", "t2"])])
        self.assertEqual(self.names("m", "-R"), [("m", ["t1", "t2"])])
        self.assertIn("m: ok, 2 tensors in 2 files, 8 bytes", self.answer(0, "verify", "m")[0])
        self.assertEqual(self.answer(0, "cat", "m", "t2", "--format", "text")[0], "[97, 98, 99, 100]\n")
        for verb in ("info", "stats", *HASH):
            self.answer(0, verb, "m")
        self.answer(0, "index", "m")
        self.assertEqual(self.names("m"), [("m", ["t1", "t2"])])

    def test_names_with_wildcards_stand_for_themselves(self):
        self.shards("a[b]?*", 2, stem="x[1]*?\\")
        self.shards("a[b]?*", 2, stem="x1q")
        self.assertEqual([tensors for _, tensors in self.names("a[b]?*", "-R")], [["t1", "t2"]] * 2)


class PipelineTest(FoldersTest):
    def test_other_verbs_name_the_components(self):
        self.model("p/unet/m")
        self.model("p/vae/m")
        for verb in (["cat", "p", "a"], ["meta", "ls", "p"], ["cast", "p", "o", "--to", "f16"], ["diff", "p", "p"]):
            message = self.answer(1, *verb)[1]
            self.assertIn("p: a folder of models in folders, name one of them: `p/unet`, `p/vae`\n", message)

    def test_the_plain_model_counts_before_its_variants(self):
        self.model("p/unet/m.fp16")
        self.model("p/unet/m.ema")
        message = self.answer(1, "cat", "p/unet", "a")[1]
        self.assertIn("name one of them: `m.ema.safetensors`, `m.fp16.safetensors`", message)
        self.put("p/unet/m.safetensors", [("plain", "U8", [1], b"x")])
        for folder in ("p", "p/unet"):
            self.assertEqual(self.names(folder), [("p/unet", ["plain"])])
        self.assertEqual(len(self.names("p/unet", "-R")), 3)
        self.shards("p/unet", 2, stem="m.ema")
        self.succeed("index", "p/unet", "--name", "m.ema")
        self.assertEqual(self.names("p/unet"), [("p/unet", ["plain"])])
        # A whole file counts before an index that does not name it, as in transformers.
        os.remove(self.path("p/unet/m.safetensors"))
        self.assertEqual(self.names("p/unet"), [("p/unet", ["a"])])
        os.remove(self.path("p/unet/m.ema.safetensors"))
        self.assertEqual(self.names("p/unet"), [("p/unet", ["t1", "t2"])])
        self.model("q/n")
        self.model("q/m")
        message = self.answer(1, "ls", "q")[1]
        self.assertIn("(all as one model: 'q/*.safetensors' in quotes, or make an index: ", message)

    def test_folders_that_are_not_checked_are_counted(self):
        self.model("d/m")
        for name in ("a/m", "b/m", "c/deep/m"):
            self.model(f"d/{name}")
        notice = "safetensors: d: notice: 2 folders below hold safetensors files and were not checked: -R checks them\n"
        self.assertEqual(self.answer(0, "verify", "d")[1], notice)
        self.assertEqual(self.answer(0, "verify", "d", "-R")[1], "")
        self.assertEqual(self.answer(0, "verify", "d/a")[1], "")


class OtherModelsTest(FoldersTest):
    """What a rewrite in place must not remove: files of a model that is not its input."""

    def indexed(self, folder, stem, *files):
        """An index that names one tensor in each file."""
        names = {f"{stem}{i}": file for i, file in enumerate(files)}
        for name, file in names.items():
            self.put(f"{folder}/{file}", [(name, "F32", [1], bytes(4))])
        self.write(f"{folder}/{stem}.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": names}))

    def refuses(self, folder, path):
        before = sorted(os.listdir(self.path(folder)))
        self.answer(1, "cast", path, folder, "--to", "bf16", "--force")
        self.assertEqual(sorted(os.listdir(self.path(folder))), before)

    def test_shards_of_another_set_stay(self):
        self.indexed("d", "model", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
        for i in (1, 2, 3):
            self.put(f"d/model-{i:05}-of-00003.safetensors", [(f"x{i}", "F16", [1], bytes(2))])
        self.refuses("d", "d")

    def test_shards_beside_a_whole_file_stay(self):
        self.put("d/model.safetensors", [("w", "F32", [1], bytes(4))])
        for i in (1, 2):
            self.put(f"d/model-{i:05}-of-00002.safetensors", [(f"x{i}", "F16", [1], bytes(2))])
        self.refuses("d", "d")

    def test_other_values_of_equal_kinds_stay(self):
        self.indexed("d", "model", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
        index = "d/model.safetensors.index.json"
        for names in (["model0", "model1"], ["x", "y"], ["x"]):  # of a killed writer, or of another program
            self.put("d/model.safetensors", [(name, "F32", [1], b"1234") for name in names])
            self.refuses("d", index)
            self.put("d/model.safetensors", [(name, "F32", [1], bytes(4)) for name in names])
            self.answer(0, "split", index, "d", "--force", "--dry-run")
        os.remove(self.path(index))
        self.put("d/model.safetensors", [(name, "F32", [1], b"1234") for name in ("model0", "model1")])
        self.refuses("d", "d")

    def test_a_file_that_another_index_names_stays(self):
        self.indexed("d", "model", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
        self.indexed("d", "ema", "model.safetensors")
        self.refuses("d", "d/model.safetensors.index.json")

    def test_two_complete_sets_are_two_models(self):
        self.shards("d", 2)
        self.shards("d", 3)
        self.answer(1, "ls", "d")

    def test_a_version_is_no_variant(self):
        for name in ("Qwen2", "Qwen2.5"):
            self.model(f"d/{name}")
        self.answer(1, "ls", "d")

    def test_a_broken_variant_is_found(self):
        self.model("d/model")
        self.write("d/model.fp16.safetensors", "x")
        self.answer(1, "verify", "d")
        self.answer(0, "ls", "d")

    def test_the_output_is_always_named(self):
        self.put("m.safetensors", [(name, "U8", [1], b"x") for name in "abc"])
        self.answer(2, "drop", "m.safetensors", "-m", "a", "--force")
        self.answer(2, "drop", "m.safetensors", "a", "--force")
        self.answer(2, "drop", "m.safetensors", "-o", "a", "--force", "--exclude", "c")
        self.answer(0, "drop", "m.safetensors", "b", "-o", "a", "--force")


class OneModelTest(FoldersTest):
    """Names that all programs know have an order, and a notice tells what is not read."""

    def test_other_files_are_a_notice(self):
        for name in ("model", "consolidated", "adapter_model", "model.fp16"):
            self.model(f"d/{name}")
        self.shards("d", 2)
        index = {"weight_map": {"x": "model-00001-of-00002.safetensors"}}
        self.write("d/model.safetensors.index.json", json.dumps(index))
        names = sorted(os.listdir(self.path("d")))
        others = ", ".join(f"`{name}`" for name in names if name[:1] in "ac" or "json" in name)
        notice = f"safetensors: d: notice: `model.safetensors` is the model, not {others} beside it\n"
        for verb in ("ls", "verify", "info", "stats", *HASH, "index", "cast"):
            extra = ["out", "--to", "f16", "--dry-run"] if verb == "cast" else []
            result = self.run_command(verb, "d", *extra)
            self.assertIn(notice, result.stderr.decode(), verb)
            self.assertEqual(result.returncode, int(verb == "index"), verb)  # it needs --force

    def test_beside_an_index_only_known_names_are_a_notice(self):
        self.shards("d", 2)
        self.answer(0, "index", "d")
        notice = "safetensors: d: notice: `model.safetensors.index.json` is the model, not `consolidated.safetensors` beside it\n"
        for name, message in (("old", ""), ("consolidated", notice)):
            self.model(f"d/{name}")
            messages = [self.run_command(verb, "d").stderr.decode() for verb in ("ls", "info", "stats", *HASH)]
            self.assertEqual(set(messages), {message})

    def test_the_index_of_a_variant(self):
        self.shards("d", 2)
        for i in (1, 2):
            self.put(f"d/model-{i:05}-of-00002.fp16.safetensors", [(f"t{i}", "F16", [1], bytes(2))])
        self.answer(0, "index", "d")
        self.answer(0, "index", "d", "--name", "model.fp16")
        indexes = sorted(name for name in os.listdir(self.path("d")) if name.endswith(".json"))
        self.assertEqual(indexes, ["model.safetensors.index.fp16.json", "model.safetensors.index.json"])
        self.answer(0, "verify", "d")

    def test_another_stem_beside_the_input(self):
        self.put("in.safetensors", [(name, "U8", [1], b"x") for name in "ab"])
        self.succeed("split", "in.safetensors", "d", "--max-shard-size", "1")
        result = self.run_command("cast", "d", "d", "--to", "i16", "--force", "--name", "other")
        self.assertIn("`model.safetensors.index.json` is the model, not `other.saf", result.stderr.decode())

    def test_rows_of_several_paths_in_a_pipe_have_their_path(self):
        for name in ("a", "b"):
            self.model(name)
        rows = self.answer(0, "ls", "a.safetensors", "b.safetensors", "-c", "dtype")[0].splitlines()
        self.assertEqual([row.split() for row in rows], [["a.safetensors", "U8"], ["b.safetensors", "U8"]])


class CacheTest(FoldersTest):
    MAIN, OLD = "a1" * 20, "b2" * 20

    def setUp(self):
        super().setUp()
        self.cached("hub/models--x--y", self.MAIN, "new")
        self.cached("hub/models--x--y", self.OLD, "old")
        self.repository = "hub/models--x--y"
        self.write(f"{self.repository}/refs/main", self.MAIN)

    def cached(self, repository, revision, name):
        self.put("new", [(name, "U8", [1], b"x")])
        data = self.read("new")
        digest = hashlib.sha256(data).hexdigest()
        for folder in (f"{repository}/blobs", f"{repository}/snapshots/{revision}"):
            os.makedirs(self.path(folder), exist_ok=True)
        os.replace(self.path("new"), self.path(repository, "blobs", digest))
        os.symlink(f"../../blobs/{digest}", self.path(repository, "snapshots", revision, "model.safetensors"))

    def test_a_cached_model_is_its_main_snapshot(self):
        path = f"{self.repository}/snapshots/{self.MAIN}"
        self.assertEqual(self.names(self.repository), [(path, ["new"])])
        self.assertEqual(self.answer(0, "cat", self.repository, "new", "--format", "text")[0], "[120]\n")
        self.assertIn(f"{path}: ok", self.answer(0, "verify", self.repository)[0])
        self.write(f"{self.repository}/refs/main", self.OLD + "\n")
        self.assertEqual(self.names(self.repository)[0][1], ["old"])

    def test_the_whole_cache_is_named_and_checked(self):
        self.write("hub/models--only--tokenizer/snapshots/c3/tokenizer.json", "{}")
        self.write("hub/models--only--tokenizer/blobs/x", "")
        message = self.answer(1, "ls", "hub")[1]
        self.assertIn("a cache of models, name one of them: `hub/models--only--tokenizer`, `hub/models--x--y`", message)
        if not has_hashes():
            self.skipTest("the command was built without OpenSSL")
        snapshots = [f"{self.repository}/snapshots/{name}" for name in (self.MAIN, self.OLD)]
        expected = [f"{name}/model.safetensors: matches its blob" for name in snapshots]
        self.assertEqual(self.lines(0, "verify", "hub", "--cache"), expected)
        os.makedirs(self.path("empty"))
        self.assertEqual(len(self.lines(1, "verify", "empty", "--cache")), 1)


if __name__ == "__main__":
    unittest.main()
