"""Private names of safetensors.torch that programs import, and saving from other devices."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from conftest import framework

torch = framework("torch")

import safetensors.torch as st  # noqa: E402
from safetensors import deserialize  # noqa: E402

NO_NAME = (
    "Error while trying to find names to remove to save state dict, but found no suitable name to keep for saving"
    " amongst: {names}. None is covering the entire storage.Refusing to save/load the model since you could be storing"
    " much more memory than needed. Please refer to https://huggingface.co/docs/safetensors/torch_shared_tensors for"
    " more information. Or open an issue."
)


def distance(tensor: Any) -> int:
    return int(st._end_ptr(tensor) - tensor.data_ptr())


# Dtypes.


def test_dtypes_by_the_names_of_the_format() -> None:
    assert st._getdtype("BF16") == torch.bfloat16 and st._getdtype("F4") == torch.float4_e2m1fn_x2
    assert st._TYPES["F8_E8M0"] == torch.float8_e8m0fnu and st._TYPES["C64"] == torch.complex64
    with pytest.raises(KeyError, match="XX"):
        st._getdtype("XX")


def test_sizes_are_bytes_of_an_element() -> None:
    assert set(st._SIZE) == set(st._TYPES.values())
    for dtype, size in st._SIZE.items():
        assert torch.empty(3, dtype=dtype).untyped_storage().nbytes() == 3 * size


# Where memory begins and ends.


def test_the_storage_of_a_view_is_that_of_the_whole() -> None:
    a = torch.zeros(10, 10)
    for view in (a, a[3:], a.t(), a.expand(2, 10, 10)):
        assert st.storage_ptr(view) == a.data_ptr() and st.storage_size(view) == 400
    assert st.storage_size(a.half()) == 200


def test_a_tensor_without_memory_is_at_zero() -> None:
    meta = torch.zeros(3, device="meta")
    assert st.storage_ptr(meta) == 0 and st.storage_size(meta) == 12
    assert st.storage_ptr(torch.zeros(3, 3).to_sparse()) == 0


def test_the_end_is_behind_the_last_element() -> None:
    a = torch.zeros(10, 10)
    assert distance(a) == 400 and distance(a[:1]) == 40 and distance(a[0, 0]) == 4
    assert distance(a.t()) == 400 and distance(a[:, :5]) == 380 and distance(a[::2]) == 360
    assert distance(a[0].expand(7, 10)) == 40 and distance(torch.zeros(0)) == 0
    assert distance(torch.zeros(3, dtype=torch.int8)) == 3


def test_complete_is_all_of_the_storage() -> None:
    a = torch.zeros(10, 10)
    for whole in (a, a.t(), a.view(-1), torch.zeros(0), torch.zeros(()), torch.zeros(3, device="meta")):
        assert st._is_complete(whole)
    for part in (a[:1], a[1:], a[:, :5], a.expand(2, 10, 10), a[:9]):
        assert not st._is_complete(part)


# Sharing.


def test_a_set_for_each_piece_of_memory() -> None:
    a, q, r = torch.zeros(10, 10), torch.zeros(3), torch.zeros(4)
    found = st._find_shared_tensors({"x": a, "y": a[:1], "z": a[1:], "q": q, "sub": a[2:3]})
    assert found == [{"x", "y", "z", "sub"}, {"q"}]
    found = st._find_shared_tensors({"q": q, "c": a[3:], "a": a[1:3], "b": a[:1], "r": r})
    assert found == [{"q"}, {"b"}, {"a"}, {"c"}, {"r"}]  # storages as they come, inside by address
    assert st._find_shared_tensors({}) == []


def test_overlap_goes_from_one_to_the_next() -> None:
    a, d = torch.zeros(100, 100), torch.zeros(3)
    find = st._find_shared_tensors
    assert find({"x": a[:10], "y": a[5:20], "z": a[15:30], "w": a[40:]}) == [{"x", "y", "z"}, {"w"}]
    assert find({"w": a[40:], "d": d, "x": a[:10]}) == [{"x"}, {"w"}, {"d"}]
    assert find({"p": a.view(-1), "t": a.t()}) == [{"p", "t"}]


def test_tensors_within_another_share_with_it() -> None:
    a = torch.zeros(100, 100)
    found = st._find_shared_tensors({"big": a[:60], "in": a[10:20], "behind": a[30:40], "out": a[60:]})
    assert found == [{"big", "in", "behind"}, {"out"}]


def test_what_has_no_bytes_shares_with_none() -> None:
    a, meta = torch.zeros(10, 10), torch.zeros(3, device="meta")
    tensors = {"e": torch.zeros(0), "m": meta, "n": meta, "s": a.to_sparse(), "a": a}
    assert st._find_shared_tensors(tensors) == [{"a"}]
    assert st._find_shared_tensors({"big": a, "e": a[5:5], "f": a[5:5]}) == [{"e"}, {"f"}, {"big"}]


def test_the_same_bytes_in_storages_of_their_own_are_not_looked_at() -> None:
    memory = bytearray(16)
    a, b = (torch.frombuffer(memory, dtype=torch.uint8, offset=offset) for offset in (0, 4))
    assert st._find_shared_tensors({"a": a, "b": b}) == [{"a"}, {"b"}]


def test_sets_of_one_storage_are_split_by_overlap() -> None:
    a = torch.zeros(10, 10)
    split = st._filter_shared_not_shared
    assert split([{"x", "y"}, {"z"}], {"x": a[:5], "y": a[5:], "z": a}) == [{"x"}, {"y"}, {"z"}]
    assert split([{"x", "y", "w"}], {"x": a[:3], "y": a[3:5], "w": a[4:]}) == [{"x"}, {"y", "w"}]
    assert split([], {}) == []


class Counted(int):
    """A number that counts how often any of its kind is compared."""

    compared = 0

    def __lt__(self, other: object) -> bool:
        Counted.compared += 1
        return int.__lt__(self, other)  # type: ignore[operator]

    def __ge__(self, other: object) -> bool:
        Counted.compared += 1
        return int.__ge__(self, other)  # type: ignore[operator]


def test_many_names_of_one_storage_are_not_compared_each_with_each() -> None:
    from safetensors._arrays.sharing import overlapping_chains

    Counted.compared = 0
    spans: Any = [(Counted(7 * i % 20_000), Counted(7 * i % 20_000 + 1), str(i)) for i in range(20_000)]
    assert len(list(overlapping_chains(spans))) == 20_000
    assert Counted.compared < 20_000 * 20
    base = torch.zeros(20_000, 2)
    tensors = {f"t{i}": row for i, row in enumerate(base.unbind())}
    assert len(st._find_shared_tensors(tensors)) == 20_000
    assert st._find_shared_tensors(tensors | {"all": base}) == [set(tensors) | {"all"}]


# Which name to keep.


def test_the_first_name_that_covers_all_is_kept() -> None:
    a, c = torch.zeros(10, 10), torch.zeros(2)
    remove = st._remove_duplicate_names
    assert remove({"z": a, "x": a, "b": a[:1], "a": a[1:], "c": c}) == {"x": ["a", "b", "z"]}
    assert remove({"c": c, "a": a}) == {} and remove({}) == {}


def test_names_can_be_preferred_or_discarded() -> None:
    a = torch.zeros(10, 10)
    same = {"x": a, "y": a, "z": a}

    def kept(**names: list[str]) -> list[str]:
        return list(st._remove_duplicate_names(same, **names))

    assert kept(preferred_names=["z", "y"]) == ["y"] and kept(preferred_names=["other"]) == ["x"]
    assert kept(discard_names=["x"]) == ["y"] and kept(discard_names=["x", "y", "z"]) == ["x"]
    assert kept(discard_names=["x"], preferred_names=["x"]) == ["x"]  # a wish to have it wins
    assert kept(discard_names=["x", "y"], preferred_names=["z"]) == ["z"]
    part = {"x": a, "b": a[:1]}
    assert st._remove_duplicate_names(part, preferred_names=["b"]) == {"x": ["b"]}


def test_no_name_covers_the_storage() -> None:
    a = torch.zeros(10, 10)
    for tensors in ({"b": a[:2]}, {"b": a[:5], "c": a[5:]}, {"b": a[2:], "q": torch.zeros(1)}):
        with pytest.raises(RuntimeError) as caught:
            st._remove_duplicate_names(tensors)
        assert str(caught.value) == NO_NAME.format(names={"b"})
    assert st._remove_duplicate_names({"b": a[:0], "c": a[:0]}) == {}


# Bytes.


def test_bytes_of_a_tensor() -> None:
    assert st._tobytes(torch.tensor([1, 2], dtype=torch.int16), "n") == b"\1\0\2\0"
    assert st._tobytes(torch.tensor([1.0], requires_grad=True), "n") == b"\0\0\x80\x3f"
    assert st._tobytes(torch.zeros(0), "n") == b"" and st._tobytes(torch.tensor(True), "n") == b"\1"
    for tensor, text in (
        (torch.zeros(3, 2).t(), "non contiguous tensor: `n`"),
        (torch.zeros(2, 2).to_sparse(), r"sparse tensors: `\['n'\]`"),
        (torch.zeros(1, dtype=torch.complex128), "Key `n` has dtype torch.complex128"),
    ):
        with pytest.raises(ValueError, match=text):
            st._tobytes(tensor, "n")


def test_specs_point_to_the_tensors_themselves() -> None:
    tensors = {"a": torch.zeros(4, 5), "p": torch.nn.Parameter(torch.ones(3)), "e": torch.zeros(0, 2)}
    keep: list[Any] = []
    specs = st._flatten_as_ptr(OrderedDict(tensors), keep)
    assert list(specs) == ["a", "p", "e"]
    for name in ("a", "p"):
        assert specs[name].data_ptr == tensors[name].data_ptr()
        assert specs[name].data_len == tensors[name].nbytes
    assert (specs["a"].dtype, specs["a"].shape, specs["e"].data_len) == ("F32", [4, 5], 0)


def test_copies_live_as_long_as_the_list() -> None:
    keep: list[Any] = []
    spec = st._flatten_as_ptr({"c": torch.tensor([1 + 2j]).conj()}, keep)["c"]
    assert [t.data_ptr() for t in keep] == [spec.data_ptr]


def test_specs_are_made_of_what_can_be_saved_only() -> None:
    a = torch.zeros(2)
    with pytest.raises(ValueError, match="Expected a dict"):
        st._flatten_as_ptr([a], [])  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="Some tensors share memory"):
        st._flatten_as_ptr({"a": a, "b": a}, [])


def test_views_of_what_deserialize_gives() -> None:
    tensors = {
        name: (torch.arange(8 * dtype.itemsize) % 2).to(torch.uint8).view(dtype).reshape(2, 4)
        for name, dtype in st._TYPES.items()
    }
    tensors |= {"scalar": torch.tensor(3), "empty": torch.zeros(0, 3)}
    parts = deserialize(st.save(tensors))
    again = st._view2torch(parts)
    assert set(again) == set(tensors)
    for name, tensor in tensors.items():
        assert (again[name].dtype, again[name].shape) == (tensor.dtype, tensor.shape)
        assert st._tobytes(again[name], name) == st._tobytes(tensor, name)
    with pytest.raises(KeyError, match="F6_E2M3"):
        st._view2torch([("x", {"dtype": "F6_E2M3", "shape": [4], "data": bytearray(3)})])


# Tensors of other devices, played by the host's own.


class Elsewhere:
    """Counts what of the host's memory is in use by copies."""

    def __init__(self) -> None:
        self.copies: list[Any] = []
        self.order: list[str] = []
        self.most = 0

    def tensor(self, name: str, value: Any) -> Any:
        place = self

        class Remote(torch.Tensor):  # type: ignore[misc, name-defined]
            is_cpu = False

            def to(self, device: str) -> Any:
                assert device == "cpu"
                gc.collect()
                alive = sum(1 for copy in place.copies if copy() is not None)
                copy = self.as_subclass(torch.Tensor).clone()
                place.copies.append(weakref.ref(copy))
                place.order.append(name)
                place.most = max(place.most, alive + 1)
                return copy

        return value.as_subclass(Remote)


def test_of_another_device_one_tensor_at_a_time_is_on_the_host(tmp_path: Path) -> None:
    values = {f"t{i}": torch.full((i + 1, 3), float(i)) for i in range(9)} | {"on the host": torch.arange(4)}
    there = Elsewhere()
    tensors = {n: v if n == "on the host" else there.tensor(n, v) for n, v in values.items()}
    st.save_file(tensors, tmp_path / "t", {"k": "v"}, durability="none")
    assert (tmp_path / "t").read_bytes() == st.save(values, {"k": "v"})
    assert sorted(there.order) == sorted(set(values) - {"on the host"})
    assert there.most == 1


def test_all_of_another_device_is_on_the_host_for_bytes() -> None:
    there, value = Elsewhere(), torch.arange(4.0)
    assert st.save({"a": there.tensor("a", value)}) == st.save({"a": value}) and there.order == ["a"]


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (torch.zeros(3, 3).t()[:2], "non contiguous tensor: `z`"),
        (torch.zeros(3, dtype=torch.complex128), "Key `z` has dtype torch.complex128"),
        (torch.zeros(3, device="meta"), "Cannot copy out of meta tensor"),
    ],
)
def test_what_cannot_be_saved_is_seen_before_anything_is_copied(bad: Any, text: str, tmp_path: Path) -> None:
    there = Elsewhere()
    (tmp_path / "t").write_bytes(b"old")
    with pytest.raises((ValueError, RuntimeError), match=text):
        st.save_file({"a": there.tensor("a", torch.ones(3)), "z": bad}, tmp_path / "t")
    assert there.order == [] and (tmp_path / "t").read_bytes() == b"old"


def test_an_error_while_copying_leaves_the_old_file(tmp_path: Path) -> None:
    class Lost(torch.Tensor):  # type: ignore[misc, name-defined]
        is_cpu = False

        def to(self, device: str) -> Any:
            raise RuntimeError("the device is gone")

    (tmp_path / "t").write_bytes(b"old")
    with pytest.raises(RuntimeError, match="^the device is gone$"):
        st.save_file({"a": torch.ones(3), "z": torch.ones(2).as_subclass(Lost)}, tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["t"]


def test_a_tensor_larger_than_its_storage_is_refused_not_read_past_its_end(tmp_path):
    tensor = torch.ones(1000)
    tensor.untyped_storage().resize_(4)
    expected = "Key `a` is larger than its storage of 4 bytes"
    for call in (
        lambda: st.save({"a": tensor}),
        lambda: st.save_file({"a": tensor}, tmp_path / "a"),
        lambda: st._tobytes(tensor, "a"),
    ):
        with pytest.raises(ValueError) as error:
            call()
        assert str(error.value) == expected
    assert not (tmp_path / "a").exists()


def test_the_bytes_of_a_tensor_whose_storage_was_freed_are_refused():
    tensor = torch.ones(1000)
    tensor.untyped_storage().resize_(0)
    with pytest.raises(ValueError) as error:
        st._tobytes(tensor, "a")
    expected = "Key `a` has 4000 bytes, but no memory: its storage was freed."
    assert str(error.value) == expected
