"""Which tensors of a dict are the same memory, and which name of such a set to keep.

Part of `safetensors.torch`, under whose name programs import all of this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import torch

SHARED_DOCS = "https://huggingface.co/docs/safetensors/torch_shared_tensors"


def storage_ptr(tensor: torch.Tensor) -> int:
    """Return the address of the memory that the tensor is part of, 0 if it has none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except NotImplementedError:  # sparse tensors have no storage
        return 0


def storage_size(tensor: torch.Tensor) -> int:
    """Return the size in bytes of the memory that the tensor is part of."""
    try:
        return tensor.untyped_storage().nbytes()
    except NotImplementedError:
        return tensor.nelement() * tensor.element_size()


def _end_ptr(tensor: torch.Tensor) -> int:
    """Return the address behind the tensor's last element, whatever its strides."""
    if tensor.nelement() == 0:
        return tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr() + (last + 1) * tensor.element_size()


def _is_complete(tensor: torch.Tensor) -> bool:
    """Return whether the tensor is all of its storage."""
    return tensor.data_ptr() == storage_ptr(
        tensor
    ) and tensor.nelement() * tensor.element_size() == storage_size(tensor)


def _overlapping(spans: list[tuple[int, int, str]]) -> Iterator[set[str]]:
    """Yield the names of spans of memory (begin, end, name) that hang together, by address."""
    names: set[str] = set()
    reach = 0
    for begin, end, name in sorted(spans):
        if names and begin >= reach:
            yield names
            names = set()
        reach = max(reach, end)
        names.add(name)
    if names:
        yield names


def _filter_shared_not_shared(
    tensors: list[set[str]], state_dict: Mapping[str, torch.Tensor]
) -> list[set[str]]:
    """Split sets of names, of one storage each, into sets whose bytes overlap."""
    result: list[set[str]] = []
    for names in tensors:
        if len(names) < 2:
            result.append(names)
            continue
        spans = [(state_dict[n].data_ptr(), _end_ptr(state_dict[n]), n) for n in names]
        result.extend(_overlapping(spans))
    return result


def _find_shared_tensors(state_dict: Mapping[str, torch.Tensor]) -> list[set[str]]:
    """Return the names in sets of those that share memory, a set of one where none shares.

    Tensors share if they are of one storage and the bytes from their first to their last element
    overlap; a tensor that lies within another shares with it. Storages come in the order of their
    first name, inside one sets come by address. Tensors without storage (meta, sparse, empty ones)
    are left out. Takes n log n for n names.
    """
    storages: dict[tuple[torch.device, int, int], set[str]] = {}
    for name, tensor in state_dict.items():
        device = tensor.device
        if device.type == "meta":
            continue
        try:
            storage = tensor.untyped_storage()
        except NotImplementedError:
            continue
        pointer, size = storage.data_ptr(), storage.nbytes()
        if pointer != 0 and size != 0:
            storages.setdefault((device, pointer, size), set()).add(name)
    return _filter_shared_not_shared(list(storages.values()), state_dict)


def _kept(complete: set[str], preferred: set[str], discarded: set[str]) -> str:
    return min((complete & preferred) or (complete - discarded) or complete)


def _remove_duplicate_names(
    state_dict: Mapping[str, torch.Tensor],
    *,
    preferred_names: Iterable[str] | None = None,
    discard_names: Iterable[str] | None = None,
) -> dict[str, list[str]]:
    """Return which names to keep, each with the sorted names of the same memory that may go.

    Kept is the first, in sorted order, of the names that cover their whole storage: of the
    preferred among them if there are any, else of those not to be discarded. RuntimeError where
    no name covers its storage, be it alone in it: what is kept stands for all of the storage.
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
