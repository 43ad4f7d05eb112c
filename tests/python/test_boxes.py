"""How the boxes of a tensor are compared. Strangers choose them, so the work is counted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from safetensors._ranks.boxes import Box, check_cover


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of comparisons of two boxes, as a list of one number."""
    count = [0]
    common = Box.common

    def counted(self: Box, other: Box) -> Box | None:
        count[0] += 1
        return common(self, other)

    monkeypatch.setattr(Box, "common", counted)
    return count


def rows_and_columns(count: int) -> tuple[list[Box], tuple[int, ...]]:
    """A layer of rows on a layer of columns. Each row meets each column in two dimensions."""
    rows = [Box((i, 0, 0), (1, count, 1)) for i in range(count)]
    columns = [Box((0, i, 1), (count, 1, 1)) for i in range(count)]
    return rows + columns, (count, count, 2)


def stairs(count: int) -> tuple[list[Box], tuple[int, ...]]:
    """Pairs of columns that meet at another row each. All are open at the same time in both dimensions."""
    upper = [Box((0, i), (i + 1, 1)) for i in range(count)]
    lower = [Box((i + 1, i), (count - i, 1)) for i in range(count)]
    return upper + lower, (count + 1, count)


@pytest.mark.parametrize("make", [rows_and_columns, stairs])
def test_compares_no_pairs_of_boxes_that_are_right(make: Any, compared: list[int]) -> None:
    boxes, shape = make(600)
    assert check_cover(boxes, shape) is None
    assert compared == [0]


def test_counts_elements_before_it_compares_pairs(compared: list[int]) -> None:
    boxes, shape = rows_and_columns(600)
    text = check_cover(boxes[:-1], shape)
    assert text == "its chunks hold 719400 elements, and its shape [600, 600, 2] has 720000"
    assert compared[0] <= 1 << 16


def test_bounds_the_search_for_two_boxes_to_name(compared: list[int]) -> None:
    boxes, shape = rows_and_columns(600)
    boxes[-1] = Box((0, 598, 1), (600, 1, 1))  # as the box before it
    assert check_cover(boxes, shape) == "its chunks overlap"
    assert compared[0] <= 1 << 16
    boxes, shape = rows_and_columns(20)
    boxes[-1] = Box((0, 18, 1), (20, 1, 1))
    assert check_cover(boxes, shape) == "the chunks at [0, 18, 1] and [0, 18, 1] overlap"


def test_agrees_with_a_count_of_cells() -> None:
    choose = random.Random(11)
    right = 0
    for _ in range(3000):
        shape = tuple(choose.randint(1, 3) for _ in range(choose.randint(0, 4)))
        boxes = list(cut(Box((0,) * len(shape), shape), choose))
        if choose.random() < 0.5:
            index = choose.randrange(len(boxes))
            offsets = tuple(choose.randint(0, n - s) for n, s in zip(shape, boxes[index].sizes, strict=True))
            boxes[index] = Box(offsets, boxes[index].sizes)
        count = np.zeros(shape, int)
        for box in boxes:
            count[box.slices] += 1
        assert (check_cover(boxes, shape) is None) == bool((count == 1).all()), (boxes, shape)
        right += bool((count == 1).all())
    assert 1000 < right < 2900


def cut(box: Box, choose: random.Random) -> Iterator[Box]:
    dims = [dim for dim, size in enumerate(box.sizes) if size > 1]
    if not dims or choose.random() < 0.3:
        yield box
        return
    dim = choose.choice(dims)
    at = choose.randint(1, box.sizes[dim] - 1)
    for begin, size in ((0, at), (at, box.sizes[dim] - at)):
        offsets, sizes = list(box.offsets), list(box.sizes)
        offsets[dim] += begin
        sizes[dim] = size
        yield from cut(Box(tuple(offsets), tuple(sizes)), choose)
