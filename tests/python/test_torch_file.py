"""The reader of files of torch.save gives the values of torch.load, and no file makes it do more."""

from __future__ import annotations

import io
import random
import struct
import tracemalloc
import zipfile
from typing import Any

import pytest
from conftest import framework

torch = framework("torch")

from safetensors._arrays.dtypes import FRAMEWORK_NAMES  # noqa: E402
from safetensors._dcp.torch_file import _large, read_tensor  # noqa: E402

DTYPES = sorted({found for name in FRAMEWORK_NAMES.values() if (found := getattr(torch, name, None)) is not None}, key=str)


def saved(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def read(data: bytes, like: Any, before: bytes = b"", after: bytes = b"") -> Any:
    target = torch.empty(like.shape, dtype=like.dtype)
    read_tensor(io.BytesIO(before + data + after), len(before), len(data), target)
    return target


def same(one: Any, other: Any) -> bool:
    return bool(torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reads_every_dtype(dtype: Any) -> None:
    for shape in ((2, 3), (), (0, 4), (1, 7, 1)):
        count = torch.Size(shape).numel() * dtype.itemsize
        raw = torch.randint(0, 2, (count,), dtype=torch.uint8) if count else torch.empty(0, dtype=torch.uint8)
        value = raw.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)
        assert same(read(saved(value), value, b"before", b"after").reshape(-1), value.reshape(-1))


def test_reads_views_strides_and_parameters() -> None:
    whole = torch.arange(48.0).reshape(2, 3, 4, 2)
    complex_values = torch.randn(3, 2, dtype=torch.complex64)
    for value in (
        whole.permute(3, 1, 0, 2), whole[1], torch.nn.Parameter(whole), complex_values.conj(), complex_values.t().conj(),
        torch._neg_view(whole),
    ):  # fmt: skip
        assert torch.equal(read(saved(value), value.detach()), value.detach())


def test_fills_targets_with_strides() -> None:
    value = torch.arange(6.0).reshape(2, 3)
    target = torch.zeros(2, 6)
    data = saved(value)
    read_tensor(io.BytesIO(data), 0, len(data), target[:, ::2])
    assert target.tolist() == [[0, 0, 1, 0, 2, 0], [3, 0, 4, 0, 5, 0]]


def test_each_changed_byte_is_an_error_or_a_tensor() -> None:
    value, choose = torch.arange(6.0).reshape(2, 3), random.Random(3)
    data = saved(value)
    refused = 0
    for at in range(len(data)):
        for byte in {0, 255, data[at] ^ 1, choose.randrange(256)}:
            try:
                assert read(data[:at] + bytes([byte]) + data[at + 1 :], value).shape == value.shape
            except ValueError as error:
                assert str(error)
                refused += 1
    assert refused > 500
    for size in range(len(data)):
        with pytest.raises(ValueError, match="^(it|its) "):
            read(data[:size], value)


def archive(data: bytes, **changed: bytes) -> bytes:
    """The file with other contents of entries. `_` stands for `/`, None removes one."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            content = changed.pop(name.partition("/")[2].replace("/", "_").replace(".", "_"), old.read(name))
            if content is not None:
                new.writestr(name, content)
        for name, content in changed.items():
            new.writestr(f"archive/{name}", content)
    return file.getvalue()


VALUE = torch.arange(6.0)
DATA = saved(VALUE)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"data_0": b"\0" * 23}, "its entry data/0 has 23 bytes, expected 24"),
        ({"data_0": None}, "it has no entry data/0: torch.save has not written it"),
        ({"data_pkl": None}, "it has no entry data.pkl: torch.save has not written it"),
        ({"data_pkl": b"\0" * 65537}, "its entry data.pkl has 65537 bytes, at most 65536 are expected"),
        ({"byteorder": b"big"}, "its bytes are big-endian"),
        ({"data_pkl": b"\x80\x02cos\nsystem\n."}, "it holds os.system, expected a dense tensor on the CPU"),
        ({"data_pkl": b"\x80\x02K\1."}, "it holds int, no tensor"),
        ({"data_pkl": b"\x80\x02ctorch\nuint8\n)R."}, "it holds uint8, no tensor"),
        ({"data_pkl": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R."}, "it holds a tensor without a storage"),
        ({f"extra{i}": b"" for i in range(2000)}, "its directory has 2007 entries in "),
    ],
)  # fmt: skip
def test_refuses_what_torch_does_not_write(changed: Any, text: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        read(archive(DATA, **changed), VALUE)
    assert str(raised.value).startswith(text)


def test_reads_what_zipfile_writes() -> None:
    assert torch.equal(read(archive(DATA), VALUE), VALUE)


@pytest.mark.parametrize("last", [b"\0", b"PK\5\6" + bytes(18)])
def test_refuses_bytes_after_the_end_record(last: bytes) -> None:
    with pytest.raises(ValueError, match="^(it is no file of torch.save: the end record|its directory has 0 entries)"):
        read(DATA + last, VALUE)


def test_needs_no_memory_that_the_tensor_lacks() -> None:
    """A directory with the most entries, and a pickle of the largest size."""
    extra = {f"{i:04}": b"" for i in range(900)}
    hostile = archive(DATA, **extra, data_pkl=b"\x80\x02" + b"]" * 65000)
    target = torch.empty(6)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="its values take more than [0-9]+ bytes of memory"):
            read_tensor(io.BytesIO(hostile), 0, len(hostile), target)
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


def test_takes_numbers_of_large_files_from_the_extra_field() -> None:
    large = 0xFFFFFFFF
    extra = struct.pack("<2HL2H2Q", 9, 4, 0, 1, 16, 1 << 33, 1 << 34)
    assert _large(extra, [large, 5, large]) == [1 << 33, 5, 1 << 34]
    assert _large(extra, [1, 2, 3]) == [1, 2, 3]
    for short in (b"", b"\1", extra[:9], extra[:12], extra[:8] + struct.pack("<2H", 1, 0), extra[:15]):
        assert _large(short, [large, 2, 3]) == [large, 2, 3]
