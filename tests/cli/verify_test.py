#!/usr/bin/env python3
"""verify of models of several files: all problems of an index, tensors in two files, and manifests of models with
damaged, invalid and missing files.

verify_test.py SAFETENSORS [unittest's arguments]
"""

import json
import os
import struct
import subprocess
import sys
import unittest

import edit_test

X, Y, Z = "x.safetensors", "y.safetensors", "z.safetensors"


def has_hashes(program):
    version = subprocess.run([program, "version", "--json"], capture_output=True, check=True)
    return json.loads(version.stdout)["hashes"]["sha256"] != "none"


class VerifyTest(edit_test.EditTest):
    def model(self, files, weight_map, total_size):
        """Writes a model `m`. files: the tensors of each file with their bytes."""
        for name, tensors in files.items():
            self.put(f"m/{name}", [(tensor, "U8", [len(b)], b) for tensor, b in tensors.items()])
        index = {"metadata": {"total_size": total_size}, "weight_map": weight_map}
        with open(self.path("m/model.safetensors.index.json"), "w") as file:
            json.dump(index, file)

    def lines(self, code, *arguments):
        """The lines of a command that are no good verdicts."""
        result = self.run_command(*arguments)
        self.assertEqual(result.returncode, code, (arguments, result.stdout, result.stderr))
        lines = result.stdout.decode().splitlines()
        return [line for line in lines if ": ok, " not in line]

    def document(self, *arguments):
        return json.loads(self.run_command("verify", *arguments, "--json").stdout)["files"][0]

    def flip(self, name):
        """Changes the last byte of a file."""
        data = self.read(name)
        with open(self.path(name), "wb") as file:
            file.write(data[:-1] + bytes([data[-1] ^ 1]))


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
        self.assertEqual(self.lines(1, "index", "check", "m"), [*problems, "4 problems"])
        index = "m/model.safetensors.index.json"
        where = self.read(index).index(b'"gone"')
        first = f"{index}: invalid: {gone}, where the index has it (byte {where})"
        expected = [first, f"m: invalid: {wrong}", f"m: invalid: {lost}", f"m: note: {total}"]
        self.assertEqual(self.lines(1, "verify", "m"), expected)
        self.assertEqual(self.lines(1, "verify", "m", "--quiet"), expected[:3])
        document = self.document("m")
        self.assertEqual((document["valid"], document["set"]["valid"]), (False, False))
        self.assertEqual(document["set"]["error"]["offset"], where)
        self.assertEqual(document["set"]["problems"], problems)

    def test_a_tensor_in_another_file_is_printed_once(self):
        self.model({X: {"a": b"abc"}, Y: {"b": b"d", "c": b"e"}}, {"a": X, "b": X, "c": Y}, 5)
        expected = f"m: invalid: tensor `b` is not in `{X}`, but in `{Y}`"
        self.assertEqual(self.lines(1, "verify", "m"), [expected])

    def test_options_of_headers_are_those_of_the_files(self):
        self.model({X: {"a": b"abc"}, Y: {"b": b"d"}}, {"a": X, "gone": X, "b": Y, "lost": Y}, 0)
        data = self.read(f"m/{X}")
        length = struct.unpack("<Q", data[:8])[0]
        with open(self.path("m", X), "wb") as file:
            file.write(struct.pack("<Q", length + 1) + b" " + data[8:])
        lost, total = f"tensor `lost` is not in `{Y}`", "total_size is 0, the tensors have 4 bytes"
        lines = self.lines(1, "verify", "m", "--allow-leading-whitespace")
        self.assertIn(f"tensor `gone` is not in `{X}`, where the index has it", lines[0])
        self.assertEqual(lines[1:], [f"m: invalid: {lost}", f"m: note: {total}"])
        rest = "total_size is 0, the tensors of the files that can be opened have 1 bytes"
        limit = str(len(self.read(f"m/{Y}")) - 9)  # the header of Y is as long
        self.assertEqual(
            self.document("m", "--allow-leading-whitespace", "--max-header-bytes", limit)["set"],
            {"valid": False, "problems": [lost, rest]},
        )


class DuplicateTest(VerifyTest):
    A = f"tensor `a` is in two files: `{X}` and `{Y}`"

    def test_a_tensor_in_two_files_is_a_note(self):
        for home in (X, Y):
            files = {X: {"a": b"abc", "c": b"e"}, Y: {"a": b"abc", "b": b"d"}}
            self.model(files, {"a": home, "b": Y, "c": X}, 5)
            self.assertEqual(self.lines(1, "index", "check", "m"), [self.A, "1 problem"])
            result = self.run_command("index", "check", "m", "--json")
            copy = {"kind": "duplicate_tensor", "tensor": "a", "file": Y if home == X else X}
            self.assertEqual(json.loads(result.stdout)["problems"], [copy | {"message": self.A}])
            self.fail_with(1, self.A, "index", "fix", "m")
            for path in ("m", "m/", "m/model.safetensors.index.json"):
                self.assertEqual(self.lines(0, "verify", path), [f"{path}: note: {self.A}"])
            self.assertEqual(self.lines(0, "verify", "m", "--quiet"), [])
            found = self.document("m")["set"]
            self.assertEqual(found["duplicate_tensors"], [{"name": "a", "files": [X, Y]}])
            self.assertEqual((found["valid"], found["unindexed_tensors"]), (True, []))

    def test_a_tensor_in_two_files_that_the_index_lacks(self):
        self.model({X: {"a": b"1", "u": b"2"}, Y: {"b": b"3", "u": b"4"}}, {"a": X, "b": Y}, 2)
        self.assertEqual(
            self.lines(0, "verify", "m"),
            [
                "m: note: 2 tensors not in the index, loaders skip them: u, u",
                f"m: note: tensor `u` is in two files: `{X}` and `{Y}`",
            ],
        )

    def test_tensors_in_two_files_are_reported_when_a_file_is_missing(self):
        self.model(
            {X: {"a": b"1"}, Y: {"a": b"1", "c": b"2"}, Z: {"c": b"2", "d": b"3"}},
            {"a": X, "c": Y, "d": Z},
            3,
        )
        os.remove(self.path("m", X))
        c = f"tensor `c` is in two files: `{Y}` and `{Z}`"
        a = f"tensor `a` is in `{Y}`, the index has it in `{X}`"
        missing = f"file `{X}` does not exist"
        self.assertEqual(self.lines(1, "index", "check", "m"), [missing, a, c, "3 problems"])
        self.assertEqual(self.lines(3, "verify", "m"), [f"m: invalid: {a}", f"m: note: {c}"])
        self.assertEqual(self.document("m")["set"], {"valid": None, "problems": [a, c]})

    def test_a_set_without_an_index_has_each_tensor_once(self):
        self.model({X: {"a": b"1", "b": b"2"}, Y: {"a": b"1"}, Z: {"b": b"2"}}, {}, 0)
        a, b = (
            f"tensor `{name}` is in two files: `m/{X}` and `m/{second}`"
            for name, second in (("a", Y), ("b", Z))
        )
        pattern = "m/?.safetensors"
        expected = [f"{pattern}: invalid: {a}", f"{pattern}: invalid: {b}"]
        self.assertEqual(self.lines(1, "verify", pattern), expected)
        found = self.document(pattern)["set"]
        self.assertEqual((found["valid"], found["problems"]), (False, [a, b]))
        self.assertEqual(found["error"]["code"], "duplicate_name")
        with open(self.path("m", Z), "wb"):
            pass
        self.assertEqual(self.lines(1, "verify", pattern)[1:], expected[:1])
        self.assertEqual(self.document(pattern)["set"], {"valid": False, "problems": [a]})


class ManifestTest(VerifyTest):
    def setUp(self):
        super().setUp()
        if not has_hashes(edit_test.PROGRAM):
            self.skipTest("the command was built without OpenSSL")
        files = {X: {"a": b"abc"}, Y: {"b": b"defg"}, Z: {"c": b"h"}}
        self.model(files, {"a": X, "b": Y, "c": Z}, 8)
        self.succeed("hash", "m", "--manifest", "-o", "manifest.json")
        self.arguments = ("m", "--manifest", "manifest.json")
        self.matches = f"m/{X}: matches the manifest"

    def differs(self, name, tensor):
        size = len(self.read(f"m/{name}"))
        return f"m/{name}: differs: tensor {tensor}, in bytes [0, {size})"

    def test_files_are_compared_when_another_one_is_missing(self):
        self.flip(f"m/{Y}")
        os.remove(self.path("m", Z))
        skipped = f"m/{Z}: not compared with the manifest: it does not exist"
        expected = [self.matches, self.differs(Y, "b"), skipped]
        self.assertEqual(self.lines(3, "verify", *self.arguments), expected)
        self.assertEqual(self.lines(3, "verify", *self.arguments, "--quiet"), expected[1:])
        found = self.document(*self.arguments)["manifest"]
        self.assertEqual(found["matches"], False)
        files = [(f["name"], f["matches"]) for f in found["files"]]
        self.assertEqual(files, [(X, True), (Y, False), (Z, False)])
        self.assertEqual(found["files"][1]["damaged"][0]["tensors"], ["b"])
        self.assertEqual(found["files"][2]["error"]["code"], "open_failed")

    def test_files_are_compared_when_another_one_is_invalid(self):
        self.flip(f"m/{Y}")
        with open(self.path("m", Z), "ab") as file:
            file.write(b"x")
        lines = self.lines(1, "verify", *self.arguments)
        self.assertIn(f"m/{Z}: invalid: ", lines[0])
        skipped = f"m/{Z}: not compared with the manifest: it is invalid"
        self.assertEqual(lines[1:], [self.matches, self.differs(Y, "b"), skipped])
        found = self.document(*self.arguments)["manifest"]["files"]
        self.assertEqual([f["matches"] for f in found], [True, False, False])
        self.assertEqual(found[2]["error"]["code"], "incomplete_data")

    def test_files_are_compared_when_the_index_is_wrong(self):
        self.model({}, {"a": X, "gone": X, "b": Y, "c": Z}, 8)
        self.flip(f"m/{Y}")
        lines = self.lines(1, "verify", *self.arguments)
        self.assertIn("tensor `gone` is not in", lines[0])
        last = f"m/{Z}: matches the manifest"
        self.assertEqual(lines[1:], [self.matches, self.differs(Y, "b"), last])
        self.model({}, {"a": X, "b": Y}, 8)  # the manifest has a file that the index lacks
        lines = self.lines(1, "verify", *self.arguments)
        self.assertIn(f"m/{Z}: differs: the file of the manifest is not in the model", lines)

    def test_a_path_without_files_is_not_compared(self):
        self.model({}, {}, 0)
        lines = self.lines(1, "verify", *self.arguments)
        self.assertEqual(sum("is not in the model" in line for line in lines), 3)
        with open(self.path("m/model.safetensors.index.json"), "w") as file:
            file.write("{")
        lines = self.lines(1, "verify", *self.arguments)
        self.assertEqual(lines[1:], ["m: not compared with the manifest: it is invalid"])
        self.assertEqual(self.document(*self.arguments)["manifest"]["matches"], False)
        lines = self.lines(3, "verify", "none", "--manifest", "manifest.json")
        self.assertEqual(lines, ["none: not compared with the manifest: it does not exist"])


if __name__ == "__main__":
    edit_test.PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
