"""Makes valid and invalid files for readers to judge. The same seed makes the same files."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable

Field = tuple[str, str]  # name and value, as the text has them

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64,
    "U64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
NAMES = ["w", "layer.0", "", "\u00e9", "\\n", "\\u00e9x", "\\ud83d\\ude00", "a/../b", "\u4f60\u597d", "\\\\", '\\"']
HUGE = ["18446744073709551615", "18446744073709551616", "9" * 30, "9223372036854775807"]
VALUES = [
    "-1", "1.0", "1e2", "null", "true", '"8"', "[]", "{}", "01", "-0", "0.5", "1E400", "-1e-400", "2 ", "[[]]", "[0,[1]]",
    "1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308", '"\\ud800"', '"\\u0000"', "NaN", "'x'",
    '{"a":[1,{"b":null}]}', '{"a":1,"a":2}', "[" * 60 + "]" * 60, "[" * 130 + "]" * 130, *HUGE,
]  # fmt: skip
TEXTS = [" ", "\t", "\n", ",", ":", "{", "}", "[", "]", '"', "0", "-", "+", "e", "\\", "\x00", "\x0b", "\x7f", "\u00e9"]


class Draft:
    """A file before it is written: the entries' fields, and what they say of the data."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.end = 0
        names = draw.sample(NAMES, draw.randint(0, 4))
        self.entries: list[tuple[str, list[Field]]] = [(name, self.fields()) for name in names]
        self.metadata = draw.choice([None, None, "{}", '{"a":"b"}', '{"":"","b":"\\u00e9"}', "null"])
        self.metadata_at = draw.randint(0, len(names))
        self.arrays: dict[str, str] = {}  # entries that are no objects

    def fields(self) -> list[Field]:
        """Fields of a tensor that begins where the last one ended."""
        dtype = self.draw.choice(list(BITS))
        shape = [self.draw.choice([0, 1, 2, 3, 3, 4]) for _ in range(self.draw.randint(0, 3))]
        count = 1
        for size in shape:
            count *= size
        if count * BITS[dtype] % 8 != 0:
            shape.append(8)
            count *= 8
        begin, self.end = self.end, self.end + count * BITS[dtype] // 8
        made = [("dtype", f'"{dtype}"'), ("shape", json.dumps(shape)), ("data_offsets", f"[{begin},{self.end}]")]
        if self.draw.random() < 0.3:
            self.draw.shuffle(made)
        return made

    def text(self) -> str:
        parts = []
        for name, fields in self.entries:
            value = "{" + ",".join(f'"{key}":{value}' for key, value in fields) + "}"
            parts.append(f'"{name}":{self.arrays.get(name, value)}')
        if self.metadata is not None:
            parts.insert(min(self.metadata_at, len(parts)), f'"__metadata__":{self.metadata}')
        return "{" + ",".join(parts) + "}"


def pick(draft: Draft, field: str | None = None) -> tuple[list[Field], int]:
    """The fields of an entry, and the place of one of them."""
    fields = draft.draw.choice(draft.entries)[1]
    if not fields:
        fields.append(("x", "1"))
    places = [i for i, (name, _) in enumerate(fields) if field in (None, name)]
    return fields, draft.draw.choice(places or [0])


def drop_field(draft: Draft) -> None:
    fields, at = pick(draft)
    del fields[at]


def repeat_field(draft: Draft) -> None:
    fields, at = pick(draft)
    fields.insert(draft.draw.randint(0, len(fields)), fields[at])


def rename_field(draft: Draft) -> None:
    fields, at = pick(draft)
    fields[at] = (draft.draw.choice(["Dtype", "shapes", "data_offset", "offsets", "d\\u0074ype"]), fields[at][1])


def add_field(draft: Draft) -> None:
    fields, at = pick(draft)
    extra = (draft.draw.choice(["extra", "x", "", "\u00e9", "__metadata__"]), draft.draw.choice(VALUES))
    fields[at:at] = [extra] * draft.draw.choice([1, 1, 1, 2])


def odd_value(draft: Draft) -> None:
    fields, at = pick(draft)
    fields[at] = (fields[at][0], draft.draw.choice(VALUES))


def odd_number(draft: Draft) -> None:
    fields, at = pick(draft, draft.draw.choice(["shape", "data_offsets"]))
    numbers = fields[at][1].strip("[]").split(",")
    numbers[draft.draw.randrange(len(numbers))] = draft.draw.choice(VALUES + HUGE * 3)
    fields[at] = (fields[at][0], "[" + ",".join(numbers) + "]")


def huge_shape(draft: Draft) -> None:
    fields, at = pick(draft, "shape")
    sizes = [draft.draw.choice(["0", "2", "4294967296", *HUGE[:1]]) for _ in range(draft.draw.randint(1, 3))]
    fields[at] = ("shape", "[" + ",".join(sizes) + "]")


def move_offsets(draft: Draft) -> None:
    fields, at = pick(draft, "data_offsets")
    numbers = [int(n) for n in fields[at][1].strip("[]").split(",") if n.isdigit()]
    which = draft.draw.randrange(4)
    for i in range(len(numbers)):
        if which in (0, 1) and which != i:
            continue
        numbers[i] = numbers[i] + draft.draw.choice([-8, -1, 1, 4, 8, 100])
    if which == 3:
        numbers.reverse()
    fields[at] = ("data_offsets", json.dumps([max(0, n) for n in numbers]))


def odd_dtype(draft: Draft) -> None:
    fields, at = pick(draft, "dtype")
    names = ['"F33"', '"f32"', '"F32 "', '"\\u0046\\u0033\\u0032"', '""', '"F4"', '"F6_E2M3"', '"F64"', '"U8"', '{"U8":null}']
    fields[at] = ("dtype", draft.draw.choice(names))


def as_array(draft: Draft) -> None:
    name, fields = draft.entries[0]
    order = ["dtype", "shape", "data_offsets"]
    values = [value for key in order for known, value in fields if known == key]
    draft.arrays[name] = "[" + ",".join(values) + "]"


def repeat_name(draft: Draft) -> None:
    name, fields = draft.draw.choice(draft.entries)
    draft.entries.insert(draft.draw.randint(0, len(draft.entries)), (name, list(fields)))


def shuffle_entries(draft: Draft) -> None:
    draft.draw.shuffle(draft.entries)


def odd_metadata(draft: Draft) -> None:
    odd = ['{"a":"b","a":"c"}', '{"a":1}', '{"a":null}', '{"a":["b"]}', "[]", '"x"', '{"a":"\\ud800"}', '{"\\u0061":"","a":""}']
    draft.metadata = draft.draw.choice(odd)


CHANGES: list[Callable[[Draft], None]] = [
    drop_field, repeat_field, rename_field, add_field, add_field, odd_value, odd_number, odd_number, huge_shape,
    move_offsets, move_offsets, move_offsets, odd_dtype, odd_dtype, as_array, repeat_name, shuffle_entries, odd_metadata,
]  # fmt: skip


def spoil_text(draw: random.Random, text: str) -> str:
    at = draw.randrange(len(text))
    return draw.choice(
        [
            text[:at] + text[at + 1 :],
            text[:at] + draw.choice(TEXTS) + text[at:],
            text + draw.choice([" " * 9, "\n", "x", "{}", "\x00", ",", "\t\r\n "]),
            draw.choice([" ", "\n", "\t \r\n", "[", "\ufeff"]) + text,
            text.replace(",", draw.choice([" , ", ",\n", ",,", ""]), 1),
            text.replace(":", draw.choice([" : ", "::", ""]), 1),
            text[: len(text) - draw.randint(1, 5)],
        ]
    )


def spoil_bytes(draw: random.Random, header: bytes) -> bytes:
    at = draw.randrange(len(header) + 1)
    odd = [b"\xff", b"\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"]
    return header[:at] + draw.choice(odd) + header[at:]


def generate(seed: int) -> bytes:
    """A file; most have one thing wrong, some none, some several."""
    draw = random.Random(seed)
    draft = Draft(draw)
    for _ in range(draw.choice([0, 0, 1, 1, 1, 1, 1, 2])):
        if draft.entries:
            draw.choice(CHANGES)(draft)
    text = draft.text()
    if draw.random() < 0.2:
        text = spoil_text(draw, text)
    header = text.encode()
    if draw.random() < 0.03:
        header = spoil_bytes(draw, header)
    size = max(0, draft.end + draw.choice([0] * 20 + [-1, 1, 8]))
    length = len(header) + draw.choice([0] * 40 + [1, -1, 10**8, 2**63, 2**64 - 1 - len(header)])
    whole = struct.pack("<Q", max(0, min(length, 2**64 - 1))) + header + bytes(size)
    return whole[: draw.randrange(len(whole) + 1)] if draw.random() < 0.03 else whole
