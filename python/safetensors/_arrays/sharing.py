"""Finds tensors of a dict that share memory, and chooses which of their names to keep.

Part of `safetensors.torch`: programs import these functions from there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import torch

from .targets import reach

T = TypeVar("T", int, str)
SHARED_DOCS = "https://huggingface.co/docs/safetensors/torch_shared_tensors"


def storage_ptr(tensor: torch.Tensor) -> int:
    """Return the address of the tensor's storage, 0 if it has none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except NotImplementedError:  # sparse tensors have no storage
        return 0


def storage_size(tensor: torch.Tensor) -> int:
    """Return the size of the tensor's storage in bytes."""
    try:
        return tensor.untyped_storage().nbytes()
    except NotImplementedError:
        return tensor.nelement() * tensor.element_size()


def _end_ptr(tensor: torch.Tensor) -> int:
    """Return the address just past the tensor's last element, for any strides."""
    return tensor.data_ptr() + (reach(tensor) * tensor.element_size() if tensor.nelement() else 0)


def _is_complete(tensor: torch.Tensor) -> bool:
    """Return whether the tensor covers its whole storage."""
    return tensor.data_ptr() == storage_ptr(
        tensor
    ) and tensor.nelement() * tensor.element_size() == storage_size(tensor)


def overlapping_chains(spans: list[tuple[int, int, T]]) -> Iterator[set[T]]:
    """Yield the keys of each chain of overlapping spans (begin, end, key), by address."""
    keys: set[T] = set()
    last = 0
    for begin, end, key in sorted(spans):
        if keys and begin >= last:
            yield keys
            keys = set()
        last = max(last, end)
        keys.add(key)
    if keys:
        yield keys


def _filter_shared_not_shared(tensors: list[set[str]], state_dict: Mapping[str, torch.Tensor]) -> list[set[str]]:
    """Split each set of names of one storage into sets of tensors whose bytes overlap."""
    result: list[set[str]] = []
    for names in tensors:
        if len(names) < 2:
            result.append(names)
            continue
        spans = [(state_dict[n].data_ptr(), _end_ptr(state_dict[n]), n) for n in names]
        result.extend(overlapping_chains(spans))
    return result


def _find_shared_tensors(state_dict: Mapping[str, torch.Tensor]) -> list[set[str]]:
    """Return sets of the names that share memory. A tensor that shares with none has its own set.

    Tensors share memory if they have one storage and their ranges of bytes, from the first element
    to the last, overlap. A tensor inside another one shares with it. Sets are in the order of the
    first name of their storage, and by address within one storage. Tensors without a storage (meta,
    sparse and empty tensors) are left out. The time is O(n log n) for n names.
    """
    storages: dict[tuple[torch.device, int, int], set[str]] = {}
    for name, tensor in state_dict.items():
        device = tensor.device
        if device.type == "meta":
            continue
        try:
            storage = tensor.untyped_storage()
            pointer, size = storage.data_ptr(), storage.nbytes()
        except NotImplementedError:
            continue
        except RuntimeError:  # a wrapper subclass, such as a DTensor
            remedy = "the plain tensors that it is made of"
            if hasattr(tensor, "full_tensor"):
                remedy = "its .full_tensor(), or all ranks call safetensors.distributed.save_sharded"
            kind = type(tensor).__name__
            raise RuntimeError(f"Key `{name}` is a {kind}, which has no memory of its own: save {remedy}") from None
        if pointer != 0 and size != 0:
            storages.setdefault((device, pointer, size), set()).add(name)
    return _filter_shared_not_shared(list(storages.values()), state_dict)


def _kept(complete: set[str], preferred: set[str], discarded: set[str]) -> str:
    return min((complete & preferred) or (complete - discarded) or complete)


def _remove_duplicate_names(
    state_dict: Mapping[str, torch.Tensor], *, preferred_names: Iterable[str] | None = None,
    discard_names: Iterable[str] | None = None,
) -> dict[str, list[str]]:
    """Return each name to keep with the sorted list of its duplicates, which may be removed.

    Of the names that share memory, only those that cover their whole storage can be kept. If some
    of them are preferred, the others drop out. Otherwise the names to discard drop out, unless that
    would leave none. The first name in sorted order is kept. Raises RuntimeError if no name covers
    its storage, even for a single name: the tensor that is kept stands for the whole storage.
    """
    preferred = set(preferred_names or ())
    discarded = set(discard_names or ())
    remove: dict[str, list[str]] = defaultdict(list)
    for shared in _find_shared_tensors(state_dict):
        complete = {name for name in shared if _is_complete(state_dict[name])}
        if not complete:
            if all(state_dict[name].nelement() == 0 for name in shared):
                continue
            raise RuntimeError(
                "Error while trying to find names to remove to save state dict, but found no"
                f" suitable name to keep for saving amongst: {shared}. None is covering the entire"
                " storage.Refusing to save/load the model since you could be storing much more"
                f" memory than needed. Please refer to {SHARED_DOCS} for more information. Or open"
                " an issue."
            )
        if len(shared) > 1:
            kept = _kept(complete, preferred, discarded)
            remove[kept].extend(sorted(shared - {kept}))
    return remove
