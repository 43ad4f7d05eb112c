#!/usr/bin/env python3
"""verify of models of several files: all problems of an index and tensors in two files.

verify_test.py SAFETENSORS [unittest's arguments]
"""

import hashlib
import json
import os
import shutil
import struct
import unittest

from command import FolderTest, has_hashes

X, Y, Z = "x.safetensors", "y.safetensors", "z.safetensors"
REMEDY = "m: note: `safetensors index m` shows the right index, and writes it with --force"


class VerifyTest(FolderTest):
    def model(self, files, weight_map, total_size):
        """Writes a model `m`. files: the tensors of each file with their bytes."""
        for name, tensors in files.items():
            self.put(f"m/{name}", [(tensor, "U8", [len(b)], b) for tensor, b in tensors.items()])
        index = {"metadata": {"total_size": total_size}, "weight_map": weight_map}
        self.write("m/model.safetensors.index.json", json.dumps(index))

    def document(self, *arguments):
        return json.loads(self.run_command("verify", *arguments, "--json").stdout)["files"][0]

    def problems(self, *arguments):
        return [problem["message"] for problem in self.document(*arguments)["set"]["problems"]]

    def flip(self, name):
        """Changes the last byte of a file."""
        data = self.read(name)
        self.write(name, data[:-1] + bytes([data[-1] ^ 1]))


class IndexTest(VerifyTest):
    def test_all_problems_of_an_index_are_reported(self):
        self.model(
            {X: {"a": b"abc"}, Y: {"b": b"defg"}},
            {"a": X, "gone": X, "lost": Y, "b": X},
            99,
        )
        gone, lost = f"tensor `gone` is not in `{X}`", f"tensor `lost` is not in `{Y}`"
        wrong = f"tensor `b` is not in `{X}`, but in `{Y}`"
        total = "total_size is 99, the tensors have 7 bytes"
        problems = [gone, wrong, lost, total]
        expected = [f"m: invalid: {gone}", f"m: invalid: {wrong}", f"m: invalid: {lost}", f"m: note: {total}"]
        self.assertEqual(self.lines(1, "verify", "m"), [*expected, REMEDY])
        self.assertEqual(self.lines(1, "verify", "m", "--quiet"), expected[:3])
        document = self.document("m")
        self.assertEqual((document["valid"], document["set"]["valid"]), (False, False))
        self.assertEqual(self.problems("m"), problems)
        self.assertEqual(
            document["set"]["problems"][1],
            {"kind": "wrong_file", "is_error": True, "tensor": "b", "file": X, "message": wrong},
        )

    def test_many_problems_of_one_kind_are_counted(self):
        self.model({X: {"a": b"abc"}}, {"a": X, **{f"t{i:04}": X for i in range(1234)}}, 3)
        lines = self.lines(1, "verify", "m")
        self.assertEqual(
            lines[19:], [f"m: invalid: tensor `t0019` is not in `{X}`", "m: invalid: 1,214 more like this"]
        )
        self.assertEqual(len(self.problems("m")), 1234)

    def test_an_index_may_name_no_file(self):
        self.model({X: {"a": b"abc"}}, {}, 0)
        self.assertEqual(self.lines(0, "verify", "m"), [f"m: note: file `{X}` is not in the index"])

    def test_options_of_headers_are_those_of_the_files(self):
        self.model({X: {"a": b"abc"}}, {"a": X}, 3)
        data = self.read(f"m/{X}")
        length = struct.unpack("<Q", data[:8])[0]
        self.write(f"m/{X}", struct.pack("<Q", length + 1) + b" " + data[8:])
        self.assertEqual(self.lines(0, "verify", "m", "--allow-leading-whitespace"), [])
        self.assertIn("header too large", self.problems("m", "--max-header-bytes", str(length))[0])


class DuplicateTest(VerifyTest):
    A = f"tensor `a` is in two files: `{X}` and `{Y}`"

    def test_a_tensor_in_two_files_is_a_note(self):
        for home in (X, Y):
            files = {X: {"a": b"abc", "c": b"e"}, Y: {"a": b"abc", "b": b"d"}}
            self.model(files, {"a": home, "b": Y, "c": X}, 5)
            self.assertIn("no change", self.succeed("index", "m"))
            for path in ("m", "m/", "m/model.safetensors.index.json"):
                self.assertEqual(self.lines(0, "verify", path), [f"{path}: note: {self.A}"])
            self.assertEqual(self.lines(0, "verify", "m", "--quiet"), [])
            self.assertEqual((self.document("m")["set"]["valid"], self.problems("m")), (True, [self.A]))
            left = f"m/{Y if home == X else X}: notice: left out 1 tensor that the index does not have in this file\n"
            self.assertIn(left, self.run_command("cast", "m", "m", "--to", "i16", "--force").stderr.decode())
            self.assertEqual(self.lines(0, "verify", "m"), [])
            shutil.rmtree(self.path("m"))


class DownloadTest(VerifyTest):
    def setUp(self):
        super().setUp()
        self.model({X: {"a": bytes(100)}, Y: {"b": bytes(100)}, Z: {"c": bytes(100)}}, {"a": X, "b": Y, "c": Z}, 300)
        self.size = len(self.read(f"m/{Y}"))

    def cut(self, size):
        os.truncate(self.path("m", Y), size)

    def test_a_lost_file_and_a_short_one_are_counted(self):
        os.remove(self.path("m", Z))
        self.cut(self.size - 30)
        lines = self.lines(3, "verify", "m", "--quiet")
        self.assertEqual(lines[1], f"m: incomplete: 1 of 3 files missing: {Z}")
        self.assertEqual(lines[2], f"m: incomplete: {Y} lacks 30 bytes of {self.size}")
        self.assertEqual(lines[3:], ["m: incomplete: 130 missing bytes in all"])
        download = self.document("m")["download"]
        self.assertEqual(
            (download["file_count"], download["missing_files"], download["missing_bytes"]), (3, [f"m/{Z}"], 130)
        )
        self.assertEqual([f["missing_bytes"] for f in download["short_files"]], [30])

    def test_the_bytes_of_a_lost_file_are_counted(self):
        os.remove(self.path("m", Z))
        expected = [f"m: incomplete: 1 of 3 files missing: {Z}", "m: incomplete: 100 missing bytes in all"]
        self.assertEqual(self.lines(3, "verify", "m"), expected)

    def test_a_lost_file_among_several_paths(self):
        names = [f"s-0000{i}-of-00004.safetensors" for i in (1, 2, 3, 4)]
        for name in names:
            self.put(f"m/{name}", [(name, "U8", [1], b"1")])
        paths = [f"m/{name}" for name in names]
        self.assertEqual(self.lines(0, "verify", *paths[:2]), [])  # somebody has chosen two of four
        os.remove(self.path(paths[2]))
        del paths[2]
        pattern = "m/s-?????-of-00004.safetensors"
        lost = f"{pattern}: incomplete: 1 of 4 files missing: {names[2]}"
        self.assertEqual(self.lines(1, "verify", *paths), [lost])
        self.assertEqual(self.lines(1, "verify", f"m/{X}", *paths, "--quiet"), [lost])
        self.assertEqual(self.document(*paths)["download"]["missing_files"], [f"m/{names[2]}"])
        self.assertEqual(self.lines(0, "verify", paths[0]), [])

    def test_a_file_that_ends_in_its_header_has_a_lower_bound(self):
        self.cut(20)
        text = f"lacks at least {self.size - 120} bytes: it ends in its header"
        self.assertEqual(self.lines(1, "verify", "m")[1:], [f"m: incomplete: {Y} {text}"])
        self.assertEqual(self.lines(1, "verify", f"m/{Y}")[1:], [f"m/{Y}: incomplete: {text}"])
        found = self.document(f"m/{Y}")
        self.assertEqual((found["missing_bytes"], found["missing_bytes_exact"]), (self.size - 120, False))

    def test_other_faults_are_not_called_incomplete(self):
        with open(self.path("m", Y), "ab") as file:
            file.write(b"x")  # too long
        self.assertEqual(len(self.lines(1, "verify", "m")), 1)
        for data in (b"", b"\xff" * 100, b"\x20" + bytes(7), b"\x60" + bytes(7) + b"no JSON", b"\x02" + bytes(7) + b"{]"):
            self.write(f"m/{Y}", data)
            self.assertEqual(len(self.lines(1, "verify", "m")), 1, data)
            self.assertNotIn("download", self.document("m"))

    def test_a_sum_over_64_bits_is_left_out(self):
        # Each header promises almost 2^62 bytes.
        half = (1 << 61) - (1 << 20)
        for name in (X, Y, Z):
            tensors = {
                k: {"dtype": "U8", "shape": [half], "data_offsets": [i * half, (i + 1) * half]}
                for i, k in enumerate("ab")
            }
            text = json.dumps({f"{name[0]}{k}": tensors[k] for k in tensors}).encode()
            for path in (self.path("m", name), self.path("m", "4" + name), self.path("m", "5" + name)):
                with open(path, "wb") as file:
                    file.write(struct.pack("<Q", len(text)) + text)
        names = sorted(n for n in os.listdir(self.path("m")) if n.endswith(".safetensors"))
        self.write("m/model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": {n: n for n in names}}))
        lines = [line for line in self.lines(1, "verify", "m") if "incomplete: " in line]
        self.assertEqual(len(lines), len(names))
        self.assertNotIn("in all", "".join(lines))
        self.assertIsNone(self.document("m")["download"]["missing_bytes"])

    def test_a_wrong_total_size_gives_no_sum(self):
        os.remove(self.path("m", Z))
        for total in (0, -1, "300", 2**70):
            self.model({}, {"a": X, "b": Y, "c": Z}, total)
            lines = self.lines(3, "verify", "m")
            self.assertEqual(
                [line for line in lines if "note" not in line], [f"m: incomplete: 1 of 3 files missing: {Z}"]
            )
            self.assertIsNone(self.document("m")["download"]["missing_bytes"])


class CacheTest(VerifyTest):
    """A folder as huggingface_hub leaves it."""

    def setUp(self):
        super().setUp()
        if not has_hashes():
            self.skipTest("the command was built without OpenSSL")
        self.blobs = "models--org--tiny/blobs"
        self.snapshot = "models--org--tiny/snapshots/" + "a1" * 20
        self.hashes = {}
        for name in (X, Y):
            self.put("new", [(name[0], "U8", [4], name[:4].encode())])
            self.link(name, self.read("new"), hashlib.sha256(self.read("new")).hexdigest())
        index = json.dumps({"metadata": {"total_size": 8}, "weight_map": {"x": X, "y": Y}}).encode()
        self.link("model.safetensors.index.json", index, hashlib.sha1(b"blob %d\0" % len(index) + index).hexdigest())

    def link(self, name, data, digest):
        for folder in (self.blobs, self.snapshot):
            os.makedirs(self.path(folder), exist_ok=True)
        self.write(f"{self.blobs}/{digest}", data)
        os.symlink(f"../../blobs/{digest}", self.path(self.snapshot, name))
        self.hashes[name] = digest

    def test_files_match_their_blobs(self):
        for path in (self.snapshot, "models--org--tiny"):
            lines = self.lines(0, "verify", path, "--cache")
            self.assertEqual(lines, [f"{self.snapshot}/{name}: matches its blob" for name in (X, Y)])
        self.assertEqual(
            [f["matches"] for f in self.document(self.snapshot, "--cache")["cache"]["files"]], [True, True]
        )
        self.assertEqual(self.lines(0, "verify", f"{self.snapshot}/{X}", "--cache", "--quiet"), [])

    def test_a_changed_byte_is_found(self):
        self.flip(f"{self.blobs}/{self.hashes[Y]}")
        self.assertEqual(self.lines(0, "verify", self.snapshot), [])
        digest = hashlib.sha256(self.read(f"{self.blobs}/{self.hashes[Y]}")).hexdigest()
        expected = f"{self.snapshot}/{Y}: differs from its blob: the SHA-256 is {digest}, the name {self.hashes[Y]}"
        self.assertEqual(self.lines(1, "verify", self.snapshot, "--cache", "--quiet"), [expected])
        self.assertEqual(self.lines(1, "verify", f"{self.snapshot}/{Y}", "--cache"), [expected])
        self.assertEqual(self.document(self.snapshot, "--cache")["cache"]["files"][1]["matches"], False)

    def test_an_unfinished_download_is_named(self):
        name = "b" * 64 + ".incomplete"
        os.remove(self.path(self.snapshot, Y))
        os.rename(self.path(self.blobs, self.hashes[Y]), self.path(self.blobs, name))
        os.symlink("/dev/zero", self.path(self.blobs, "c.incomplete"))
        size = len(self.read(f"{self.blobs}/{name}"))
        lines = self.lines(3, "verify", self.snapshot, "--cache")
        self.assertIn(f"{self.snapshot}: incomplete: 1 of 2 files missing: {Y}", lines)
        self.assertEqual(lines[-1], f"{self.blobs}/{name}: note: an unfinished download, {size} bytes")
        self.assertEqual(
            self.document(self.snapshot, "--cache")["cache"]["incomplete"],
            [{"path": f"{self.blobs}/{name}", "file_bytes": size}],
        )

    def test_other_names_are_not_compared(self):
        data = self.read(f"{self.blobs}/{self.hashes[X]}")
        for name, reason in (
            ("ab" * 20, "a hash of git, not a SHA-256"),
            ("z" * 64, "not a SHA-256"),
            ("a\u202eb", "not a SHA-256"),
        ):
            os.remove(self.path(self.snapshot, X))
            self.link(X, data, name)
            expected = f"{self.snapshot}/{X}: note: not compared: the name of its blob is {reason}"
            self.assertEqual(self.lines(0, "verify", f"{self.snapshot}/{X}", "--cache"), [expected])
        os.remove(self.path(self.snapshot, X))
        self.write(f"{self.snapshot}/{X}", data)
        expected = f"{self.snapshot}/{X}: note: not compared: it is not a symlink to a blob"
        self.assertEqual(self.lines(0, "verify", f"{self.snapshot}/{X}", "--cache"), [expected])
        self.assertEqual(self.run_command("verify", "-", "--cache").returncode, 2)


if __name__ == "__main__":
    unittest.main()
