"""Makes, reads and writes manifests: digests of the files of a model, of their chunks and tensors."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from os import PathLike
from typing import Any, BinaryIO, NamedTuple

from .._base.options import Progress, reporter, to_bytes
from .._base.paths import to_path, to_paths
from .._native import SafetensorError, _Checkpoint, _printable, _write_bytes
from .._types import Paths
from .digests import FileDigests, Lane

__all__ = [
    "Manifest",
    "ManifestFile",
    "ManifestTensor",
    "hash_function",
    "header_ranges",
    "make_manifest",
    "read_manifest",
    "relative_names",
]

SCHEMA = "safetensors.manifest/1"
_BLOCK_BYTES = 1 << 22
_BLOCKS_IN_FLIGHT = 4
_MAX_MANIFEST_BYTES = 256 << 20
_MEMBERS = {
    "manifest": ("schema", "algorithm", "chunk_bytes", "files"),
    "file": ("name", "bytes", "data_start", "digest", "header", "data", "tensors", "chunks"),
    "tensor": ("name", "begin", "end", "digest"),
}


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


def relative_names(paths: Sequence[str]) -> list[str]:
    """Return the paths relative to the last folder that all paths have in common."""
    folder = paths[0][: paths[0].rfind("/") + 1]
    while not all(path.startswith(folder) for path in paths):
        folder = folder[: folder.rfind("/", 0, len(folder) - 1) + 1]
    return [path[len(folder) :] for path in paths]


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
        head = f'{{"schema": "{SCHEMA}", "algorithm": "{self.algorithm}", "chunk_bytes": '
        return f'{head}{self.chunk_bytes}, "files": [{",".join(map(_file_text, self.files))}]}}\n'

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
    if not _is_chunk_size(size):
        raise ValueError(f"chunk_bytes is {size}: expected a power of two from 64 KiB to 16 MiB")
    new_hash = hash_function(algorithm)
    native = _Checkpoint(to_paths(paths, "paths"), "np", "cpu", "auto", None)
    files = native.files()
    for name in relative_names(files):
        if why := _why_refused(name):
            raise SafetensorError(
                f"the file name {name!r} is not allowed in a manifest: {why}; rename the file"
            )
    headers = [native.read_header(index) for index in range(len(files))]
    total = sum(size for _, size in headers)
    report, end_progress = reporter(progress, "Hashing")
    done = 0
    made = []
    try:
        for path, name, head in zip(files, relative_names(files), headers, strict=True):
            made.append(_make_file(path, name, *head, new_hash, size, report, done, total))
            done += made[-1].bytes
    finally:
        end_progress()
    return Manifest(algorithm, size, sorted(made, key=lambda file: file.name.encode()))


def read_manifest(path: str | PathLike[str]) -> Manifest:
    """Read a manifest from a regular file. Raises SafetensorError if it is not valid."""
    path = to_path(path, "path")
    # The open of a FIFO waits for its writer, unless it is not blocking.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.ENODEV, "not a regular file", path)
        data = file.read(_MAX_MANIFEST_BYTES + 1)
    try:
        if len(data) > _MAX_MANIFEST_BYTES:
            raise SafetensorError("not a manifest: over 256 MiB")
        return parse_manifest(data.decode())
    except (SafetensorError, UnicodeDecodeError) as error:
        raise SafetensorError(f"{path}: {error}") from None


def parse_manifest(text: str) -> Manifest:
    """Read the text of a manifest. Raises SafetensorError if it is not valid."""
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise SafetensorError("not a manifest: too deep") from None
    except ValueError as error:
        raise SafetensorError(f"not a manifest: {error}") from None
    schema, algorithm, chunk_bytes, files = _members(value, "manifest")
    if schema != SCHEMA:
        raise SafetensorError(f"not a manifest: the schema is not {SCHEMA!r}")
    if algorithm not in ("sha256", "blake3"):
        raise SafetensorError("not a manifest: unknown algorithm, expected sha256 or blake3")
    if not _is_chunk_size(chunk_bytes):
        raise SafetensorError("chunk_bytes is not a power of two from 65536 to 16777216")
    made = [_parse_file(file, chunk_bytes) for file in _list(files)]
    names = [file.name.encode() for file in made]
    if not made or any(a >= b for a, b in zip(names, names[1:], strict=False)):
        raise SafetensorError("the files of the manifest are not in the order of their names")
    return Manifest(algorithm, chunk_bytes, made)


def _is_chunk_size(size: object) -> bool:
    return type(size) is int and 1 << 16 <= size <= 1 << 24 and size & (size - 1) == 0


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _why_refused(name: str) -> str | None:
    """Return why no manifest may hold this name of a file, or None. The rules are those of C++."""
    if not name:
        return "it is empty"
    if not _is_utf8(name):
        return "it is not UTF-8"
    if name[0] in "/\\":
        return "it begins with a separator"
    if ":" in name:
        return "it holds a colon"
    if _printable(name) != name.replace("\\", "\\\\"):
        return "it holds a control or invisible character"
    if any(part.startswith("..") and not part.strip(". ") for part in re.split(r"[/\\]", name)):
        return "it leads out of a folder"
    return None


def _shown(name: object) -> str:
    """Return the name for a message. It is cut: a name may be as long as the manifest."""
    text = name[:200] if isinstance(name, str) else name
    return f"{text!r}..." if text != name else repr(text)[:1000]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a member occurs twice")
    return made


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise SafetensorError("not a manifest: expected a list")
    return value


def _members(value: Any, kind: str) -> list[Any]:
    names = _MEMBERS[kind]
    if not isinstance(value, dict) or set(value) != set(names):
        raise SafetensorError(f"not a manifest: the members of a {kind} are {', '.join(names)}")
    return [value[name] for name in names]


def _digest(value: Any) -> str:
    if isinstance(value, str) and len(value) == 64:
        text = value.lower()
        if not text.strip("0123456789abcdef"):
            return text
    raise SafetensorError("not a manifest: a digest is not 64 hexadecimal digits")


def _range(begin: Any, end: Any, low: int, high: int) -> bool:
    return type(begin) is int and type(end) is int and low <= begin <= end <= high


def _parse_file(value: Any, chunk_bytes: int) -> ManifestFile:
    name, size, data_start, digest, header, data, tensors, chunks = _members(value, "file")
    why = _why_refused(name) if isinstance(name, str) else "it is not a text"
    if why:
        raise SafetensorError(f"the file name {_shown(name)} is not allowed: {why}")
    if not _range(data_start, size, 8, (1 << 64) - 1):
        raise SafetensorError(f"file {_shown(name)}: data_start is not inside of the file")
    if len(_list(chunks)) != -(-size // chunk_bytes):
        raise SafetensorError(
            f"file {_shown(name)}: {len(chunks)} chunks do not match {size} bytes"
        )
    found: list[ManifestTensor] = []
    end = data_start
    for tensor in _list(tensors):
        title, first, last, of_tensor = _members(tensor, "tensor")
        if not isinstance(title, str) or not _is_utf8(title):
            raise SafetensorError(f"file {_shown(name)}: {_shown(title)} is no name of a tensor")
        if not _range(first, last, end, size):
            text = f"the range of tensor {_shown(title)} is not valid"
            raise SafetensorError(f"file {_shown(name)}: {text}")
        found.append(ManifestTensor(title, first, last, _digest(of_tensor)))
        end = last
    if len({tensor.name for tensor in found}) != len(found):
        raise SafetensorError(f"file {_shown(name)}: a tensor occurs twice")
    return ManifestFile(
        name,
        size,
        data_start,
        _digest(digest),
        _digest(header),
        _digest(data),
        tuple(found),
        tuple(map(_digest, chunks)),
    )


def _file_text(file: ManifestFile) -> str:
    def quoted(text: str) -> str:
        return json.dumps(text, ensure_ascii=False)

    tensors = ",".join(
        f'\n   {{"name": {quoted(name)}, "begin": {begin}, "end": {end}, "digest": "{digest}"}}'
        for name, begin, end, digest in file.tensors
    )
    chunks = ",".join(f'\n   "{digest}"' for digest in file.chunks)
    return (
        f'\n {{"name": {quoted(file.name)}, "bytes": {file.bytes}, "data_start": {file.data_start}'
        f',\n  "digest": "{file.digest}",\n  "header": "{file.header}",\n  "data": "{file.data}"'
        f',\n  "tensors": [{tensors}],\n  "chunks": [{chunks}]}}'
    )


def header_ranges(data: bytes) -> list[tuple[int, int, str]]:
    """Return begin, end and name of each tensor, in the order of a manifest.

    `data`: the bytes before the data of a file, which are valid. The offsets are from the start of
    the file.
    """
    start = len(data)
    entries = json.loads(data[8:])
    entries.pop("__metadata__", None)
    found = []
    for name, entry in entries.items():
        begin, end = entry["data_offsets"]
        found.append((begin + start, end + start, name))
    return sorted(found, key=lambda entry: (entry[0], entry[1], entry[2].encode()))


class _Tensors:
    """Computes the digests of tensors from blocks in order."""

    def __init__(self, header: bytes, new_hash: Callable[[], Any]) -> None:
        self._ranges = header_ranges(header)
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


def _blocks(file: BinaryIO, path: str, size: int) -> Iterator[memoryview]:
    offset = 0
    while offset < size:
        block = bytearray(min(_BLOCK_BYTES, size - offset))
        view = memoryview(block)
        filled = 0
        while filled < len(block):
            count = file.readinto(view[filled:])  # type: ignore[attr-defined]
            if not count:
                raise SafetensorError(f"{path}: file became shorter: it ends at {offset + filled}")
            filled += count
        yield view
        offset += len(block)


def _make_file(
    path: str,
    name: str,
    header: bytes,
    size: int,
    new_hash: Callable[[], Any],
    chunk_bytes: int,
    report: Progress | None,
    before: int,
    total: int,
) -> ManifestFile:
    with open(path, "rb") as file, ThreadPoolExecutor(4) as pool:  # a thread per kind of digest
        if os.fstat(file.fileno()).st_size != size or file.read(len(header)) != header:
            raise SafetensorError(f"{path}: the file was changed after it was opened")
        file.seek(0)
        digests = FileDigests(pool, new_hash, len(header), chunk_bytes)
        tensors = _Tensors(header, new_hash)
        lane = Lane(pool, tensors.take)
        flying: deque[list[Future[None]]] = deque()
        done = 0
        for block in _blocks(file, path, size):
            flying.append([lane.add(block), *digests.add(block)])
            if len(flying) >= _BLOCKS_IN_FLIGHT:
                for future in flying.popleft():
                    future.result()
            done += len(block)
            if report is not None:
                report(before + done, total)
        for futures in flying:
            for future in futures:
                future.result()
    head = new_hash()
    head.update(header)
    whole, data, chunks = digests.finish()
    return ManifestFile(
        name, size, len(header), whole, head.hexdigest(), data, tuple(tensors.done), chunks
    )
