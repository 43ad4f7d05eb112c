"""The bytes that loads report to have read are those that the system gave: /proc/self/io counts them, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from safetensors import Checkpoint
from safetensors.numpy import save_file

PROBES = 4096  # bytes, for probes of the page cache where the kernel has no cachestat()
ROWS = 4096
COLUMNS = slice(None), slice(0, 256)  # pieces of 1 KiB, and gaps of 1 KiB
CACHES: list[Any] = ["auto", "keep", "fill", "drop", "bypass"]


def given() -> tuple[int, int]:
    """The bytes that system calls gave to this process before this call, and those that this call reads itself."""
    text = Path("/proc/self/io").read_bytes()
    return int(text.split()[1]), len(text)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """Without maps, whose bytes no system call gives."""
    tensors = {f"small.{i}": np.arange(700 + i, dtype=np.uint8) for i in range(9)}
    tensors["large"] = np.arange(ROWS * 512, dtype=np.float32).reshape(ROWS, 512)
    save_file(tensors, tmp_path / "t.safetensors", durability="none")
    return Checkpoint(tmp_path / "t.safetensors", "np", backend="pread")


def options(cache: str) -> dict[str, Any]:
    return {"threads": 2, "memory_limit": 8 << 20, "cache": cache, "progress": None}


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("index", [None, (slice(7, 3000),), COLUMNS, (slice(None), slice(0, 8))], ids=["all", "rows", "columns", "short"])
@pytest.mark.parametrize("streamed", [False, True])
def test_loads_count_the_bytes_of_the_system(checkpoint: Checkpoint, cache: str, index: Any, streamed: bool) -> None:
    native = checkpoint._native
    requests = [("small.1", None, None, None), ("small.3", None, None, None), ("large", index, None, None)]
    assert native.bytes_read() == 0
    (before, own) = given()
    if streamed:
        stream = native.stream(requests, **options(cache))
        arrays = [next(stream)[1] for _ in requests]
    else:
        arrays = native.load(requests, **options(cache))
    read = given()[0] - before - own
    assert 0 <= read - native.bytes_read() <= PROBES, (read, native.bytes_read())
    assert native.bytes_read() >= sum(array.nbytes for array in arrays)
    if index == COLUMNS and cache == "bypass":  # where a read costs more than the gaps
        assert native.bytes_read() > 1.9 * sum(array.nbytes for array in arrays)


def test_all_loads_of_a_checkpoint_count(checkpoint: Checkpoint) -> None:
    native = checkpoint._native
    size = sum(native.meta(name)[2] for name in native.names())
    for count in (1, 2, 3):
        native.load_all(**options("fill"))
        assert native.bytes_read() == count * size


def test_a_stream_that_is_closed_counts_what_it_read(checkpoint: Checkpoint) -> None:
    native = checkpoint._native
    stream = native.stream([("large", (slice(row, row + 1),), None, None) for row in range(ROWS)], **options("fill"))
    taken = [next(stream) for _ in range(10)]
    assert native.bytes_read() >= 10 * 2048
    stream.close()
    assert len(taken) * 2048 <= native.bytes_read() <= ROWS * 2048
