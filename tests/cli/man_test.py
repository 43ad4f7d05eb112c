#!/usr/bin/env python3
"""Manual pages: groff and mandoc take them without a warning, and show what the help shows.

    man_test.py SAFETENSORS [unittest's arguments]

A tool that is not installed skips its tests.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

PROGRAM = ""


def output(*arguments: str) -> str:
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True).stdout


def joined(text: str) -> str:
    """The words of a text, without line breaks and hyphenation."""
    return " ".join(re.sub(r"\u2010\n\s*", "", text).split())


class ManTest(unittest.TestCase):
    pages: dict[str, str]
    commands: list[str]

    @classmethod
    def setUpClass(cls) -> None:
        pages = json.loads(output("man", "--json"))["pages"]
        cls.pages = {page["name"].removesuffix(".1"): page["text"] for page in pages}
        cls.commands = re.findall(r"^  (\w+)  ", output("--help"), re.MULTILINE)

    def need(self, tool: str) -> None:
        if shutil.which(tool) is None:
            self.skipTest(f"{tool} is not installed")

    def render(self, text: str) -> str:
        self.need("groff")
        command = ["groff", "-man", "-Tutf8", "-wall", "-P-cbou"]
        environment = os.environ | {"GROFF_NO_SGR": "1"}
        result = subprocess.run(
            command, input=text.encode(), capture_output=True, env=environment, check=True
        )
        self.assertEqual(result.stderr, b"")
        return result.stdout.decode()

    def test_a_page_per_command(self) -> None:
        self.assertEqual(
            list(self.pages), ["safetensors", *(f"safetensors-{name}" for name in self.commands)]
        )
        self.assertEqual(output("man"), self.pages["safetensors"])
        for name in self.commands:
            self.assertEqual(output("man", name), self.pages[f"safetensors-{name}"])
            document = json.loads(output("man", name, "--json"))
            self.assertEqual(document["schema"], "safetensors.man/1")
            self.assertEqual(
                document["pages"], [{"name": f"safetensors-{name}.1", "text": output("man", name)}]
            )

    def test_mandoc_has_no_warning(self) -> None:
        self.need("mandoc")
        for name, text in self.pages.items():
            command = ["mandoc", "-T", "lint", "-W", "warning"]
            shown = subprocess.run(
                command, input=text, capture_output=True, text=True, check=False
            ).stdout
            # A date would make every build another one.
            lines = [line for line in shown.splitlines() if "missing date" not in line]
            self.assertEqual(lines, [], name)

    def test_options_usage_and_examples_can_be_copied(self) -> None:
        for name in self.commands:
            shown = self.render(self.pages[f"safetensors-{name}"])
            lines = [line.strip() for line in shown.splitlines()]
            text = output(name, "--help")
            for option, value in re.findall(
                r"^ +(?:-\w, )?(--[a-z-]+)(?: ([A-Z]\S*))?", text, re.MULTILINE
            ):
                self.assertTrue(
                    any(f"{option} {value}".strip() in line for line in lines), (name, option)
                )
            usage, _, rest = text.partition("usage: ")[2].partition("\n\n")
            for line in usage.splitlines():
                self.assertIn(line.strip(), lines, name)
            examples = re.search(r"\nexamples?:\n((?:  .*\n)+)", rest)
            assert examples, name
            for line in examples[1].splitlines():
                self.assertIn(line.strip(), lines, name)

    def test_prose_of_the_help(self) -> None:
        for name in self.commands:
            shown = joined(self.render(self.pages[f"safetensors-{name}"]))
            help_text = output(name, "--help")
            for paragraph in help_text.split("\n\n"):
                # Options and exit codes are laid out anew.
                if re.match(r"usage:|exit:|examples?:| |options", paragraph):
                    continue
                self.assertIn(joined(paragraph), shown, name)

    def test_the_overview_names_all_pages(self) -> None:
        shown = self.render(self.pages["safetensors"])
        for name in self.commands:
            self.assertIn(f"safetensors-{name}(1)\n", shown)

    def test_characters_with_a_meaning_in_roff(self) -> None:
        shown = self.render(self.pages["safetensors-diff"])
        self.assertIn("|a - b| <= D + R x |b|", joined(shown))
        for line in self.pages["safetensors-cat"].splitlines():
            self.assertFalse(line.startswith("'"), line)
            self.assertNotRegex(line.removeprefix('.\\"'), r"\\[^fe(&-]", line)

    def test_usage(self) -> None:
        for arguments, message in (
            (("man", "dif"), "no command dif (did you mean diff?)"),
            (("man", "ls", "cat"), "one COMMAND at a time"),
            (("man", "--format", "markdown"), "--format markdown needs a COMMAND"),
            (
                ("man", "ls", "--format", "rof"),
                "--format is roff or markdown, not rof (did you mean roff?)",
            ),
        ):
            result = subprocess.run(
                [PROGRAM, *arguments], capture_output=True, text=True, check=False
            )
            self.assertEqual(result.returncode, 2)
            self.assertTrue(
                result.stderr.startswith(f"safetensors man: {message}\n"), result.stderr
            )


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
