"""Fills the tensors of a module from a checkpoint: by one read plan for tensors on the CPU, and by
a stream for the others.

The plan reads straight into parameters, and casts on the way. It makes new memory for tensors that have
none (meta) or that are replaced. Three kinds of tensors are read one after the other and copied by
torch: tensors on other devices, tensors with a conversion that the plan lacks, and tensors that
overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from .._arrays.dtypes import CASTABLE, FRAMEWORK_NAMES, can_read_as, format_name
from .._arrays.targets import Target, reach, to_target
from .._base.options import Progress
from .._native import SafetensorError
from .._read.checkpoint import Checkpoint
from .._read.requests import Request
from .lazy import LazyTensor, Source

__all__ = [
    "Copy",
    "Fill",
    "Place",
    "bump_version",
    "overlapping",
    "places_of",
    "plan_target",
    "replace",
]


_CASTABLE = {getattr(torch, FRAMEWORK_NAMES[wire], None) for wire in CASTABLE}
_CPU = torch.device("cpu")
_increment_version: Any = getattr(torch.autograd.graph, "increment_version", None)  # newer torch


class Place(NamedTuple):
    """A parameter or a buffer of a module."""

    module: torch.nn.Module
    name: str


def places_of(model: torch.nn.Module) -> Iterable[tuple[Place, torch.Tensor]]:
    """Yield all parameters and buffers, with the places that hold them. Tied ones come again."""
    for module in model.modules():
        for held in (module._parameters, module._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    yield Place(module, name), tensor


def replace(place: Place, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Put a new tensor in the place of an old one. Return it: a parameter stays a parameter."""
    if isinstance(old, torch.nn.Parameter) and not isinstance(new, torch.nn.Parameter):
        made = torch.nn.Parameter(new, requires_grad=old.requires_grad)
        if not isinstance(old, LazyTensor):
            made.__dict__.update(old.__dict__)
        new = made
    setattr(place.module, place.name, new)
    return new


def plan_target(tensor: torch.Tensor, name: str, wire: str, elements: list[int]) -> Target | None:
    """Return how a plan writes elements into the memory of a tensor, or None if torch must copy."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return None
    if torch._debug_has_internal_overlap(tensor) != 0:
        return None
    try:
        return to_target(tensor, name, wire, elements)
    except ValueError:  # tensors on devices, conjugated views, parts of a graph and the like
        return None


@dataclass(slots=True)
class Copy:
    """A tensor to fill. `target` is None until it has memory, which the plan may make.

    A model has thousands of them. Fewer objects per tensor start the garbage collector less often.
    """

    source: Source
    old: torch.Tensor
    dtype: torch.dtype
    device: torch.device
    places: Sequence[Place] = ()
    target: torch.Tensor | None = None

    @property
    def wire(self) -> str | None:
        """The format's name of the dtype, or None for a dtype that no file has."""
        try:
            return format_name(self.dtype)
        except SafetensorError:
            return None

    def request(self) -> Request | None:
        """Return how the plan fills it, or None if torch must copy."""
        if self.source.values is not None or self.device.type != "cpu":
            return None
        stored, wire = self.source.stored, self.wire
        if wire is None or not can_read_as(stored, wire):
            return None
        cast = wire if stored != wire else None
        if self.target is None:
            return self.source.name, None, cast, None
        target = plan_target(self.target, self.source.name, wire, self.source.elements)
        return None if target is None else (self.source.name, None, cast, target)


def _span(tensor: torch.Tensor) -> tuple[str, int, int] | None:
    """Return the device and the range of addresses, or None for a tensor without memory."""
    try:
        begin = tensor.data_ptr()
    except RuntimeError:
        return None
    if tensor.numel() == 0 or begin == 0:
        return None
    device = "cpu" if tensor.is_cpu else str(tensor.device)
    return device, begin, begin + reach(tensor) * tensor.element_size()


def overlapping(tensors: Sequence[torch.Tensor | None], owners: Sequence[Any]) -> set[Any]:
    """Return the owners of tensors that share memory with a tensor of another owner.

    Compares ranges of addresses, so two tensors with strides may count that have no element in
    common. None is a tensor without memory.
    """
    begins = [0] * len(tensors)
    ends = [0] * len(tensors)
    devices: dict[str, list[int]] = {}
    for index, tensor in enumerate(tensors):
        span = None if tensor is None else _span(tensor)
        if span is not None:
            device, begins[index], ends[index] = span
            devices.setdefault(device, []).append(index)
    found: set[Any] = set()
    for indices in devices.values():
        indices.sort(key=begins.__getitem__)
        # The two ranges with the largest ends so far, of different owners.
        limit, last = 0, -1
        other_limit, other = 0, -1
        for index in indices:
            for end, holder in ((limit, last), (other_limit, other)):
                if begins[index] < end and owners[holder] != owners[index]:
                    found |= {owners[holder], owners[index]}
            if ends[index] > limit:
                if last >= 0 and owners[last] != owners[index]:
                    other_limit, other = limit, last
                limit, last = ends[index], index
            elif ends[index] > other_limit and owners[last] != owners[index]:
                other_limit, other = ends[index], index
    return found


def _same_memory(tensor: torch.Tensor) -> Any:
    """Return a key that tensors over exactly the same elements have in common."""
    span = _span(tensor)
    if span is None:
        return id(tensor)
    device, begin, end = span
    if not tensor.is_contiguous():
        return (*span, tuple(tensor.shape), tensor.stride(), tensor.dtype)
    # The copy replaces all bytes, whatever dtype and shape are.
    return begin << 64 | end if device == "cpu" else span


class Fill:
    """Collects the copies that `load_state_dict` wants to make, and makes them.

    `dtype`, `device`: those that filled tensors get, or None for the ones that they have.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        checkpoint: Checkpoint,
        dtype: torch.dtype | None,
        device: torch.device | None,
        progress: Progress | None,
        **options: Any,
    ) -> None:
        self._model = model
        self._native = checkpoint._native
        self._dtype = dtype
        self._device = device
        self._progress = progress
        self._options = options
        self._noted: dict[Any, Copy] = {}
        self._done = self._total = 0
        self.before_changes: Callable[[], None] = lambda: None

    def note(self, target: torch.Tensor, source: Source) -> None:
        """Note a copy. If several copies have the same target memory, the last one wins.

        Tied tensors that get new memory are no longer tied, as after `Module.to`.
        """
        key = id(target) if self._moves(target) else _same_memory(target)
        self._noted.pop(key, None)
        self._noted[key] = Copy(source, target, *self._wanted(target))

    def run(self) -> None:
        """Make all noted copies, and replace the lazy tensors that were assigned to the model."""
        noted, self._noted = list(self._noted.values()), {}
        self._find_places(noted)
        copies = noted + self._assigned()
        if not copies:
            return
        for copy in copies:
            copy.source.check()
        self.before_changes()
        for copy in copies:
            self._make_memory(copy)
        shared = overlapping([copy.target for copy in copies], range(len(copies)))
        planned: list[Copy] = []
        requests: list[Request] = []
        streamed: list[Copy] = []
        for index, copy in enumerate(copies):
            request = None if index in shared else copy.request()
            if request is not None:
                planned.append(copy)
                requests.append(request)
            elif index not in shared:
                streamed.append(copy)
        self._total += sum(copy.source.size for copy in copies)
        self._execute(planned, requests)
        self._stream(streamed)
        for index in sorted(shared):  # in the order in which torch would copy
            self._stream([copies[index]])

    def _wanted(self, tensor: torch.Tensor) -> tuple[torch.dtype, torch.device]:
        """Return dtype and device as `Module.to` would choose them, but for meta the CPU."""
        dtype = tensor.dtype
        if self._dtype is not None and dtype in _CASTABLE:
            dtype = self._dtype
        return dtype, self._device or (_CPU if tensor.is_meta else tensor.device)

    def _moves(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor gets new memory, for another dtype or device."""
        if tensor.is_meta:
            return True
        if self._dtype is None and self._device is None:
            return False
        return self._wanted(tensor) != (tensor.dtype, tensor.device)

    def _find_places(self, noted: list[Copy]) -> None:
        moved: dict[int, list[Place]] = {}
        for copy in noted:
            copy.dtype, copy.device = self._wanted(copy.old)  # a hook may have changed the tensor
            if self._moves(copy.old):
                copy.places = moved.setdefault(id(copy.old), [])
        if not moved:
            return
        for place, tensor in places_of(self._model):
            if id(tensor) in moved:
                moved[id(tensor)].append(place)

    def _assigned(self) -> list[Copy]:
        return [
            Copy(tensor.source, tensor, *self._wanted(tensor), [place])
            for place, tensor in places_of(self._model)
            if isinstance(tensor, LazyTensor)
        ]

    def _make_memory(self, copy: Copy) -> None:
        """Choose the memory of the tensor: its own, new memory, or memory that the plan makes."""
        old = copy.old
        if not old.is_meta and (old.dtype, old.device) == (copy.dtype, copy.device):
            copy.target, copy.places = old, ()
            return
        if old.is_meta and copy.device.type == "cpu" and old.is_contiguous():
            if copy.request() is not None:
                return  # the plan makes the memory
        new = torch.empty_strided(old.size(), old.stride(), dtype=copy.dtype, device=copy.device)
        copy.target = new
        if not old.is_meta and torch._has_compatible_shallow_copy_type(old, new):
            old.data = new  # frees the old memory before anything is read
            if old.grad is not None:
                old.grad.data = old.grad.to(copy.device, copy.dtype)
            copy.target, copy.places = old, ()

    def _execute(self, planned: list[Copy], requests: list[Request]) -> None:
        if not planned:
            return
        results = self._native.load(requests, progress=self._report(), **self._options)
        self._done += sum(copy.source.size for copy in planned)
        for copy, result in zip(planned, results, strict=True):
            if copy.target is None:
                copy.target = result
            elif not result.is_inference():
                bump_version(result)
            if copy.places:
                _put(copy)

    def _stream(self, copies: list[Copy]) -> None:
        requests: list[Request] = []
        waiting: list[Copy] = []
        for copy in copies:
            if copy.source.values is not None:
                self._copy(copy, copy.source.values)
            else:
                waiting.append(copy)
                requests.append((copy.source.name, None, None, None))
        if not waiting:
            return
        items = self._native.stream(requests, progress=self._report(), **self._options)
        try:
            while (item := next(items, None)) is not None:
                self._copy(waiting[item[0]], item[1])
                del item
        finally:
            items.close()
        self._done += sum(copy.source.size for copy in waiting)

    def _copy(self, copy: Copy, values: torch.Tensor) -> None:
        assert copy.target is not None
        with torch.no_grad():
            copy.target.copy_(values)
        _put(copy)

    def _report(self) -> Progress | None:
        if (progress := self._progress) is None:
            return None
        done, total = self._done, self._total
        return lambda part, _: progress(done + part, total)


def bump_version(tensor: torch.Tensor) -> None:
    """Tell autograd that the values have changed."""
    if _increment_version is not None:
        _increment_version(tensor)
        return
    with torch.no_grad():  # autograd counts a change of a part without elements, too
        flat = tensor.reshape(-1) if tensor.is_contiguous() else tensor
        flat.narrow(0, 0, 0).zero_()


def _put(copy: Copy) -> None:
    """Put a new tensor in its places. Tied places share it."""
    new = copy.target
    for place in copy.places:
        assert new is not None
        new = replace(place, copy.old, new)
