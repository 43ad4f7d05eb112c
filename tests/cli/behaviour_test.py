#!/usr/bin/env python3
"""What golden files cannot say of the command: terminals, pipes, signals, memory, exact values.

    behaviour_test.py SAFETENSORS [unittest's arguments]
"""
import ast
import itertools
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import unittest

import elements
import make_inputs
import terminal
from command import PROGRAM, CommandTest, environment, make_sparse

COMMANDS = (
    "ls", "info", "cat", "stats", "page", "verify", "hash", "diff", "meta", "select", "drop", "rename", "cast",
    "merge", "split", "index", "completions",
)  # fmt: skip


class TerminalTest(CommandTest):
    def on_terminal(self, *arguments, **variables):
        code, shown = terminal.run(arguments, self.folder, 0, **variables)
        return code, shown.replace(b"\r\n", b"\n").decode()

    def test_raw_bytes_do_not_reach_a_terminal(self):
        for form in ("raw", "npy"):
            code, shown = self.on_terminal("cat", "good.safetensors", "scale", "--format", form)
            self.assertEqual(code, 2)
            self.assertEqual(
                shown,
                "safetensors cat: will not write binary data to a terminal: use --format text, --output PATH or "
                "--force\nTry 'safetensors cat --help'.\n",
            )

    def test_raw_bytes_reach_a_terminal_by_force(self):
        code, shown = self.on_terminal("cat", "good.safetensors", "scale", "--force")
        self.assertEqual((code, shown), (0, "\0\0\0?"))

    def test_large_text_is_summarized_on_a_terminal_only(self):
        code, shown = self.on_terminal("cat", "grid.safetensors", "grid", "--format", "text")
        self.assertEqual(code, 0)
        self.assertTrue(shown.startswith("[[[0, 1, 2, ..., 57, 58, 59],\n  [60, 61, 62, ..., 117, 118, 119],\n"), shown)
        self.assertNotIn(b"...", self.output("cat", "grid.safetensors", "grid", "--format", "text"))
        code, shown = self.on_terminal("cat", "grid.safetensors", "grid", "--format", "text", "--limit", "0")
        self.assertNotIn("...", shown)

    def test_verdicts_have_colours_on_a_terminal(self):
        code, shown = self.on_terminal("verify", "nothing.safetensors", "rule01_empty.safetensors")
        self.assertEqual(code, 1)
        self.assertIn("nothing.safetensors: \x1b[32mok\x1b[0m, ", shown)
        self.assertIn("rule01_empty.safetensors: \x1b[31minvalid\x1b[0m: ", shown)

    def test_no_colours_where_they_are_not_wanted(self):
        for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            _, shown = self.on_terminal("verify", "nothing.safetensors", "rule01_empty.safetensors", **variables)
            self.assertNotIn("\x1b", shown)
        self.assertNotIn(b"\x1b", self.output("verify", "nothing.safetensors"))

    def test_names_and_metadata_never_control_a_terminal(self):
        hostile = self.path("folder\x1b[31m\u202e")
        os.mkdir(hostile)
        with open(os.path.join(hostile, ".safetensors-0123456789abcdef.tmp"), "w"):
            pass
        self.write("sums", f"{0:064}  no\x1b[31m\u202e\n")
        commands = [
            ("hash", "--check", "sums"),
            ("ls", "names.safetensors"),
            ("ls", "--json", "names.safetensors"),
            ("ls", "--tree", "names.safetensors"),
            ("ls", "--tree", "--json", "names.safetensors"),
            ("stats", "--histogram", "names.safetensors"),
            ("stats", "--json", "names.safetensors"),
            ("diff", "names.safetensors", "good.safetensors"),
            ("hash", "--tensors", "names.safetensors"),
            ("hash", os.path.join(hostile, ".safetensors-0123456789abcdef.tmp")),
            ("info", "names.safetensors"),
            ("info", "--json", "names.safetensors"),
            ("info", "--header", "names.safetensors"),
            ("info", "--header", "--json", "names.safetensors"),
            ("info", "--header", "rule04_utf8.safetensors"),
            ("meta", "ls", "names.safetensors"),
            ("meta", "ls", "--json", "names.safetensors"),
            ("meta", "get", "names.safetensors", "key\\u{202e}"),
            ("verify", "rule06_name.safetensors", "no\x1b[31m\u202e"),
            ("cat", "names.safetensors", "no\x1b[31m\u202e"),
            ("cat", "--json", "names.safetensors", "bidi\u202egnp.exe"),
            ("no\x1b[31m\u202e",),
            ("ls", "--no\x1b[31m\u202e"),
        ]
        for command in commands:
            _, shown = self.on_terminal(*command, NO_COLOR="1")
            hidden = [c for c in shown if c not in "\n\t" and not c.isprintable()]
            self.assertEqual(hidden, [], command)

    def test_the_header_on_a_terminal_is_one_line_without_padding(self):
        _, shown = self.on_terminal("info", "--header", "nothing.safetensors")
        self.assertEqual(shown, "{}\n")

    def test_progress_is_shown_on_a_terminal_only(self):
        make_sparse(self.path("large.safetensors"), 100 << 20)
        command = ("cat", "large.safetensors", "t", "--output", "large.bin", "--force")
        code, shown = self.on_terminal(*command)
        self.assertEqual(code, 0)
        self.assertRegex(shown, r"\r 9\d%  9\d\.\d MiB of 100\.0 MiB *\r +\r$")
        result = self.run_command(*command)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"", b""))


class PipeTest(CommandTest):
    def test_a_reader_that_goes_away_ends_the_command_quietly(self):
        for arguments in (("ls", "many.safetensors"), ("cat", "grid.safetensors", "grid", "--format", "text")):
            for restore in (True, False):  # with SIGPIPE at its default and ignored
                options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "restore_signals": restore}
                process = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, env=environment(), **options)
                process.stdout.close()
                self.assertEqual(process.stderr.read(), b"", arguments)
                process.stderr.close()
                self.assertEqual(process.wait(timeout=60), -signal.SIGPIPE, arguments)

    def test_a_closed_standard_output_is_an_error(self):
        result = subprocess.run(
            ["sh", "-c", '"$0" ls good.safetensors >&-', PROGRAM], cwd=self.folder, capture_output=True, timeout=60
        )
        self.assertEqual(result.returncode, 3)
        self.assertIn(b"cannot write to standard output", result.stderr)


class FileTest(CommandTest):
    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_a_file_without_permission_is_named(self):
        os.chmod(self.path("odd.safetensors"), 0)
        result = self.run_command("ls", "odd.safetensors")
        self.assertEqual(result.returncode, 3)
        self.assertIn(b"permission denied", result.stderr.lower())

    def test_a_socket_is_refused_at_once(self):
        with socket.socket(socket.AF_UNIX) as listener:
            here = os.getcwd()
            os.chdir(self.folder)  # names of sockets are short
            try:
                listener.bind("socket")
            finally:
                os.chdir(here)
            for command in ("ls", "info", "verify"):
                self.assertEqual(self.run_command(command, "socket").returncode, 3, command)

    def test_special_files_are_refused_by_every_command(self):
        for name in ("fifo", "loop", "/dev/null", "missing"):
            for command in (("ls",), ("info",), ("info", "--header"), ("verify",), ("meta", "ls")):
                self.assertEqual(self.run_command(*command, name).returncode, 3, (command, name))
            for command in (("cat", name, "x"), ("meta", "get", name, "x"), ("meta", "set", name, "x=y")):
                self.assertEqual(self.run_command(*command).returncode, 3, command)

    def test_a_large_tensor_is_written_in_bounded_memory(self):
        make_sparse(self.path("sparse.safetensors"), 600 << 20)
        arguments = [PROGRAM, "cat", "sparse.safetensors", "t"]
        with open(os.devnull, "wb") as nowhere:
            process = subprocess.Popen(arguments, cwd=self.folder, env=environment(), stdout=nowhere)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        self.assertLess(usage.ru_maxrss, 200 << 10)


class ValueTest(CommandTest):
    def test_json_gives_names_and_values_exactly(self):
        names = [tensor["name"] for tensor in self.document("ls", "names.safetensors", "--json")["files"][0]["tensors"]]
        self.assertEqual(sorted(names), sorted(make_inputs.HOSTILE_NAMES))
        metadata = self.document("meta", "ls", "names.safetensors", "--json")["metadata"]
        self.assertEqual(metadata, {"key\u202e": "line\nline\x1b[2J", "format": "p\u200bt"})

    def test_every_hostile_name_can_be_given_as_it_is_and_as_it_is_shown(self):
        shown = [line.split(b"  ")[0] for line in self.output("ls", "names.safetensors", "-s", "offset").splitlines()]
        for index, name in enumerate(make_inputs.HOSTILE_NAMES):
            self.assertEqual(self.output("cat", "names.safetensors", "--", shown[index].rstrip()), bytes([index]))
            if "\0" not in name:
                self.assertEqual(self.output("cat", "names.safetensors", "--", name), bytes([index]))

    def test_the_pretty_header_is_the_same_json(self):
        for name in ("good", "names", "dtypes", "nothing", "no_padding"):
            raw = self.output("info", "--header", name + ".safetensors")
            self.assertEqual(raw, self.file_header(name))
            inside = self.document("info", "--header", name + ".safetensors", "--json")["header"]
            self.assertEqual(inside, json.loads(raw))

    def file_header(self, name):
        with open(self.path(name + ".safetensors"), "rb") as file:
            return file.read(struct.unpack("<Q", file.read(8))[0])

    def test_slices_of_every_kind_are_those_of_a_list(self):
        grid = [[[(i * 50 + j) * 60 + k for k in range(60)] for j in range(50)] for i in range(40)]
        parts = [["3", ":", "35:"], ["-1", "5:40:7", "::-1"], ["0", ":", "50:2:-3", "7:8"]]
        for texts in itertools.product(*parts):
            values = cut(grid, [as_index(text) for text in texts])
            flat = list(flatten(values))
            raw = self.output("cat", "grid.safetensors", "grid", "--slice", ",".join(texts))
            self.assertEqual(raw, struct.pack(f"<{len(flat)}I", *flat), texts)
            text = self.output("cat", "grid.safetensors", "grid", "--format", "text", "--slice", ",".join(texts))
            self.assertEqual(ast.literal_eval(text.decode()), values, texts)
            document = self.document("cat", "grid.safetensors", "grid", "--json", "--slice", ",".join(texts))
            self.assertEqual(document["values"], values, texts)

    def test_text_of_f4_and_f6_does_not_depend_on_where_a_chunk_ends(self):
        count = 4 << 20
        for dtype in ("F4", "F6_E2M3"):
            size = count * elements.BITS[dtype] // 8
            data = (bytes(range(251)) * (size // 251 + 1))[:size]
            self.put("packed.safetensors", [("t", dtype, [count], data)])
            lines = self.output("cat", "packed.safetensors", "t", "--format", "text").decode().strip("[]\n").split(", ")
            self.assertEqual(len(lines), count)
            texts = {}
            for code, text in zip(elements.codes(dtype, data), lines):
                self.assertEqual(texts.setdefault(code, text), text)

    def test_npy_says_what_the_tensor_is(self):
        expected = {
            "bool": "|b1", "u8": "|u1", "i8": "|i1", "u16": "<u2", "i16": "<i2", "f16": "<f2", "u32": "<u4",
            "i32": "<i4", "f32": "<f4", "u64": "<u8", "i64": "<i8", "f64": "<f8", "c64": "<c8",
        }  # fmt: skip
        for name, descr in expected.items():
            content = self.output("cat", "dtypes.safetensors", name, "--format", "npy")
            self.check_npy(content, descr, self.output("cat", "dtypes.safetensors", name))
        for others in ("bf16", "e5m2", "e4m3", "e8m0", "e4m3fnuz", "e5m2fnuz", "e2m3", "e3m2", "f4"):
            self.assertEqual(self.run_command("cat", "dtypes.safetensors", others, "--format", "npy").returncode, 2)
        for slice_text, shape in (
            (":", (40, 50, 60)),
            ("0", (50, 60)),
            ("0,0", (60,)),
            ("0,0,0", ()),
            (":0", (0, 50, 60)),
        ):
            content = self.output("cat", "grid.safetensors", "grid", "--format", "npy", "--slice", slice_text)
            self.assertEqual(self.npy_header(content)[0]["shape"], shape)

    def npy_header(self, content):
        self.assertEqual(content[:8], b"\x93NUMPY\x01\x00")
        end = 10 + struct.unpack("<H", content[8:10])[0]
        self.assertEqual(end % 64, 0)
        self.assertEqual(content[end - 1 : end], b"\n")
        return ast.literal_eval(content[10:end].decode("latin1")), content[end:]

    def check_npy(self, content, descr, data):
        header, rest = self.npy_header(content)
        self.assertEqual(list(header), ["descr", "fortran_order", "shape"])
        self.assertEqual((header["descr"], header["fortran_order"], rest), (descr, False, data))

    def test_a_hundred_thousand_tensors_are_all_listed_in_natural_order(self):
        self.write("100000.safetensors", make_inputs.many(100_000))
        lines = self.output("ls", "100000.safetensors").decode().splitlines()
        names = [line.split()[0] for line in lines]
        self.assertEqual(names, [f"model.layers.{i}.weight" for i in range(100_000)])

    def test_the_version_says_what_was_built_in(self):
        text = self.output("--version").decode()
        self.assertRegex(text, r"^safetensors \d+\.\d+\.\d+\+cpp\.\d+\n")
        for word in ("built with", "fmt", "sha256", "F8_E4M3FNUZ", "headers up to 100000000 bytes"):
            self.assertIn(word, text)
        self.assertEqual(self.output("-V").decode(), text)

    def test_a_path_alone_is_summarized(self):
        self.assertEqual(self.output("good.safetensors"), self.output("info", "good.safetensors"))
        self.assertEqual(self.output("./model", "--json"), self.output("info", "./model", "--json"))

    def test_options_may_follow_files_in_every_environment(self):
        usual = self.run_command("ls", "/dev/null", "--json")
        self.assertEqual(self.run_command("ls", "/dev/null", "--json", variables={"POSIXLY_CORRECT": "1"}).stdout,
                         usual.stdout)
        self.assertIn(b"safetensors.ls/1", usual.stdout)

    def test_every_option_in_a_help_text_exists(self):
        for command in COMMANDS:
            text = self.output(command, "--help").decode()
            self.assertLessEqual(max(map(len, text.splitlines())), 80, command)
            options = re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", text, re.MULTILINE)
            self.assertIn("--json", options, command)
            for option in options:
                result = self.run_command(command, option, "1", "2", "3")
                self.assertNotIn(b"unknown option", result.stderr, (command, option))


class UsageTest(CommandTest):
    WORDS = {
        "PATH": "model", "IN": "model", "A": "model", "B": "model", "FOLDER": "model", "NAME": "norm", "KEY": "format",
        "KEY=VALUE": "a=1", "EXPRESSION": "s/norm/other/", "SHELL": "bash", "FILE": "names.tsv",
        "GLOB": "*", "DTYPE": "F16", "N": "10", "SIZE": "5GB", "STEM": "model", "SLICE": ":1", "FORMAT": "raw", "R": "0.1",
        "WHICH": "first", "--sort": "name", "--atol": "0.1", "--durability": "file", "--dtype": "F32", "--layers": "0",
        "--accept": "unused-bytes", "--columns": "name",
    }  # fmt: skip
    WITH = {"--limit": ["--format", "text"]}  # options that need others
    CHOICES = ("--match", "--exclude", "--dtype", "--layers")  # cat takes them without NAME

    def forms(self, text):
        """The usage forms of a help text: their words, and the options that they take with the names of values."""
        usage = re.search(r"^usage: (.*?)\n\n", text, re.DOTALL | re.MULTILINE)[1]
        every = dict(re.findall(r"^  (?:-\w, |    )(--[a-z-]+)(?: (\S+))?", text, re.MULTILINE))
        for form in re.split(r"\s*safetensors ", " ".join(usage.split()))[1:]:
            choice = re.search(r"\((.* \| .*?)\)|$", form)
            for alternative in (choice[1] or "").split(" | "):
                chosen = form.replace(choice[0], alternative)
                shown = dict(re.findall(r"\[(--[a-z-]+) ?(\S*)\]", form))
                words = [part.strip("[].") for part in re.findall(r"\[.*?\]|[^\s[]+", chosen) if part[:2] != "[-"]
                if words[-1] == "OPTIONS":
                    del words[-1]
                    shown = {option: value for option, value in every.items() if option not in {*words, "--help"}}
                yield [word for word in words if word], shown

    def call(self, words, option, value):
        """A command line in a usage form, with an option."""
        words = [word for word in words if option != "--output" or word not in ("-o", "OUT")]
        if words[0] == "cat" and option in self.CHOICES:
            words.remove("NAME")
        self.calls += 1
        values = self.WORDS | {"OUT": f"./out-{self.calls}"}
        if "--force" in words:  # a model of its own, because the command replaces it
            values["IN"] = f"in-{self.calls}"
            shutil.copytree(self.path("model"), self.path(values["IN"]))
        given = [option, values.get(option, values.get(value))] if value else [option]
        return [*(values.get(word, word) for word in words), *given, *self.WITH.get(option, [])]

    def test_each_form_takes_its_options(self):
        self.write("names.tsv", "norm\tother\n")
        self.calls = 0
        for command in COMMANDS:
            for words, options in self.forms(self.output(command, "--help").decode()):
                self.assertIn("--json", options, words)
                for option, value in options.items():
                    call = self.call(words, option, value)
                    result = self.run_command(*call)
                    self.assertNotEqual(result.returncode, 2, (call, result.stderr))
        self.assertGreater(self.calls, 150)


def as_index(text):
    if ":" not in text:
        return int(text)
    return slice(*[int(part) if part else None for part in text.split(":")])


def cut(values, indices):
    if not indices:
        return values
    part = values[indices[0]]
    return cut(part, indices[1:]) if isinstance(indices[0], int) else [cut(item, indices[1:]) for item in part]


def flatten(values):
    if not isinstance(values, list):
        yield values
        return
    for item in values:
        yield from flatten(item)


if __name__ == "__main__":
    unittest.main()
