#!/usr/bin/env python3
"""Kills commands that write a model, before system calls that change its folder. The folder must hold the old model or
the new one. The next command that writes there must work, also if its input is its output, and leave nothing but its
own files.

    killed_test.py SAFETENSORS [unittest's arguments]

SAFETENSORS_TEST_KILLS is the number of kills per case. They are spread over all such system calls of the command.
strace kills the command. Without strace, and where it may not trace, the tests are skipped.
"""

import json
import os
import shutil
import subprocess
import unittest

from command import PROGRAM, FolderTest

KILLS = int(os.environ.get("SAFETENSORS_TEST_KILLS", "6"))
TENSORS = 5
BYTES = 2_000  # of each tensor, which has a file of its own
CALLS = ("rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "rmdir")
# Each case: the arguments of the command, and the number of files of the model that it writes.
CASES = {
    "select": (["select", "IN", "OUT", "--match", "t[0-3]"], 4),
    "drop": (["drop", "IN", "OUT", "--match", "t0"], TENSORS - 1),
    "rename": (["rename", "IN", "OUT", "--map", "names"], TENSORS),
    "cast": (["cast", "IN", "OUT", "--to", "i32"], TENSORS),
    "split": (["split", "IN", "OUT", "--max-shard-size", str(2 * BYTES)], 3),
    "split_to_one": (["split", "IN", "OUT"], 1),
    "split_alike": (["split", "IN", "OUT", "--max-shard-size", str(BYTES)], TENSORS),
}


class KilledTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.write("names", "t0\trenamed\n")
        for value, name in enumerate(["old", "in"]):
            self.put(name + ".safetensors", [(f"t{i}", "U8", [BYTES], bytes([value]) * BYTES) for i in range(TENSORS)])
            self.succeed("split", name + ".safetensors", name, "--max-shard-size", str(BYTES))

    def run_command(self, *command):
        return subprocess.run(command, cwd=self.folder, capture_output=True, timeout=120, text=True)

    def succeed(self, *arguments):
        done = self.run_command(PROGRAM, *arguments)
        self.assertEqual(done.returncode, 0, (arguments, done.stdout, done.stderr))

    def restore(self, name, out):
        """Copies a file or folder over OUT. If there is none, removes OUT."""
        shutil.rmtree(self.path(out), ignore_errors=True)
        if os.path.isdir(self.path(name)):
            shutil.copytree(self.path(name), self.path(out))
        elif os.path.exists(self.path(name)):
            shutil.copy(self.path(name), self.path(out))

    def trace(self, arguments, inject=()):
        """Runs the command, and returns the names of its system calls that change folders."""
        log = self.path("log")
        self.run_command(
            "strace",
            "-qq",
            "-f",
            "-o",
            log,
            "-e",
            "trace=" + ",".join(f"?{call}" for call in CALLS),
            *inject,
            PROGRAM,
            *arguments,
        )
        with open(log) as file:
            lines = [line.split(maxsplit=1)[1] for line in file if "(" in line]
        os.remove(log)
        return [line.split("(")[0] for line in lines if line.split("(")[0] in CALLS]

    def kills(self, arguments):
        """Returns where to kill the command: pairs of a system call and a number."""
        if shutil.which("strace") is None:
            self.skipTest("no strace")
        calls = self.trace(arguments)
        if not calls:
            self.skipTest("strace may not trace here")
        places = [(call, calls[: i + 1].count(call)) for i, call in enumerate(calls)]
        count = min(KILLS, len(places))
        return [places[i * (len(places) - 1) // max(count - 1, 1)] for i in range(count)]

    def kill(self, arguments, place):
        self.trace(arguments, ("-e", "inject={}:signal=SIGKILL:when={}".format(*place)))

    def holds(self, out, *names):
        """Returns which models OUT equals."""
        self.succeed("verify", out)
        return [name for name in names if self.run_command(PROGRAM, "diff", name, out).returncode == 0]

    def check_files(self, files, folder="out"):
        self.assertEqual(len(os.listdir(self.path(folder))), files + (files > 1), os.listdir(self.path(folder)))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".")], [])

    def each_kill(self, arguments, check, old="old", out="out"):
        """Runs the command over a copy of `old`, which makes `new`. Then kills it over one, place after place."""
        new = out.replace("out", "new")
        self.restore(old, out)
        self.succeed(*arguments)
        self.restore(out, new)
        self.restore(old, out)
        for place in self.kills(arguments):
            with self.subTest(arguments=arguments, place=place):
                self.restore(old, out)
                self.kill(arguments, place)
                check(arguments, new)

    def repeats(self, arguments, new):
        self.assertIn(len(self.holds("out", "old", "new")), (1, 2))  # 2: the values stay, only the files change
        self.succeed(*arguments)
        self.assertEqual(self.holds("out", "old", "new")[-1], "new")
        self.check_files(len([name for name in os.listdir(self.path("new")) if name.endswith(".safetensors")]))

    def splits(self, *_):
        """Not the command itself: it would change a new model once more."""
        held, generation = self.holds("out", "old", "new"), self.generation("out")
        self.assertIn(len(held), (1, 2))
        self.succeed("split", "out", "out", "--max-shard-size", str(BYTES), "--force")
        self.assertEqual(self.holds("out", "old", "new"), held)
        # Otherwise, nothing tells later that files without an index were a model.
        if not any("consolidated" in name for name in self.listed("old")):
            self.check_files(len(self.listed("out")))
            self.assertGreaterEqual(self.generation("out"), generation + (generation > 1))

    def generation(self, folder):
        """Returns the highest generation of a file in the folder."""
        return max(
            (int(name.split("-gen")[1][:5]) for name in os.listdir(self.path(folder)) if "-gen" in name), default=1
        )

    def words(self, case, source, out="out"):
        return [{"IN": source, "OUT": out}.get(word, word) for word in CASES[case][0]] + ["--force"]

    def check(self, case, source):
        """source: the input; `out` is also the output."""
        self.each_kill(self.words(case, source), self.splits if source == "out" else self.repeats)
        self.check_files(CASES[case][1], "new")

    def check_merge(self, source):
        def repeats(arguments, new):
            self.assertIn(len(self.holds("out.safetensors", "old.safetensors", new)), (1, 2))
            self.succeed(*arguments)
            self.assertIn(new, self.holds("out.safetensors", new))
            self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".")], [])

        arguments = ["merge", source, "-o", "out.safetensors", "--force"]
        self.each_kill(arguments, repeats, "old.safetensors", "out.safetensors")

    def test_merge(self):
        self.check_merge("in")

    def test_merge_in_place(self):
        self.check_merge("out.safetensors")

    def name_foreign(self, index, pattern):
        """Gives the model in `old` the names that other programs give, and a mode of its own."""
        folder = self.path("old")
        weight_map = {}
        for i in range(TENSORS):
            ours = os.path.join(folder, f"model-{i + 1:05}-of-{TENSORS:05}.safetensors")
            weight_map[f"t{i}"] = pattern.format(i, i + 1, TENSORS)
            os.chmod(ours, 0o600)
            os.rename(ours, os.path.join(folder, weight_map[f"t{i}"]))
        os.remove(os.path.join(folder, "model.safetensors.index.json"))
        with open(os.path.join(folder, index), "w") as file:
            json.dump({"weight_map": weight_map}, file)

    def check_naming(self, index, pattern):
        """Writes in place over shards that are called as other programs call them."""
        self.name_foreign(index, pattern)
        own = pattern.startswith("model") and "-of-" in pattern  # otherwise, one file beside them needs an index
        for case, (_, files) in CASES.items():
            self.each_kill(self.words(case, "out"), self.splits)
            if "-of-" in pattern:
                self.assertEqual(len(os.listdir(self.path("new"))), files + (files > 1 or not own))
            self.assertEqual(os.path.exists(self.path("new", index)), files > 1 or not own)
            if files == TENSORS and "-of-" in pattern:
                self.assertEqual(
                    {os.stat(self.path("new", name)).st_mode & 0o777 for name in self.listed("new")}, {0o600}
                )

    def check_new_folder(self, index, pattern):
        """Writes a model with foreign names to a new folder, which keeps them."""
        def repeats(arguments, new):
            if os.path.exists(self.path("out")):
                self.assertEqual(self.holds("out", new), [new])
            self.succeed(*arguments)
            self.assertEqual(self.holds("out", new), [new])
            self.assertEqual(os.path.exists(self.path("out", index)), len(os.listdir(self.path("out"))) > 1)

        self.name_foreign(index, pattern)
        for case, (_, files) in CASES.items():
            self.each_kill(self.words(case, "old"), repeats, "nothing")
            self.check_files(files, "new")
            if files > 1:
                self.assertEqual(self.listed("new"), {pattern.format(i, i + 1, files) for i in range(files)})

    def check_files_of(self, index, pattern):
        """Changes the metadata of a model with foreign names, and merges it to a file in its folder."""
        def repeats(arguments, new):
            self.succeed("verify", "out/" + index)
            self.succeed(*arguments)
            self.assertEqual(self.holds("out/" + index, f"{new}/{index}"), [f"{new}/{index}"])
            self.assertEqual(sorted(os.listdir(self.path("out"))), sorted(os.listdir(self.path(new))))

        self.name_foreign(index, pattern)
        self.each_kill(["meta", "set", "out", "k=v"], repeats)
        self.assertEqual(sorted(os.listdir(self.path("new"))), sorted(os.listdir(self.path("old"))))
        self.each_kill(["merge", "out/" + index, "-o", "out/model.safetensors", "--force"], repeats)

    def listed(self, folder):
        """Returns the files that the only index of a folder names, or those in the folder."""
        names = os.listdir(self.path(folder))
        for name in names:
            if name.endswith(".json"):
                with open(self.path(folder, name)) as file:
                    return set(json.load(file)["weight_map"].values())
        return set(names)

    def test_one_file_becomes_many_in_place(self):
        shutil.rmtree(self.path("old"))
        os.mkdir(self.path("old"))
        shutil.copy(self.path("old.safetensors"), self.path("old", "model.safetensors"))
        self.check("split_alike", "out")


NAMINGS = {
    "qwen": ("model.safetensors.index.json", "model.safetensors-{1:05}-of-{2:05}.safetensors"),
    "from_0": ("model.safetensors.index.json", "model-{0:05}-of-{2:06}.safetensors"),
    "fp16": ("model.safetensors.index.fp16.json", "model-{1:05}-of-{2:05}.fp16.safetensors"),
    "deepseek": ("model.safetensors.index.json", "model-{1:05}-of-{2:06}.safetensors"),
    "other_stem": ("model.safetensors.index.json", "weights-{1:05}-of-{2:05}.safetensors"),
    "other": ("model.safetensors.index.json", "consolidated-{0}.safetensors"),
}
for each in NAMINGS:
    setattr(KilledTest, f"test_naming_{each}", lambda self, naming=each: self.check_naming(*NAMINGS[naming]))
    setattr(KilledTest, f"test_files_of_{each}", lambda self, naming=each: self.check_files_of(*NAMINGS[naming]))
    if each != "other":
        setattr(
            KilledTest, f"test_new_folder_{each}", lambda self, naming=each: self.check_new_folder(*NAMINGS[naming])
        )
for each in CASES:
    setattr(KilledTest, "test_" + each, lambda self, case=each: self.check(case, "in"))
    setattr(KilledTest, f"test_{each}_in_place", lambda self, case=each: self.check(case, "out"))

if __name__ == "__main__":
    unittest.main()
