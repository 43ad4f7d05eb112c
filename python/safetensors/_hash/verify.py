"""Checks what a load returns against a manifest, while other tensors are still being read.

The digest of the header and of each loaded tensor must be right. If all tensors of a file are
loaded, the digests of its chunks, of its data and of the file must be right, too. They are computed
from the memory that the load returns, and from the header that the open file was parsed from.

A load of a whole model has the verdict of the command `verify --manifest`: every digest that the
manifest has must be right. So the tensors that the index does not name are read for their digests, and
each file of the manifest must be there.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, Protocol

from .. import _native
from .._base.paths import to_path
from .._native import SafetensorError, _manifest_names
from .._types import Buffer
from .digests import FileDigests, bytes_view
from .manifest import (
    Manifest,
    ManifestFile,
    ManifestTensor,
    hash_function,
    read_blocks,
    read_manifest,
)
from .types import Verify

__all__ = ["Verifier", "check_verify", "to_manifest"]

_MAX_THREADS = 16
_BLOCKS_IN_FLIGHT = 4


class Expected(NamedTuple):
    """The entry of a tensor in the manifest, and the file that holds the tensor."""

    file: int
    path: str
    tensor: ManifestTensor


class _Items(Protocol):
    def __next__(self) -> tuple[int, Any, Buffer | None]: ...
    def close(self) -> None: ...


def check_verify(verify: Any) -> None:
    """Raise TypeError unless the argument is a manifest or a path."""
    if not isinstance(verify, Manifest):
        to_path(verify, "verify", "a Manifest, str, bytes, os.PathLike object or None")


def to_manifest(verify: Verify) -> Manifest:
    """Return the manifest that the argument is or names."""
    check_verify(verify)
    return verify if isinstance(verify, Manifest) else read_manifest(verify)


class Verifier:
    """Checks the tensors of one load, and the files of which it loads all bytes.

    The constructor checks the headers of all files of the checkpoint. It raises SafetensorError for
    a file with another size or header, and for a file or a tensor that is not in the manifest.
    `every_tensor`: the load takes all tensors, so those that the index does not name are checked, too.
    `every_file`: each file of the manifest must be a file of the checkpoint.
    """

    def __init__(
        self,
        native: _native._Checkpoint,
        names: Iterable[str],
        manifest: Manifest,
        *,
        every_tensor: bool = False,
        every_file: bool = False,
    ) -> None:
        self._native = native
        self._manifest = manifest
        self._new_hash = hash_function(manifest.algorithm)
        self._paths = native.files()
        file_names = _manifest_names(self._paths, check=False)
        self._files = [
            self._find(path, name)
            for path, name in zip(self._paths, file_names, strict=True)
        ]
        if every_file:
            self._check_files(file_names)
        self._headers = [self._check_header(native, index) for index in range(len(self._files))]
        hidden = set(native.unindexed_tensors())
        entries = self._entries(native, hidden)
        self._hidden = self._expect_hidden(hidden) if every_tensor else []
        found = [(name, self._expect(native, name, entries)) for name in names]
        found.sort(key=lambda entry: (entry[1].file, entry[1].tensor.begin, entry[1].tensor.end))
        self.names = [name for name, _ in found]  # in the order of their bytes
        self._expected = [expected for _, expected in found]

    def load(self, items: _Items) -> dict[str, Any]:
        """Take all tensors of a stream, in the order of `names`, and check them in threads.

        The checked bytes are those of the file: a framework may convert them, as JAX does with
        int64. Raises SafetensorError for the first tensor whose bytes differ, and then for the
        first other digest that differs. It names the file and the range.
        """
        loaded: list[Any] = [None] * len(self._expected)
        running: set[Future[None]] = set()
        threads = min(os.cpu_count() or 1, _MAX_THREADS)
        try:
            with ThreadPoolExecutor(threads) as pool:
                whole = self._whole_files(pool)
                while True:
                    try:
                        index, tensor, stored = next(items)
                    except StopIteration:
                        break
                    loaded[index] = tensor
                    block = _bytes_of(tensor) if stored is None else stored
                    running.add(pool.submit(self._check_tensor, self._expected[index], block))
                    file = whole.get(self._expected[index].file)
                    if file is not None:
                        running.update(file.add(index, block))
                    del tensor, stored, block
                    _take_results(running, 8 * threads)
                for file in whole.values():
                    running.update(file.queue())  # of a file without tensors
                _take_results(running, 0)
        finally:
            items.close()
        for index, file in whole.items():
            self._check_whole(index, file)
        return dict(zip(self.names, loaded, strict=True))

    def _find(self, path: str, name: str) -> ManifestFile:
        file = self._manifest.find(name)
        if file is None:
            raise SafetensorError(f"{path}: the file is not in the manifest")
        return file

    def _check_files(self, names: list[str]) -> None:
        folder = self._paths[0][: len(self._paths[0]) - len(names[0])]
        present = set(names)
        for file in self._manifest.files:
            if file.name not in present:
                raise SafetensorError(
                    f"{folder}{file.name}: the file of the manifest is not in the model"
                )

    def _check_header(self, native: _native._Checkpoint, index: int) -> bytes:
        """Return the bytes before the data, which the header of the open file was read from."""
        path, expected = self._paths[index], self._files[index]
        header, size = native.read_header(index)
        if size != expected.bytes:
            raise SafetensorError(
                f"{path}: the file has {size} bytes, the manifest has {expected.bytes}"
            )
        made = self._new_hash()
        made.update(header)
        if made.hexdigest() != expected.header:
            raise _differs(path, "the header", 0, len(header))
        if len(header) != expected.data_start:
            raise SafetensorError(
                f"{path}: the data begins at byte {len(header)}, in the manifest at byte "
                f"{expected.data_start}"
            )
        return header

    def _entries(
        self, native: _native._Checkpoint, hidden: set[tuple[int, str]]
    ) -> dict[str, Expected]:
        entries = {}
        for index, (path, file) in enumerate(zip(self._paths, self._files, strict=True)):
            for tensor in file.tensors:
                if (index, tensor.name) in hidden:
                    continue
                if tensor.name not in native:
                    raise SafetensorError(
                        f"{path}: tensor {tensor.name!r} of the manifest is not in the file"
                    )
                entries[tensor.name] = Expected(index, path, tensor)
        return entries

    def _expect(
        self, native: _native._Checkpoint, name: str, entries: dict[str, Expected]
    ) -> Expected:
        begin, end = native.get_tensor_meta(name).data_offsets
        if name not in entries:
            raise SafetensorError(f"tensor {name!r} is not in the manifest")
        found = entries[name]
        start = self._files[found.file].data_start
        if (found.tensor.begin, found.tensor.end) != (begin + start, end + start):
            raise SafetensorError(
                f"{found.path}: tensor {name!r} has another range than in the manifest"
            )
        return found

    def _expect_hidden(self, hidden: set[tuple[int, str]]) -> list[Expected]:
        """Return the entries of the manifest for tensors that are not in the index.

        Raises SafetensorError if the manifest and a file do not have the same tensors.
        """
        found = []
        for index, (path, file) in enumerate(zip(self._paths, self._files, strict=True)):
            ranges = {name: (begin, end) for begin, end, name in self._native.tensor_ranges(index)}
            for tensor in file.tensors:
                held = ranges.pop(tensor.name, None)
                if held is None:
                    raise SafetensorError(
                        f"{path}: tensor {tensor.name!r} of the manifest is not in the file"
                    )
                if held != (tensor.begin, tensor.end):
                    raise SafetensorError(
                        f"{path}: tensor {tensor.name!r} has another range than in the manifest"
                    )
                if (index, tensor.name) in hidden:
                    found.append(Expected(index, path, tensor))
            for name in ranges:
                raise SafetensorError(f"{path}: tensor {name!r} is not in the manifest")
        return found

    def _whole_files(self, pool: ThreadPoolExecutor) -> dict[int, _WholeFile]:
        """Return the files whose tensors cover all their data."""
        ends = {index: file.data_start for index, file in enumerate(self._files)}
        orders: dict[int, list[int | Expected]] = {index: [] for index in ends}
        parts: list[tuple[Expected, int | Expected]] = [
            (expected, position) for position, expected in enumerate(self._expected)
        ]
        parts += [(expected, expected) for expected in self._hidden]
        parts.sort(key=lambda part: (part[0].file, part[0].tensor.begin, part[0].tensor.end))
        for (index, _, tensor), part in parts:
            orders[index].append(part)
            if tensor.begin == ends[index]:
                ends[index] = tensor.end
        return {
            index: _WholeFile(
                FileDigests(pool, self._new_hash, file.data_start, self._manifest.chunk_bytes),
                self._headers[index],
                orders[index],
                self._check_hidden,
            )
            for index, file in enumerate(self._files)
            if ends[index] == file.bytes
        }

    def _check_hidden(self, expected: Expected, digests: FileDigests) -> None:
        """Read a tensor that is not loaded, for its digest and those of its file."""
        made = self._new_hash()
        flying: deque[list[Future[None]]] = deque()
        name, begin, end, digest = expected.tensor
        for block in read_blocks(self._native, expected.file, begin, end):
            flying.append(digests.add(block))
            made.update(block)
            if len(flying) >= _BLOCKS_IN_FLIGHT:
                _wait(flying.popleft())
        for futures in flying:
            _wait(futures)
        if made.hexdigest() != digest:
            raise _differ(f"{expected.path}: tensor {name!r}", begin, end)

    def _check_tensor(self, expected: Expected, stored: Any) -> None:
        made = self._new_hash()
        made.update(bytes_view(stored))
        name, begin, end, digest = expected.tensor
        if made.hexdigest() != digest:
            raise _differ(f"{expected.path}: tensor {name!r}", begin, end)

    def _check_whole(self, index: int, file: _WholeFile) -> None:
        """Compare the digests that are not those of tensors. The tensors are right."""
        path, expected, size = self._paths[index], self._files[index], self._manifest.chunk_bytes
        digest, data, chunks = file.digests.finish()
        for i, (found, chunk) in enumerate(zip(chunks, expected.chunks, strict=True)):
            if found != chunk:
                end = min((i + 1) * size, expected.bytes)
                raise _differ(f"{path}: chunk {i}", i * size, end)
        if data != expected.data:
            raise _differs(path, "the data", expected.data_start, expected.bytes)
        if digest != expected.digest:
            raise _differs(path, "the file", 0, expected.bytes)


class _WholeFile:
    """Brings the tensors of a file into the order of their bytes, for its digests.

    `order`: the positions of the tensors in the load, and the tensors that `read` reads.
    """

    def __init__(
        self,
        digests: FileDigests,
        header: bytes,
        order: list[int | Expected],
        read: Callable[[Expected, FileDigests], None],
    ) -> None:
        self.digests = digests
        self._blocks: dict[int, Any] = {-1: header}
        self._order = iter([-1, *order])
        self._next: int | Expected | None = next(self._order)
        self._read = read

    def add(self, position: int, block: Any) -> list[Future[None]]:
        """Keep a tensor. Queue the header and the tensors whose turn it is."""
        self._blocks[position] = block
        return self.queue()

    def queue(self) -> list[Future[None]]:
        """Queue the header and the tensors whose turn it is."""
        queued: list[Future[None]] = []
        while self._next is not None:
            if isinstance(self._next, Expected):
                self._read(self._next, self.digests)
            elif self._next in self._blocks:
                queued += self.digests.add(self._blocks.pop(self._next))
            else:
                break
            self._next = next(self._order, None)
        return queued


def _differ(what: str, begin: int, end: int) -> SafetensorError:
    text = f"the bytes [{begin}, {end}) of the file are not those of the manifest"
    return SafetensorError(f"{what}: {text}")


def _differs(path: str, what: str, begin: int, end: int) -> SafetensorError:
    return SafetensorError(f"{path}: {what}, bytes [{begin}, {end}), is not that of the manifest")


def _bytes_of(tensor: Any) -> Any:
    """Return the bytes of a NumPy array or a torch tensor of the caller."""
    if type(tensor).__module__.partition(".")[0] == "torch":
        import torch

        return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    import numpy as np

    return np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)


def _wait(futures: list[Future[None]]) -> None:
    for future in futures:
        future.result()


def _take_results(running: set[Future[None]], most: int) -> None:
    """Take the results that are there. Wait until at most `most` checks run or wait."""
    while True:
        for future in [future for future in running if future.done()]:
            running.discard(future)
            future.result()
        if len(running) <= most:
            return
        wait(running, return_when=FIRST_COMPLETED)
