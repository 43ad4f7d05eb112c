#!/usr/bin/env python3
"""What the command prints: every number exactly, tables that fit, one version everywhere.

    output_test.py SAFETENSORS [unittest's arguments]
"""
import math
import os
import random
import re
import struct
import unittest

import elements
import terminal
from command import CommandTest

PROJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


SMALL_FLOATS = ("F8_E5M2", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0", "F6_E2M3", "F6_E3M2", "F4")


class NumberTest(CommandTest):
    def texts(self, dtype, count, data, *options):
        self.put("numbers.safetensors", [("t", dtype, [count], data)])
        return self.output("cat", "numbers.safetensors", "t", *options).decode()

    def expect_values(self, dtype, data, values):
        """Text and JSON parse, as doubles, to exactly these values, and no number is longer than Python's."""
        plain = self.texts(dtype, len(values), data, "--format", "text").strip().strip("[]").split(", ")
        document = self.texts(dtype, len(values), data, "--json")
        in_json = document[document.index('"values":') + 9 :].strip().strip("}").strip("[]").split(", ")
        self.assertEqual((len(plain), len(in_json)), (len(values), len(values)))
        for value, text, json_text in zip(values, plain, in_json):
            self.assertEqual(json_text, text if math.isfinite(value) else f'"{text}"')
            self.assert_text(dtype, value, text)

    def assert_text(self, dtype, value, text):
        if math.isnan(value):
            self.assertEqual(text, "nan", dtype)
            return
        same = float(text) == value and math.copysign(1, float(text)) == math.copysign(1, value)
        self.assertTrue(same, (dtype, value, text))
        # Large integers are written in full where that is shorter but for the ".0".
        self.assertLessEqual(len(text), len(repr(value)) + 2, (dtype, value, text))

    def test_every_f16_is_printed_exactly(self):
        data = struct.pack("<65536H", *range(65536))
        self.expect_values("F16", data, struct.unpack("<65536e", data))

    def test_every_bf16_is_printed_exactly(self):
        data = struct.pack("<65536H", *range(65536))
        wide = struct.pack("<65536I", *(code << 16 for code in range(65536)))
        self.expect_values("BF16", data, struct.unpack("<65536f", wide))

    def test_every_f8_f6_and_f4_is_printed_exactly(self):
        for dtype in SMALL_FLOATS:
            data = elements.packed(dtype, range(1 << elements.BITS[dtype]))
            self.expect_values(dtype, data, elements.decode(dtype, data))

    def test_codes_of_small_floats_that_were_decoded_by_hand(self):
        """From the tables of OCP and, for FNUZ, of arXiv:2206.02915: subnormal, normal and largest numbers, specials."""
        nan, inf = math.nan, math.inf
        known = {
            "F8_E4M3": {1: 2**-9, 7: 7 * 2**-9, 8: 2**-6, 0x38: 1, 0x7E: 448, 0xFE: -448, 0x7F: nan, 0xFF: nan},
            "F8_E5M2": {1: 2**-16, 3: 3 * 2**-16, 4: 2**-14, 0x3C: 1, 0x7B: 57344, 0x7C: inf, 0xFC: -inf, 0x7D: nan},
            "F8_E4M3FNUZ": {1: 2**-10, 7: 7 * 2**-10, 8: 2**-7, 0x40: 1, 0x7F: 240, 0xFF: -240, 0x80: nan},
            "F8_E5M2FNUZ": {1: 2**-17, 3: 3 * 2**-17, 4: 2**-15, 0x40: 1, 0x7F: 57344, 0xFF: -57344, 0x80: nan},
            "F8_E8M0": {0: 2**-127, 126: 0.5, 127: 1, 128: 2, 254: 2**127, 255: nan},
            "F6_E2M3": {0: 0, 1: 0.125, 7: 0.875, 8: 1, 0x1F: 7.5, 0x20: -0.0, 0x3F: -7.5, 0x0C: 1.5},
            "F6_E3M2": {0: 0, 1: 0.0625, 3: 0.1875, 4: 0.25, 0x0C: 1, 0x1F: 28, 0x3F: -28, 0x0D: 1.25},
            "F4": {0: 0, 1: 0.5, 2: 1, 3: 1.5, 4: 2, 5: 3, 6: 4, 7: 6, 8: -0.0, 15: -6, 9: -0.5, 10: -1},
        }
        self.assertEqual(set(known), set(SMALL_FLOATS))
        for dtype, values in known.items():
            data, expected = elements.packed(dtype, list(values)), [float(value) for value in values.values()]
            self.assertEqual(str(elements.decode(dtype, data)), str(expected), dtype)  # as text: a NaN equals none
            self.expect_values(dtype, data, expected)

    def test_random_f32_f64_and_c64_are_printed_exactly(self):
        codes = random.Random(20240611)
        special = struct.pack("<8f", 0.1, -13.875, 65504, 3.4028234663852886e38, -0.0, math.inf, -math.inf, math.nan)
        data = special + codes.randbytes(4 * 50_000)
        singles = struct.unpack(f"<{len(data) // 4}f", data)
        self.expect_values("F32", data, singles)
        self.expect_values("F64", data, struct.unpack(f"<{len(data) // 8}d", data))
        pairs = (
            self.texts("C64", len(data) // 8, data, "--json").split('"values":')[1].strip().strip("}[]").split("], [")
        )
        for index, pair in enumerate(pairs):
            for value, text in zip(singles[2 * index :], pair.split(", ")):
                self.assert_text("C64", value, text.strip('"'))
        self.assertEqual(2 * len(pairs), len(singles))

    def test_known_numbers_are_printed_as_they_are(self):
        cases = [
            ("BF16", struct.pack("<2H", 0xC15E, 0x3DCD), "[-13.875, 0.10009765625]"),
            ("F16", struct.pack("<2e", 65504, 0.1), "[65504.0, 0.0999755859375]"),
            ("F32", struct.pack("<2f", 0.1, 1e-7), "[0.10000000149011612, 1.0000000116860974e-07]"),
            ("F64", struct.pack("<2d", 0.1, 1e-7), "[0.1, 1e-07]"),
            ("F8_E8M0", b"\x00\xfe", "[5.877471754111438e-39, 1.7014118346046923e+38]"),
        ]
        for dtype, data, expected in cases:
            self.assertEqual(self.texts(dtype, 2, data, "--format", "text"), expected + "\n")
        pair = self.texts("C64", 1, struct.pack("<2f", 0.1, -0.1), "--format", "text")
        self.assertEqual(pair, "[0.10000000149011612-0.10000000149011612j]\n")


# Characters and the columns that terminals give them.
WIDE = [("a", 1), ("\u00fc", 1), ("\u0416", 1), ("\u4e2d", 2), ("\ud55c", 2), ("\uff21", 2), ("\U0001f600", 2), ("\u2705", 2),
        ("u\u0308", 1), ("\u304b\u3099", 2), ("\u05d0\u05b8", 1), ("\u1112\u1161\u11ab", 2), ("\uff71", 1),
        ("\u2192", 1), ("\U0001f1e9\U0001f1ea", 2), ("\U00020000", 2), ("e\u0301\u0323", 1)]  # fmt: skip
# An ellipsis may also cut a flag into its two letters.
GRAPHEMES = {"\u2026": 1, "\U0001f1e9": 1, "\U0001f1ea": 1, **dict(WIDE)}


def columns(text):
    """The columns that text takes, of printable ASCII and the characters of WIDE; fails for a part of one."""
    total = 0
    while text:
        match = max((g for g in GRAPHEMES if text.startswith(g)), key=len, default=text[0])
        if match not in GRAPHEMES and not " " <= match <= "~":
            raise AssertionError(f"{match!r} stands alone in {text!r}")
        total += GRAPHEMES.get(match, 1)
        text = text[len(match) :]
    return total


class TableTest(CommandTest):
    def put_names(self, name, names):
        self.put(name, [(n, "U8", [1], b"x") for n in names])

    def on_terminal(self, width, *arguments):
        """The lines that a terminal of this width is sent."""
        return terminal.lines(arguments, self.folder, width)

    def ends(self, line, words):
        """The columns in which the words, one behind the other, end."""
        ends, at = [], 0
        for word in words:
            at = line.index(word, at) + len(word)
            ends.append(columns(line[:at]))
        return ends

    def test_columns_align_whatever_the_width_of_characters(self):
        names = [character * 3 + str(i) for i, (character, _) in enumerate(WIDE)]
        self.put_names("wide.safetensors", names)
        for lines in (
            self.output("ls", "wide.safetensors").decode().splitlines(),
            self.on_terminal(200, "ls", "wide.safetensors")[1 : 1 + len(names)],
        ):
            self.assertEqual(len({tuple(self.ends(line, ["  U8 ", " [1] ", " 1 B "])) for line in lines}), 1, lines)
            self.assertEqual(len({columns(line) for line in lines}), 1, lines)

    def test_tables_fit_the_terminal(self):
        names = [f"model.layers.{i}.self_attn.rotary_embedding.q_proj.weight_scale_inverse" for i in (1, 20, 300)]
        names += [c * 60 for c, _ in WIDE] + ["x" + c * 59 for c, _ in WIDE] + ["short"]
        self.put_names("long.safetensors", names)
        for width in (20, 33, 40, 41, 80, 81, 120, 200):
            lines = [line for line in self.on_terminal(width, "ls", "long.safetensors") if "  U8  " in line]
            self.assertEqual(len(lines), len(names))
            self.assertEqual(len({columns(line) for line in lines}), 1, lines)
            if width >= 33:  # NAME of 6, DTYPE, SHAPE, SIZE and what is between them
                self.assertLessEqual(columns(lines[0]), width)

    def test_long_names_have_lines_of_their_own(self):
        self.put_names("one.safetensors", ["model.layers.17.self_attn.q_proj.weight", "b"])
        lines = self.on_terminal(80, "ls", "one.safetensors")
        self.assertEqual(lines[0], f"{'NAME':39}  DTYPE  SHAPE  SIZE  BEGIN  END")
        self.assertEqual(lines[1], f"{'b':39}  U8     [1]     1 B      1    2")
        self.assertEqual(lines[2], "model.layers.17.self_attn.q_proj.weight  U8     [1]     1 B      0    1")
        line = self.on_terminal(59, "ls", "one.safetensors")[2]
        self.assertEqual(line, "model.layers.17.self_attn.q_proj.weight  U8     [1]     1 B")
        for name in ("model.layers.17.self_attn.q_proj.weight", "model." + "x" * 90):
            self.put_names("long.safetensors", [name, "b"])
            lines = self.on_terminal(57, "ls", "long.safetensors")
            self.assertEqual(
                lines[:2],
                [
                    f"{'NAME':12}  DTYPE  SHAPE  SIZE  BEGIN  END  FILE OFFSET",
                    f"{'b':12}  U8     [1]     1 B      1    2          {lines[1][-3:]}",
                ],
            )
            self.assertEqual(lines[2:4], [name, f"{'':12}  U8     [1]     1 B      0    1          {lines[3][-3:]}"])

    def test_columns_are_hidden_on_a_narrow_terminal(self):
        narrow = self.on_terminal(40, "ls", "good.safetensors")
        self.assertEqual(
            narrow,
            [
                "NAME             DTYPE  SHAPE  SIZE",
                "empty            U8     [0,4]   0 B",
                "layer.1.bias     I16    [2,2]   8 B",
                "layer.2.weight   F32    [2,3]  24 B",
                "layer.10.weight  F32    [3]    12 B",
                "scale            F32    []      4 B",
                "safetensors: not shown at 40 columns:",
                "  BEGIN, END, FILE OFFSET",
                "5 tensors, 14 parameters, 48 B",
            ],
        )
        info = self.on_terminal(40, "info", "good.safetensors")
        self.assertIn("  LARGEST          DTYPE  SHAPE  SIZE", info)
        tables = [line for line in info if re.match(r"  (DTYPE|LARGEST|[FIU]\d+ |layer|scale|empty)", line)]
        self.assertLessEqual(max(map(len, tables)), 40)

    def test_chosen_columns_are_hidden_on_a_narrow_terminal(self):
        lines = self.on_terminal(40, "ls", "good.safetensors", "--columns", "bytes,name,parameters,share,file")
        self.assertEqual(lines[0], "BYTES  NAME             PARAMETERS")
        self.assertEqual(lines[-3:-1], ["safetensors: not shown at 40 columns:", "  SHARE, FILE"])
        wide = self.on_terminal(60, "ls", "good.safetensors", "--long")
        self.assertEqual(wide[0], "NAME             DTYPE  SHAPE  PARAMETERS  SIZE   SHARE")
        self.assertLessEqual(max(map(columns, wide[:-2])), 60)

    def test_a_pipe_gets_whole_names(self):
        name = "n" * 300
        self.put_names("pipe.safetensors", [name, "b"])
        lines = self.output("ls", "pipe.safetensors").decode().splitlines()
        self.assertTrue(lines[1].startswith(name + "  U8  [1]  1 B"), lines)
        self.assertEqual(lines[0].index("U8"), 66)

    def test_a_terminal_of_unknown_width_gets_whole_names(self):
        name = "n" * 300
        self.put_names("unknown.safetensors", [name])
        self.assertIn(name, self.on_terminal(0, "ls", "unknown.safetensors")[1])

class VersionTest(CommandTest):
    def test_all_places_name_the_version_of_the_file_version(self):
        release = source("VERSION").strip()
        self.assertEqual(self.output("--version").decode().splitlines()[0], f"safetensors {release}")
        macros = re.findall(
            r"define SAFETENSORS_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", source("include/safetensors/export.h")
        )
        self.assertEqual(".".join(macros), release.partition("+")[0])
        self.assertEqual(re.search(r"^## (\S+)", source("CHANGELOG.md"), re.MULTILINE)[1], release)
        self.assertIn(f"Version {release}:", source("README.md"))


def source(path):
    """A file of the project."""
    with open(os.path.join(PROJECT, path), encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    unittest.main()
