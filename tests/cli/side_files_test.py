#!/usr/bin/env python3
"""The files beside a model: which files beside a model are copied, and which are not.

side_files_test.py SAFETENSORS [unittest's arguments]
"""
import json
import os
import shutil
import unittest

from command import PROGRAM, FolderTest

COPIED = ["config.json", "link.json", "tokenizer.json"]


class SideFilesTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.put("m/model.safetensors", [("a", "F32", [2], bytes(8))])
        for name in (
            "config.json",
            "tokenizer.json",
            "pytorch_model.bin",
            ".hidden",
            "model.safetensors.index.fp16.json",
        ):
            self.write(f"m/{name}", name * 100)
        self.write("secret", "secret")
        os.symlink("tokenizer.json", self.path("m/link.json"))
        os.symlink("../secret", self.path("m/out.txt"))
        os.symlink(self.path("secret"), self.path("m/absolute.txt"))
        os.symlink("nothing", self.path("m/dangling.json"))
        os.mkdir(self.path("m/folder.json"))

    def names(self, folder):
        return sorted(name for name in os.listdir(self.path(folder)) if ".safetensors" not in name)

    def output(self, *arguments):
        return self.succeed(*arguments)

    def test_each_verb_copies_the_same_files(self):
        verbs = [("select", "-m", "*"), ("cast", "--to", "bf16"), ("split",)]
        for verb, *options in verbs:
            self.output(verb, "m", verb, *options)
            self.assertEqual(self.names(verb), COPIED, verb)
            for name in COPIED:
                self.assertEqual(self.read(f"{verb}/{name}"), self.read(f"m/{name}"))
                self.assertFalse(os.path.islink(self.path(verb, name)))

    def test_weights_only_copies_nothing(self):
        text = self.output("split", "m", "new", "--weights-only")
        self.assertNotIn("copied", text)
        self.assertEqual(self.names("new"), [])
        document = json.loads(self.output("split", "m", "json", "--json", "--weights-only"))
        self.assertEqual(document["copied_files"], [])
        document = json.loads(self.output("split", "m", "json2", "--json"))
        self.assertEqual(document["copied_files"], COPIED)

    def test_a_dry_run_copies_nothing(self):
        self.assertIn("would copy: config.json, ", self.output("split", "m", "new", "-n"))
        self.assertFalse(os.path.exists(self.path("new")))

    def test_links_that_lead_out_are_named(self):
        os.symlink("/dev/zero", self.path("m/zero.json"))
        os.mkfifo(self.path("m/fifo.json"))
        os.symlink("fifo.json", self.path("m/link-to-fifo.json"))
        os.symlink("model.safetensors", self.path("m/notes.md"))  # weights under another name
        text = self.output("split", "m", "new")
        refused = ["absolute.txt", "dangling.json", "link-to-fifo.json", "out.txt", "zero.json"]
        self.assertIn(
            f"symlinks that lead out of the folder or to no regular file: {', '.join(refused)}\n",
            text.replace("\n  ", " "),
        )
        self.assertEqual(self.names("new"), COPIED)
        self.assertEqual(json.loads(self.output("split", "m", "json", "--json"))["refused_files"], refused)

    def test_old_files_are_replaced_only_with_force_and_links_never(self):
        self.output("split", "m", "new")
        self.write("new/config.json", "mine")
        self.fail_with(1, "exists and is not empty", "split", "m", "new")
        self.assertEqual(self.read("new/config.json"), b"mine")
        self.output("split", "m", "new", "--force")
        self.assertEqual(self.read("new/config.json"), self.read("m/config.json"))
        os.remove(self.path("new/config.json"))
        os.symlink("../secret", self.path("new/config.json"))
        self.fail_with(3, "new/config.json: is not a regular file: not replaced", "split", "m", "new", "--force")
        self.assertEqual(self.read("secret"), b"secret")
        # Before the model is written, and also with --dry-run.
        before = self.read("new/model.safetensors")
        self.fail_with(3, "not replaced", "cast", "m", "new/", "--to", "bf16", "--force")
        self.fail_with(3, "not replaced", "cast", "m", "new/", "--to", "bf16", "--force", "-n")
        self.assertEqual(self.read("new/model.safetensors"), before)

    def test_the_folder_itself_is_no_source(self):
        before = {name: self.read(f"m/{name}") for name in COPIED}
        self.assertNotIn("copied", self.output("split", "m", "m/", "--force"))
        self.assertEqual({name: self.read(f"m/{name}") for name in COPIED}, before)

    def test_a_file_has_side_files_only_beside_a_configuration(self):
        self.assertIn("copied: config.json", self.output("split", "m/model.safetensors", "new"))
        os.remove(self.path("m/config.json"))
        self.assertNotIn("copied", self.output("split", "m/model.safetensors", "new2"))

    def test_blobs_of_the_cache_are_followed(self):
        os.makedirs(self.path("hub/blobs"))
        snapshot = "hub/snapshots/" + "a" * 40
        self.put(f"{snapshot}/model.safetensors", [("a", "F32", [2], bytes(8))])
        self.write("hub/blobs/0123", "{}")
        self.write("hub/other", "x")
        os.symlink("../../blobs/0123", self.path(snapshot, "config.json"))
        os.symlink("../../other", self.path(snapshot, "other.json"))
        text = self.output("split", snapshot, "new")
        self.assertIn("copied: config.json\n", text)
        self.assertIn("symlinks that lead out of the folder or to no regular file: other.json\n", text)
        self.assertEqual(self.read("new/config.json"), b"{}")

    def test_a_component_of_a_pipeline_in_the_cache_has_its_blobs(self):
        os.makedirs(self.path("hub/blobs"))
        component = "hub/snapshots/" + "a" * 40 + "/unet"
        self.put(f"{component}/model.safetensors", [("a", "F32", [2], bytes(8))])
        self.write("hub/blobs/0123", "{}")
        self.write("hub/snapshots/blobs", "x")
        os.symlink("../../../blobs/0123", self.path(component, "config.json"))
        os.symlink("../../blobs", self.path(component, "other.json"))
        text = self.output("split", component, "new")
        self.assertIn("copied: config.json\n", text)
        self.assertIn("no regular file: other.json\n", text.replace("\n  ", " "))
        self.assertEqual(self.read("new/config.json"), b"{}")

    def test_a_folder_that_cannot_be_listed_is_an_error(self):
        self.write("m/model.safetensors.index.json", json.dumps({"weight_map": {"a": "model.safetensors"}}))
        os.mkdir(self.path("out"))
        for name, mode in ((".", 0o755), ("out", 0o777), ("m", 0o111)):  # its files can be opened by name
            os.chmod(self.path(name), mode)
        self.addCleanup(os.chmod, self.path("m"), 0o755)
        index = "m/model.safetensors.index.json"
        # This user must be able to start the program, whose folder may be in /root.
        other = {"preexec_fn": lambda: os.setuid(65534), "executable": shutil.copy(PROGRAM, self.path("program"))}
        options = other if os.geteuid() == 0 else {}
        self.fail_with(3, "m: cannot open: permission denied", "split", index, "out/new", **options)
        self.assertFalse(os.path.exists(self.path("out/new")))
        self.assertEqual(self.run_command("split", index, "out/new", "--weights-only", **options).returncode, 0)
        self.assertTrue(os.path.exists(self.path("out/new/model.safetensors")))

    def test_an_output_file_takes_no_files(self):
        self.fail_with(
            2, "--weights-only is for a folder", "cast", "m", "one.safetensors", "--to", "bf16", "--weights-only"
        )


if __name__ == "__main__":
    unittest.main()
