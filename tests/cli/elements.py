"""The elements of tensors as Python's numbers, by definition: from their bits, in the plainest way."""

import math
import struct
from typing import NamedTuple


class Float(NamedTuple):
    """The layout of a float of up to 8 bits. special: the codes that are not finite."""

    exponent: int
    mantissa: int
    bias: int
    special: str = ""


SMALL = {
    "F8_E4M3": Float(4, 3, 7, "all ones"),
    "F8_E5M2": Float(5, 2, 15, "ieee"),
    "F8_E4M3FNUZ": Float(4, 3, 8, "minus zero"),
    "F8_E5M2FNUZ": Float(5, 2, 16, "minus zero"),
    "F6_E2M3": Float(2, 3, 1),
    "F6_E3M2": Float(3, 2, 3),
    "F4": Float(2, 1, 1),
}
# struct's codes. BF16 is the upper half of F32.
CODES = {"F64": "d", "F32": "f", "C64": "f", "F16": "e", "I64": "q", "U64": "Q", "I32": "i", "U32": "I"}
CODES |= {"I16": "h", "U16": "H", "I8": "b", "U8": "B", "BOOL": "B"}
BITS = {name: 1 + layout.exponent + layout.mantissa for name, layout in SMALL.items()}
BITS |= {name: 8 * struct.calcsize(code) for name, code in CODES.items()} | {"BF16": 16, "F8_E8M0": 8, "C64": 64}


def codes(dtype: str, data: bytes) -> list[int]:
    """The bits of the components: the first element is in the lowest bits."""
    width = 32 if dtype == "C64" else BITS[dtype]
    if width % 8 == 0:
        size = width // 8
        return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
    size = 3 if width == 6 else 1
    groups = (int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size))
    return [group >> at & (1 << width) - 1 for group in groups for at in range(0, 8 * size, width)]


def packed(dtype: str, values: list[int]) -> bytes:
    """The inverse of codes()."""
    width = 32 if dtype == "C64" else BITS[dtype]
    whole = sum(value << i * width for i, value in enumerate(values))
    return whole.to_bytes(len(values) * width // 8, "little")


def small(layout: Float, code: int) -> float:
    sign = -1.0 if code >> layout.exponent + layout.mantissa else 1.0
    size = code & (1 << layout.exponent + layout.mantissa) - 1
    exponent, mantissa = size >> layout.mantissa, size & (1 << layout.mantissa) - 1
    if layout.special == "ieee" and exponent == (1 << layout.exponent) - 1:
        return math.nan if mantissa else sign * math.inf
    if layout.special == "all ones" and size == (1 << layout.exponent + layout.mantissa) - 1:
        return math.nan
    if layout.special == "minus zero" and sign < 0 and size == 0:
        return math.nan
    whole = mantissa if exponent == 0 else mantissa | 1 << layout.mantissa
    return sign * math.ldexp(whole, max(exponent, 1) - layout.bias - layout.mantissa)


def decode(dtype: str, data: bytes) -> list:
    """The components: ints of integer dtypes and BOOL, else floats."""
    if dtype in SMALL:
        return [small(SMALL[dtype], code) for code in codes(dtype, data)]
    if dtype == "F8_E8M0":
        return [math.nan if code == 255 else 2.0 ** (code - 127) for code in data]
    if dtype == "BF16":
        data = b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data), 2))
    code = CODES.get(dtype, "f")
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))
