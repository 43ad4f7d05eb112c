#!/usr/bin/env python3
"""What bash, zsh and fish offer: commands, options, values and paths.

    completions_test.py SAFETENSORS [unittest's arguments]

Each shell is asked what it offers for the last word of a command line. A shell that is not
installed skips its tests.
"""

import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from collections.abc import Iterable

from command import PROGRAM

HOSTILE = "x $(touch ran) `touch ran`;touch ran #'\"\\.safetensors"
MODELS = {"model.safetensors", "model.safetensors.index.json", "model.safetensors.index.fp16.json", HOSTILE}
FOLDERS = {"a b", "sub"}
OTHERS = {"README.md"}


def make_folder(folder: str) -> None:
    for name in FOLDERS:
        os.mkdir(os.path.join(folder, name))
    for name in MODELS | OTHERS | {"sub/part.safetensors", "a b/part.safetensors", "a b/log.txt"}:
        with open(os.path.join(folder, name), "w", encoding="utf-8"):
            pass


class Completions(unittest.TestCase):
    """The tests of all shells. offers() returns the candidates for the last of the words."""

    shell = ""
    holder: tempfile.TemporaryDirectory[str]
    scripts: tempfile.TemporaryDirectory[str]
    folder: str
    script: str
    environment: dict[str, str]
    commands: list[str]

    def offers(self, words: list[str]) -> set[str]:
        raise NotImplementedError

    @classmethod
    def setUpClass(cls) -> None:
        if shutil.which(cls.shell) is None:
            raise unittest.SkipTest(f"{cls.shell} is not installed")
        cls.holder = tempfile.TemporaryDirectory()
        cls.scripts = tempfile.TemporaryDirectory()
        cls.folder = cls.holder.name
        make_folder(cls.folder)
        cls.script = os.path.join(cls.scripts.name, "_safetensors")
        with open(cls.script, "wb") as file:
            file.write(subprocess.run([PROGRAM, "completions", cls.shell], check=True, capture_output=True).stdout)
        cls.environment = {
            "PATH": os.path.dirname(PROGRAM) + ":" + os.environ["PATH"],
            "HOME": cls.scripts.name,
            "LC_ALL": "C.UTF-8",
            "TERM": "dumb",
        }
        cls.commands = re.findall(r"^  (\w+)  ", cls.help(), re.MULTILINE)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.holder.cleanup()
        cls.scripts.cleanup()

    @staticmethod
    def help(*command: str) -> str:
        return subprocess.run([PROGRAM, *command, "--help"], check=True, capture_output=True, text=True).stdout

    def check(self, words: list[str], expected: Iterable[str]) -> None:
        self.assertEqual({word.rstrip("/") for word in self.offers(words)}, set(expected), words)

    def tearDown(self) -> None:
        self.assertEqual(set(os.listdir(self.folder)), MODELS | FOLDERS | OTHERS, "a name ran as a command")

    def test_commands(self) -> None:
        self.check(["me"], {"merge", "meta"})
        self.assertLess(set(self.commands), set(self.offers([""])))
        self.assertGreater(len(self.commands), 8)
        self.check(["nothing", ""], set())

    def test_all_options_of_all_commands(self) -> None:
        for command in self.commands:
            options = re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", self.help(command), re.MULTILINE)
            self.check([command, "--"], options)

    def test_an_option(self) -> None:
        self.check(["ls", "--so"], {"--sort"})
        self.check(["ls", "model.safetensors", "--rev"], {"--reverse"})

    def test_values_of_an_option(self) -> None:
        self.check(["ls", "--sort", ""], {"name", "offset", "size", "dtype", "shape"})
        self.check(["ls", "--sort", "s"], {"size", "shape"})
        self.check(["ls", "-s", "of"], {"offset"})
        self.check(["cat", "m", "--format", "n"], {"npy"})
        self.check(["meta", "set", "m", "--durability", ""], {"full", "file", "none"})

    def test_a_free_value_has_no_candidates(self) -> None:
        self.check(["ls", "--match", ""], set())

    def test_first_words(self) -> None:
        self.check(["meta", ""], {"ls", "get", "set", "rm"})
        self.check(["completions", ""], {"bash", "zsh", "fish"})
        self.check(["help", "d"], {"diff", "drop"})
        self.assertFalse(self.offers(["completions", ""]) & (MODELS | OTHERS))

    def test_all_files_of_an_option_that_takes_a_path(self) -> None:
        self.check(["diff", "model.safetensors", "--map", ""], MODELS | FOLDERS | OTHERS)
        self.check(["cat", "model.safetensors", "x", "-o", "REA"], {"README.md"})

    def test_the_second_word_decides(self) -> None:
        self.check(["meta", "ls", "--so"], set())
        self.check(["diff", "ls", "--bri"], {"--brief"})

    def test_dtypes(self) -> None:
        self.check(["ls", "m", "--dtype", "b"], {"bf16", "bool"})
        self.check(["cast", "m", "out", "--to", "BF"], {"BF16"})

    def test_nothing_runs_for_a_hostile_word(self) -> None:
        for word in ("$(touch ran)", "`touch ran`", "'$(touch ran)"):
            self.offers(["ls", word])
            self.offers(["ls", "--sort", word])
            self.offers(["ls", word, "--sort", ""])


class BashTest(Completions):
    shell = "bash"
    QUERY = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _safetensors; printf "%s\\0" "${COMPREPLY[@]}"'
    )

    def offers(self, words: list[str]) -> set[str]:
        command = ["bash", "--norc", "-c", self.QUERY, "bash", self.script, "safetensors", *words]
        result = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60, check=True
        )
        self.assertEqual(result.stderr, "", words)
        return set(result.stdout.split("\0")) - {""}

    def test_models(self) -> None:
        self.check(["ls", ""], MODELS | FOLDERS)
        self.check(["ls", "model.safetensors", "su"], {"sub"})

    def test_all_files_without_a_model_file(self) -> None:
        self.check(["ls", "R"], {"README.md"})

    def test_quotes_of_the_user(self) -> None:
        for word in ("a\\ b/", "'a b/", '"a b/'):
            self.check(["ls", word], {"a b/part.safetensors"})

    def test_a_word_that_readline_separates_at_an_equals_sign(self) -> None:
        self.check(["ls", "--sort", "=", "s"], {"size", "shape"})
        self.check(["ls", "--sort", "="], {"name", "offset", "size", "dtype", "shape"})
        self.check(["ls", "--sort", "=", "size", "--rev"], {"--reverse"})
        self.check(["ls", "--sort=s"], {"--sort=size", "--sort=shape"})
        self.check(["diff", "--map=REA"], {"--map=README.md"})

    def test_arguments_behind_two_dashes(self) -> None:
        self.check(["ls", "--", "--so"], set())

    def test_readline_quotes_a_hostile_name(self) -> None:
        shown = os.path.join(self.scripts.name, "shown")
        show = 'safetensors() { printf "%s\\n" "$@" > "$HOME/shown"; }\n'
        terminal = Terminal(["bash", "--norc", "-i"], self.folder, self.environment | {"TERM": "xterm"})
        terminal.send(f"{show}source {self.script}\n")
        terminal.send("safetensors ls x\t\n")
        terminal.send("exit\n")
        terminal.close()
        with open(shown, encoding="utf-8") as file:
            self.assertEqual(file.read(), f"ls\n{HOSTILE}\n")


class FishTest(Completions):
    shell = "fish"

    def lines(self, words: list[str]) -> list[str]:
        line = " ".join(["safetensors", *words])
        command = ["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", self.script, line]
        result = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60
        )
        self.assertEqual(result.stderr, "", words)
        return [line.split("\t")[0] for line in result.stdout.splitlines()]

    def offers(self, words: list[str]) -> set[str]:
        return set(self.lines(words))

    def test_models_and_other_files(self) -> None:
        self.check(["ls", ""], MODELS | FOLDERS | OTHERS)
        lines = self.lines(["ls", ""])
        self.assertLess(lines.index("model.safetensors"), lines.index("README.md"))

    def test_a_value_behind_an_equals_sign(self) -> None:
        self.check(["ls", "--sort=s"], {"--sort=size", "--sort=shape"})


class Terminal:
    """A program on a pseudo-terminal. Its output is thrown away."""

    def __init__(self, command: list[str], folder: str, environment: dict[str, str]) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)

    def send(self, text: str) -> None:
        self.drain(0.2)
        os.write(self.master, text.encode())

    def drain(self, seconds: float) -> None:
        """Reads until there was no output for this time."""
        while select.select([self.master], [], [], seconds)[0]:
            try:
                if not os.read(self.master, 65536):
                    return
            except OSError:
                return

    def close(self) -> None:
        end = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < end:
            self.drain(0.1)
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.master)


# Tab lists the candidates, and writes those that compadd accepts into a file, behind a line END.
ZSH_SETUP = r"""
PROMPT= LISTMAX=100000
fpath=($HOME $fpath)
autoload -Uz compinit && compinit -u -D
compadd() {
  local -a hits
  if (( ! ${argv[(I)-[ADO]]} )); then
    builtin compadd -O hits "$@"
    (( $#hits )) && print -rl -- $hits >>$HOME/offers
  fi
  builtin compadd "$@"
}
query() { zle list-choices; print END >>$HOME/offers; zle kill-whole-line }
zle -N query
bindkey -e
bindkey '^I' query
print READY >>$HOME/offers
"""


class ZshTest(Completions):
    shell = "zsh"
    answers: str
    terminal: "Terminal"

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.answers = os.path.join(cls.scripts.name, "offers")
        with open(os.path.join(cls.scripts.name, ".setup"), "w", encoding="utf-8") as file:
            file.write(ZSH_SETUP)
        cls.terminal = Terminal(["zsh", "-f", "-i"], cls.folder, cls.environment | {"TERM": "xterm"})
        cls.terminal.send("source $HOME/.setup\n")
        cls.wait_for("READY")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.terminal.send("exit\n")
        cls.terminal.close()
        super().tearDownClass()

    @classmethod
    def wait_for(cls, last: str) -> list[str]:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            cls.terminal.drain(0.05)
            if os.path.exists(cls.answers):
                with open(cls.answers, encoding="utf-8") as file:
                    lines = file.read().splitlines()
                if lines and lines[-1] == last:
                    os.remove(cls.answers)
                    return lines[:-1]
        raise AssertionError(f"zsh does not answer {last}")

    def lines(self, words: list[str]) -> list[str]:
        self.terminal.send(" ".join(["safetensors", *words]) + "\t")
        return self.wait_for("END")

    def offers(self, words: list[str]) -> set[str]:
        # The names of files are quoted as zsh inserts them.
        return {" ".join(shlex.split(word)) for word in self.lines(words)}

    def test_models(self) -> None:
        self.check(["ls", ""], MODELS | FOLDERS)
        self.check(["ls", "model.safetensors", "su"], {"sub"})

    def test_all_files_without_a_model_file(self) -> None:
        self.check(["ls", "R"], {"README.md"})

    def test_a_value_behind_an_equals_sign(self) -> None:
        self.check(["ls", "--sort=s"], {"size", "shape"})

    def test_arguments_behind_two_dashes(self) -> None:
        self.check(["ls", "--", "--so"], set())

    def test_the_script_can_be_sourced(self) -> None:
        line = "autoload -Uz compinit && compinit -u -D; source $1; print $_comps[safetensors]"
        result = subprocess.run(
            ["zsh", "-f", "-c", line, "zsh", self.script], env=self.environment, capture_output=True, text=True
        )
        self.assertEqual((result.stdout, result.stderr), ("_safetensors\n", ""))


class CompletionsTest(unittest.TestCase):
    def test_a_description_is_one_line(self) -> None:
        offered = subprocess.run(
            [PROGRAM, "__complete", "select", "--n"], check=True, capture_output=True, text=True
        ).stdout
        self.assertEqual(
            offered,
            "words\n--name\tthe beginning of the names of the files in a folder (by default that of IN, or model)\n",
        )

    def test_the_same_script_inside_of_json(self) -> None:
        for shell in ("bash", "zsh", "fish"):
            plain = subprocess.run([PROGRAM, "completions", shell], check=True, capture_output=True, text=True).stdout
            document = subprocess.run([PROGRAM, "completions", shell, "--json"], check=True, capture_output=True).stdout
            self.assertEqual(json.loads(document)["script"], plain)
            self.assertEqual(json.loads(document)["schema"], "safetensors.completions/1")


# The tests of the base class run for each shell.
def load_tests(loader: unittest.TestLoader, _tests: object, _pattern: object) -> unittest.TestSuite:
    cases = (BashTest, FishTest, ZshTest, CompletionsTest)
    return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases)


if __name__ == "__main__":
    unittest.main()
