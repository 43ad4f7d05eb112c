"""Reads the tensor of a file of torch.save, without torch.load.

The file is a ZIP archive without compression, in a range of a `*.distcp` file. `data.pkl` describes the
tensor, and `data/KEY` has the bytes of its storage. The elements are read straight into the tensor of the
caller if both have the same order. Otherwise they are read into a second tensor and copied. The directory
and `data.pkl` have at most 64 KiB each. So a file takes at most twice the memory of its declared tensor,
and some MiB.
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO, NamedTuple, cast

import torch

from .records import Name, Record, read_records, shown

__all__ = ["read_tensor"]

_MAX_SMALL = 1 << 16  # bytes of the directory, and of data.pkl. torch writes less than 1 KiB
_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")

_REBUILD = "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"
_DTYPES = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
_STORAGES = {
    "DoubleStorage": torch.float64, "FloatStorage": torch.float32, "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16, "LongStorage": torch.int64, "IntStorage": torch.int32,
    "ShortStorage": torch.int16, "CharStorage": torch.int8, "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool, "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
}  # fmt: skip

_WITH_BITS = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip


class _Saved(NamedTuple):
    """A tensor as data.pkl describes it. `offset`: its first element in the storage."""

    dtype: torch.dtype
    key: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    bits: dict[str, bool]  # "conj" and "neg": the elements are conjugated or negated


def read_tensor(file: BinaryIO, offset: int, size: int, target: torch.Tensor) -> None:
    """Fill a tensor on the CPU from the file of torch.save in a range of another file.

    Raises ValueError unless the range holds a tensor of the dtype and the shape of the target, OSError.
    """
    archive = _Archive(file, offset, size)
    saved = _parse(archive.small("data.pkl"))
    if saved.dtype != target.dtype or saved.shape != tuple(target.shape):
        raise ValueError(
            f"it holds {saved.dtype} of shape {list(saved.shape)}, and .metadata declares"
            f" {target.dtype} of shape {list(target.shape)}"
        )
    if archive.small("byteorder", b"little") != b"little":
        raise ValueError("its bytes are big-endian")
    order = _order(saved)
    if not target.numel():
        return
    ordered = target.permute(order)
    changed = any(saved.bits.values())
    memory = ordered
    if changed or not ordered.is_contiguous():
        memory = torch.empty(ordered.shape, dtype=target.dtype, device="cpu")
    values: Any = memory.reshape(-1).view(torch.uint8).numpy()
    archive.read_into(f"data/{saved.key}", saved.offset * target.itemsize, memoryview(values))
    if memory is ordered:
        return
    if saved.bits.get("neg"):
        memory.neg_()  # in place, so before the lazy conj()
    if saved.bits.get("conj"):
        memory = memory.conj()
    ordered.copy_(memory)


def _order(saved: _Saved) -> list[int]:
    """Return the dimensions from the largest stride to the smallest. The elements must be adjacent."""
    long = [dim for dim, size in enumerate(saved.shape) if size != 1]
    long.sort(key=lambda dim: saved.strides[dim], reverse=True)
    step = 1
    for dim in reversed(long) if 0 not in saved.shape else ():
        if saved.strides[dim] != step:
            raise ValueError("its strides repeat or leave out elements, which torch does not write")
        step *= saved.shape[dim]
    return [dim for dim, size in enumerate(saved.shape) if size == 1] + long


class _Archive:
    """A ZIP archive in a range of a file. The names of entries are without the first folder."""

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self._file = file
        self._offset = offset
        self._size = size
        count, begin, directory = self._directory()
        self._end = begin
        self._entries: dict[str, tuple[int, int]] = {}  # the offset of the header, and the size
        at = 0
        for _ in range(count):
            name, header, length, at = _entry(directory, at)
            name = name.partition("/")[2]
            if name in self._entries:
                raise ValueError(f"it has two entries {shown(name)!r}")
            self._entries[name] = header, length

    def small(self, name: str, default: bytes | None = None) -> bytes:
        """Return the bytes of an entry."""
        if name not in self._entries and default is not None:
            return default
        if (size := self._entry(name)[1]) > _MAX_SMALL:
            raise ValueError(
                f"its entry {name} has {size} bytes, at most {_MAX_SMALL} are expected"
            )
        data = bytearray(size)
        self.read_into(name, 0, memoryview(data))
        return bytes(data)

    def read_into(self, name: str, skipped: int, view: memoryview) -> None:
        """Fill the view with the bytes of an entry, from byte `skipped` on."""
        header, size = self._entry(name)
        if len(view) > size - skipped:
            raise ValueError(
                f"its entry {shown(name)} has {size} bytes, expected {skipped + len(view)}"
            )
        fields = _LOCAL.unpack(self._read(header, _LOCAL.size))
        begin = header + _LOCAL.size + fields[9] + fields[10]
        if fields[0] != b"PK\3\4" or begin + size > self._end:
            raise ValueError(f"its entry {shown(name)} is not where the directory says")
        self._file.seek(self._offset + begin + skipped)
        while view:
            count = self._file.readinto(view)  # type: ignore[attr-defined]
            if not count:
                raise ValueError("it ends too early")
            view = view[count:]

    def _entry(self, name: str) -> tuple[int, int]:
        if name not in self._entries:
            raise ValueError(f"it has no entry {shown(name)}: torch.save has not written it")
        return self._entries[name]

    def _read(self, begin: int, size: int) -> bytes:
        if not 0 <= begin <= self._size - size:
            raise ValueError("it is no file of torch.save")
        self._file.seek(self._offset + begin)
        data = self._file.read(size)
        if len(data) != size:
            raise ValueError("it ends too early")
        return data

    def _directory(self) -> tuple[int, int, bytes]:
        """Return the number of entries, the offset of the directory, and its bytes.

        The end record is the last thing in the archive, and the directory lies just before it.
        """
        end = self._size - _END.size
        fields = _END.unpack(self._read(end, _END.size))
        if fields[0] != b"PK\5\6":
            raise ValueError(
                "it is no file of torch.save: the end record of a ZIP archive is not at its end"
            )
        count, size, begin = fields[4], fields[5], fields[6]
        if end >= _LOCATOR.size + _END_64.size:
            locator = _LOCATOR.unpack(self._read(end - _LOCATOR.size, _LOCATOR.size))
            if locator[0] == b"PK\6\7":
                end -= _LOCATOR.size + _END_64.size
                fields = _END_64.unpack(self._read(end, _END_64.size))
                if fields[0] != b"PK\6\6":
                    raise ValueError("its end record for large files is not before the end record")
                count, size, begin = fields[7], fields[8], fields[9]
        if size > _MAX_SMALL or begin + size != end or count * _ENTRY.size > size:
            raise ValueError(
                f"its directory has {count} entries in {size} bytes at {begin}, expected at most"
                f" {_MAX_SMALL} bytes that end at {end}"
            )
        return count, begin, self._read(begin, size)


def _entry(directory: bytes, at: int) -> tuple[str, int, int, int]:
    """Return the name of an entry, the offset of its header, its size, and the offset of the next one."""
    if at + _ENTRY.size > len(directory):
        raise ValueError("its directory ends too early")
    fields = _ENTRY.unpack_from(directory, at)
    flags, method = fields[3], fields[4]
    packed, size, header = fields[8], fields[9], fields[16]
    begin = at + _ENTRY.size
    name_end, end = begin + fields[10], begin + sum(fields[10:13])
    if fields[0] != b"PK\1\2" or end > len(directory):
        raise ValueError("its directory is damaged")
    size, packed, header = _large(directory[name_end : name_end + fields[11]], [size, packed, header])
    if method != 0 or flags & 1 or packed != size:
        raise ValueError("it is compressed or encrypted, which torch does not write")
    return directory[begin:name_end].decode(), header, size, end


def _large(extra: bytes, numbers: list[int]) -> list[int]:
    """Replace numbers that do not fit 32 bits by those of the extra field for large files."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        at += 4
        if kind == 1:
            held = extra[at : at + length]
            values = (value for (value,) in struct.iter_unpack("<Q", held[: len(held) // 8 * 8]))
            return [next(values, n) if n == 0xFFFFFFFF else n for n in numbers]
        at += length
    return numbers


def _check_name(module: str, name: str) -> None:
    known = (
        (module == "torch._utils" and name in _REBUILD)
        or (module == "torch" and (name in _STORAGES or name in _DTYPES))
        or (module, name) in (("torch.storage", "UntypedStorage"), ("collections", "OrderedDict"))
        or (module, name) == ("persistent", "id")
    )
    if not known:
        raise ValueError(f"it holds {shown(f'{module}.{name}')}, expected a dense tensor on the CPU")


def _parse(data: bytes) -> _Saved:
    """Return the tensor that data.pkl describes."""
    record = read_records(data, _check_name)
    while _is_call(record, "_rebuild_parameter") and record.args:
        record = record.args[0]
    version = 2 if _is_call(record, "_rebuild_tensor_v2") else 3
    if version == 3 and not _is_call(record, "_rebuild_tensor_v3"):
        found = record.name.name if type(record) is Record else type(record).__name__
        raise ValueError(f"it holds {shown(found)}, no tensor")
    storage, offset, shape, strides, _, _, *rest = record.args + (None,) * (6 - len(record.args))
    kind, key = _storage(storage)
    dtype = _STORAGES.get(kind.name) if version == 2 else _dtype(rest.pop(0) if rest else None)
    if dtype is None or type(key) is not str or "/" in key:
        raise ValueError("it holds a tensor without a storage that torch writes")
    bits = rest[0] if rest and rest[0] is not None else {}
    if type(bits) is not dict or not bits.keys() <= {"conj", "neg"} or not _all(bits.values(), bool):
        raise ValueError("it holds a tensor with unknown metadata")
    if any(bits.values()) and dtype not in _WITH_BITS:
        raise ValueError(f"it holds conjugated or negated elements of {dtype}")
    if not _all((offset,), int) or not _sizes(shape) or not _sizes(strides) or offset < 0:
        raise ValueError("it holds a tensor without sizes")
    if len(shape) != len(strides):
        raise ValueError(f"it holds a tensor with {len(shape)} sizes and {len(strides)} strides")
    return _Saved(dtype, key, offset, shape, strides, bits)


def _is_call(value: Any, name: str) -> bool:
    return type(value) is Record and value.name == ("torch._utils", name)


def _storage(value: Any) -> tuple[Name, Any]:
    """Return the class and the key of a storage."""
    found = value.args[0] if type(value) is Record and value.name.module == "persistent" else None
    if type(found) is not tuple or len(found) < 3 or type(found[1]) is not Name:
        raise ValueError("it holds a tensor without a storage")
    return cast(tuple[Name, Any], found[1:3])


def _dtype(value: Any) -> torch.dtype | None:
    return _DTYPES.get(value.name) if type(value) is Name and value.module == "torch" else None


def _all(values: Any, kind: type) -> bool:
    return all(type(value) is kind for value in values)


def _sizes(value: Any) -> bool:
    return type(value) is tuple and _all(value, int) and all(each >= 0 for each in value)
