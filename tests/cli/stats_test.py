#!/usr/bin/env python3
"""stats of random values, with NaN, infinities and subnormal numbers, against exact fractions.

    stats_test.py SAFETENSORS [unittest's arguments]
"""

import array
import fractions
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import elements
import make_inputs
from command import PROGRAM


inputs: Any = make_inputs
SEED = int(os.environ.get("SAFETENSORS_TEST_SEED", "1"))
FLOATS = {"F64": "<d", "F32": "<f", "C64": "<f", "F16": "<e", "BF16": "<f"}  # struct's codes


def decode(dtype: str, data: bytes) -> list[float]:
    return [float(x) for x in elements.decode(dtype, data)]


def random_bytes(dtype: str, count: int, source: random.Random) -> bytes:
    """Elements of one of several kinds: any bits, a normal distribution, small integers, or one value."""
    kind = source.randrange(4)
    if kind == 0 or dtype not in FLOATS:
        data = bytearray(source.randbytes(count * elements.BITS[dtype] // 8))
    else:
        mean, deviation = source.choice([(0, 0.02), (1, 1e-3), (100, 5), (-3, 0), (0, 1e-6)])
        make: Any = {
            1: lambda: source.gauss(mean, deviation),
            2: lambda: float(source.randrange(-2, 3)),
            3: lambda: mean,
        }[kind]
        count *= 2 if dtype == "C64" else 1
        data = bytearray(encode(dtype, [make() for _ in range(count)]))
        for special in (math.nan, math.inf, -math.inf, -0.0):
            if source.randrange(3) == 0:
                at = source.randrange(count)
                element = encode(dtype, [special])
                data[at * len(element) : (at + 1) * len(element)] = element
    return bytes(data)


def exact(values: list[float]) -> tuple[float, float, float]:
    """The mean, the deviation, and the mean of all |x|, rounded once each."""
    pairs = [x.as_integer_ratio() for x in values]
    whole = [number << 1075 - divisor.bit_length() for number, divisor in pairs]
    n, total = len(values), sum(whole)
    variance = fractions.Fraction(n * sum(x * x for x in whole) - total * total, n * n << 2148)
    mean = fractions.Fraction(total, n << 1074)
    size = fractions.Fraction(sum(map(abs, whole)), n << 1074)
    if variance == 0:
        return float(mean), 0.0, float(size)
    half = (variance.numerator.bit_length() - variance.denominator.bit_length()) // 2
    root = math.ldexp(math.sqrt(variance / fractions.Fraction(4) ** half), half)
    return float(mean), root, float(size)


def hostile_values(dtype: str, source: random.Random) -> dict[str, list[float]]:
    """Values that sums and squares round, lose, or cannot hold. They are rounded to the dtype."""
    largest, smallest, bits = {
        "F64": (sys.float_info.max, 5e-324, 52),
        "F32": (float.fromhex("0x1.fffffep127"), 2.0**-149, 23),
        "BF16": (float.fromhex("0x1.fep127"), 2.0**-133, 7),
        "F16": (65504.0, 2.0**-24, 10),
    }[dtype]
    steps = [source.randrange(-9, 10) for _ in range(2500)]
    wide = math.log2(largest) - 1
    spread = [math.ldexp(source.choice([-1, 1]), round(source.uniform(-wide, wide))) for _ in steps]
    cancelling = [x for value in spread for x in (value, -value)] + [1.0, 2.0, smallest]
    source.shuffle(cancelling)
    return {
        "huge": [source.choice([-largest, largest]) for _ in steps],
        "one_huge": [largest, *[1.0] * 3000],
        "tiny": [step * smallest for step in steps],
        "few": [source.gauss(0, 0.02) for _ in range(118)],
        "many": [source.gauss(0.001, 0.02) for _ in range(100_000)],
        "spread": spread,
        "cancelling": cancelling,
        "near_one": [1 + step * 2.0**-bits for step in steps],
        "steps": [(largest / 4 if i // 500 % 2 else smallest * 3) for i in range(5000)],
    }


def encode(dtype: str, values: list[float]) -> bytes:
    return b"".join(struct.pack(FLOATS[dtype], x)[2 if dtype == "BF16" else 0 :] for x in values)


class StatsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)

    def stats(self, tensors: list[tuple[str, str, list[int], bytes]], **run: Any) -> dict[str, Any]:
        path = os.path.join(self.holder.name, "values.safetensors")
        with open(path, "wb") as file:
            file.write(inputs.of_tensors(tensors))
        command = [PROGRAM, "stats", path, "--json", "--histogram", "--sort", "offset"]
        output = subprocess.run(command, check=True, capture_output=True, timeout=60, **run).stdout
        return {found["name"]: found for found in json.loads(output)["files"][0]["tensors"]}

    def compare(self, dtype: str, found: dict[str, Any], values: list[float]) -> None:
        finite = [x for x in values if math.isfinite(x)]
        self.assertEqual(found["count"], len(values))
        self.assertEqual(found["nan"], sum(map(math.isnan, values)))
        self.assertEqual(found["positive_infinity"], values.count(math.inf))
        self.assertEqual(found["negative_infinity"], values.count(-math.inf))
        self.assertEqual(found["zeros"], finite.count(0))
        bins: dict[int, list[int]] = {}
        for x in finite:
            if x != 0:
                bins.setdefault(math.frexp(x)[1] - 1, [0, 0])[x > 0] += 1
        self.assertEqual({b["exponent"]: [b["negative"], b["positive"]] for b in found["histogram"]}, bins)
        if not finite:
            self.assertEqual([found[key] for key in ("min", "max", "mean", "std", "absmax")], [None] * 5)
            return
        self.assertEqual((found["min"], found["max"]), (min(finite), max(finite)))
        self.assertEqual(found["absmax"], max(map(abs, finite)))
        mean, deviation, size = exact(finite)
        self.assertLessEqual(abs(found["mean"] - mean), math.ulp(mean) + 1e-30 * size)
        self.assertLessEqual(abs(found["std"] - deviation), 5.2e-13 * deviation)  # 13 digits
        self.assertEqual(found["std"], float(f"{found['std']:.13g}"))

    def test_random_values_equal_fractions(self) -> None:
        source = random.Random(SEED)
        for turn in range(12):
            tensors = []
            for dtype in elements.BITS:
                count = source.choice([1, 7, 100, 2047, 2048, 2049, 6000])
                count *= 8 if elements.BITS[dtype] < 8 else 1
                tensors.append((dtype, dtype, [count], random_bytes(dtype, count, source)))
            found = self.stats(tensors)
            for dtype, _, _, data in tensors:
                with self.subTest(seed=SEED, turn=turn, dtype=dtype):
                    self.compare(dtype, found[dtype], decode(dtype, data))

    def test_hostile_values_equal_fractions(self) -> None:
        for dtype in ("F64", "F32", "BF16", "F16"):
            source = random.Random(SEED)
            cases = hostile_values(dtype, source)
            tensors = [(name, dtype, [len(v)], encode(dtype, v)) for name, v in cases.items()]
            found = self.stats(tensors)
            for name, _, _, data in tensors:
                with self.subTest(seed=SEED, dtype=dtype, case=name):
                    self.compare(dtype, found[name], decode(dtype, data))

    def test_every_code_of_sixteen_bits(self) -> None:
        data = struct.pack("<65536H", *(code * 40503 & 0xFFFF for code in range(65536)))
        dtypes = ("F16", "BF16", "I16", "U16")
        found = self.stats([(dtype, dtype, [65536], data) for dtype in dtypes])
        for dtype in dtypes:
            with self.subTest(dtype=dtype):
                self.compare(dtype, found[dtype], decode(dtype, data))

    @unittest.skipUnless(hasattr(os, "sched_setaffinity"), "this system does not choose the processors of a process")
    def test_processors_change_nothing(self) -> None:
        """The floats cancel, so each order of the additions gives another mean."""
        size, numbers = 3 << 20, random.Random(SEED)
        codes = {"F64": "Q", "F32": "I", "C64": "I", "BF16": "H", "F16": "H"}
        tensors = []
        for dtype in (*codes, "I32", "F8_E8M0", "F8_E5M2", "F6_E3M2", "F4"):
            data = numbers.randbytes(size)
            if dtype in codes:
                half = array.array(codes[dtype], data[: size // 2])
                negative = array.array(half.typecode, (code ^ 1 << 8 * half.itemsize - 1 for code in half))
                data = (half + array.array(half.typecode, numbers.sample(negative, len(negative)))).tobytes()
            tensors.append((dtype, dtype, [8 * size // elements.BITS[dtype]], data))
        only = {min(os.sched_getaffinity(0))}
        alone = self.stats(tensors, preexec_fn=lambda: os.sched_setaffinity(0, only))
        for _ in range(5):
            self.assertEqual(self.stats(tensors), alone)

    def test_digits_that_are_printed(self) -> None:
        values = [0.5, 0.25, 0.3000000001]
        found = self.stats([("x", "F64", [3], struct.pack("<3d", *values))])["x"]
        self.assertEqual(repr(found["mean"]), "0.3500000000333333")
        self.assertEqual(repr(found["std"]), "0.108012344958")


if __name__ == "__main__":
    unittest.main()
