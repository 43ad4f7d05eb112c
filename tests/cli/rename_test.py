#!/usr/bin/env python3
"""Names in the verbs that write: patterns, the expressions and lists of rename, and joined metadata.

    rename_test.py SAFETENSORS [unittest's arguments]

Random expressions are compared with sed -E.
"""

import os
import random
import resource
import subprocess
import sys
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

    def test_a_list_of_names(self):
        self.put("in", [(name, "U8", [1], name.encode()) for name in ("a", "b", "c")])
        with open(self.path("map"), "w") as file:
            file.write("a\tb\nb\ta\n")
        self.succeed("rename", "in", "out", "--map", "map")
        self.assertEqual(sorted(header_of(self.path("out"))), ["a", "b", "c"])
        self.assertEqual(self.succeed("cat", "out", "a"), "b")
        with open(self.path("map"), "w") as file:
            file.write("x\ty\n")
        self.fail_with(1, "`x` is not a tensor of in", "rename", "in", "out2", "--map", "map")

    def test_an_expression_needs_re2(self):
        if not edit_test.has_expressions(edit_test.PROGRAM):
            message = "rename: this build has no RE2, which an EXPRESSION needs (use --map)"
            self.fail_with(3, message, "rename", "in", "out", "s/a/b/")


class ExpressionsTest(edit_test.EditTest):
    def setUp(self):
        if not edit_test.has_expressions(edit_test.PROGRAM):
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

    def test_posix_syntax_that_differs_in_re2(self):
        self.put("in", [("a_{\\é\v/", "U8", [1], b"1")])
        cases = {
            "a{,3}_": "<a_>{\\é\v/",
            "a{1}{0,2}_": "<a_>{\\é\v/",
            "a{01,}": "<a>_{\\é\v/",
            "\\{": "a_<{>\\é\v/",
            "[\\.]": "a_{<\\>é\v/",
            "[\\]]": None,  # a backslash, and then a bracket
            "\\_": "a<_>{\\é\v/",
            "\\é": "a_{\\<é>\v/",
            "\\s": "a_{\\é<\v>/",
            "[[:space:]]": "a_{\\é<\v>/",
            "\\\\.": "a_{<\\é>\v/",  # a dot is a character
            "a|a_": "<a_>{\\é\v/",  # the longest match
        }
        for pattern, name in cases.items():
            if name is None:
                self.fail_with(1, "no tensor gets", "rename", "in", "out", f"s~{pattern}~<&>~")
                continue
            self.succeed("rename", "in", "out", f"s~{pattern}~<&>~", "--force")
            self.assertEqual(list(header_of(self.path("out"))), [name], pattern)
        self.succeed("rename", "in", "out", "s/É/e/i", "--force")
        self.assertEqual(list(header_of(self.path("out"))), ["a_{\\e\v/"])

    def test_expressions_that_re2_does_not_know(self):
        self.put("in", [("a", "U8", [1], b"1")])
        braces = "{ in RE: expected {N}, {N,}, {N,M} or {,M}, or \\{ for the character"
        for pattern, message in {
            "\\<a": "\\< in RE: is not supported, use \\b, ^ or $",
            "a\\>": "\\> in RE: is not supported, use \\b, ^ or $",
            "[[.a.]]": "[. in RE: a set has characters, ranges and classes such as [:alpha:]",
            "[[=a=]]": "[= in RE: a set has characters, ranges and classes such as [:alpha:]",
            "a{": braces,
            "a{}": braces,
            "a{b}": braces,
            "a{1,2": braces,
            "a{1001}": "{1001} in RE: a repetition has at most 1000 times",
            "a{100000000000}": braces,
            "a{2,1}": "invalid repetition size: {2,1}",
            "a(": "missing ): a(",
        }.items():
            expression = f"s/{pattern}/x/"
            shown = expression.replace("\\", "\\\\")
            text = f"safetensors rename: {shown}: {message}\n"
            self.fail_with(2, text, "rename", "in", "out", expression)

    def test_random_expressions_equal_sed(self):
        atoms = ["a", "b", ".", "[ab]", "[^a]", "^", "$", "\\b", "\\B", "\\w", "[/.]", "\\W", "\\s"]
        atoms += ["(a|b)", "(ab)", "a|", "\\.", "x*", "a*", "[0-9]*", "b?", "a+", "a{2}", "(ab){,2}"]
        atoms += ["[\\.]", "[]b]", "\\/"]
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

    def test_expressions_after_a_list_of_names(self):
        self.put("in", [(name, "U8", [1], name.encode()) for name in ("a", "b", "c")])
        with open(self.path("map"), "w") as file:
            file.write("a\tb\nb\ta\n")
        self.succeed("rename", "in", "out", "--map", "map", "s/[bc]/d&/")
        self.assertEqual(sorted(header_of(self.path("out"))), ["a", "db", "dc"])

    def test_hostile_names(self):
        self.put("long", [("a" * 5000, "U8", [1], b"1")])
        self.fail_with(
            1, "has 5000 bytes, an expression matches up to 4096", "rename", "long", "out", "s/a/b/"
        )
        self.put("zero", [("a\0b", "U8", [1], b"1")])
        self.succeed("rename", "zero", "zeroes", "s/a.b/c/")
        self.assertEqual(list(header_of(self.path("zeroes"))), ["c"])
        self.put("escape", [("\x1b[31mred\u202e", "U8", [1], b"1")])
        text = self.succeed("rename", "escape", "out", "s/$/!/", "--dry-run")
        self.assertTrue(text.isascii() and "\x1b" not in text)

    def test_bounds_scans_of_many_matches(self):
        # Each `a` scans the rest of the name for a `z`. The scans are counted, so the last name that works is exact.
        expression = "s/a*z|a/b/g"
        self.put("short", [("a" * 255, "U8", [1], b"1")])
        self.succeed("rename", "short", "shorter", expression)
        self.assertEqual(list(header_of(self.path("shorter"))), ["b" * 255])
        name = "a" * 129 + "x" * (4096 - 129)
        self.put("most", [(name, "U8", [1], b"1")])
        self.succeed("rename", "most", "out", expression)
        self.assertEqual(list(header_of(self.path("out"))), [name.replace("a", "b")])
        for count, scanned, limit in ((130, 528061, 524288), (4096, 528061, 524288)):
            self.put("many", [("a" * count + "x" * (4096 - count), "U8", [1], b"1")])
            message = (
                f"of 4096 bytes has too many matches: each may scan the bytes after it, {scanned} in total, "
                f"the limit is {limit} (use --map)"
            )
            self.fail_with(1, message, "rename", "many", "out2", expression)
            self.succeed("rename", "many", "one", expression[:-1], "--force")

    def run_limited(self, *arguments):
        # Sanitizers reserve more address space than the limit.
        if self.run_command("version", preexec_fn=limit_memory).returncode != 0:
            self.skipTest("the program has a sanitizer, which needs memory of its own")
        return self.run_command(*arguments, preexec_fn=limit_memory)

    def test_memory_of_hostile_names(self):
        # An engine that keeps all its states needs more: each byte of these names leads to another one.
        choose = random.Random(5)
        names = ["".join(choose.choice("ab") for _ in range(4000)) for _ in range(20)]
        self.put("in", [(name, "U8", [1], b"1") for name in names])
        expression = "s/([ab]*)a([ab]{100})$/\\2/"
        result = self.run_limited("rename", "in", "out", expression)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        expected = [name[-100:] if name[-101] == "a" else name for name in names]
        self.assertEqual(sorted(header_of(self.path("out"))), sorted(expected))
        self.put("slow", [("a" * 4095 + "b", "U8", [1], b"1")])
        for pattern in ("(a*)*(a*)*(a|aa)+$", "(a|aa)*c", "(x+x+)+y"):
            self.fail_with(1, "no tensor gets", "rename", "slow", "out2", f"s/{pattern}/x/")

    def test_memory_of_hostile_expressions(self):
        self.put("in", [("a" * 4096, "U8", [1], b"1")])
        for pattern, message in {
            "a{1,255}{1,255}": "invalid repetition size: {1,255}",
            "((a{40}){40}){40}": "invalid repetition size: {40}",
            "(a?){1000}b" * 30: "pattern too large - compile failed",
        }.items():
            expression = f"s/{pattern}/x/"
            message = f"safetensors rename: {expression}: {message}\n"
            result = self.run_limited("rename", "in", "out", expression)
            self.assertEqual(result.returncode, 2)
            self.assertIn(message, result.stderr.decode())


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (128 << 20, 128 << 20))


if __name__ == "__main__":
    edit_test.PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
