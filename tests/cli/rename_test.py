#!/usr/bin/env python3
"""Names in the verbs that write: patterns, the expressions and lists of rename, and joined metadata.

    rename_test.py SAFETENSORS [unittest's arguments]

Random expressions are compared with sed -E.
"""

import os
import random
import subprocess
import sys
import time
import unittest

import edit_test
from edit_test import header_of


class NamesTest(edit_test.EditTest):
    def test_names_and_metadata_of_merged_files(self):
        self.put("1", [("a", "U8", [1], b"1")], {"k": "v", "same": "s"})
        self.put("2", [("b", "U8", [1], b"2")], {"k": "w", "same": "s"})
        self.put("3", [("a", "U8", [1], b"3")])
        self.fail_with(1, "`a` is in two files: `1` and `3`", "merge", "1", "3", "out")
        self.fail_with(
            1,
            "metadata key `k` is `v` in `1` and `w` in `2` (choose with --metadata)",
            "merge",
            "1",
            "2",
            "out",
        )
        for which, expected in (("first", "v"), ("last", "w"), ("none", None)):
            self.succeed("merge", "1", "2", "out", "--metadata", which, "--force")
            metadata = header_of(self.path("out")).get("__metadata__")
            self.assertEqual(metadata, None if expected is None else {"k": expected, "same": "s"})

    def test_patterns(self):
        self.put("in", [(name, "U8", [1], b"1") for name in ("a.0", "a.1", "b")])
        for verb in ("select", "drop"):
            self.fail_with(
                1, "no tensor's name matches `c*`", verb, "in", "out", "-m", "a*", "-m", "c*"
            )
        self.fail_with(1, "none would be left", "drop", "in", "out", "-m", "*")
        self.succeed("select", "in", "out", "-m", "a.[0]", "-m", "b")
        self.assertEqual(list(header_of(self.path("out"))), ["a.0", "b"])

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

    def test_escapes(self):
        self.put("in", [("a/]n", "U8", [1], b"1")])
        cases = {
            "s/[/]/_/": "a_]n",
            "s/[]/]/_/g": "a__n",
            "s/[^]/]/_/g": "_/]_",
            "s/[[:punct:]/]/_/g": "a__n",
            "s/[\\/]/_/": "a_]n",
            "s/\\]/\\\\/": "a/\\n",
            "s/a/\\0\\0/": "aa/]n",
            "s/a/\\&\\//": "&//]n",
            "s|/|\\||": "a|]n",
        }
        for expression, name in cases.items():
            self.succeed("rename", "in", "out", expression, "--force")
            self.assertEqual(list(header_of(self.path("out"))), [name], expression)
        for escape in ("n", "t", "x41", "U", "q", "."):
            self.fail_with(
                2,
                "after a backslash comes 0 to 9, &, \\ or the delimiter /",
                *("rename", "in", "out", f"s/a/\\{escape}/"),
            )
        for pattern in ("\\n", "(a)\\n", "\\t", "\\d"):
            self.fail_with(2, "letters after a backslash", "rename", "in", "out", f"s/{pattern}/x/")
        for pattern in ("(a)\\1", "(a)[b]*\\1", "((a*)*)\\2$"):
            self.fail_with(
                2, "back-references are not supported", "rename", "in", "out", f"s/{pattern}/x/"
            )

    def test_random_expressions_equal_sed(self):
        atoms = ["a", "b", ".", "[ab]", "[^a]", "^", "$", "\\b", "\\<", "\\>", "\\B", "\\w", "[/.]"]
        atoms += ["(a|b)", "(ab)", "a|", "\\.", "x*", "a*", "[0-9]*", "b?", "a+"]
        fixed = [("a.10.w", "s/[0-9]*/N/g"), ("baaac", "s/a*/x/g"), ("xx y", "s/\\bx/y/g")]
        choose = random.Random(7)
        for number in range(150):
            name, expression = fixed[number] if number < len(fixed) else ("", "")
            if not name:
                name = "".join(choose.choice("aab.b/ 1") for _ in range(choose.randrange(1, 9)))
                pattern = "".join(choose.choice(atoms) for _ in range(choose.randrange(1, 4)))
                text = choose.choice(["<&>", "", "Z", "[\\0]", "a", "\\&"])
                expression = f"s/{pattern}/{text}/" + choose.choice(["", "g", "gi"])
            sed = subprocess.run(
                ["sed", "-E", expression],
                input=name.encode(),
                capture_output=True,
                env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
            )
            self.put("in", [(name, "U8", [1], b"1")])
            result = self.run_command("rename", "in", "out", expression, "--force")
            with self.subTest(name=name, expression=expression):
                if sed.returncode != 0:
                    self.assertEqual(result.returncode, 2, sed.stderr)
                elif sed.stdout.decode() == name:
                    self.assertIn(b"no tensor gets another name", result.stderr)
                else:
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertEqual(list(header_of(self.path("out"))), [sed.stdout.decode()])

    def test_a_list_of_names(self):
        self.put("in", [(name, "U8", [1], name.encode()) for name in ("a", "b", "c")])
        with open(self.path("map"), "w") as file:
            file.write("a\tb\nb\ta\n")
        self.succeed("rename", "in", "out", "--map", "map", "s/c/d/")
        self.assertEqual(sorted(header_of(self.path("out"))), ["a", "b", "d"])
        self.assertEqual(self.succeed("cat", "out", "a"), "b")
        with open(self.path("map"), "w") as file:
            file.write("x\ty\n")
        self.fail_with(1, "`x` is not a tensor of in", "rename", "in", "out2", "--map", "map")

    def test_hostile_names(self):
        self.put("long", [("a" * 5000, "U8", [1], b"1")])
        self.fail_with(
            1, "has 5000 bytes, an expression matches up to 4096", "rename", "long", "out", "s/a/b/"
        )
        self.put("zero", [("a\0b", "U8", [1], b"1")])
        self.fail_with(1, "zero byte", "rename", "zero", "out", "s/a/b/")
        self.put("escape", [("\x1b[31mred\u202e", "U8", [1], b"1")])
        text = self.succeed("rename", "escape", "out", "s/$/!/", "--dry-run")
        self.assertTrue(text.isascii() and "\x1b" not in text)
        start = time.monotonic()
        self.put("slow", [("a" * 4096, "U8", [1], b"1")])
        self.run_command("rename", "slow", "out", "s/(a*)*(a*)*(a|aa)+$/x/")
        self.assertLess(time.monotonic() - start, 60)


if __name__ == "__main__":
    edit_test.PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
