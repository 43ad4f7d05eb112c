"""Save and load torch tensors and models.

Tensors that share memory are refused by `save` and `save_file`, because a file holds each tensor by itself: loading it
would give copies. `save_model` and `load_model` know which names of a model belong together.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch

from . import _native
from ._native import TensorSpec, safe_open

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "load",
    "load_file",
    "load_model",
    "save",
    "save_file",
    "save_model",
    "storage_ptr",
    "storage_size",
]

# The format's name: torch's. Older releases of torch lack some.
_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "F4": "float4_e2m1fn_x2",
    "C64": "complex64",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
}
_TYPES: dict[str, torch.dtype] = {
    wire: getattr(torch, name) for wire, name in _NAMES.items() if hasattr(torch, name)
}
_SIZE: dict[torch.dtype, int] = {dtype: dtype.itemsize for dtype in _TYPES.values()}
_SPEC_NAMES: dict[torch.dtype, str] = {dtype: _NAMES[wire] for wire, dtype in _TYPES.items()}

_SHARED_DOCS = "https://huggingface.co/docs/safetensors/torch_shared_tensors"


def storage_ptr(tensor: torch.Tensor) -> int:
    """Return the address of the memory that the tensor is part of."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (AttributeError, NotImplementedError):  # a tensor without storage
        return 0


def storage_size(tensor: torch.Tensor) -> int:
    """Return the size in bytes of the memory that the tensor is part of."""
    try:
        return tensor.untyped_storage().nbytes()
    except (AttributeError, NotImplementedError):
        return tensor.nelement() * tensor.element_size()


def _getdtype(dtype_str: str) -> torch.dtype:
    """Return torch's dtype for the format's name; KeyError for one that torch lacks."""
    return _TYPES[dtype_str]


def _end_ptr(tensor: torch.Tensor) -> int:
    """Return the address behind the tensor's last element, whatever its strides."""
    start = tensor.data_ptr()
    if tensor.nelement() == 0:
        return start
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return start + (last + 1) * tensor.element_size()


def _is_complete(tensor: torch.Tensor) -> bool:
    """Return whether the tensor is all of its storage."""
    return (
        tensor.data_ptr() == storage_ptr(tensor)
        and tensor.nelement() * tensor.element_size() == storage_size(tensor)
    )


def _overlapping(spans: list[tuple[int, int, str]]) -> Iterator[set[str]]:
    """Yield the names of spans of memory (begin, end, name) that hang together, by address."""
    names: set[str] = set()
    reach = 0
    for begin, end, name in sorted(spans):
        if names and begin >= reach:
            yield names
            names = set()
        reach = max(reach, end) if names else end
        names.add(name)
    if names:
        yield names


def _filter_shared_not_shared(
    tensors: list[set[str]], state_dict: Mapping[str, torch.Tensor]
) -> list[set[str]]:
    """Split sets of names of one storage each into sets whose bytes overlap."""
    result: list[set[str]] = []
    for names in tensors:
        if len(names) < 2:
            result.append(names)
            continue
        spans = [(state_dict[n].data_ptr(), _end_ptr(state_dict[n]), n) for n in names]
        result.extend(_overlapping(spans))
    return result


def _find_shared_tensors(state_dict: Mapping[str, torch.Tensor]) -> list[set[str]]:
    """Return the names in sets that share memory, those that share with none by themselves.

    Storages come in the order of their first name. Tensors without elements and tensors on the
    meta device share with none and are left out.
    """
    storages: dict[tuple[torch.device, int, int], set[str]] = {}
    for name, tensor in state_dict.items():
        if tensor.device.type == "meta" or tensor.nelement() == 0:
            continue
        pointer, size = storage_ptr(tensor), storage_size(tensor)
        if pointer == 0 or size == 0:
            continue
        storages.setdefault((tensor.device, pointer, size), set()).add(name)
    return _filter_shared_not_shared(list(storages.values()), state_dict)


def _remove_duplicate_names(
    state_dict: Mapping[str, torch.Tensor],
    *,
    preferred_names: Iterable[str] | None = None,
    discard_names: Iterable[str] | None = None,
) -> dict[str, list[str]]:
    """Return which names to keep, each with the names of the same memory that may go.

    Kept is the first, in sorted order, of those that cover their whole storage: of the preferred
    ones if there are any, else of those not to be discarded.
    """
    preferred = set(preferred_names or ())
    discarded = set(discard_names or ())
    remove: dict[str, list[str]] = defaultdict(list)
    for shared in _find_shared_tensors(state_dict):
        if len(shared) < 2:
            continue
        complete = {name for name in shared if _is_complete(state_dict[name])}
        if not complete:
            raise RuntimeError(
                "Error while trying to find names to remove to save state dict, but found no suitable name to keep for"
                f" saving amongst: {shared}. None is covering the entire storage.Refusing to save/load the model since"
                f" you could be storing much more memory than needed. Please refer to {_SHARED_DOCS} for more"
                " information. Or open an issue."
            )
        candidates = (complete - discarded) or complete
        kept = min((candidates & preferred) or candidates)
        remove[kept].extend(sorted(shared - {kept}))
    return remove


def _check_values(tensors: Any) -> None:
    if not isinstance(tensors, dict):
        raise ValueError(
            f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}"
        )
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
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not support. You can make it"
            " a dense tensor before saving with `.to_dense()` but be aware this might make a much larger file than"
            " needed."
        )


def _evaluate_tensors_for_save(tensors: dict[str, torch.Tensor]) -> None:
    """Raise for what a file cannot hold: no tensors, sparse ones, shared memory."""
    _check_values(tensors)
    shared = [names for names in _find_shared_tensors(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(
            "\n            Some tensors share memory, this will lead to duplicate memory on disk and potential"
            f" differences when loading them again: {shared}."
            "\n            A potential way to correctly save your model is to use `save_model`."
            f"\n            More information at {_SHARED_DOCS}"
            "\n            "
        )


def _spec_name(tensor: torch.Tensor, name: str) -> str:
    dtype = _SPEC_NAMES.get(tensor.dtype)
    if dtype is None:
        raise ValueError(f"Key `{name}` has dtype {tensor.dtype}, which the format cannot hold.")
    return dtype


def _on_host(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Return a tensor in the host's memory whose bytes are those that a file holds."""
    if not tensor.is_contiguous():
        raise ValueError(
            f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It either means you are"
            " trying to save tensors which are reference of each other in which case it's recommended to save only the"
            " full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to pack it before"
            " saving."
        )
    if tensor.is_conj() or tensor.is_neg():  # marks on the tensor that its bytes know nothing of
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.device.type != "cpu":
        tensor = tensor.to("cpu")
    if sys.byteorder == "big" and tensor.element_size() > 1:
        raise NotImplementedError("saving on a big-endian machine is not supported")
    return tensor


def _spec(tensor: torch.Tensor, name: str) -> TensorSpec:
    return TensorSpec(
        dtype=_spec_name(tensor, name),
        shape=tensor.shape,
        data_ptr=tensor.data_ptr(),
        data_len=tensor.nelement() * tensor.element_size(),
    )


def _tobytes(tensor: torch.Tensor, name: str) -> bytes:
    """Return the bytes that a file holds of this tensor."""
    _check_values({name: tensor})
    host = _on_host(tensor, name)
    _spec_name(host, name)
    return host.reshape(-1).view(torch.uint8).numpy().tobytes()


def _flatten_as_ptr(
    tensors: dict[str, torch.Tensor], keep_alive_buffer: list[Any]
) -> dict[str, TensorSpec]:
    """Return what is to be saved; what it points to lives as long as keep_alive_buffer."""
    _evaluate_tensors_for_save(tensors)
    specs = {}
    for name, tensor in tensors.items():
        host = _on_host(tensor, name)
        if host is not tensor:
            keep_alive_buffer.append(host)
        specs[name] = _spec(host, name)
    return specs


def _save_streamed(
    tensors: dict[str, torch.Tensor],
    filename: str | PathLike[str],
    metadata: dict[str, str] | None,
    durability: str,
) -> None:
    """Save tensors of other devices with one of them at a time in the host's memory."""
    _evaluate_tensors_for_save(tensors)

    def fetch(name: str) -> tuple[int, int, torch.Tensor]:
        host = _on_host(tensors[name], name)
        return host.data_ptr(), host.nelement() * host.element_size(), host

    shapes = {}
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            _on_host(tensor, name)  # raises
        shapes[name] = TensorSpec(
            dtype=_spec_name(tensor, name), shape=tensor.shape, data_ptr=0, data_len=0
        )
    _native._serialize_stream(shapes, filename, metadata, fetch, durability=durability)


def save(tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these tensors.

    Tensors must be dense and contiguous and share no memory (ValueError, RuntimeError); they may
    be on any device. `metadata`: whatever text belongs to the file.
    """
    keep_alive: list[Any] = []
    return _native.serialize(_flatten_as_ptr(tensors, keep_alive), metadata)


def save_file(
    tensors: dict[str, torch.Tensor],
    filename: str | PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    durability: str = "full",
) -> None:
    """Write a file that holds these tensors, replacing what is at `filename`.

    As `save`. Programs see the old file or the new one, never a mix. `durability`: with "full" the
    new file is there after a power cut, with "file" the old or the new one, with "none" nothing is
    promised. Tensors of other devices are copied to the host one at a time. Raises SafetensorError
    where the file cannot be written; the old one is then as it was.
    """
    if isinstance(tensors, dict) and any(
        isinstance(t, torch.Tensor) and t.device.type not in ("cpu", "meta") for t in tensors.values()
    ):
        _save_streamed(tensors, filename, metadata, durability)
        return
    keep_alive: list[Any] = []
    specs = _flatten_as_ptr(tensors, keep_alive)
    _native.serialize_file(specs, filename, metadata, durability=durability)


def load(data: Buffer, *, copy: bool = True) -> dict[str, torch.Tensor]:
    """Return the tensors of a file in memory, in the order of their bytes.

    `data`: bytes or anything with the buffer protocol. With `copy=False` tensors are views of it
    where their bytes are aligned; writing to views of `bytes` is undefined. Raises SafetensorError.
    """
    return _native._load(data, "pt", copy=copy)


def load_file(
    filename: str | PathLike[str], device: str | int = "cpu", *, backend: str = "mmap"
) -> dict[str, torch.Tensor]:
    """Return the tensors of a file, in the order of their bytes.

    With the backend "mmap" tensors are views of the file, whose pages are read when they are
    touched and copied when they are written to; with "pread" they have memory of their own, read
    by several threads. Raises SafetensorError for a file that breaks the format, OSError where it
    cannot be read.
    """
    with safe_open(filename, "pt", device, backend=backend) as f:
        return f.get_tensors()


def save_model(
    model: torch.nn.Module,
    filename: str,
    metadata: dict[str, str] | None = None,
    force_contiguous: bool = True,
    *,
    durability: str = "full",
) -> None:
    """Save a model, tensors with several names once.

    The other names are noted in the metadata, `{dropped: kept}`, unless `metadata` has that key
    already. With `force_contiguous` tensors are packed first; a model whose memory layout matters
    should pass False, and gets ValueError where packing would be needed. Raises RuntimeError where
    tensors share memory and none of them is all of it.
    """
    state_dict = dict(model.state_dict())
    twins = _remove_duplicate_names(state_dict)
    notes = {name: kept for kept, dropped in twins.items() for name in dropped} | (metadata or {})
    for name in (name for dropped in twins.values() for name in dropped):
        del state_dict[name]
    if force_contiguous:
        state_dict = {name: tensor.contiguous() for name, tensor in state_dict.items()}
    try:
        save_file(state_dict, filename, metadata=notes or metadata, durability=durability)
    except ValueError as error:
        hint = " Or use save_model(..., force_contiguous=True), read the docs for potential caveats."
        raise ValueError(str(error) + hint) from error


def load_model(
    model: torch.nn.Module,
    filename: str | PathLike[str],
    strict: bool = True,
    device: str | int = "cpu",
    *,
    backend: str = "mmap",
) -> tuple[set[str], list[str]]:
    """Load a model that `save_model` saved; return the missing and the unexpected names.

    A name that shares its memory with one that the file has is not missing. With `strict`, missing
    and unexpected names raise RuntimeError, after the others were loaded.
    """
    loaded = load_file(filename, device=device, backend=backend)
    twins = _remove_duplicate_names(model.state_dict(), preferred_names=loaded.keys())
    result = model.load_state_dict(loaded, strict=False)
    missing, unexpected = set(result.missing_keys), list(result.unexpected_keys)
    for name in (name for names in twins.values() for name in names):
        if name in missing:
            missing.discard(name)
        else:
            unexpected.append(name)
    if strict and (missing or unexpected):
        text = f"Error(s) in loading state_dict for {type(model).__name__}:"
        for kind, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                quoted = ", ".join(f'"{name}"' for name in sorted(names))
                text += f"\n    {kind} key(s) in state_dict: {quoted}"
        raise RuntimeError(text)
    return missing, unexpected


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
            tensors[name] = torch.frombuffer(view["data"], dtype=torch.uint8).view(dtype).reshape(shape)
    return tensors
