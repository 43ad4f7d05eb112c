#!/usr/bin/env python3
"""What the command shows on terminals of 80 and 120 columns.

    terminal_test.py SAFETENSORS [unittest's arguments]
"""
import math
import os
import re
import unittest

import make_inputs
from command import CommandTest
import terminal

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
        """The heading and the rows of a table, in cells. A name on a line of its own is the first cell of the next."""
        shown = self.lines(width, *arguments)
        first = [i for i, line in enumerate(shown) if re.match(r"\S+ {2,}\S+ {2,}\S", line)][0]
        rows, name = [], []
        for line in shown[first + 1 :]:
            if re.fullmatch(r"\S+", line):
                name = [line]
            elif re.match(r"\S* {2,}\S", line) and (name or line[0] != " "):
                rows.append(name + re.split(r" {2,}", line)[len(name) :])
                name = []
        return shown[first].split(), rows


class TableTest(ModelTest):
    def test_stats_shows_trouble_and_the_layer_at_80_columns(self):
        for sort in ("nan", "name", "offset", "zeros", "absmax", "std"):
            heading, rows = self.rows(80, "stats", "llama.safetensors", "--sort", sort)
            self.assertLessEqual({"DTYPE", "MIN", "MAX", "NAN", "INF"}, set(heading))
            self.assertEqual({row[0] for row in rows}, set(self.names()))
            if sort != "offset":
                self.assertIn(sort.upper(), heading)
        worst = self.rows(80, "stats", "llama.safetensors", "--sort", "nan")[1][:3]
        self.assertEqual([row[0] for row in worst], [NAN[0], INF, NAN[1]])
        self.assertEqual([row[-2:] for row in worst], [["3", "0"], ["0", "2"], ["1", "0"]])

    def test_stats_is_whole_at_120_columns(self):
        heading, rows = self.rows(120, "stats", "llama.safetensors", "--sort", "nan")
        self.assertEqual(heading[-4:], ["ABSMAX", "ZEROS", "NAN", "INF"])
        self.assertEqual({row[0] for row in rows}, set(self.names()))

    def names(self):
        return [tensor["name"] for tensor in self.document("ls", "plain.safetensors", "--json")["files"][0]["tensors"]]

    def test_ls_hides_columns_and_no_name(self):
        heading, rows = self.rows(80, "ls", "plain.safetensors")
        self.assertEqual([row[0] for row in rows], self.names())
        self.assertEqual(heading[:4], ["NAME", "DTYPE", "SHAPE", "SIZE"])
        self.assertNotIn("OFFSET", heading)
        self.assertEqual(
            self.lines(80, "ls", "plain.safetensors")[-2],
            "safetensors: not shown at 80 columns: BEGIN, END, FILE OFFSET",
        )
        self.assertEqual(self.lines(80, "ls", "plain.safetensors", "-1"), self.names())
        self.assertEqual(self.output("ls", "plain.safetensors", "-1").decode().splitlines(), self.names())
        self.assertIn("OFFSET", self.rows(120, "ls", "plain.safetensors")[0])

    def test_columns_are_hidden_in_order(self):
        order = ["ALIGNMENT", "FILE OFFSET", "BEGIN", "END", "SHARE", "FILE"]
        seen = set()
        for width in range(70, 140):
            shown = self.lines(
                width, "ls", "plain.safetensors", "--columns", "name,size,share,begin,end,offset,alignment,file"
            )
            hidden = [column for column in order if column not in re.split(" {2,}", shown[0])]
            self.assertEqual(hidden, order[: len(hidden)], width)
            self.assertEqual("BEGIN" in hidden, "END" in hidden)
            seen.add(len(hidden))
        self.assertGreaterEqual(len(seen), 4)

    def test_the_sorted_column_stays(self):
        self.assertIn("OFFSET", self.rows(80, "ls", "plain.safetensors", "--sort", "offset")[0])

    def test_info_names_each_of_the_largest_tensors(self):
        for width in (60, 80, 120):
            shown = self.lines(width, "info", "plain.safetensors", "--largest", "40")
            start = [i for i, line in enumerate(shown) if line.startswith("  LARGEST")][0]
            names = [line.split()[0] for line in shown[start + 1 :] if not line.startswith("   ")][:40]
            self.assertEqual(len(set(names)), 40, names)
            self.assertIn(" SIZE", shown[start])

    def test_the_tree_keeps_dtypes(self):
        for width in (60, 80, 120):
            heading, rows = self.rows(width, "ls", "--tree", "plain.safetensors")
            self.assertIn("DTYPE", heading)
            self.assertIn("layers.{0..31}", "\n".join(self.lines(width, "ls", "--tree", "plain.safetensors")))

    def test_names_are_whole(self):
        for width in (50, 60, 80):
            for verb in (["ls"], ["ls", "--long"], ["stats"]):
                self.assertEqual([row[0] for row in self.rows(width, *verb, "plain.safetensors")[1]], self.names())

    def test_cat_shows_values(self):
        shown = self.lines(120, "cat", "plain.safetensors", "model.embed_tokens.weight", "--slice", ":,:2")
        self.assertEqual(shown[0], "[[0.0001234499941347167, -0.01217654999345541],")
        self.assertEqual(shown[-1], " [-0.04907654970884323, -0.06137654930353165]]")
        shown = terminal.lines(("cat", "plain.safetensors", "model.embed_tokens.weight"), self.folder, 80)
        self.assertEqual((len(shown), shown[3]), (7, " ...,"))

    def test_lines_of_info_break_at_spaces(self):
        shown = self.lines(40, "info", "plain.safetensors")
        place = [i for i, line in enumerate(shown) if line.startswith("  alignment")][0]
        self.assertEqual(shown[place], "  alignment   all tensors can be used in")
        self.assertEqual(shown[place + 1], "              place; they start at")


class DiffTest(ModelTest):
    def test_layers_that_changed_most(self):
        for width in (80, 120):
            shown = self.lines(
                width, "diff", "plain.safetensors", "tuned.safetensors", "--by-layer", "--sort", "max-error"
            )
            self.assertEqual(re.split(" {2,}", shown[0])[:4], ["LAYER", "TENSORS", "ELEMENTS", "MAX ERROR"])
            rows = [re.split(" {2,}", line) for line in shown[1:3]]
            self.assertEqual([row[:2] for row in rows], [[f"model.layers.{i}", "3 of 9"] for i in (3, 30)])
            self.assertRegex(rows[0][2], "^[1-9][0-9]* of 576$")
            self.assertEqual(shown[-1], "285 tensors equal, 6 with other values")

    def test_the_largest_differences(self):
        for key in ("differing", "relative"):
            heading, rows = self.rows(80, "diff", "plain.safetensors", "tuned.safetensors", "--sort", key, "--top", "4")
            self.assertEqual(" ".join(heading), "NAME DIFFERENCE ELEMENTS MAX ERROR RELATIVE MEAN ERROR FIRST")
            self.assertEqual(len(rows), 4)
            values = [float(row[4]) if key == "relative" else int(row[2].split()[0]) for row in rows]
            self.assertEqual(values, sorted(values, reverse=True))
        code, _ = terminal.run(("diff", "plain.safetensors", "tuned.safetensors", "--exit-zero"), self.folder, 80)
        self.assertEqual(code, 0)

    def test_a_difference_is_whole_beside_empty_cells(self):
        wide = ("model.layers.0.self_attn.k_proj.weight", "F32", [8, 8], bytes(256))
        flat = ("model.layers.0.self_attn.k_proj.weight", "F32", [64], bytes(256))
        large = ("model.layers.0.mlp.gate_proj.weight", "F32", [1024, 1024], bytes(4 << 20))
        for name, tensors in (
            ("wide.safetensors", [wide, large, ("v", "F32", [2], make_inputs.floats(1, 2))]),
            ("flat.safetensors", [flat, ("v", "F32", [2], make_inputs.floats(1, 2.5))]),
        ):
            self.put(name, tensors)
        rows = {row[0]: row[1:] for row in self.rows(80, "diff", "wide.safetensors", "flat.safetensors")[1]}
        self.assertEqual(rows[wide[0]], ["F32 [8,8], B has F32 [64]"])
        self.assertEqual(rows[large[0]], ["only in A: F32 [1024,1024]"])
        self.assertEqual(rows["v"][:4], ["values", "1 of 2", "0.5", "0.1429"])


class CastTest(ModelTest):
    def test_a_long_table_of_losses_ends_on_a_terminal_only(self):
        command = ("cast", "plain.safetensors", "fp8.safetensors", "--to", "fp8", "--force")
        self.assertEqual(len(self.rows(80, *command)[1]), 10)
        shown = self.lines(80, *command)
        self.assertEqual(shown[-3], "... and 281 more tensors (in a pipe or with --json: all)")
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


if __name__ == "__main__":
    unittest.main()
