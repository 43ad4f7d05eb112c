#!/usr/bin/env python3
"""diff of values of every dtype, against a slow reference with exact fractions.

    diff_test.py SAFETENSORS [unittest's arguments]
"""

import fractions
import json
import math
import os
import random
import struct
import subprocess
import tempfile
import unittest
from typing import Any

import elements
import make_inputs
from command import PROGRAM

inputs: Any = make_inputs
SEED = int(os.environ.get("SAFETENSORS_TEST_SEED", "1"))
NAN, INFINITY, LARGEST, ONE = 0x7E00, 0x7C00, 0x7BFF, 0x3C00  # of F16
MINUS = 0x8000


def complex_of(dtype: str, data: bytes) -> list:
    values = elements.decode(dtype, data)
    return [*zip(values[::2], values[1::2], strict=True)] if dtype == "C64" else [(value, 0) for value in values]


def distance(a: tuple, b: tuple) -> float:
    """|a - b|, rounded once. Equal infinities have the distance 0."""
    parts = []
    for x, y in zip(a, b, strict=True):
        if math.isinf(x) or math.isinf(y):
            parts.append(0.0 if x == y else math.inf)
        else:
            parts.append(fractions.Fraction(x) - fractions.Fraction(y))
    if math.inf in parts:
        return math.inf
    return abs(float(parts[0])) if parts[1] == 0 else math.hypot(*map(float, parts))


class Reference:
    """The differences of two tensors, by definition."""

    def __init__(self, one: tuple[str, bytes], other: tuple[str, bytes], rtol: float, atol: float) -> None:
        same_dtype = one[0] == other[0]
        self.differing, self.first, self.nan, self.largest = 0, None, 0, 0.0
        errors, sizes = [], []
        bits = [elements.codes(*side) for side in (one, other)]
        parts = 2 if one[0] == "C64" else 1
        for i, (a, b) in enumerate(zip(complex_of(*one), complex_of(*other), strict=True)):
            nan = any(map(math.isnan, a)), any(map(math.isnan, b))
            error = 0.0 if any(nan) else distance(a, b)
            size = 0.0 if any(nan) else distance(b, (0, 0))
            finite = not any(nan) and all(map(math.isfinite, a + b))
            if same_dtype and not (rtol or atol):
                equal = bits[0][i * parts : (i + 1) * parts] == bits[1][i * parts : (i + 1) * parts]
            else:
                equal = all(nan) or a == b or (finite and error <= atol + rtol * size)
            if not equal:
                self.first = i if self.first is None else self.first
                self.differing += 1
                self.nan += nan[0] != nan[1]
            self.largest = max(self.largest, error)
            errors.append(error)
            sizes.append(size)
        self.mean = self.mean_of(errors)
        self.size = self.mean_of(sizes)

    @staticmethod
    def mean_of(values: list[float]) -> float:
        if math.inf in values:
            return math.inf
        return float(sum(map(fractions.Fraction, values)) / len(values))


class DiffTest(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.paths = [os.path.join(holder.name, name) for name in ("a.safetensors", "b.safetensors")]

    def diff(self, pairs: dict[str, tuple], *options: str, **run: Any) -> dict[str, Any]:
        """The rows of tensors that differ, by name. pairs: (dtype, bytes) of A and of B."""
        for side, path in enumerate(self.paths):
            tensors = []
            for name, pair in pairs.items():
                dtype, data = pair[side]
                tensors.append((name, dtype, [8 * len(data) // elements.BITS[dtype]], data))
            with open(path, "wb") as file:
                file.write(inputs.of_tensors(tensors))
        command = [PROGRAM, "diff", *self.paths, "--json", "--exit-zero", *options]
        output = subprocess.run(command, check=True, capture_output=True, timeout=60, **run).stdout
        return {row["first"]["name"]: row for row in json.loads(output)["tensors"]}

    def equal(self, dtype: str, a: list[int], b: list[int], *options: str) -> bool:
        return not self.diff({"x": ((dtype, elements.packed(dtype, a)), (dtype, elements.packed(dtype, b)))}, *options)

    def compare(self, pairs: dict[str, tuple], rtol: float = 0, atol: float = 0) -> None:
        options = [f"--rtol={rtol!r}", f"--atol={atol!r}"]
        found = self.diff(pairs, *options)
        for name, (one, other) in pairs.items():
            with self.subTest(seed=SEED, name=name, options=options):
                wanted = Reference(one, other, rtol, atol)
                if name not in found:
                    self.assertEqual((wanted.differing, one[0]), (0, other[0]))
                    continue
                row = found[name]
                self.assertEqual(row["kind"], "values" if one[0] == other[0] else "dtype")
                self.assertEqual((row["differing"], row["nan_differing"]), (wanted.differing, wanted.nan))
                self.assertEqual(row.get("first_differing"), None if wanted.first is None else [wanted.first])
                self.near(row["max_error"], wanted.largest)
                self.near(row["mean_error"], wanted.mean)
                if wanted.nan > 0:
                    self.assertEqual(row["relative_error"], "inf")
                elif math.isfinite(wanted.mean) and wanted.mean > 0:
                    self.near(row["relative_error"], wanted.mean / wanted.size if wanted.size else math.inf)

    def near(self, found: Any, wanted: float) -> None:
        number = math.inf if found == "inf" else found
        self.assertTrue(number == wanted or abs(number - wanted) <= 1e-12 * wanted, (found, wanted))

    def test_every_dtype_equals_reference(self) -> None:
        source = random.Random(SEED)
        pairs = {}
        for dtype, width in elements.BITS.items():
            if dtype == "C64":
                width = 32
            one = [source.getrandbits(width) for _ in range(1200)]
            kinds = [lambda code: code, lambda code: code + 1 & (1 << width) - 1, lambda _: source.getrandbits(width)]
            other = [kinds[i // 2 % 3](code) for i, code in enumerate(one)]
            pairs[dtype] = ((dtype, elements.packed(dtype, one)), (dtype, elements.packed(dtype, other)))
        self.compare(pairs)
        self.compare(pairs, rtol=0.1, atol=0.5)

    def test_numbers_of_other_dtypes(self) -> None:
        source = random.Random(SEED)
        pairs = {}
        for first, second in (
            ("I64", "U64"),
            ("I8", "U16"),
            ("BF16", "F32"),
            ("F64", "I32"),
            ("C64", "F32"),
            ("F4", "F8_E4M3"),
            ("BOOL", "F16"),
        ):
            sides = [(dtype, source.randbytes(elements.BITS[dtype] * 600 // 8)) for dtype in (first, second)]
            pairs[first] = tuple(sides)
        pairs["F16"] = (("F16", struct.pack("<4e", 1, 2, -0.0, 0.5)), ("F32", struct.pack("<4f", 1, 2, 0, 0.5)))
        self.compare(pairs)
        self.compare(pairs, rtol=0.2)

    def test_nan_and_infinity(self) -> None:
        for options in (["--atol=1e300"], ["--rtol=1e300"]):
            pairs = [(NAN, NAN | MINUS | 1), (INFINITY, INFINITY), (LARGEST, ONE)]
            for a, b in pairs:
                self.assertTrue(self.equal("F16", [a, 0], [b, 0], *options), (a, b, options))
            pairs = [(NAN, ONE), (ONE, NAN), (INFINITY, INFINITY | MINUS), (INFINITY, LARGEST), (LARGEST, INFINITY)]
            for a, b in pairs:
                self.assertFalse(self.equal("F16", [a, 0], [b, 0], *options), (a, b, options))

    def test_bytes_count_without_tolerance(self) -> None:
        self.assertTrue(self.equal("F32", [0x7FC00000], [0x7FC00000]))
        self.assertFalse(self.equal("F32", [0x7FC00000], [0x7FC00001]))
        self.assertFalse(self.equal("F32", [0], [0x80000000]))

    def test_large_integers_are_exact(self) -> None:
        sides = [("I64", struct.pack("<2q", 2**53 + i, 1)) for i in range(2)]
        for options in ([], ["--atol=0.5"]):
            row = self.diff({"x": sides}, *options)["x"]
            self.assertEqual((row["differing"], row["max_error"]), (1, 1))
        self.assertEqual(self.diff({"x": sides}, "--atol=1"), {})
        signs = self.diff({"x": (("I64", b"\xff" * 8), ("U64", b"\xff" * 8))})["x"]
        self.assertEqual(signs["max_error"], 2**64)

    def test_large_errors_do_not_overflow(self) -> None:
        sides = [("F64", struct.pack("<4d", *[x * side for x in [1.5e308] * 4])) for side in (0, 1)]
        row = self.diff({"x": sides}, "--atol=1")["x"]
        self.assertEqual((row["max_error"], row["mean_error"]), (1.5e308, 1.5e308))

    def test_small_errors_do_not_vanish(self) -> None:
        pairs = {"many": tuple(("F64", elements.packed("F64", [code] * 100)) for code in (3, 2))}
        pairs["one"] = tuple(("F64", elements.packed("F64", [code] + [0] * 999)) for code in (3, 2))
        self.compare(pairs)
        found = self.diff(pairs)
        self.assertEqual((found["many"]["mean_error"], found["many"]["relative_error"]), (5e-324, 0.5))
        self.assertEqual((found["one"]["mean_error"], found["one"]["relative_error"]), (0, 0.5))

    def test_a_tolerance_beyond_the_largest_number(self) -> None:
        largest = 0x7FEFFFFFFFFFFFFF
        for options in (["--rtol=1.5"], ["--rtol=0.1", "--atol=1.7e308"]):
            self.assertFalse(self.equal("F64", [largest], [largest | 1 << 63], *options), options)
        self.assertTrue(self.equal("F64", [largest - (1 << 52)], [largest], "--rtol=1.5"))

    def test_chunks_and_processors_change_nothing(self) -> None:
        """4 MiB, of which three elements differ: most chunks are equal, and count for RELATIVE."""
        source = random.Random(SEED)
        one = bytearray(source.randbytes(1 << 16) * 64)
        one[1::2] = bytes(byte & 0x3F for byte in one[1::2])  # no sign, no large exponent
        other = bytearray(one)
        for element in (700_001, 1 << 19, (2 << 20) - 1):
            other[2 * element + 1] ^= 1
        sides = (("F16", bytes(one)), ("F16", bytes(other)))
        row = self.diff({"x": sides})["x"]
        values = [elements.decode("F16", bytes(side)) for side in (one, other)]
        errors = [abs(a - b) for a, b in zip(*values, strict=True)]
        self.assertEqual((row["differing"], row["first_differing"]), (3, [1 << 19]))
        self.near(row["mean_error"], math.fsum(errors) / len(errors))
        self.near(row["relative_error"], math.fsum(errors) / math.fsum(values[1]))
        if hasattr(os, "sched_setaffinity"):
            only = {min(os.sched_getaffinity(0))}
            alone = self.diff({"x": sides}, preexec_fn=lambda: os.sched_setaffinity(0, only))
            self.assertEqual(alone["x"], row)


if __name__ == "__main__":
    unittest.main()
