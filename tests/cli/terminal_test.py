#!/usr/bin/env python3
"""What the command shows on terminals of 80 and 120 columns.

    terminal_test.py SAFETENSORS [unittest's arguments]
"""
import math
import os
import re
import shutil
import sys
import unittest

import behaviour_test
import terminal
from behaviour_test import CommandTest

NAN = ["model.layers.13.self_attn.q_proj.weight", "model.layers.31.mlp.down_proj.weight"]
INF = "model.layers.7.post_attention_layernorm.weight"


class ModelTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        trouble = {NAN[0]: [math.nan] * 3, NAN[1]: [math.nan], INF: [-math.inf] * 2}
        layers = [f"model.layers.{i}.mlp.{x}_proj.weight" for i in (3, 30) for x in ("gate", "up", "down")]
        for name, data in (
            ("llama.safetensors", terminal.llama(trouble=trouble)),
            ("plain.safetensors", terminal.llama()),
            ("tuned.safetensors", terminal.llama(changed=layers)),
        ):
            with open(os.path.join(cls.folder, name), "wb") as file:
                file.write(data)

    def lines(self, width, *arguments):
        shown = terminal.lines(arguments, self.folder, width)
        for line in shown:
            self.assertLessEqual(len(line), width, shown)
        return shown

    def rows(self, width, *arguments):
        """The heading and the rows of a table, in cells."""
        shown = self.lines(width, *arguments)
        table = [line for line in shown if re.match(r"\S+ {2,}\S+ {2,}\S", line)]
        return table[0].split(), [re.split(r" {2,}", line) for line in table[1:]]


class TableTest(ModelTest):
    def test_stats_shows_trouble_and_the_layer_at_80_columns(self):
        for sort in ("nan", "name", "offset", "zeros", "absmax", "std"):
            heading, rows = self.rows(80, "stats", "llama.safetensors", "--sort", sort)
            self.assertLessEqual({"DTYPE", "MIN", "MAX", "NAN", "INF"}, set(heading))
            self.assertEqual(len(rows), 291)
            self.assertEqual(len({row[0] for row in rows}), 291, "two names were folded to the same text")
            if sort != "offset":
                self.assertIn(sort.upper(), heading)
        worst = self.rows(80, "stats", "llama.safetensors", "--sort", "nan")[1][:3]
        self.assertEqual([row[0] for row in worst], ["…13…q_proj.weight", "…7.post…layernorm…", "…31…down_proj.weight"])
        self.assertEqual([row[-2:] for row in worst], [["3", "0"], ["0", "2"], ["1", "0"]])

    def test_stats_is_whole_at_120_columns(self):
        heading, rows = self.rows(120, "stats", "llama.safetensors", "--sort", "nan")
        self.assertEqual(heading[-4:], ["ABSMAX", "ZEROS", "NAN", "INF"])
        self.assertEqual({row[0] for row in rows}, set(self.names()))

    def names(self):
        return [tensor["name"] for tensor in self.document("ls", "plain.safetensors", "--json")["files"][0]["tensors"]]

    def test_ls_folds_no_name_while_a_column_can_go(self):
        heading, rows = self.rows(80, "ls", "plain.safetensors")
        self.assertEqual([row[0] for row in rows], self.names())
        self.assertEqual(heading[:4], ["NAME", "DTYPE", "SHAPE", "SIZE"])
        self.assertNotIn("OFFSET", heading)
        self.assertEqual(self.lines(80, "ls", "plain.safetensors")[-2], "safetensors: not shown at 80 columns: BEGIN, END, FILE OFFSET")
        self.assertIn("OFFSET", self.rows(120, "ls", "plain.safetensors")[0])

    def test_columns_are_hidden_in_order(self):
        order = ["ALIGNMENT", "FILE OFFSET", "BEGIN", "END", "SHARE", "FILE"]
        seen = set()
        for width in range(70, 140):
            shown = self.lines(width, "ls", "plain.safetensors", "--columns", "name,size,share,begin,end,offset,alignment,file")
            hidden = [column for column in order if column not in re.split(" {2,}", shown[0])]
            self.assertEqual(hidden, order[: len(hidden)], width)
            self.assertEqual("BEGIN" in hidden, "END" in hidden)
            seen.add(len(hidden))
        self.assertGreaterEqual(len(seen), 4)

    def test_the_sorted_column_stays(self):
        self.assertIn("OFFSET", self.rows(80, "ls", "plain.safetensors", "--sort", "offset")[0])

    def test_a_common_beginning_is_shown_once(self):
        shown = self.lines(80, "ls", "plain.safetensors", "--match", "*.layers.[12].*", "--long")
        self.assertEqual(shown[0], "all names begin with `model.layers.`")
        self.assertTrue(shown[2].startswith("1.input_layernorm.weight  "), shown[2])
        self.assertEqual(sum("model.layers" in line for line in shown), 1)
        # Not where the whole names fit, and never in a pipe.
        self.assertNotIn("begin with", "\n".join(self.lines(120, "ls", "plain.safetensors", "--match", "*.layers.[12].*")))
        self.assertNotIn(b"begin with", self.output("ls", "plain.safetensors", "--match", "*.layers.[12].*"))

    def test_info_names_each_of_the_largest_tensors(self):
        for width in (60, 80, 120):
            shown = self.lines(width, "info", "plain.safetensors", "--largest", "40")
            start = [i for i, line in enumerate(shown) if line.startswith("  LARGEST")][0]
            names = [line.split()[0] for line in shown[start + 1 : start + 41]]
            self.assertEqual(len(set(names)), 40, names)
            self.assertIn(" SIZE", shown[start])

    def test_the_tree_keeps_dtypes(self):
        for width in (60, 80, 120):
            heading, rows = self.rows(width, "ls", "--tree", "plain.safetensors")
            self.assertIn("DTYPE", heading)
            self.assertIn("layers.{0..31}", "\n".join(self.lines(width, "ls", "--tree", "plain.safetensors")))

    def test_no_word_breaks(self):
        words = set(re.split(r"[._]", "_".join(self.names())))
        for width in (50, 60, 80):
            for row in self.rows(width, "ls", "plain.safetensors")[1]:
                parts = [part for part in re.split(r"[._…]", row[0]) if part]
                self.assertLessEqual(set(parts), words, row)

    def test_lines_of_info_break_at_spaces(self):
        shown = self.lines(40, "info", "plain.safetensors")
        place = [i for i, line in enumerate(shown) if line.startswith("  alignment")][0]
        self.assertEqual(shown[place], "  alignment   all tensors can be used in")
        self.assertEqual(shown[place + 1], "              place; they start at")


class DiffTest(ModelTest):
    def test_layers_that_changed_most(self):
        for width in (80, 120):
            shown = self.lines(width, "diff", "plain.safetensors", "tuned.safetensors", "--by-layer", "--sort", "max-error")
            self.assertEqual(re.split(" {2,}", shown[0])[:4], ["LAYER", "TENSORS", "ELEMENTS", "MAX ERROR"])
            rows = [re.split(" {2,}", line) for line in shown[1:3]]
            self.assertEqual([row[:2] for row in rows], [[f"model.layers.{i}", "3 of 9"] for i in (3, 30)])
            self.assertRegex(rows[0][2], "^[1-9][0-9]* of 576$")
            self.assertEqual(shown[-1], "285 tensors equal, 6 with other values")

    def test_the_largest_differences(self):
        shown = self.lines(80, "diff", "plain.safetensors", "tuned.safetensors", "--sort", "differing", "--top", "4")
        self.assertEqual(shown[0], "all names begin with `model.layers.`")
        self.assertIn("  ELEMENTS  MAX ERROR", re.sub(" {3,}", "  ", shown[1]))
        counts = [int(re.search(r"(\d+) of \d+", line)[1]) for line in shown[2:6]]
        self.assertEqual(counts, sorted(counts, reverse=True))
        self.assertEqual(shown[6], "... and 2 more tensors")
        code, _ = terminal.run(("diff", "plain.safetensors", "tuned.safetensors", "--exit-zero"), self.folder, 80)
        self.assertEqual(code, 0)


class CastTest(ModelTest):
    def test_a_long_table_of_losses_ends_on_a_terminal_only(self):
        command = ("cast", "plain.safetensors", "fp8.safetensors", "--to", "fp8", "--force")
        shown = self.lines(80, *command)
        self.assertEqual(len(shown), 1 + 10 + 3, shown)
        self.assertEqual(shown[11], "... and 281 more tensors (in a pipe or with --json: all)")
        self.assertEqual(len(self.output(*command).splitlines()), 1 + 291 + 2)


class ProgressTest(ModelTest):
    def test_progress_leaves_nothing_behind(self):
        with open(self.path("large.safetensors"), "wb") as file:
            header = b'{"large":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (1 << 28, 1 << 28)
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + (1 << 28))
        code, shown = terminal.run(("stats", "large.safetensors"), self.folder, 80)
        self.assertEqual(code, 0)
        self.assertIn(b"%  ", shown, "no progress was shown")
        # What a terminal shows of each line: a carriage return begins it again.
        screen = []
        for line in shown.decode().split("\r\n"):
            row = ""
            for part in line.split("\r"):
                row = part + row[len(part) :]
            screen.append(row.rstrip())
        self.assertTrue(screen[0].startswith("NAME "), screen)
        self.assertNotIn("%", "".join(screen))


@unittest.skipUnless(shutil.which("tmux"), "tmux is not installed: scripts/install-dependencies test")
class ScreenTest(ModelTest):
    """The same in a real terminal, where a line that is too long would go on in the next one."""

    def screen(self, width, command):
        screen = terminal.Tmux(self.folder, width)
        self.addCleanup(screen.close)
        return screen.screen(f"{behaviour_test.PROGRAM} {command}")

    def test_screens_have_the_lines_of_the_table(self):
        for width in (80, 120):
            shown = self.screen(width, "stats llama.safetensors --sort nan --match '*.layers.[37].*' --match '*.13.*'")
            table = shown[width == 80 :]
            self.assertTrue(table[0].startswith("NAME "), table[0])
            self.assertIn(" NAN  INF", table[0])
            self.assertTrue(table[1].startswith("13…q_proj.weight " if width == 80 else NAN[0]), table[1])
            self.assertTrue(table[-1].startswith("27 tensors, "), table[-1])
            self.assertEqual(len(table), 1 + 27 + 1 + (width == 80))


if __name__ == "__main__":
    behaviour_test.PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
