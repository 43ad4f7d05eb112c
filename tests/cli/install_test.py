#!/usr/bin/env python3
"""What `cmake --install` puts beside the command: completions.

install_test.py SAFETENSORS CMAKE BUILD CONFIGURATION [unittest's arguments]
"""

import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM, CMAKE, BUILD, CONFIGURATION = "", "", "", ""


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class InstallTest(unittest.TestCase):
    holder: tempfile.TemporaryDirectory[str]
    prefix: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.holder = tempfile.TemporaryDirectory()
        plain = os.path.join(cls.holder.name, "plain")
        command = [CMAKE, "--install", BUILD, "--component", "safetensors", "--prefix", plain]
        subprocess.run([*command, "--config", CONFIGURATION], check=True, stdout=subprocess.DEVNULL)
        # An installed tree may be moved. CMake accepts no such name.
        cls.prefix = os.path.join(cls.holder.name, "an \"odd\" 'pre\\fix'")
        os.rename(plain, cls.prefix)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.holder.cleanup()

    def setUp(self) -> None:
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)

    def content(self, path: str) -> str:
        with open(os.path.join(self.prefix, "share", path), encoding="utf-8") as file:
            return file.read()

    def test_completions(self) -> None:
        for shell, path in (
            ("bash", "bash-completion/completions/safetensors"),
            ("zsh", "zsh/site-functions/_safetensors"),
            ("fish", "fish/vendor_completions.d/safetensors.fish"),
        ):
            self.assertEqual(self.content(path), output(PROGRAM, "completions", shell))


if __name__ == "__main__":
    PROGRAM, CMAKE, BUILD, CONFIGURATION = (os.path.abspath(sys.argv.pop(1)), *(sys.argv.pop(1) for _ in range(3)))
    unittest.main()
