"""What the tests of the command have in common. The first argument of each is the command."""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import make_inputs

PROGRAM = os.path.abspath(sys.argv.pop(1))
NOTHING_CAST = b"safetensors: notice: no tensor is cast, so OUT will be a copy of IN\n"


def environment(**changes):
    variables = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    variables.update(TERM="xterm", LC_ALL="C")
    variables.update(changes)
    return variables


def has_expressions():
    """Whether the command was built with RE2, which expressions of rename need."""
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, check=True)
    return b"RE2" in version.stdout


def has_hashes():
    """Whether the command was built with OpenSSL, which digests need."""
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, check=True)
    return b"sha256      none" not in version.stdout


def header_of(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))


def make_sparse(path, size):
    header = json.dumps({"t": make_inputs.entry("U8", [size], 0, size)})
    content = make_inputs.container(header)
    with open(path, "wb") as file:
        file.write(content)
        file.truncate(len(content) + size)


class FilesTest(unittest.TestCase):
    """Reads and writes files below the folder of a test."""

    folder = ""

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def write(self, name, content):
        """Writes text or bytes. Makes the folder."""
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())

    def put(self, name, tensors, metadata=None):
        self.write(name, make_inputs.of_tensors(tensors, metadata))


class CommandTest(FilesTest):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = cls.holder.name
        make_inputs.main(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def run_command(self, *arguments, variables=None, **options):
        return subprocess.run(
            [PROGRAM, *arguments],
            cwd=self.folder,
            env=environment() | (variables or {}),
            capture_output=True,
            timeout=120,
            **options,
        )

    def output(self, *arguments):
        result = self.run_command(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, b""), arguments)
        return result.stdout

    def document(self, *arguments):
        return json.loads(self.output(*arguments))


class FolderTest(FilesTest):
    """Has an empty folder."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def run_command(self, *arguments, **options):
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, capture_output=True, timeout=120, **options)

    def succeed(self, *arguments, **options):
        result = self.run_command(*arguments, **options)
        messages = result.stderr.replace(NOTHING_CAST, b"") if arguments[0] == "cast" else result.stderr
        self.assertEqual((result.returncode, messages), (0, b""), arguments)
        return result.stdout.decode()

    def answer(self, code, *arguments):
        """The output of a command and its messages."""
        result = self.run_command(*arguments)
        self.assertEqual(result.returncode, code, (arguments, result.stdout, result.stderr))
        return result.stdout.decode(), result.stderr.decode()

    def lines(self, code, *arguments):
        """The lines of a command that are no good verdicts."""
        return [line for line in self.answer(code, *arguments)[0].splitlines() if ": ok, " not in line]

    def peak_memory(self, *arguments, code=0):
        """Runs the command and returns the peak of its memory in KiB."""
        process = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, stdout=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            # The resource usage of a child would count the memory of this process before exec().
            with open(f"/proc/{process.pid}/status") as file:
                sizes = [int(line.split()[1]) for line in file if line.startswith("VmHWM")]
            peak = max([peak, *sizes])
            time.sleep(0.001)
        self.assertEqual(process.returncode, code, arguments)
        self.assertGreater(peak, 0)
        return peak

    def limit_memory(self, size):
        """Returns a function that limits the memory of a command. With a sanitizer, which reserves more, skips."""
        import resource  # Windows has none

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (size, size))

        if self.run_command("--version", preexec_fn=limit).returncode != 0:
            self.skipTest("the program has a sanitizer, which needs memory of its own")
        return limit

    def fail_with(self, code, text, *arguments, **options):
        """The command fails, says `text`, and leaves every file as it was."""
        before = self.state()
        result = self.run_command(*arguments, **options)
        self.assertEqual(result.returncode, code, (arguments, result.stderr))
        self.assertIn(text, result.stderr.decode(), arguments)
        self.assertEqual(self.state(), before, arguments)

    def state(self):
        """The names, links and bytes below the folder."""
        found = {}
        for top, folders, files in os.walk(self.folder):
            found.update((os.path.join(top, name), None) for name in folders)
            for name in files:
                path = os.path.join(top, name)
                small = os.path.exists(path) and os.path.getsize(path) < 1 << 20
                content = self.read(path) if small else os.lstat(path).st_ino
                found[path] = (os.readlink(path) if os.path.islink(path) else None, content)
        return found
