"""Save and load torch tensors and models.

Tensors that share memory are refused by `save` and `save_file`, because a file holds each tensor by
itself: loading it would give copies. `save_model` and `load_model` know which names of a model
belong together.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch

from . import _native
from ._dtypes import FRAMEWORK_NAMES
from ._native import TensorSpec, safe_open
from ._sharing import (
    SHARED_DOCS,
    _end_ptr,
    _filter_shared_not_shared,
    _find_shared_tensors,
    _is_complete,
    _remove_duplicate_names,
    storage_ptr,
    storage_size,
)
from ._types import Backend, Durability

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "_end_ptr",
    "_filter_shared_not_shared",
    "_find_shared_tensors",
    "_is_complete",
    "_remove_duplicate_names",
    "load",
    "load_file",
    "load_model",
    "save",
    "save_file",
    "save_model",
    "storage_ptr",
    "storage_size",
]

# Torch lacks some, older releases more.
_TYPES: dict[str, torch.dtype] = {
    wire: getattr(torch, name) for wire, name in FRAMEWORK_NAMES.items() if hasattr(torch, name)
}
_SIZE: dict[torch.dtype, int] = {dtype: dtype.itemsize for dtype in _TYPES.values()}
_SPEC_NAMES: dict[torch.dtype, str] = {
    dtype: FRAMEWORK_NAMES[wire] for wire, dtype in _TYPES.items()
}


def _getdtype(dtype_str: str) -> torch.dtype:
    """Return torch's dtype for the format's name; KeyError for one that torch lacks."""
    return _TYPES[dtype_str]


def _check_dense(tensors: Any) -> None:
    """Raise ValueError for what is no dict of dense tensors."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    sparse = []
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(
                f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}"
            )
        if tensor.layout != torch.strided:
            sparse.append(name)
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not"
            " support. You can make it a dense tensor before saving with `.to_dense()` but be"
            " aware this might make a much larger file than needed."
        )


def _check_saveable(tensors: Any) -> None:
    """Raise for what a file cannot hold: no tensors, sparse ones, shared memory."""
    _check_dense(tensors)
    shared = [names for names in _find_shared_tensors(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(
            "\n            Some tensors share memory, this will lead to duplicate memory on disk"
            f" and potential differences when loading them again: {shared}."
            "\n            A potential way to correctly save your model is to use `save_model`."
            f"\n            More information at {SHARED_DOCS}"
            "\n            "
        )


def _spec_name(tensor: torch.Tensor, name: str) -> str:
    dtype = _SPEC_NAMES.get(tensor.dtype)
    if dtype is None:
        raise ValueError(f"Key `{name}` has dtype {tensor.dtype}, which the format cannot hold.")
    if sys.byteorder == "big" and _SIZE[tensor.dtype] > 1:
        raise NotImplementedError("saving on a big-endian machine is not supported")
    return dtype


def _check_contiguous(tensor: torch.Tensor, name: str) -> None:
    if not tensor.is_contiguous():
        raise ValueError(
            f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It"
            " either means you are trying to save tensors which are reference of each other in"
            " which case it's recommended to save only the full tensors, and reslice at load time,"
            " or simply call `.contiguous()` on your tensor to pack it before saving."
        )


def _span(host: torch.Tensor, name: str) -> tuple[int, int]:
    """Return address and size in bytes of a contiguous tensor in the host's memory.

    ValueError where its storage was made smaller than the tensor: the bytes behind are not its own.
    """
    pointer, size = host.data_ptr(), host.nelement() * host.element_size()
    if pointer and size:
        storage = host.untyped_storage()
        if pointer + size > storage.data_ptr() + storage.nbytes():
            raise ValueError(
                f"Key `{name}` has {size} bytes, of which its storage of {storage.nbytes()} bytes"
                " does not hold all."
            )
    return pointer, size


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in the host's memory whose bytes are those that a file holds.

    That is the tensor itself, or a copy where it is on another device or marked as the conjugate
    or the negative of its bytes.
    """
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor if tensor.is_cpu else tensor.to("cpu")


def _tobytes(tensor: torch.Tensor, name: str) -> bytes:
    """Return the bytes that a file holds of this tensor."""
    _check_dense({name: tensor})
    _check_contiguous(tensor, name)
    _spec_name(tensor, name)
    host = _on_host(tensor)
    pointer, size = _span(host, name)
    if size and not pointer:
        raise ValueError(f"Key `{name}` has {size} bytes, but no memory: its storage was freed.")
    return ctypes.string_at(pointer, size) if size else b""


def _to_specs(tensors: dict[str, torch.Tensor], keep_alive: list[Any]) -> dict[str, TensorSpec]:
    specs = {}
    for name, tensor in tensors.items():
        _check_contiguous(tensor, name)
        dtype = _spec_name(tensor, name)
        host = _on_host(tensor)
        pointer, size = _span(host, name)
        keep_alive.append(host)
        specs[name] = TensorSpec(dtype=dtype, shape=host.shape, data_ptr=pointer, data_len=size)
    return specs


def _flatten_as_ptr(
    tensors: dict[str, torch.Tensor], keep_alive_buffer: list[Any]
) -> dict[str, TensorSpec]:
    """Return what is to be saved; what it points to lives as long as keep_alive_buffer.

    Nothing is copied that is in the host's memory already. Raises as `save`.
    """
    _check_saveable(tensors)
    return _to_specs(tensors, keep_alive_buffer)


def _save_streamed(
    tensors: dict[str, torch.Tensor],
    filename: str | PathLike[str],
    metadata: dict[str, str] | None,
    durability: Durability,
) -> None:
    """Save with one tensor at a time in the host's memory; the tensors are checked already."""
    specs = {}
    for name, tensor in tensors.items():
        _check_contiguous(tensor, name)
        if tensor.is_meta:
            _on_host(tensor)  # torch's own error, before anything is written
        specs[name] = TensorSpec(
            dtype=_spec_name(tensor, name), shape=tensor.shape, data_ptr=0, data_len=0
        )

    def fetch(name: str) -> tuple[int, int, torch.Tensor]:
        host = _on_host(tensors[name])
        return *_span(host, name), host

    _native._serialize_stream(specs, filename, metadata, fetch, durability=durability)


def save(tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these tensors.

    Tensors may be on any device; those of other devices are copied to the host first, all of them.
    `metadata`: whatever text belongs to the file; None for none.

    Raises ValueError for tensors that are sparse, not contiguous or of a dtype that the format does
    not know, RuntimeError for tensors that share memory (see `save_model`) or are on the meta
    device, SafetensorError for what else no file can hold, TypeError for names or metadata that are
    no text.
    """
    keep_alive: list[Any] = []
    return _native.serialize(_flatten_as_ptr(tensors, keep_alive), metadata)


def save_file(
    tensors: dict[str, torch.Tensor],
    filename: str | PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    durability: Durability = "full",
) -> None:
    """Write a file that holds these tensors, replacing what is at `filename`.

    Programs see the old file or the new one, never a mix. `durability`: with "full" the new file is
    there after a power cut, with "file" the old or the new one, with "none" nothing is promised.
    Tensors of the host are written from where they are; if any is on another device, each is copied
    to the host when its turn comes, so that the host holds the largest at most, not the model.

    Raises as `save`, and SafetensorError where the file cannot be written; after any error the old
    file is as it was. Tensors must not change meanwhile; the GIL is released.
    """
    _check_saveable(tensors)
    if not all(tensor.is_cpu for tensor in tensors.values()):
        _save_streamed(tensors, filename, metadata, durability)
        return
    keep_alive: list[Any] = []
    specs = _to_specs(tensors, keep_alive)
    _native.serialize_file(specs, filename, metadata, durability=durability)


def load(data: Buffer, *, copy: bool = True) -> dict[str, torch.Tensor]:
    """Return the tensors of a file in memory, in the order of their bytes.

    `data`: bytes or anything with the buffer protocol. The tensors are writable and never alias it;
    with `copy=False` they are views of it where their bytes are aligned, and keep it alive, and
    writing to views of `bytes` is undefined. Raises SafetensorError for what breaks the format.
    """
    return _native._load(data, "pt", copy=copy)


def load_file(
    filename: str | PathLike[str],
    device: str | int | torch.device = "cpu",
    *,
    backend: Backend = "mmap",
) -> dict[str, torch.Tensor]:
    """Return the tensors of a file, in the order of their bytes.

    With the backend "mmap" tensors are views of the file, whose pages are read when they are
    touched and copied when they are written to; with "pread" they have memory of their own, read
    by several threads. They outlive the file's removal; a file that is changed in place may change
    tensors of "mmap". Raises SafetensorError for a file that breaks the format, OSError where it
    cannot be read.
    """
    with safe_open(filename, "pt", device, backend=backend) as f:
        tensors: dict[str, torch.Tensor] = f.get_tensors()
        return tensors


def save_model(
    model: torch.nn.Module,
    filename: str | PathLike[str],
    metadata: dict[str, str] | None = None,
    force_contiguous: bool = True,
    *,
    durability: Durability = "full",
) -> None:
    """Save a model, tensors with several names once.

    Of names that share memory the first in sorted order that covers its whole storage is kept. The
    others are noted in the file's metadata, `{dropped: kept}`, except under keys that `metadata`
    has already; the caller's dict is not changed. With `force_contiguous` tensors are packed first;
    a model whose memory layout matters should pass False, and gets ValueError where packing would
    be needed.

    Raises as `save_file`, and RuntimeError where no tensor covers the memory that it is part of.
    """
    state_dict = dict(model.state_dict())
    notes = None if metadata is None else dict(metadata)
    for kept, dropped in _remove_duplicate_names(state_dict).items():
        notes = {} if notes is None else notes
        for name in dropped:
            notes.setdefault(name, kept)
            del state_dict[name]
    if force_contiguous:
        state_dict = {name: tensor.contiguous() for name, tensor in state_dict.items()}
    try:
        save_file(state_dict, filename, notes, durability=durability)
    except ValueError as error:
        raise ValueError(
            f"{error} Or use save_model(..., force_contiguous=True), read the docs for potential"
            " caveats."
        ) from error


def load_model(
    model: torch.nn.Module,
    filename: str | PathLike[str],
    strict: bool = True,
    device: str | int | torch.device = "cpu",
    *,
    backend: Backend = "mmap",
) -> tuple[set[str], list[str]]:
    """Load a file of `save_model` into a model; return the missing and the unexpected names.

    A name of the model that shares its memory with one that the file has is not missing; where the
    file has both, the one too many is unexpected. The model's tensors stay where they are and are
    written to; `device` is where the file's tensors pass through.

    With `strict`, missing or unexpected names raise RuntimeError, after all others were loaded.
    Raises RuntimeError for shapes that differ, and as `load_file`.
    """
    loaded = load_file(filename, device=device, backend=backend)
    twins = _remove_duplicate_names(model.state_dict(), preferred_names=loaded.keys())
    result = model.load_state_dict(loaded, strict=False)
    missing, unexpected = set(result.missing_keys), list(result.unexpected_keys)
    for names in twins.values():
        for name in names:
            if name in missing:
                missing.discard(name)
            else:
                unexpected.append(name)
    if strict and (missing or unexpected):
        raise RuntimeError(_mismatch(model, missing, unexpected))
    return missing, unexpected


def _mismatch(model: torch.nn.Module, missing: Iterable[str], unexpected: Iterable[str]) -> str:
    text = f"Error(s) in loading state_dict for {type(model).__name__}:"
    for kind, names in (("Missing", missing), ("Unexpected", unexpected)):
        if names:
            quoted = ", ".join(f'"{name}"' for name in sorted(names))
            text += f"\n    {kind} key(s) in state_dict: {quoted}"
    return text


def _view2torch(
    safeview: Iterable[tuple[str, dict[str, Any]]],
) -> dict[str, torch.Tensor]:
    """Make tensors of what `safetensors.deserialize` returns, over its bytearrays."""
    tensors = {}
    for name, view in safeview:
        dtype = _getdtype(view["dtype"])
        shape = list(view["shape"])
        if view["dtype"] == "F4":
            shape[-1] //= 2  # torch counts pairs
        if len(view["data"]) == 0:
            tensors[name] = torch.empty(shape, dtype=dtype)
        else:
            flat = torch.frombuffer(view["data"], dtype=torch.uint8)
            tensors[name] = flat.view(dtype).reshape(shape)
    return tensors
