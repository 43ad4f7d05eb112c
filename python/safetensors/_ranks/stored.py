"""The tensors of a checkpoint for many ranks: which file holds which box of which tensor.

A plain checkpoint holds each tensor whole. `HuggingFaceStorageWriter(save_distributed=True)` of torch
leaves a folder where each rank has written files of its own, and a tensor is spread over the files:
an entry of the metadata of each file has the offset of each of its tensors in the whole tensor. A name
is then in many files, so each file is a Checkpoint.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import torch

from .._arrays.dtypes import FRAMEWORK_NAMES
from .._base.paths import to_path
from .._models.pieces import Piece
from .._native import SafetensorError
from .._read.checkpoint import Checkpoint
from .boxes import Box, check_cover

__all__ = ["Part", "Path", "Stored", "StoredTensor"]

Path = str | PathLike[str]

# Names of files and keys that torch.distributed.checkpoint writes.
_OF_ONE_RANK = re.compile(r"shard-\d+-model-\d+-of-\d+\.safetensors")
_SHARDING = "DCP_SHARDING_INFO"
_OFFSETS = "saved_offsets"


@dataclass(slots=True)
class Part:
    """A box of a tensor, and the checkpoint that holds it as a whole tensor."""

    box: Box
    checkpoint: Checkpoint


@dataclass(slots=True)
class StoredTensor:
    """A tensor of a checkpoint. The shape is that in torch, which counts pairs for F4."""

    name: str
    wire: str
    dtype: torch.dtype | None  # None: torch lacks it
    shape: tuple[int, ...] = ()
    parts: dict[tuple[int, ...], Part] = field(default_factory=dict)  # by their offsets

    def torch_dtype(self) -> torch.dtype:
        """Return the dtype. Raises SafetensorError for one that torch lacks."""
        if self.dtype is None:
            raise SafetensorError(f"tensor {self.name!r} has dtype {self.wire}, which torch lacks")
        return self.dtype

    def piece(self, part: Part, offsets: tuple[int, ...], target: torch.Tensor, owner: Any) -> Piece:
        """Return the piece of a part that begins at `offsets`. Raises SafetensorError for a dtype that torch lacks."""
        size = target.numel() * self.torch_dtype().itemsize
        first = offsets if tuple(target.shape) != part.box.sizes else None
        return Piece(part.checkpoint, self.name, self.wire, size, target.dtype, first, target, owner)

    def parts_of(self, box: Box) -> Iterator[tuple[Part, Box]]:
        """Yield the parts that have elements of a box, and the box of these elements."""
        for part in self.parts.values():
            if (common := box.common(part.box)) is not None:
                yield part, common


def _files_of_ranks(folder: str) -> list[str]:
    """Return the separate files of ranks in a folder. Empty: there are no such files."""
    if not os.path.isdir(folder):
        return []
    names = sorted(os.listdir(folder))
    # An index decides, also that of a variant: `model.safetensors.index.fp16.json`.
    if any(".safetensors." in name and name.endswith(".json") for name in names):
        return []
    return [os.path.join(folder, name) for name in names if _OF_ONE_RANK.fullmatch(name)]


class Stored:
    """All tensors of a checkpoint by name."""

    def __init__(self, checkpoints: list[Checkpoint]) -> None:
        self.checkpoints = checkpoints
        self.tensors: dict[str, StoredTensor] = {}
        for checkpoint in checkpoints:
            self._add(checkpoint)
        for tensor in self.tensors.values():
            self._check(tensor)

    @classmethod
    def open(cls, path: Path) -> Stored:
        """Open a file, an index, a folder, a pattern, or a folder with the files of many ranks."""
        text = to_path(path, "path")
        return cls([Checkpoint(file, "pt") for file in _files_of_ranks(text) or [text]])

    def close(self) -> None:
        """Close the files. Idempotent."""
        for checkpoint in self.checkpoints:
            checkpoint.close()

    def __iter__(self) -> Iterator[StoredTensor]:
        return iter(self.tensors.values())

    def _add(self, checkpoint: Checkpoint) -> None:
        offsets_of = _saved_offsets(checkpoint)
        for name in checkpoint:
            meta = checkpoint.get_tensor_meta(name)
            sizes = tuple(meta.shape)
            if meta.dtype == "F4" and sizes:
                sizes = (*sizes[:-1], sizes[-1] // 2)
            offsets = (0,) * len(sizes)
            if offsets_of is not None:
                offsets = _offsets(offsets_of, name, len(sizes), checkpoint)
            box = Box(offsets, sizes)
            tensor = self.tensors.get(name)
            if tensor is None:
                dtype = getattr(torch, FRAMEWORK_NAMES[meta.dtype], None)
                tensor = self.tensors[name] = StoredTensor(name, meta.dtype, dtype)
            elif meta.dtype != tensor.wire or len(sizes) != len(tensor.shape):
                raise SafetensorError(
                    f"tensor {name!r} is {meta.dtype} with {len(sizes)} dimensions in"
                    f" {checkpoint.files[0]}, and {tensor.wire} with {len(tensor.shape)} in another file"
                )
            _add_part(tensor, Part(box, checkpoint))
            ends = tuple(offset + size for offset, size in zip(offsets, sizes, strict=True))
            seen = tensor.shape or (0,) * len(ends)
            tensor.shape = tuple(max(both) for both in zip(seen, ends, strict=True))

    def _check(self, tensor: StoredTensor) -> None:
        """Raise SafetensorError unless the parts hold each element once."""
        fault = check_cover([part.box for part in tensor.parts.values()], tensor.shape)
        if fault is not None:
            raise SafetensorError(f"tensor {tensor.name!r} is not complete: {fault} (is a file of a rank missing?)")


def _add_part(tensor: StoredTensor, part: Part) -> None:
    """Add a part, unless it has no elements or another rank has written the same ones."""
    other = tensor.parts.get(part.box.offsets)
    if other is None or not other.box.elements:
        tensor.parts[part.box.offsets] = part
    elif part.box.elements and part.box != other.box:
        raise SafetensorError(
            f"tensor {tensor.name!r} has two chunks at {list(part.box.offsets)}, of shapes"
            f" {list(part.box.sizes)} and {list(other.box.sizes)}"
        )


def _saved_offsets(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """Return the offsets that a file of a rank holds, or None for a file with whole tensors."""
    if len(checkpoint.files) != 1:
        return None
    text = (checkpoint.metadata() or {}).get(_SHARDING)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _invalid(checkpoint, f"it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise _invalid(checkpoint, f"it is {type(found).__name__}, expected an object")
    return found


def _offsets(offsets_of: dict[str, Any], name: str, count: int, checkpoint: Checkpoint) -> tuple[int, ...]:
    entry = offsets_of.get(name)
    offsets = entry.get(_OFFSETS) if isinstance(entry, dict) else None
    valid = isinstance(offsets, list) and all(type(o) is int and 0 <= o < 1 << 62 for o in offsets)
    if not valid or len(offsets) != count:  # type: ignore[arg-type]
        raise _invalid(checkpoint, f"the offsets of {name!r} are {offsets!r}, expected {count} numbers")
    return tuple(offsets)  # type: ignore[arg-type]


def _invalid(checkpoint: Checkpoint, fault: str) -> SafetensorError:
    return SafetensorError(f"metadata {_SHARDING} of {checkpoint.files[0]} is invalid: {fault}")
