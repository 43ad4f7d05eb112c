#!/usr/bin/env python3
"""What `cmake --install` puts beside the command: completions, manual pages, an extension of hf.

    install_test.py SAFETENSORS CMAKE BUILD CONFIGURATION [unittest's arguments]

The tests with the command hf of huggingface_hub need one that has extensions. It is
$SAFETENSORS_TEST_HF, or hf on the PATH.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

import make_inputs

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
        self.environment = os.environ | {"HOME": self.home.name, "HF_HUB_DISABLE_UPDATE_CHECK": "1"}
        self.extension = os.path.join(self.prefix, "bin", "hf-safetensors")
        self.folder = os.path.join(self.home.name, ".local/share/hf/extensions/hf-safetensors")

    def content(self, path: str) -> str:
        with open(os.path.join(self.prefix, "share", path), encoding="utf-8") as file:
            return file.read()

    def run_extension(
        self, *arguments: str, program: str = "", **changes: str
    ) -> subprocess.CompletedProcess[str]:
        command = [program or self.extension, *arguments]
        environment = self.environment | changes
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def test_completions(self) -> None:
        for shell, path in (
            ("bash", "bash-completion/completions/safetensors"),
            ("zsh", "zsh/site-functions/_safetensors"),
            ("fish", "fish/vendor_completions.d/safetensors.fish"),
        ):
            self.assertEqual(self.content(path), output(PROGRAM, "completions", shell))

    def test_manual_pages(self) -> None:
        pages = json.loads(output(PROGRAM, "man", "--json"))["pages"]
        for page in pages:
            self.assertEqual(self.content(os.path.join("man/man1", page["name"])), page["text"])
        installed = os.listdir(os.path.join(self.prefix, "share/man/man1"))
        self.assertEqual(sorted(installed), sorted(page["name"] for page in pages))

    def test_man_finds_a_page(self) -> None:
        if shutil.which("man") is None:
            self.skipTest("man is not installed")
        version = subprocess.run(["man", "--version"], capture_output=True, text=True, check=False)
        if not version.stdout.startswith("man "):
            self.skipTest("man is not that of man-db")
        link = os.path.join(
            self.home.name, "man"
        )  # a path of man must not have a colon or odd characters
        os.symlink(os.path.join(self.prefix, "share/man"), link)
        found = output("man", "-M", link, "-w", "safetensors-diff").strip()
        self.assertEqual(
            os.path.realpath(found), os.path.realpath(os.path.join(link, "man1/safetensors-diff.1"))
        )

    def test_the_extension_runs_the_command_beside_it(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            link = os.path.join(folder, "hf-safetensors")
            os.symlink(self.extension, link)
            for program in (self.extension, link):
                result = self.run_extension(
                    "ls", "no such file", program=program, PATH="/usr/bin:/bin"
                )
                self.assertEqual(result.returncode, 3)
                self.assertEqual(
                    result.stderr,
                    "safetensors: no such file: cannot open: no such file or directory\n",
                )
            self.assertEqual(self.run_extension("--", "version").returncode, 0)

    def test_the_extension_alone_runs_the_command_of_the_path(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(self.extension, folder)
            path = os.path.join(self.prefix, "bin")
            self.assertEqual(
                self.run_extension(
                    "version", program=alone, PATH=f"{path}:/usr/bin:/bin"
                ).returncode,
                0,
            )
            tools = os.path.join(folder, "tools")
            os.mkdir(tools)
            for tool in ("sh", "dirname", "readlink"):
                os.symlink(shutil.which(tool) or tool, os.path.join(tools, tool))
            result = self.run_extension("version", program=alone, PATH=tools)
            self.assertEqual(result.returncode, 3)
            self.assertEqual(
                result.stderr,
                "hf-safetensors: cannot find the command safetensors, neither beside this file nor "
                "on the PATH\n",
            )

    def test_register_writes_a_manifest_that_hf_reads(self) -> None:
        for _ in range(2):
            result = self.run_extension("--register")
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        self.assertEqual(os.listdir(self.folder), ["manifest.json"])
        with open(os.path.join(self.folder, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        self.assertEqual(manifest["executable_path"], os.path.realpath(self.extension))
        self.assertTrue(os.stat(manifest["executable_path"]).st_mode & stat.S_IXUSR)
        self.assertEqual(manifest["short_name"], "safetensors")
        self.assertEqual(manifest["type"], "binary")
        result = self.run_extension("--unregister")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertFalse(os.path.exists(self.folder))
        self.assertEqual(self.run_extension("--unregister").returncode, 0)

    def test_register_refuses_a_path_that_is_not_utf8(self) -> None:
        with tempfile.TemporaryDirectory() as holder:
            folder = os.path.join(os.fsencode(holder), b"a\xff")
            os.mkdir(folder)
            alone = os.fsdecode(shutil.copy(os.fsencode(self.extension), folder))
            result = self.run_extension("--register", program=alone)
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertIn("is not UTF-8", result.stderr)
        self.assertFalse(os.path.exists(self.folder))

    def test_another_extension_of_this_name_stays(self) -> None:
        os.makedirs(self.folder)
        manifest = os.path.join(self.folder, "manifest.json")
        with open(manifest, "w", encoding="utf-8") as file:
            file.write('{"owner": "somebody"}')
        for option in ("--register", "--unregister"):
            result = self.run_extension(option)
            self.assertEqual(result.returncode, 3)
            self.assertIn("another extension is registered", result.stderr)
            with open(manifest, encoding="utf-8") as file:
                self.assertEqual(file.read(), '{"owner": "somebody"}')

    def test_hf_runs_the_extension(self) -> None:
        hf = os.environ.get("SAFETENSORS_TEST_HF") or shutil.which("hf")
        if not hf:
            self.skipTest("hf is not installed")
        if (
            subprocess.run(
                [hf, "extensions", "--help"], capture_output=True, check=False
            ).returncode
            != 0
        ):
            self.skipTest("this hf has no extensions")
        make_inputs.main(self.home.name)  # type: ignore[no-untyped-call]
        self.assertEqual(self.run_extension("--register").returncode, 0)
        good = os.path.join(self.home.name, "good.safetensors")
        expected = output(PROGRAM, "ls", good)
        for command in (("safetensors", "ls"), ("extensions", "exec", "safetensors", "--", "ls")):
            self.assertEqual(self.run_extension(*command, good, program=hf).stdout, expected)
        invalid = os.path.join(self.home.name, "rule01_empty.safetensors")
        self.assertEqual(
            self.run_extension("safetensors", "verify", invalid, program=hf).returncode, 1
        )
        self.assertIn("hf safetensors", self.run_extension("extensions", "list", program=hf).stdout)


if __name__ == "__main__":
    PROGRAM, CMAKE, BUILD, CONFIGURATION = (
        os.path.abspath(sys.argv.pop(1)),
        *(sys.argv.pop(1) for _ in range(3)),
    )
    unittest.main()
