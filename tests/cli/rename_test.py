#!/usr/bin/env python3
"""Names in the verbs that write: patterns, the expressions and lists of rename, and joined metadata.

rename_test.py SAFETENSORS [unittest's arguments]
"""

import random
import unittest

from command import FolderTest, has_expressions, header_of


class NamesTest(FolderTest):
    def test_names_and_metadata_of_merged_files(self):
        self.put("1", [("a", "U8", [1], b"1")], {"k": "v", "same": "s"})
        self.put("2", [("b", "U8", [1], b"2")], {"k": "w", "same": "s"})
        self.put("3", [("a", "U8", [1], b"3")])
        self.fail_with(1, "`a` is in two files: `1` and `3`", "merge", "1", "3", "-o", "out")
        self.fail_with(
            1, "metadata key `k` is `v` in `1` and `w` in `2` (choose with --metadata)", "merge", "1", "2", "-o", "out"
        )
        for which, expected in (("first", "v"), ("last", "w"), ("none", None)):
            self.succeed("merge", "1", "2", "-o", "out", "--metadata", which, "--force")
            metadata = header_of(self.path("out")).get("__metadata__")
            self.assertEqual(metadata, None if expected is None else {"k": expected, "same": "s"})

    def test_patterns(self):
        self.put("in", [(name, "U8", [1], b"1") for name in ("a.0", "a.1", "b")])
        for verb in ("select", "drop"):
            self.fail_with(1, "no tensor's name matches `c*`", verb, "in", "out", "-m", "a*", "-m", "c*")
        self.fail_with(1, "none would be left", "drop", "in", "out", "-m", "*")
        self.succeed("select", "in", "out", "-m", "a.[0]", "-m", "b")
        self.assertEqual(list(header_of(self.path("out"))), ["a.0", "b"])

    def test_a_list_of_names(self):
        self.put("in", [(name, "U8", [1], name.encode()) for name in ("a", "b", "c")])
        self.write("map", "a\tb\nb\ta\n")
        self.succeed("rename", "in", "out", "--map", "map")
        self.assertEqual(sorted(header_of(self.path("out"))), ["a", "b", "c"])
        self.assertEqual(self.succeed("cat", "out", "a"), "b")
        self.write("map", "x\ty\n")
        self.fail_with(1, "`x` is not a tensor of in", "rename", "in", "out2", "--map", "map")

    def test_an_expression_needs_re2(self):
        if not has_expressions():
            message = "rename: this build has no RE2, which an EXPRESSION needs (use --map)"
            self.fail_with(3, message, "rename", "in", "out", "s/a/b/")


class ExpressionsTest(FolderTest):
    def setUp(self):
        if not has_expressions():
            self.skipTest("the command was built without RE2")
        super().setUp()

    def test_expressions(self):
        self.put("in", [(name, "U8", [1], b"1") for name in ("m.a.0", "m.a.1", "b&c")])
        cases = {
            "s/^m\\.//": ["a.0", "a.1", "b&c"],
            "s|m.a|&/&|": ["m.a/m.a.0", "m.a/m.a.1", "b&c"],
            "s/(m)\\.(a)/\\2.\\1/": ["a.m.0", "a.m.1", "b&c"],
            "s/[a-c]/<&>/g": ["m.<a>.0", "m.<a>.1", "<b>&<c>"],
            "s/&/\\&\\\\/": ["m.a.0", "m.a.1", "b&\\c"],
            "s/A/x/i": ["m.x.0", "m.x.1", "b&c"],
            "s/x*/-/g": ["-m-.-a-.-0-", "-m-.-a-.-1-", "-b-&-c-"],
            "s/$/!/": ["m.a.0!", "m.a.1!", "b&c!"],
        }
        for expression, names in cases.items():
            self.succeed("rename", "in", "out", expression, "--force")
            self.assertEqual(sorted(header_of(self.path("out"))), sorted(names), expression)
        for expression in (
            "s/a",
            "s/a/b",
            "y/a/b/",
            "s/(/x/",
            "s/a/\\1/",
            "s/a/b/q",
            "s",
            "",
            "s/[/x/",
            "s/[[:alpha/]/x/",
        ):
            self.fail_with(2, "Try 'safetensors rename --help'", "rename", "in", "out", expression)
        self.fail_with(1, "no tensor gets another name", "rename", "in", "out", "s/zzz/y/")
        self.fail_with(
            1,
            "two tensors get the name `m.a.`: `m.a.0` of `in` and `m.a.1` of `in`",
            "rename",
            "in",
            "out",
            "s/[0-9]//",
        )
        self.fail_with(1, "__metadata__", "rename", "in", "out", "s/^b.*/__metadata__/")
        self.fail_with(1, "UTF-8", "rename", "in", "out", b"s/^b/\xff/")

    def test_expressions_after_a_list_of_names(self):
        self.put("in", [(name, "U8", [1], name.encode()) for name in ("a", "b", "c")])
        self.write("map", "a\tb\nb\ta\n")
        self.succeed("rename", "in", "out", "--map", "map", "s/[bc]/d&/")
        self.assertEqual(sorted(header_of(self.path("out"))), ["a", "db", "dc"])

    def test_hostile_names(self):
        self.put("long", [("a" * 5000, "U8", [1], b"1")])
        self.fail_with(1, "has 5000 bytes, an expression matches up to 1024", "rename", "long", "out", "s/a/b/")
        self.put("zero", [("a\0b", "U8", [1], b"1")])
        self.succeed("rename", "zero", "zeroes", "s/a.b/c/")
        self.assertEqual(list(header_of(self.path("zeroes"))), ["c"])
        self.put("escape", [("\x1b[31mred\u202e", "U8", [1], b"1")])
        text = self.succeed("rename", "escape", "out", "s/$/!/", "--dry-run")
        self.assertTrue(text.isascii() and "\x1b" not in text)

    def run_limited(self, *arguments):
        return self.run_command(*arguments, preexec_fn=self.limit_memory(128 << 20))

    def test_memory_of_hostile_names(self):
        # An engine that keeps all its states needs more: each byte of these names leads to another one.
        choose = random.Random(5)
        names = ["".join(choose.choice("ab") for _ in range(1000)) for _ in range(20)]
        self.put("in", [(name, "U8", [1], b"1") for name in names])
        expression = "s/([ab]*)a([ab]{100})$/\\2/"
        result = self.run_limited("rename", "in", "out", expression)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        expected = [name[-100:] if name[-101] == "a" else name for name in names]
        self.assertEqual(sorted(header_of(self.path("out"))), sorted(expected))
        self.put("slow", [("a" * 1023 + "b", "U8", [1], b"1")])
        for pattern in ("(a*)*(a*)*(a|aa)+$", "(a|aa)*c", "(x+x+)+y"):
            self.fail_with(1, "no tensor gets", "rename", "slow", "out2", f"s/{pattern}/x/")

    def test_a_wrong_expression_and_a_wrong_order(self):
        self.put("in", [("a", "U8", [1], b"1")])
        self.fail_with(2, "s/(/x/: missing ): (, at byte 3\n", "rename", "in", "out", "s/(/x/")
        for expression in ("s/(/x/", "s/[/x/", "s|a|b|g"):
            self.fail_with(2, f"{expression} stands in the place of OUT", "rename", "in", expression, "out")
        for path in ("s/model/", "s/models/a/out", "y/a/b/"):
            self.fail_with(2, "out: expected s/RE/TEXT/\n", "rename", "in", path, "out")

    def test_memory_of_hostile_expressions(self):
        self.put("in", [("a" * 1024, "U8", [1], b"1")])
        for pattern, message in {
            "((a{40}){40}){40}": "invalid repetition size: {40}, at byte 6",
            "(a?){1000}b" * 30: "pattern too large - compile failed, at byte 3",
        }.items():
            expression = f"s/{pattern}/x/"
            message = f"safetensors rename: {expression}: {message}\n"
            result = self.run_limited("rename", "in", "out", expression)
            self.assertEqual(result.returncode, 2)
            self.assertIn(message, result.stderr.decode())


if __name__ == "__main__":
    unittest.main()
