"""Makes, reads and writes manifests: digests of the files of a model, of their chunks and tensors."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from os import PathLike
from typing import Any, NamedTuple

from .._base.options import Progress, reporter, to_bytes
from .._base.paths import to_path, to_paths
from .._native import (
    SafetensorError,
    _Checkpoint,
    _manifest_names,
    _manifest_text,
    _read_manifest,
    _write_bytes,
)
from .._types import Paths
from .digests import FileDigests, Lane

__all__ = [
    "Manifest",
    "ManifestFile",
    "ManifestTensor",
    "hash_function",
    "make_manifest",
    "read_blocks",
    "read_manifest",
]

_BLOCK_BYTES = 1 << 22
_BLOCKS_IN_FLIGHT = 4


class ManifestTensor(NamedTuple):
    """A tensor in a manifest. The range [begin, end) is in bytes from the start of the file."""

    name: str
    begin: int
    end: int
    digest: str


class ManifestFile(NamedTuple):
    """A file in a manifest. The digests are hexadecimal.

    `name` is relative to the folder of the model. `digest` is of all bytes, `header` of the bytes
    before `data_start`, `data` of the others. `tensors` are sorted by `begin`.
    """

    name: str
    bytes: int
    data_start: int
    digest: str
    header: str
    data: str
    tensors: tuple[ManifestTensor, ...]
    chunks: tuple[str, ...]


def hash_function(algorithm: str) -> Callable[[], Any]:
    """Return the function that makes a hash object. BLAKE3 needs the package blake3."""
    if algorithm == "sha256":
        return hashlib.sha256
    if algorithm != "blake3":
        raise ValueError(f"unknown algorithm {algorithm!r}: expected 'sha256' or 'blake3'")
    try:
        from blake3 import blake3
    except ImportError:
        raise SafetensorError("BLAKE3 needs the package blake3: pip install blake3") from None
    return blake3  # type: ignore[no-any-return]


class Manifest:
    """The digests of the files of a model, of their chunks and of their tensors.

    `make_manifest` computes them, `read_manifest` reads a file that `write` or the command
    `safetensors hash --manifest` wrote. `safetensors.load(..., verify=manifest)` checks what it
    loads. The format is in docs/hashes.md.
    """

    def __init__(self, algorithm: str, chunk_bytes: int, files: Sequence[ManifestFile]) -> None:
        self.algorithm = algorithm
        self.chunk_bytes = chunk_bytes
        self.files = tuple(files)
        self._by_name = {file.name: file for file in self.files}

    def __repr__(self) -> str:
        return f"Manifest({self.algorithm!r}, {len(self.files)} files)"

    def find(self, name: str) -> ManifestFile | None:
        """Return the file with this name, or None."""
        return self._by_name.get(name)

    def text(self) -> str:
        """Return the manifest as JSON: the text that the command writes, byte for byte."""
        return _manifest_text(self.algorithm, self.chunk_bytes, self.files)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the text to a file, as `save_file` does: other programs see the whole file or none.

        The file is durable after a power cut. Raises OSError.
        """
        _write_bytes(to_path(path, "path"), self.text().encode())


def make_manifest(
    paths: Paths,
    *,
    algorithm: str = "sha256",
    chunk_bytes: int | str = "1MiB",
    progress: bool | Progress | None = False,
) -> Manifest:
    """Compute the manifest of all files that `paths` stands for, as in `Checkpoint`.

    `algorithm`: "sha256", or "blake3", which needs the package blake3. `chunk_bytes`: the size
    of a chunk, a power of two from 64 KiB to 16 MiB. Each file is read once. Several threads
    compute the digests.
    """
    size = to_bytes(chunk_bytes, "chunk_bytes")
    if not (1 << 16 <= size <= 1 << 24 and size & (size - 1) == 0):
        raise ValueError(f"chunk_bytes is {size}: expected a power of two from 64 KiB to 16 MiB")
    new_hash = hash_function(algorithm)
    native = _Checkpoint(to_paths(paths, "paths"), "np", "cpu", "auto", None)
    names = _manifest_names(native.files(), check=True)
    total = sum(native.read_header(index)[1] for index in range(len(names)))
    report, end_progress = reporter(progress, "Hashing")
    done = 0
    made = []
    try:
        for index, name in enumerate(names):

            def tell(count: int, before: int = done) -> None:
                if report is not None:
                    report(before + count, total)

            made.append(_make_file(native, index, name, new_hash, size, tell))
            done += made[-1].bytes
    finally:
        end_progress()
    return Manifest(algorithm, size, sorted(made, key=lambda file: file.name.encode()))


def read_manifest(path: str | PathLike[str]) -> Manifest:
    """Read a manifest from a regular file. Raises SafetensorError if it is not valid."""
    algorithm, chunk_bytes, files = _read_manifest(to_path(path, "path"))
    made = []
    for *members, tensors, chunks in files:
        entries = tuple(ManifestTensor(*tensor) for tensor in tensors)
        made.append(ManifestFile._make((*members, entries, tuple(chunks))))
    return Manifest(algorithm, chunk_bytes, made)


class _Tensors:
    """Computes the digests of tensors from blocks in order."""

    def __init__(self, ranges: list[tuple[int, int, str]], new_hash: Callable[[], Any]) -> None:
        self._ranges = ranges
        self._new_hash = new_hash
        self._hash = new_hash()
        self._offset = 0
        self.done: list[ManifestTensor] = []

    def take(self, block: memoryview) -> None:
        offset = self._offset
        limit = self._offset = offset + len(block)
        while len(self.done) < len(self._ranges):
            begin, end, name = self._ranges[len(self.done)]
            if begin < limit:
                self._hash.update(block[max(begin - offset, 0) : max(min(end, limit) - offset, 0)])
            if end > limit:
                return
            self.done.append(ManifestTensor(name, begin, end, self._hash.hexdigest()))
            self._hash = self._new_hash()


def read_blocks(native: _Checkpoint, index: int, begin: int, end: int) -> Iterator[bytes]:
    """Read the range [begin, end) of a file of a checkpoint. Raises SafetensorError if it is shorter."""
    while begin < end:
        block = native.read_range(index, begin, min(_BLOCK_BYTES, end - begin))
        if not block:
            raise SafetensorError(f"{native.files()[index]}: file became shorter: it ends at {begin}")
        yield block
        begin += len(block)


def _make_file(
    native: _Checkpoint,
    index: int,
    name: str,
    new_hash: Callable[[], Any],
    chunk_bytes: int,
    report: Callable[[int], None],
) -> ManifestFile:
    header, size = native.read_header(index)
    with ThreadPoolExecutor(4) as pool:  # a thread per kind of digest
        digests = FileDigests(pool, new_hash, len(header), chunk_bytes)
        tensors = _Tensors(native.tensor_ranges(index), new_hash)
        lane = Lane(pool, tensors.take)
        flying: deque[list[Future[None]]] = deque()
        done = 0
        for block in read_blocks(native, index, 0, size):
            if block[: max(0, len(header) - done)] != header[done : done + len(block)]:
                path = native.files()[index]
                raise SafetensorError(f"{path}: the file was changed after it was opened")
            flying.append([lane.add(block), *digests.add(block)])
            if len(flying) >= _BLOCKS_IN_FLIGHT:
                for future in flying.popleft():
                    future.result()
            done += len(block)
            report(done)
        for futures in flying:
            for future in futures:
                future.result()
    head = new_hash()
    head.update(header)
    whole, data, chunks = digests.finish()
    return ManifestFile(
        name, size, len(header), whole, head.hexdigest(), data, tuple(tensors.done), chunks
    )
