"""Checks tensors against a manifest while others are still being loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, Protocol

from . import _native
from ._manifest import (
    Manifest,
    ManifestFile,
    ManifestTensor,
    hash_function,
    read_manifest,
    relative_names,
)
from ._native import SafetensorError
from ._types import Buffer, Verify

__all__ = ["expected_tensors", "load_verified", "to_manifest"]

_MAX_THREADS = 16


class Expected(NamedTuple):
    """What the manifest says about a tensor, and the file that holds it."""

    path: str
    tensor: ManifestTensor


class _Items(Protocol):
    def __next__(self) -> tuple[int, Any, Buffer | None]: ...
    def close(self) -> None: ...


def to_manifest(verify: Verify) -> Manifest:
    """Return the manifest that the argument is or names."""
    return verify if isinstance(verify, Manifest) else read_manifest(verify)


def expected_tensors(
    native: _native._Checkpoint, names: Iterable[str], manifest: Manifest
) -> list[Expected]:
    """Return the entries of these tensors, after a check of the headers of all their files.

    Raises SafetensorError for a file with another size or header, and for a file or a tensor that
    is not in the manifest.
    """
    hidden = set(native.unindexed_tensors())
    entries: dict[str, tuple[int, ManifestTensor]] = {}
    paths = native.files()
    relative = relative_names(paths)
    for index, (path, name) in enumerate(zip(paths, relative, strict=True)):
        file = manifest.find(name)
        if file is None:
            raise SafetensorError(f"{path}: the file is not in the manifest")
        _check_header(path, file, manifest)
        for tensor in file.tensors:
            if (index, tensor.name) not in hidden:
                entries[tensor.name] = (index, tensor)
    found = []
    for name in names:
        begin, end = native.get_tensor_meta(name).data_offsets
        if name not in entries:
            raise SafetensorError(f"tensor {name!r} is not in the manifest")
        index, tensor = entries[name]
        file = manifest.find(relative[index])
        assert file is not None
        if (tensor.begin, tensor.end) != (begin + file.data_start, end + file.data_start):
            raise SafetensorError(
                f"{paths[index]}: tensor {name!r} has another range than in the manifest"
            )
        found.append(Expected(paths[index], tensor))
    return found


def _check_header(path: str, expected: ManifestFile, manifest: Manifest) -> None:
    made = hash_function(manifest.algorithm)()
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size != expected.bytes:
            raise SafetensorError(
                f"{path}: the file has {size} bytes, the manifest has {expected.bytes}"
            )
        remaining = expected.data_start
        while remaining:
            block = file.read(min(remaining, 1 << 20))
            if not block:
                raise SafetensorError(f"{path}: file became shorter")
            made.update(block)
            remaining -= len(block)
    if made.hexdigest() != expected.header:
        raise SafetensorError(
            f"{path}: the header, bytes [0, {expected.data_start}), is not that of the manifest"
        )


def _bytes_of(tensor: Any) -> Any:
    """Return the bytes of a NumPy array or a torch tensor of the caller."""
    if type(tensor).__module__.partition(".")[0] == "torch":
        import torch

        return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    import numpy as np

    return np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)


def load_verified(items: _Items, expected: list[Expected], algorithm: str) -> list[Any]:
    """Take all tensors of a stream and check each one in a thread. Return them in their order.

    The checked bytes are those of the file: a framework may convert them, as JAX does with int64.
    Raises SafetensorError for the first tensor whose bytes differ. It names the file and the range.
    """
    new_hash = hash_function(algorithm)

    def check(entry: Expected, stored: Any) -> None:
        made = new_hash()
        made.update(stored)
        if made.hexdigest() != entry.tensor.digest:
            raise SafetensorError(
                f"{entry.path}: tensor {entry.tensor.name!r}: the bytes [{entry.tensor.begin}, "
                f"{entry.tensor.end}) of the file are not those of the manifest"
            )

    loaded: list[Any] = [None] * len(expected)
    running: set[Future[None]] = set()
    threads = min(os.cpu_count() or 1, _MAX_THREADS)
    try:
        with ThreadPoolExecutor(threads) as pool:
            while True:
                try:
                    index, tensor, stored = next(items)
                except StopIteration:
                    break
                loaded[index] = tensor
                if stored is None:
                    stored = _bytes_of(tensor)
                running.add(pool.submit(check, expected[index], stored))
                del tensor, stored
                _take_results(running, 2 * threads)
            _take_results(running, 0)
    finally:
        items.close()
    return loaded


def _take_results(running: set[Future[None]], most: int) -> None:
    """Take the results that are there. Wait until at most `most` checks run or wait."""
    while True:
        for future in [future for future in running if future.done()]:
            running.discard(future)
            future.result()
        if len(running) <= most:
            return
        wait(running, return_when=FIRST_COMPLETED)
