"""Save and load torch tensors and models.

`save` and `save_file` refuse tensors that share memory: a file holds each tensor separately, so
loading it would return copies. `save_model` and `load_model` find the names of a model that share
memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from os import PathLike

import torch

from . import _exported, _native
from ._arrays.dtypes import FRAMEWORK_NAMES
from ._arrays.sharing import SHARED_DOCS, _find_shared_tensors, _remove_duplicate_names, storage_ptr, storage_size
from ._arrays.sharing import _end_ptr as _end_ptr
from ._arrays.sharing import _filter_shared_not_shared as _filter_shared_not_shared
from ._arrays.sharing import _is_complete as _is_complete
from ._arrays.targets import check_storage
from ._arrays.torch_dtypes import _TYPES as _TYPES
from ._arrays.torch_dtypes import _getdtype as _getdtype
from ._exported import *
from ._models.load_into import load_into
from ._read.checkpoint import opened
from ._types import Backend, Buffer, Durability
from ._write.save_checkpoint import Fetch, write_file

__all__ = [
    "load", "load_file", "load_into", "load_model", "save", "save_file", "save_model",
    "storage_ptr", "storage_size", "torch",
]
__all__ += _exported.__all__

_SIZE: dict[torch.dtype, int] = {dtype: dtype.itemsize for dtype in _TYPES.values()}
_SPEC_NAMES: dict[torch.dtype, str] = {dtype: FRAMEWORK_NAMES[wire] for wire, dtype in _TYPES.items()}
# The reference's names of these dtypes: None if torch lacks one.
_float8_e4m3fn, _float8_e4m3fnuz, _float8_e5m2, _float8_e5m2fnuz, _float8_e8m0, _float4_e2m1_x2 = map(
    _TYPES.get, ("F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0", "F4")
)


def _check_dense(tensors: Any) -> None:
    """Raise ValueError unless it is a dict of dense tensors."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    sparse = []
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
        if tensor.layout != torch.strided:
            sparse.append(name)
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not"
            " support. You can make it a dense tensor before saving with `.to_dense()` but be"
            " aware this might make a much larger file than needed."
        )


def _evaluate_tensors_for_save(tensors: Any) -> None:
    """Raise unless it is a dict of dense tensors that do not share memory."""
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
    """Return address and size in bytes of a contiguous tensor in host memory. Raises as `check_storage`."""
    pointer = host.data_ptr()
    if pointer:
        check_storage(host, f"Key `{name}`")
    return pointer, host.nelement() * host.element_size()


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in host memory with the bytes that a file holds.

    This is the tensor itself, or a copy if the tensor is on another device or is a conjugated or
    negated view.
    """
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor if tensor.is_cpu else tensor.to("cpu")


def _to_ndarray(tensor: torch.Tensor) -> tuple[Any, torch.Tensor]:
    """Return the bytes of a tensor as an array of NumPy, and the tensor in host memory that owns them."""
    host = _on_host(tensor)
    return host.contiguous().reshape(-1).view(torch.uint8).numpy(), host


def _tobytes(tensor: torch.Tensor, name: str) -> bytes:
    """Return the bytes of this tensor in a file."""
    _check_dense({name: tensor})
    _check_contiguous(tensor, name)
    _spec_name(tensor, name)
    host = _on_host(tensor)
    pointer, size = _span(host, name)
    if size and not pointer:
        raise ValueError(f"Key `{name}` has {size} bytes, but no memory: its storage was freed.")
    return ctypes.string_at(pointer, size) if size else b""


def _to_specs(tensors: dict[str, torch.Tensor], keep_alive: list[Any] | None) -> dict[str, TensorSpec]:
    """Return specs. `keep_alive` receives the owners of their memory, or is None for specs without memory."""
    specs = {}
    for name, tensor in tensors.items():
        _check_contiguous(tensor, name)
        dtype, pointer, size = _spec_name(tensor, name), 0, 0
        if keep_alive is not None:
            keep_alive.append(_on_host(tensor))
            pointer, size = _span(keep_alive[-1], name)
        elif tensor.is_meta:
            _on_host(tensor)  # raises the error of torch, before anything is written
        specs[name] = TensorSpec(dtype=dtype, shape=tensor.shape, data_ptr=pointer, data_len=size)
    return specs


def _flatten_as_ptr(tensors: dict[str, torch.Tensor], keep_alive_buffer: list[Any]) -> dict[str, TensorSpec]:
    """Return the specs to save. `keep_alive_buffer` receives the owners of their memory.

    Tensors that are in host memory are not copied. Raises as `save`.
    """
    _evaluate_tensors_for_save(tensors)
    return _to_specs(tensors, keep_alive_buffer)


def _described(tensors: dict[str, torch.Tensor], keep_alive: list[Any]) -> tuple[dict[str, TensorSpec], Fetch | None]:
    """Return the specs to save. Tensors on devices are fetched into host memory one at a time."""
    _evaluate_tensors_for_save(tensors)
    if all(tensor.is_cpu for tensor in tensors.values()):
        return _to_specs(tensors, keep_alive), None

    def fetch(name: str) -> tuple[int, int, torch.Tensor]:
        host = _on_host(tensors[name])
        return *_span(host, name), host

    return _to_specs(tensors, None), fetch


def save(tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these tensors.

    Tensors may be on any device. All tensors of other devices are first copied to the host.
    `metadata`: a dict of str to str, or None for no metadata.

    Raises ValueError for tensors that are sparse, not contiguous or of a dtype that the format
    lacks, RuntimeError for tensors that share memory (see `save_model`), have none (on the meta
    device), or have it elsewhere (DTensor),
    TypeError for names or metadata that are not str, SafetensorError for other tensors or metadata
    that no file can hold.
    """
    keep_alive: list[Any] = []
    return _native.serialize(_flatten_as_ptr(tensors, keep_alive), metadata)


def save_file(
    tensors: dict[str, torch.Tensor], filename: str | PathLike[str], metadata: dict[str, str] | None = None, *,
    durability: Durability = "full",
) -> None:
    """Write a file that holds these tensors. It replaces a file that exists at `filename`.

    Other programs see the old file or the new one, never a mix. `durability`: after a power cut,
    "full" guarantees the new file, "file" guarantees the old file or the new one, "none" guarantees
    nothing. Tensors in host memory are written without a copy. Tensors of other devices are copied
    to the host one by one, so the host needs memory for the largest tensor only.

    Raises as `save`, and SafetensorError if the file cannot be written. After an error the old file
    is unchanged. Do not change the tensors during the call: the GIL is released.
    """
    keep_alive: list[Any] = []
    specs, fetch = _described(tensors, keep_alive)
    write_file(specs, filename, metadata, durability, fetch)


def load(data: Buffer, *, copy: bool = True) -> dict[str, torch.Tensor]:
    """Return the tensors of a file in memory, in the order of their bytes.

    `data`: bytes or any object with the buffer protocol. The tensors are writable and do not share
    its memory. With `copy=False` a tensor is a view of `data` if its bytes are aligned. It keeps
    `data` alive. Writing to a view of `bytes` is undefined behaviour. Raises SafetensorError for
    data that breaks the format.
    """
    return _native._load(data, "pt", copy=copy)


def load_file(
    filename: str | PathLike[str], device: str | int | torch.device = "cpu", *, backend: Backend = "mmap",
) -> dict[str, torch.Tensor]:
    """Return the tensors of a file, in the order of their bytes.

    With the backend "mmap" tensors are views of a private map of the file. A page is read on first
    access and copied on first write. If another program changes the file in place, such tensors may
    change. With "pread" and "auto" several threads read into memory that the tensors own. On
    network and user-space file systems "mmap" is the same as "pread", unless the environment
    variable SAFETENSORS_BACKEND is "mmap". Tensors stay valid after the file was removed. Tensors of
    a CUDA device are read as `safetensors.load` reads them. Raises SafetensorError for a file that
    breaks the format, OSError if the file cannot be read.
    """
    cuda = isinstance(device, int) or str(device).startswith("cuda")
    if cuda and backend == "mmap":
        backend = "auto"
    with safe_open(filename, "pt", device, backend=backend) as f:
        return opened(f._checkpoint()).load() if cuda else f.get_tensors()


def save_model(
    model: torch.nn.Module, filename: str | PathLike[str], metadata: dict[str, str] | None = None,
    force_contiguous: bool = True, *, durability: Durability = "full",
) -> None:
    """Save a model. A tensor with several names is saved once.

    Of the names that share memory, the first one in sorted order that covers its whole storage is
    kept. Each dropped name is noted in the file's metadata as `{dropped: kept}`, unless `metadata`
    already has that key. The caller's dict is not changed. With `force_contiguous` tensors that are
    not contiguous are packed. Pass False if the memory layout of the model matters: such tensors
    then raise ValueError.

    Raises as `save_file`, and RuntimeError if none of the names covers the whole storage.
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
            f"{error} Or use save_model(..., force_contiguous=True), read the docs for potential caveats."
        ) from error


def load_model(
    model: torch.nn.Module, filename: str | PathLike[str], strict: bool = True,
    device: str | int | torch.device = "cpu", *, backend: Backend = "mmap",
) -> tuple[set[str], list[str]]:
    """Load a file from `save_model` into a model. Return the missing and the unexpected names.

    A name of the model is not missing if it shares memory with a name in the file. If the file has
    both names, the second one is unexpected. The values are copied into the model's tensors, which
    stay on their devices. `device`: where the tensors of the file are loaded first.

    With `strict`, missing or unexpected names raise RuntimeError after all other names were loaded.
    Raises RuntimeError for different shapes, and as `load_file`.
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


def _view2torch(safeview: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, torch.Tensor]:
    """Return tensors over the bytearrays that `safetensors.deserialize` returned."""
    tensors = {}
    for name, view in safeview:
        dtype = _getdtype(view["dtype"])
        shape = list(view["shape"])
        if view["dtype"] == "F4":
            shape[-1] //= 2  # torch counts pairs
        if len(view["data"]) == 0:
            tensors[name] = torch.empty(shape, dtype=dtype, device="cpu")
        else:
            flat = torch.frombuffer(view["data"], dtype=torch.uint8)
            tensors[name] = flat.view(dtype).reshape(shape)
    return tensors
