"""shard_box and reshard against arrays of NumPy that hold the position of each element, and against torch."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import framework

np = framework("numpy")
pytest.importorskip("hypothesis")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import safetensors  # noqa: E402
from safetensors import Box, SafetensorError, Transfer, reshard, shard_box  # noqa: E402

shapes = st.lists(st.integers(0, 7), max_size=3)
meshes = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@st.composite
def cuts(draw: Any, shape: list[int]) -> list[Box]:
    """The boxes of all ranks of a random mesh."""
    mesh = draw(meshes)
    dims = st.none() if not shape else st.none() | st.integers(-len(shape), len(shape) - 1)
    placements = draw(st.lists(dims, min_size=len(mesh), max_size=len(mesh)))
    return [shard_box(shape, mesh, rank, placements) for rank in range(int(np.prod(mesh)))]


@st.composite
def two_cuts(draw: Any) -> tuple[list[int], list[Box], list[Box]]:
    shape = draw(shapes)
    return shape, draw(cuts(shape)), draw(cuts(shape))


def check(shape: Any, saved: Any, wanted: Any) -> list[Transfer]:
    """Fill the wanted parts by the transfers, and compare them with the whole."""
    whole = np.arange(int(np.prod(shape))).reshape(shape)
    have = [whole[box.slices].copy() for box in saved]
    parts = [np.full(box.sizes, -1) for box in wanted]
    found = reshard(shape, saved, wanted)
    for source, target, from_box, to_box in found:
        assert (parts[target][to_box.slices] == -1).all(), "an element comes twice"
        parts[target][to_box.slices] = have[source][from_box.slices]
        first = whole[wanted[target].slices][to_box.slices]  # no earlier source has one of these elements
        assert not any(np.isin(have[earlier], first).any() for earlier in range(source))
    for part, box in zip(parts, wanted, strict=True):
        assert np.array_equal(part, whole[box.slices])
    assert found == sorted(found, key=lambda each: (each.target, each.source))
    return found


@settings(deadline=None)
@given(two_cuts())
def test_moves_each_element_once(drawn: Any) -> None:
    shape, saved, wanted = drawn
    found = check(shape, saved, wanted)
    assert len({(each.source, each.target) for each in found}) == len(found)


@settings(deadline=None)
@given(st.data())
def test_takes_any_boxes(data: Any) -> None:
    """Boxes that overlap, and boxes of wanted elements that some of them have."""
    shape = data.draw(shapes)

    def box() -> Box:
        offsets = [data.draw(st.integers(0, size)) for size in shape]
        return Box(tuple(offsets), tuple(data.draw(st.integers(0, n - o)) for n, o in zip(shape, offsets, strict=True)))

    saved = [box() for _ in range(data.draw(st.integers(0, 4)))]
    wanted = [box() for _ in range(data.draw(st.integers(0, 3)))]
    held = np.zeros(shape, bool)
    for each in saved:
        held[each.slices] = True
    if all(held[each.slices].all() for each in wanted):
        check(shape, saved, wanted)
    else:
        with pytest.raises(SafetensorError, match=r"wanted box \d+ .* is not in the saved boxes"):
            reshard(shape, saved, wanted)


@settings(deadline=None)
@given(st.data())
def test_cuts_as_torch_does(data: Any) -> None:
    torch = framework("torch")
    shape, mesh = data.draw(shapes.filter(bool)), data.draw(meshes)
    dims = data.draw(st.lists(st.none() | st.integers(0, len(shape) - 1), min_size=len(mesh), max_size=len(mesh)))
    whole = torch.arange(int(np.prod(shape))).reshape(shape)
    for rank in range(int(np.prod(mesh))):
        local = whole
        for dim, count, index in zip(dims, mesh, np.unravel_index(rank, mesh), strict=True):
            if dim is not None:
                parts = torch.chunk(local, count, dim)
                local = parts[index] if index < len(parts) else local.narrow(dim, 0, 0)
        box = shard_box(shape, mesh, rank, dims)
        assert whole[box.slices].tolist() == local.tolist() or not box.elements == local.numel() == 0, (rank, box)
        assert box.elements == local.numel()


def test_returns_boxes_and_transfers() -> None:
    assert shard_box([5, 4], [2], 1, [0]) == Box((3, 0), (2, 4)) == ((3, 0), (2, 4))
    assert shard_box((5, 4), (2, 3), 5, (-1, None)).slices == (slice(0, 5), slice(2, 4))
    assert shard_box([], [8], 7, [None]) == Box((), ())
    saved = [shard_box([4, 2], [2], rank, [0]) for rank in range(2)]
    assert reshard([4, 2], saved, [((1, 0), (2, 2))]) == [
        Transfer(0, 0, Box((1, 0), (1, 2)), Box((0, 0), (1, 2))),
        Transfer(1, 0, Box((0, 0), (1, 2)), Box((1, 0), (1, 2))),
    ]
    assert reshard([], [((), ())], [((), ())]) == [Transfer(0, 0, Box((), ()), Box((), ()))]
    assert reshard([3], [], []) == []
    assert safetensors.Box is Box


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: shard_box([4], [2], 2, [0]), SafetensorError, "rank 2 is outside of the mesh [2], which has 2 ranks"),
        (lambda: shard_box([4], [2, 0], 0, [0, 0]), SafetensorError, "rank 0 is outside of the mesh [2, 0], which has 0 ranks"),
        (lambda: shard_box([4], [2], 0, [1]), SafetensorError, "placement 0 is 1, the tensor has 1 dimensions"),
        (lambda: shard_box([4], [2], 0, [-2]), SafetensorError, "placement 0 is -2, the tensor has 1 dimensions"),
        (lambda: shard_box([4], [2], 0, [10**30]), SafetensorError, f"placement 0 is {10**30}, the tensor has 1 dimensions"),
        (lambda: shard_box([4], [2], 0, []), SafetensorError, "a mesh of 1 dimensions has 1 coordinates and 0 placements"),
        (lambda: shard_box([4], [2], 0, ["0"]), TypeError, "str"),  # type: ignore[list-item]
        (lambda: shard_box([-1], [2], 0, [0]), OverflowError, ""),
        (lambda: shard_box([4], [2], -1, [0]), OverflowError, ""),
        (lambda: reshard([4], [((0,), (5,))], []), SafetensorError, "saved box 0 has 5 indices from 0 on in dimension 0, the tensor has 4"),
        (lambda: reshard([4], [((0, 0), (4, 1))], []), SafetensorError, "saved box 0 has 2 begins and 2 sizes, expected 1"),
        (lambda: reshard([4], [], [((0,), (1,))]), SafetensorError, "wanted box 0 [0:1] is not in the saved boxes: they have 0 of its 1 elements"),
        (lambda: reshard([2**63, 4], [], []), SafetensorError, "a tensor of shape [9223372036854775808, 4] has more than 2^64-1 elements"),
        (lambda: reshard([4], [5], []), TypeError, ""),  # type: ignore[list-item]
        (lambda: reshard([4], [((0,),)], []), IndexError, ""),  # type: ignore[list-item]
    ],
)
def test_refuses(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as raised:
        call()
    assert text in str(raised.value)
