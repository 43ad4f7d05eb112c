"""safetensors.torch: saving, loading, slices, memory."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKENDS, framework, raises

torch = framework("torch")

import safetensors.torch as st  # noqa: E402
from safetensors import SafetensorError, load, safe_open  # noqa: E402

DTYPES = sorted(st._TYPES.values(), key=str)


def tensor_of(dtype: Any, shape: tuple[int, ...] = (3, 4)) -> Any:
    count = 1
    for size in shape:
        count *= size
    if dtype == torch.bool:
        return (torch.arange(count) % 2).to(torch.bool).reshape(shape)
    raw = (torch.arange(count * dtype.itemsize) % 5).to(torch.uint8)
    return raw.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)


def bits(tensor: Any) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist()) if tensor.nelement() else b""


def same(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)


@BACKENDS
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(dtype: Any, backend: str, tmp_path: Path) -> None:
    tensors = {"a": tensor_of(dtype), "empty": tensor_of(dtype, (0, 3)), "b": tensor_of(dtype, (1, 2, 3))}
    if dtype != torch.float4_e2m1fn_x2:
        tensors["scalar"] = tensor_of(dtype, ())
    st.save_file(tensors, tmp_path / "t", {"k": "v"})
    data = st.save(tensors, {"k": "v"})
    assert (tmp_path / "t").read_bytes() == data
    for loaded in (st.load_file(tmp_path / "t", backend=backend), st.load(data), st.load(bytearray(data), copy=False)):
        assert set(loaded) == set(tensors)
        assert all(same(loaded[name], tensors[name]) for name in tensors)
        assert st.save(loaded, {"k": "v"}) == data
    with safe_open(tmp_path / "t", "pt", backend=backend) as f:
        assert f.metadata() == {"k": "v"}
        for name, tensor in tensors.items():
            assert same(f.get_tensor(name), tensor)
        assert same(f.get_slice("b")[0, 1:], tensors["b"][0, 1:])


@BACKENDS
def test_each_tensor_is_all_of_its_storage(backend: str, tmp_path: Path) -> None:
    tensors = {f"t{i}": tensor_of(d, (i + 1, 2)) for i, d in enumerate(DTYPES)}
    st.save_file(tensors, tmp_path / "t")
    for tensor in st.load_file(tmp_path / "t", backend=backend).values():
        assert st._is_complete(tensor) and tensor.storage_offset() == 0 and tensor._base is None
        assert tensor.is_contiguous() and not tensor.requires_grad


def test_a_mapped_tensor_is_one_memory_in_one_safe_open(tmp_path: Path) -> None:
    st.save_file({"a": torch.arange(10)}, tmp_path / "t")
    before = (tmp_path / "t").read_bytes()
    with safe_open(tmp_path / "t", "pt") as f:
        one, two, part = f.get_tensor("a"), f.get_tensor("a"), f.get_slice("a")[2:4]
        one[2] = 99
        assert two[2] == 99 and part[0] == 99
    assert st.load_file(tmp_path / "t")["a"][2] == 2
    assert (tmp_path / "t").read_bytes() == before
    with safe_open(tmp_path / "t", "pt", backend="pread") as f:
        one, two = f.get_tensor("a"), f.get_tensor("a")
        one[2] = 99
        assert two[2] == 2


@BACKENDS
def test_tensors_outlive_everything(backend: str, tmp_path: Path) -> None:
    tensor = torch.arange(1 << 16)
    st.save_file({"a": tensor, "b": torch.ones(3)}, tmp_path / "t")
    with safe_open(tmp_path / "t", "pt", backend=backend) as f:
        a, part = f.get_tensor("a"), f.get_slice("a")
    loaded = st.load_file(tmp_path / "t", backend=backend)
    (tmp_path / "t").unlink()
    del f
    b = loaded.pop("b")
    del loaded
    gc.collect()
    assert torch.equal(a, tensor) and torch.equal(part[5:9], tensor[5:9]) and torch.equal(b, torch.ones(3))
    view = a[:5]
    del a, part
    gc.collect()
    assert torch.equal(view, tensor[:5])


@BACKENDS
@pytest.mark.parametrize("device", ["cpu", "cuda", 0])
def test_load_file_opens_one_file_by_the_name_given(
    device: Any, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No index, pattern or home directory, also for CUDA devices, which this machine may lack."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~").mkdir()
    opened: list[Any] = []

    def on_cpu(filename: Any, framework: Any, device: Any, **options: Any) -> Any:
        opened.append(options["backend"])
        file = safe_open(filename, framework, "cpu", **options)
        Path(filename).unlink()
        return file

    monkeypatch.setattr(st, "safe_open", on_cpu)
    for name in ("x.json", "~/q.safetensors", "*.safetensors"):
        st.save_file({"w": torch.arange(3.0)}, name)
        loaded = st.load_file(name, device, backend=backend)
        assert loaded.keys() == {"w"} and loaded["w"].tolist() == [0, 1, 2]
    assert opened == ["auto" if device != "cpu" and backend == "mmap" else backend] * 3


# Slices: torch itself is the measure.


@pytest.mark.parametrize("backend", ["pread", "auto"])
@pytest.mark.parametrize(
    ("index", "text"),
    [
        (10, "Error during slicing [10] with shape [10, 5]: index 10 out of bounds for tensor dimension #0 of size 10"),
        (-11, "Invalid index -11 for dimension 0 of size 10"),
        ((0, 5), "Error during slicing [0, 5] with shape [10, 5]: index 5 out of bounds for tensor dimension #1 of size 5"),
        ((1, 2, 3), "Error during slicing [1, 2, 3] with shape [10, 5]: more slicing indexes than dimensions in tensor"),
        (1.5, "Unsupported slice index at position 0: expected slice, int, or ellipsis"),
        (2**70, "Unsupported slice index at position 0: expected slice, int, or ellipsis"),
    ],
)
def test_integers_out_of_range_by_pread_are_the_reference_s_errors(
    index: Any, text: str, backend: str, tmp_path: Path
) -> None:
    st.save_file({"a": torch.arange(50).reshape(10, 5)}, tmp_path / "t")
    with safe_open(tmp_path / "t", "pt", backend=backend) as f, raises(SafetensorError, text):
        f.get_slice("a")[index]


def test_a_slice_by_pread_reads_its_bytes_only(tmp_path: Path) -> None:
    counters = Path("/proc/self/io")
    if not counters.exists():
        pytest.skip("this system does not count what a process reads")
    large = torch.arange(1 << 20).reshape(64, -1)
    st.save_file({"a": large}, tmp_path / "t")

    def read_so_far() -> int:
        return int(counters.read_text().split()[1])

    rows = {"one": (7, 1), "list": ([30, 33], 4), "tensor": (torch.tensor([5, 6]), 2), "axis": ((None, slice(2, 4)), 2)}
    rows["mask"] = (torch.arange(64) == 9, 1)
    with safe_open(tmp_path / "t", "pt", backend="pread") as f:
        part = f.get_slice("a")
        for index, count in rows.values():
            part[index]  # reads modules of Python, too
            before = read_so_far()
            got = part[index]
            # Besides the rows, the counters themselves were read: about 100 bytes, more when a number has one more digit.
            assert 0 <= read_so_far() - before - count * large[0].nbytes < 1000
            assert torch.equal(got, large[index])


# What saving refuses.


@pytest.fixture(params=["save", "save_file"])
def save(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "save":
        return st.save
    return lambda tensors: st.save_file(tensors, tmp_path / "t")


def test_what_is_no_dict_of_tensors(save: Any) -> None:
    with raises(ValueError, "Expected a dict of [str, torch.Tensor] but received <class 'str'>"):
        save("x")
    with raises(ValueError, "Key `test` is invalid, expected torch.Tensor but received <class 'dict'>"):
        save({"test": {}})


def test_meta_tensors_are_torch_s_error(save: Any) -> None:
    with pytest.raises(RuntimeError, match="Cannot copy out of meta tensor"):
        save({"t": torch.zeros(2, device="meta")})


def test_sparse_tensors(save: Any) -> None:
    with raises(
        ValueError,
        "You are trying to save a sparse tensors: `['test']` which this library does not support. You can make it a"
        " dense tensor before saving with `.to_dense()` but be aware this might make a much larger file than needed.",
    ):
        save({"test": torch.zeros(2, 3).to_sparse()})


def test_shared_memory(save: Any) -> None:
    a = torch.zeros(100, 100)
    begins = "^\\s*Some tensors share memory, this will lead to duplicate memory on disk and potential differences when"
    for tensors in ({"a": a, "b": a}, {"a": a, "b": a[:1]}, {"a": a[:50], "b": a[10:20]}, {"a": a, "b": a.view(-1)}):
        with pytest.raises(RuntimeError, match=begins) as caught:
            save(tensors)
        assert "save_model" in str(caught.value) and "'a'" in str(caught.value) and "'b'" in str(caught.value)
    save({"a": a[:50], "b": a[50:], "empty": a[:0], "empty too": a[:0]})


def test_tensors_that_are_not_contiguous(save: Any) -> None:
    a = torch.zeros(10, 10)
    for tensor in (a.t()[:5], a[:, :5], torch.zeros(1).expand(5)):
        with raises(
            ValueError,
            "You are trying to save a non contiguous tensor: `a` which is not allowed. It either means you are trying to"
            " save tensors which are reference of each other in which case it's recommended to save only the full"
            " tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to pack it before"
            " saving.",
        ):
            save({"a": tensor})


def test_dtypes_that_the_format_lacks(save: Any) -> None:
    tensor = torch.zeros(2, dtype=torch.complex128)
    with raises(ValueError, "Key `a` has dtype torch.complex128, which the format cannot hold."):
        save({"a": tensor})


def test_names_and_metadata_are_text() -> None:
    with raises(TypeError, "argument 'tensor_dict': 'int' object is not an instance of 'str'"):
        st.save({1: torch.zeros(1)})
    with raises(TypeError, "argument 'metadata': 'int' object is not an instance of 'str' (key `step`)"):
        st.save({"a": torch.zeros(1)}, metadata={"format": "pt", "step": 1})


class Wrapper(torch.Tensor):  # type: ignore[misc, name-defined]
    """A tensor whose values are elsewhere, as of a DTensor or of a quantized weight."""

    @staticmethod
    def __new__(cls, values: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=values.dtype)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(func)


class Sharded(Wrapper):
    def full_tensor(self) -> Any:
        raise NotImplementedError


def test_tensors_without_memory_are_named(save: Any) -> None:
    with raises(
        RuntimeError,
        "Key `b` is a Wrapper, which has no memory of its own: save the plain tensors that it is made of",
    ):
        save({"a": torch.zeros(1), "b": Wrapper(torch.zeros(2))})
    with raises(
        RuntimeError,
        "Key `c` is a Sharded, which has no memory of its own: save its .full_tensor(), or all ranks call"
        " safetensors.distributed.save_sharded",
    ):
        save({"c": Sharded(torch.zeros(2))})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.uint16, torch.float8_e4m3fn])
def test_fake_tensor_mode_loads_nothing(dtype: Any, tmp_path: Path) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    path = tmp_path / "t"
    st.save_file({"a": torch.ones(4).to(dtype)}, path)
    text = "cannot load a tensor under torch's FakeTensorMode, whose tensors have no memory"
    with FakeTensorMode():
        for backend in ("mmap", "pread"):
            with raises(ValueError, text):
                st.load_file(path, backend=backend)
            with safe_open(path, "pt", backend=backend) as file:
                assert file.get_slice("a").get_shape() == [4]
                with raises(ValueError, text):
                    file.get_tensor("a")
                with raises(ValueError, text):
                    file.get_slice("a")[1:]
        with raises(ValueError, text):
            load(path, framework="pt")


def test_views_that_are_conjugated_or_negated_are_saved_as_they_look() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
    again = st.load(st.save({"c": torch.conj(z), "n": torch._neg_view(torch.ones(2))}))
    assert torch.equal(again["c"], torch.conj(z).resolve_conj()) and torch.equal(again["n"], -torch.ones(2))


def test_six_bits_have_no_place_in_torch(make: Any) -> None:
    path = make('{"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}      ', bytes(3))
    for backend in ("mmap", "pread", "auto"):
        with raises(SafetensorError, "Dtype not understood: F6_E2M3 (torch has no such dtype; framework=\"np\" loads it as packed uint8)"):
            st.load_file(path, backend=backend)
