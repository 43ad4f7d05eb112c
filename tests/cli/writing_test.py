#!/usr/bin/env python3
"""Stops commands while they write. Checks that the model is whole, and that the next save removes the rest.

    writing_test.py SAFETENSORS [unittest's arguments]
"""
import glob
import json
import os
import resource
import signal
import subprocess
import time
import unittest

from command import PROGRAM, FolderTest, make_sparse

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIZE = 2 << 30  # bytes of the sparse model: the signal arrives while the command still writes it


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


class WritingTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.model = self.path("model")
        make_sparse(self.model, SIZE)

    def start(self, *arguments, **options):
        process = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, stderr=subprocess.PIPE, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    def temporaries(self):
        return glob.glob(os.path.join(self.folder, ".*")) + glob.glob(self.model + ".*")

    def wait_for_writing(self, process):
        """Waits until the process has made its new file. Returns whether the file has a name."""
        links = f"/proc/{process.pid}/fd"
        for _ in range(60000):
            try:
                opened = [os.readlink(os.path.join(links, name)) for name in os.listdir(links)]
                # A file with bytes is locked.
                if any(".safetensors-" in path and os.path.getsize(path) > 0 for path in opened):
                    return True
            except OSError:  # closed meanwhile
                opened = []
            if any(path.startswith(self.folder + "/#") for path in opened):
                return False
            self.assertIsNone(process.poll(), "it ended before it wrote")
            time.sleep(0.001)
        self.fail("it never wrote")

    def stop(self, process, number):
        """Sends the signal and returns how the process ended."""
        process.send_signal(number)
        return process.wait(timeout=120)


class SignalTest(WritingTest):
    def check_edit(self, number, delay, durability):
        """Sends a signal during an edit, and checks that the model is whole. Returns whether the signal ended it."""
        before = self.state()
        process = self.start("meta", "set", "model", "a=b", "--durability", durability)
        if delay is None:
            self.wait_for_writing(process)
        else:
            time.sleep(delay)
        code = self.stop(process, number)
        what = (number, delay, durability, process.stderr.read())
        self.assertEqual(self.temporaries(), [], what)
        self.assertEqual(os.listdir(self.folder), ["model"], what)
        if self.state() == before:
            self.assertEqual(code, -number, what)
            return True
        self.assertIn(code, (0, -number), what)
        self.assertEqual(self.run_command("meta", "get", "model", "a").stdout, b"b\n", what)
        self.assertEqual(self.run_command("meta", "rm", "model", "a", "--durability", "none").returncode, 0)
        return False

    def test_an_edit_that_is_stopped_leaves_the_model_and_nothing_else(self):
        for durability in ("none", "full"):
            for number in SIGNALS:
                self.assertTrue(self.check_edit(number, None, durability))

    def test_an_edit_may_be_stopped_at_any_moment(self):
        for index, milliseconds in enumerate((0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 80, 130, 210, 340)):
            self.check_edit(SIGNALS[index % 3], milliseconds / 1000, "none" if index % 2 else "full")

    def test_an_edit_of_a_small_model_may_be_stopped_at_any_moment(self):
        for index in range(120):
            make_sparse(self.model, 1 << 16)
            self.check_edit(SIGNALS[index % 3], index / 20000, "full")

    def test_an_output_that_is_stopped_leaves_nothing(self):
        for number in SIGNALS:
            for force in (False, True):
                if force:
                    self.write("out", "old")
                process = self.start("cat", "model", "t", "-o", "out", *["--force"][: int(force)])
                self.assertTrue(self.wait_for_writing(process) or not force)
                self.assertEqual(self.stop(process, number), -number)
                self.assertEqual(process.stderr.read(), b"")
                self.assertEqual(sorted(os.listdir(self.folder)), ["model", "out"] if force else ["model"])
                if force:
                    self.assertEqual(self.read("out"), b"old")
                    os.remove(self.path("out"))

    def test_a_signal_that_is_ignored_stops_nothing(self):
        def ignore():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

        make_sparse(self.model, 64 << 20)
        process = self.start("meta", "set", "model", "a=b", "--durability", "none", preexec_fn=ignore)
        code = self.stop(process, signal.SIGHUP)
        self.assertEqual((code, process.stderr.read()), (0, b""))
        self.assertEqual(self.run_command("meta", "get", "model", "a").stdout, b"b\n")

    def test_a_file_over_the_limit_is_an_error_and_leaves_nothing(self):
        before = self.state()
        for arguments in (("meta", "set", "model", "a=b"), ("meta", "set", "model", "a=b", "--durability", "none"),
                          ("cat", "model", "t", "-o", "out")):
            process = self.start(*arguments, preexec_fn=limit_files)
            self.assertEqual(process.wait(timeout=120), 3, arguments)
            self.assertIn(b"file too large", process.stderr.read())
            self.assertEqual(os.listdir(self.folder), ["model"])
            self.assertEqual(self.state(), before)


class VerbTest(WritingTest):
    """The verbs that write a new model."""

    VERBS = (
        (signal.SIGINT, ("merge", "model", "-o", "out", "--force")),
        (signal.SIGTERM, ("cast", "model", "out", "--to", "f16", "--force")),
        (signal.SIGHUP, ("split", "model", "folder")),
    )

    def setUp(self):
        super().setUp()
        make_sparse(self.model, 1 << 30)
        self.put("out", [("old", "U8", [1], b"o")])

    def test_a_signal_leaves_the_old_files(self):
        before = self.state()
        for number, arguments in self.VERBS:
            process = self.start(*arguments)
            self.wait_for_writing(process)
            self.assertEqual(self.stop(process, number), -number, arguments)
            self.assertEqual(self.state(), before, arguments)

    def test_a_kill_leaves_the_old_files_and_the_next_save_removes_the_rest(self):
        before = self.state()
        for _, arguments in self.VERBS[::2]:
            process = self.start(*arguments)
            self.wait_for_writing(process)
            self.stop(process, signal.SIGKILL)
            make_sparse(self.path("small"), 1)
            for _ in range(2):  # a file that is replaced, and not a new one
                self.succeed("merge", "small", "-o", "new", "--force")
            os.remove(self.path("new"))
            os.remove(self.path("small"))
            self.assertEqual(self.state(), before, arguments)

    def test_a_full_disk_leaves_the_old_files(self):
        for _, arguments in self.VERBS[::2]:
            self.fail_with(3, "cannot write", *arguments, preexec_fn=limit_files)

    def test_memory_stays_bounded(self):
        for _, arguments in self.VERBS[::2]:
            self.assertLess(self.peak_memory(*arguments), 64 << 10, arguments)


class KilledTest(WritingTest):
    def test_verify_names_what_a_killed_writer_left_and_the_next_save_removes_it(self):
        before = self.state()
        process = self.start("meta", "set", "model", "a=b")
        self.assertTrue(self.wait_for_writing(process))
        self.assertEqual(self.stop(process, signal.SIGKILL), -signal.SIGKILL)
        (left,) = self.temporaries()
        self.assertEqual(self.state()[self.model], before[self.model])
        for name in "ab":
            make_sparse(os.path.join(self.folder, name + ".safetensors"), 1 << 16)
        note = f"{left}: note: left by a killed writer; a save that replaces a file or writes a model there removes it"
        self.assertIn(note, self.run_command("verify", self.folder + "/?.safetensors").stdout.decode().splitlines())
        self.assertEqual(
            json.loads(self.run_command("verify", self.folder + "/?.safetensors", "--json").stdout)["files"][0][
                "leftovers"
            ],
            [left],
        )
        make_sparse(self.model, 1 << 16)
        self.assertEqual(self.run_command("meta", "set", "model", "a=b").returncode, 0)
        self.assertEqual(self.temporaries(), [])

    def test_a_new_file_that_is_killed_leaves_nothing(self):
        process = self.start("cat", "model", "t", "-o", "out")
        if self.wait_for_writing(process):
            self.skipTest("the file system of the temporary directory has no O_TMPFILE")
        self.assertEqual(self.stop(process, signal.SIGKILL), -signal.SIGKILL)
        self.assertEqual(os.listdir(self.folder), ["model"])

    def test_an_output_that_appears_meanwhile_is_not_replaced_without_force(self):
        for force in (False, True):
            make_sparse(self.model, 256 << 20)
            process = self.start("cat", "model", "t", "-o", "out", *["--force"][: int(force)])
            self.wait_for_writing(process)
            self.write("out", "other")
            code = process.wait(timeout=120)
            self.assertEqual(code, 0 if force else 3)
            self.assertEqual(os.stat(self.path("out")).st_size, (256 << 20) if force else 5)
            self.assertEqual(sorted(os.listdir(self.folder)), ["model", "out"])
            os.remove(self.path("out"))


if __name__ == "__main__":
    unittest.main()
