"""safe_open.prefetch and hostile names: their form in errors, and the time to find them."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest

from safetensors import SafetensorError, safe_open

NASTY, SHOWN = "\x1b[31mevil\u202e", "\\u{1b}[31mevil\\u{202e}"


def test_errors_show_names_without_control_characters(make: Any) -> None:
    entry = {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]}
    scalar = {"dtype": "U8", "shape": [], "data_offsets": [3, 4]}
    with safe_open(make(json.dumps({NASTY: entry, NASTY + "s": scalar}), b"abcd"), "np") as f:
        wrong: list[tuple[str, Any]] = [
            (NASTY, 3), (NASTY, slice("a", 1)), (NASTY, slice(0, 9)), (NASTY, slice(0, 4, 2)), (NASTY, slice(0, 4, 0)),
            (NASTY, slice(0, 1)), (NASTY + "s", slice(0, 1)), (NASTY + "x", None),
        ]  # fmt: skip
        for name, rows in wrong:
            with pytest.raises(SafetensorError) as caught:
                f.prefetch({name: rows})
            assert SHOWN in str(caught.value) and str(caught.value).isprintable()
        p = f.prefetch({NASTY: None})
        p.close()
    for name, text in ((NASTY, f"{SHOWN}: prefetch loader closed"), (NASTY + "x", f"tensor {SHOWN}x is not in the prefetch plan")):
        with pytest.raises(SafetensorError) as caught:
            p.take(name)
        assert str(caught.value) == text


MULTIPLIER = np.uint64(0xC6A4A7935BD1E995)
INVERSE = np.uint64(pow(0xC6A4A7935BD1E995, -1, 1 << 64))


def _mixed(word: Any) -> Any:
    return word ^ (word >> np.uint64(47))


def _hashes(words: Any) -> Any:
    """std::hash of libstdc++ (MurmurHash64A) for names of two words of 8 bytes."""
    state = np.uint64(0xC70F6907) ^ (np.uint64(16) * MULTIPLIER)
    for i in range(2):
        state = (state ^ _mixed(words[:, i] * MULTIPLIER) * MULTIPLIER) * MULTIPLIER
    return _mixed(_mixed(state) * MULTIPLIER)


def names_solved_for_std_hash(count: int) -> list[str]:
    """Different names, of which that hash is the same: the first word is chosen, the second follows."""
    random = np.random.default_rng(1)
    found = np.empty((0, 2), np.uint64)
    with np.errstate(over="ignore"):
        while len(found) < count:
            first = random.integers(0x20, 0x7F, (1 << 20, 8), np.uint8).view(np.uint64).ravel()
            state = np.uint64(0xC70F6907) ^ (np.uint64(16) * MULTIPLIER)
            state = (state ^ _mixed(first * MULTIPLIER) * MULTIPLIER) * MULTIPLIER
            second = _mixed((np.uint64(0x1234567890ABCDEF) ^ state) * INVERSE) * INVERSE
            ascii_only = (second & np.uint64(0x8080808080808080)) == 0
            found = np.concatenate([found, np.stack([first, second], axis=1)[ascii_only]])
        found = found[:count]
        assert len(set(_hashes(found).tolist())) == 1
    return [pair.tobytes().decode("ascii") for pair in found]


@pytest.mark.skipif(sys.byteorder == "big", reason="the words of the names are little-endian")
def test_names_that_collide_for_an_unkeyed_hash(make: Any) -> None:
    # Slow where such a hash is used, 20,000 of them squared; scripts/check-layers refuses the tables that have one.
    names = names_solved_for_std_hash(20_000)
    entry = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    assert len(set(names)) == len(names)
    with safe_open(make(json.dumps(dict.fromkeys(names, entry))), "np") as f:
        for plan in (None, dict.fromkeys(names)):
            with f.prefetch(plan) as p:
                assert p.names() == sorted(names)
                assert p.take(names[0]).shape == (0,)
