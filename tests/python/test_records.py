"""The cost of a hostile `.metadata`: memory and steps per byte. Both are counted, not timed."""

from __future__ import annotations

import contextlib
import pickle
import random
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from conftest import framework

torch = framework("torch")

from torch.distributed.checkpoint.filesystem import _StorageInfo  # noqa: E402
from torch.distributed.checkpoint.metadata import (  # noqa: E402
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from safetensors import SafetensorError  # noqa: E402
from safetensors._dcp import metadata as _dcp_metadata  # noqa: E402
from safetensors._dcp import records as _records  # noqa: E402
from safetensors._dcp.metadata import parse  # noqa: E402
from safetensors._dcp.records import read_records  # noqa: E402

PER_BYTE = 64  # as docs/distributed.md says
# Values 0 to 3 of the memo: a name, a text, an empty tuple, an empty list.
START = b"\x80\x04ctorch\nSize\n\x94X\x01\0\0\0a\x94)\x94]\x94"
PIECES = {
    "mark": b"(", "list": b"]", "dict": b"}", "empty tuple": b")", "tuple": b"(t", "tuple of one": b"\x85", "tuple of two": b"NN\x86",
    "memo": b"\x94", "pop": b"0", "append": b"a", "none": b"N", "entry": b"}K\0Ns", "key": b"h\1Ns", "record": b"h\0)\x81",
    "state": b"}b", "float": b"G12345678", "int": b"J1234", "long": b"\x8a\t12345678\1", "text": b"\x8c\1b", "name": b"ctorch\nSize\n",
    "wide text": b"\x8c\5a\xf0\x9f\x98\x80", "bytes": b"C\1b", "get": b"h\3", "size": b"h\0K\5\x85\x85Ra", "extend": b"(NNNe",
}  # fmt: skip


def peak(data: bytes) -> tuple[int, str]:
    """The bytes of memory that reading takes, and the error."""
    error = ""
    tracemalloc.start()
    try:
        parse(data, "m")
    except SafetensorError as raised:
        error = str(raised)
    finally:
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return memory, error


@pytest.mark.parametrize("name", PIECES)
def test_memory_per_byte_of_one_piece(name: str) -> None:
    data = START + b"]" + PIECES[name] * (100_000 // len(PIECES[name]))
    memory, error = peak(data)
    assert error.startswith("m is no metadata of torch: ")
    assert memory <= PER_BYTE * len(data) + (1 << 20)


def test_memory_per_byte_of_mixed_pieces() -> None:
    choose = random.Random(4)
    for _ in range(150):
        unit = b"".join(choose.choices(list(PIECES.values()), k=choose.randint(2, 5)))
        data = START + b"]" + unit * (20_000 // len(unit))
        memory, error = peak(data)
        assert error
        assert memory <= PER_BYTE * len(data) + (1 << 16), unit


# Each makes an object, or makes one larger.
MAKERS = PIECES | {
    "nested list": b"]a", "appended list": b"]Na", "tuple of one": b")\x85", "tuple of three": b"NNN\x87", "empty tuple of a mark": b"(t",
    "entries": b"}(K\0Nu", "call": b"h\0)R", "ordered dict": b"ccollections\nOrderedDict\n)R", "stack name": b"h\1h\1\x93", "nameless": b"c\n\n",
    "persistent id": b"NQ", "nested persistent id": b"N" + b"Q" * 50, "memoized": b"N\x94", "large int": b"M\0\1", "long bytes": b"C\2bc",
    "long text": b"X\2\0\0\0bc",
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_memory_per_byte_under_one_mark(name: str) -> None:
    """A mark and its opcode cost 2 bytes, however many values are between them."""
    piece = MAKERS[name]
    for close in (b"e", b"t"):
        data = START + b"]" + (b"(" + piece * (50_000 // len(piece)) + close) * 3 + b"."
        tracemalloc.start()
        try:
            with contextlib.suppress(ValueError):
                read_records(data, lambda module, name: None)
            memory = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert memory <= PER_BYTE * len(data) + (1 << 20), close


def test_says_how_much_memory_it_may_take() -> None:
    data = b"\x80\x04]" + (b"(" + b"}" * 60_000 + b"e") * 5 + b"."
    with pytest.raises(ValueError, match=f"^its values take more than {PER_BYTE * len(data) + (1 << 20)} bytes of memory, 64 per byte$"):
        read_records(data, lambda module, name: None)


def test_memory_of_the_copies_is_counted() -> None:
    """The records are in memory while their values are copied."""
    value = metadata(1, 1)
    size = torch.Size([0])
    value.state_dict_metadata["x"] = TensorStorageMetadata(TensorProperties(torch.float32), size, [ChunkStorageMetadata(size, size)] * 70_000)
    value.planner_data = b"PLACE"  # nothing reads it
    others = b"]" + (b"(" + b")\x85" * 30_000 + b"e") * 9
    data = pickle.dumps(value, 4).replace(b"C\5PLACE", others)
    memory, error = peak(data)
    assert re.match("m is damaged: .*its values take more than [0-9]+ bytes of memory", error)
    assert memory <= PER_BYTE * len(data) + (1 << 20)


def test_marks_take_no_memory() -> None:
    memory, error = peak(b"\x80\x04" + b"(" * 1_000_000)
    assert error == "m is no metadata of torch: it has more than 1000 marks at once"
    assert memory < 1 << 18


def test_stops_at_many_values() -> None:
    memory, error = peak(b"\x80\x04" + b"]" * 1_000_000)
    assert error == "m is no metadata of torch: it has more than 65536 values at once"
    assert memory < 5 << 20


def test_takes_one_step_per_opcode(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(metadata(3, 5))
    steps = [0]

    def counted(step: Any) -> Any:
        def call(reader: Any) -> None:
            steps[0] += 1
            step(reader)

        return call

    monkeypatch.setattr(_records, "_STEPS", {code: counted(step) for code, step in _records._STEPS.items()})
    assert len(parse(data, "m")[0]) == 3
    assert 100 < steps[0] < len(data)


def metadata(tensors: int, chunks: int) -> Any:
    described, stored = {}, {}
    for tensor in range(tensors):
        name = f"layers.{tensor}.weight"
        found = []
        for chunk in range(chunks):
            offset = torch.Size([8 * chunk, 0])
            found.append(ChunkStorageMetadata(offset, torch.Size([8, 4096])))
            stored[MetadataIndex(name, offset, chunk)] = _StorageInfo(f"__{chunk}_0.distcp", 1_000_000 * tensor, 131_072)
        described[name] = TensorStorageMetadata(TensorProperties(torch.float32), torch.Size([8 * chunks, 4096]), found)
    return Metadata(described, storage_data=stored)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_reads_what_torch_writes_within_the_bound(protocol: int) -> None:
    for tensors, chunks in ((300, 1), (4, 64), (1, 1)):
        data = pickle.dumps(metadata(tensors, chunks), protocol)
        memory, error = peak(data)
        assert not error
        # The count is an upper bound, and has room for other models.
        assert memory <= PER_BYTE * len(data) // 3 + (1 << 16)
        found, _ = parse(data, "m")
        assert len(found) == tensors and all(len(tensor.chunks) == chunks for tensor in found.values())


def test_values_that_many_tensors_share_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle of n bytes has n * n / 1000 chunks, if n / 50 tensors have one list of n / 20 chunks."""
    size, properties = torch.Size([0]), TensorProperties(torch.float32)
    chunks = [ChunkStorageMetadata(size, size) for _ in range(300)]
    described = {f"t{i}": TensorStorageMetadata(properties, size, chunks) for i in range(300)}
    data = pickle.dumps(Metadata(described, storage_data={}))
    numbers = [0]
    checked = _dcp_metadata._number

    def counted(value: Any, what: str) -> int:
        numbers[0] += 1
        return checked(value, what)

    monkeypatch.setattr(_dcp_metadata, "_number", counted)
    with pytest.raises(SafetensorError, match="^m is damaged: tensor 't[0-9]+': it refers to the same values more often than torch does$"):
        parse(data, "m")
    assert numbers[0] <= len(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "it ends too early, or takes a value that is not there"),
        (b"\x80\x04.", "it ends too early, or takes a value that is not there"),
        (b"\x80\x04\x86.", "it ends too early, or takes a value that is not there"),
        (b"\x80\x04ctorch", "it ends too early, or takes a value that is not there"),
        (b"\x80\x06N.", "it has the protocol 6, and torch writes at most 5"),
        (b"\x80\x04i.", "it has the opcode 0x69, which torch does not write there"),
        (b"\x80\x04Nq\1.", "it gives a value the number 1 before 0"),
        (b"\x80\x04K\1\x8c\1a\x93.", "it has a name that is no text"),
        (b"\x80\x04})Ns.", "it has a dict with a key of type tuple"),
        (b"\x80\x04](N\x85u.", "it changes an object that is no dict"),
        (b"\x80\x04NQ.", "no name is expected"),
    ],
)
def test_errors(data: bytes, text: str) -> None:
    def check(module: str, name: str) -> None:
        raise ValueError("no name is expected")

    with pytest.raises(ValueError) as raised:  # noqa: PT011
        read_records(data, check)
    assert str(raised.value) == text


@pytest.mark.parametrize("key", [2**61 - 1, -(2**61 - 1), 2**31])
def test_refuses_ints_whose_hashes_collide(key: int) -> None:
    """`hash(k * (2**61 - 1))` is 0 for each k, and the hash of an int has no secret."""
    with pytest.raises(ValueError, match="it has a dict with a key of type int"):
        read_records(pickle.dumps({key: None}), lambda module, name: None)
    assert read_records(pickle.dumps({2**31 - 1: None}), lambda module, name: None) == {2**31 - 1: None}


def test_offsets_are_found_by_keys_with_a_secret(tmp_path: Path) -> None:
    """Tuples of multiples of 2**61 - 1 all have one hash, so a shape has no room for several of them."""
    places = _dcp_metadata._packed((0, 2**61 - 1)), _dcp_metadata._packed((2**61 - 1, 0))
    assert hash((0, 2**61 - 1)) == hash((0, 0)) and len({hash(place) for place in places}) == 2
    value = metadata(1, 1)
    name, stored = next((name, stored) for name, stored in value.state_dict_metadata.items())
    stored.size = torch.Size([2**40, 2**40])
    with pytest.raises(SafetensorError, match=f"tensor '{name}': it has more than {2**63 - 1} elements"):
        parse(pickle.dumps(value), "m")


def test_reads_the_values_of_pickle() -> None:
    value = {"a": [1, -1, 1 << 40, 2.5, None, True, False, "\u1234" * 300, b"x" * 300, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)], "b": {2: {}}}
    for protocol in (2, 4, 5):
        assert read_records(pickle.dumps(value, max(protocol, 3)), lambda *_: None) == value


def test_the_document_names_the_bound() -> None:
    text = (Path(__file__).parents[2] / "docs/distributed.md").read_text()
    assert f"at most {PER_BYTE} times its bytes, and 1 MiB" in " ".join(text.split())
