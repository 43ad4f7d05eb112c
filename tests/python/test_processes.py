"""One checkpoint written by several processes: the native functions for a distributed writer."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import framework

from safetensors import CheckpointLayout, SafetensorError, _native, load, save
from safetensors._arrays.values import to_value

TENSORS: dict[str, Any] = {
    "rows": np.arange(7 * 5, dtype=np.float32).reshape(7, 5),
    "columns": np.arange(6 * 9, dtype=np.int16).reshape(6, 9),
    "cube": np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5),
    "scalar": np.array(3.5, np.float64),
    "empty": np.zeros((0, 4), np.float32),
}


def make_layout(limit: int = 150) -> CheckpointLayout:
    return CheckpointLayout(TENSORS, max_shard_size=limit)


def create(folder: Path, layout: CheckpointLayout, shared: bool = True) -> _native._Writer:
    return _native._checkpoint_writer(
        folder,
        layout._native,
        new_folder=False,
        remove_old_files=True,
        durability="full",
        progress=None,
        shared=shared,
    )


def write_box(writer: _native._Writer, name: str, dim: int, rank: int, world: int) -> None:
    """Write the shard of a rank along a dimension, as numpy.array_split cuts it."""
    array = TENSORS[name]
    begin = sum(len(part) for part in np.array_split(np.arange(array.shape[dim]), world)[:rank])
    part = np.array_split(array, world, axis=dim)[rank]
    offsets = [begin if d == dim else 0 for d in range(array.ndim)]
    writer.write_slice(name, offsets, part.shape, to_value(part, name, writer.dtype(name)))


def write_part(writer: _native._Writer, rank: int, world: int) -> None:
    write_box(writer, "rows", 0, rank, world)
    write_box(writer, "columns", 1, rank, world)
    write_box(writer, "cube", 2, rank, world)
    if rank == world - 1:
        writer.write("scalar", None, to_value(TENSORS["scalar"], "scalar", "F64"))


def work(ticket: str, layout: bytes, rank: int, world: int, results: Any) -> None:
    """Write the part of a rank, in a process of its own."""
    writer = _native._join_checkpoint(ticket, pickle.loads(layout)._native, progress=None)
    write_part(writer, rank, world)
    results.put((rank, writer.receipt()))


@pytest.mark.parametrize("world", [1, 2, 4])
def test_processes_write_what_save_writes(tmp_path: Path, world: int) -> None:
    layout = make_layout()
    writer = create(tmp_path / "model", layout)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    arguments = (writer.ticket(), pickle.dumps(layout))
    others = [
        context.Process(target=work, args=(*arguments, rank, world, results))
        for rank in range(1, world)
    ]
    for process in others:
        process.start()
    write_part(writer, 0, world)
    for _ in others:
        writer.accept(results.get(timeout=100)[1])
    for process in others:
        process.join(timeout=100)
        assert process.exitcode == 0
    writer.commit()
    save(TENSORS, tmp_path / "alone", max_shard_size=150)
    names = sorted(path.name for path in (tmp_path / "alone").iterdir())
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == names
    for name in names:
        assert (tmp_path / "model" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def test_torch_slice_goes_without_gathering(tmp_path: Path) -> None:
    torch = framework("torch")
    whole = torch.arange(24, dtype=torch.bfloat16).reshape(4, 6)
    layout = CheckpointLayout({"w": whole})
    writer = create(tmp_path / "model", layout)
    joined = _native._join_checkpoint(writer.ticket(), layout._native, progress=None)
    part = whole[1:3].contiguous()
    value = to_value(part, "w", "BF16")
    assert value[0] == part.data_ptr()  # no copy
    joined.write_slice("w", [1, 0], part.shape, value)
    writer.accept(joined.receipt())
    for offsets, rest in (([0, 0], whole[:1]), ([3, 0], whole[3:, :2]), ([3, 2], whole[3:, 2:])):
        writer.write_slice("w", offsets, rest.shape, to_value(rest, "w", "BF16"))
    writer.commit()
    assert torch.equal(load(tmp_path / "model", framework="pt")["w"], whole)


def test_slices_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    writer = create(tmp_path / "model", make_layout())
    part = np.zeros((2, 5), np.float32)

    def message(offsets: list[Any], sizes: list[Any], data: Any = part) -> str:
        with pytest.raises(SafetensorError) as error:
            writer.write_slice("rows", offsets, sizes, to_value(data, "rows", "F32"))
        return str(error.value)

    assert message([6, 0], [2, 5]) == (
        "tensor `rows` has shape [7, 5], the slice ends after it: offsets [6, 0], sizes [2, 5]"
    )
    assert message([0], [2, 5]) == (
        "tensor `rows` has 2 dimensions, the slice has 1 offsets and 2 sizes"
    )
    assert message([0, 0], [5, 2]) == (
        "tensor `rows`: the slice has shape [5, 2], the data has [2, 5]"
    )
    assert message([0, 0], [2, 5], part.astype(np.float64)) == (
        "tensor `rows` has dtype F32, the data F64"
    )
    assert message([0, 2**64 - 1], [2, 5]).startswith("tensor `rows` has shape [7, 5]")
    with pytest.raises(OverflowError):
        writer.write_slice("rows", [-1, 0], [2, 5], to_value(part, "rows", "F32"))
    with pytest.raises(KeyError):
        writer.write_slice("other", [0, 0], [2, 5], to_value(part, "rows", "F32"))
    writer.write_slice("rows", [0, 0], [2, 5], to_value(part, "rows", "F32"))
    assert "already written" in message([1, 0], [2, 5])
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_roles_and_texts_are_checked(tmp_path: Path) -> None:
    layout = make_layout()
    alone = create(tmp_path / "alone", layout, shared=False)
    for call in (alone.ticket, alone.receipt, lambda: alone.accept("{}")):
        with pytest.raises(SafetensorError, match="the writer is not shared"):
            call()
    single = _native._Writer(tmp_path / "f.safetensors", {}, None, "full")
    with pytest.raises(SafetensorError, match="only the files of a checkpoint"):
        single.ticket()
    writer = create(tmp_path / "model", layout)
    with pytest.raises(SafetensorError, match="invalid ticket: "):
        _native._join_checkpoint("{}", layout._native, progress=None)
    with pytest.raises(SafetensorError, match="files, the layout has 1"):
        _native._join_checkpoint(writer.ticket(), make_layout(10**6)._native, progress=None)
    with pytest.raises(TypeError):
        _native._join_checkpoint(None, layout._native, progress=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        writer.accept(b"{}")  # type: ignore[arg-type]
    joined = _native._join_checkpoint(writer.ticket(), layout._native, progress=None)
    with pytest.raises(SafetensorError, match="a joined writer cannot commit"):
        joined.commit()
    write_part(joined, 0, 2)
    receipt = joined.receipt()
    with pytest.raises(SafetensorError, match="the writer is closed"):
        joined.receipt()
    writer.accept(receipt)
    with pytest.raises(SafetensorError, match="the receipt was already accepted"):
        writer.accept(receipt)
    with pytest.raises(SafetensorError, match="were never written"):
        writer.commit()
    again = _native._join_checkpoint(writer.ticket(), layout._native, progress=None)
    write_box(again, "rows", 0, 0, 2)
    with pytest.raises(SafetensorError, match="were written by two processes"):
        writer.accept(again.receipt())
