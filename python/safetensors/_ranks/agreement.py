"""Agreement between the ranks of a process group: who failed, and why.

A collective hangs if one rank does not enter it. So a rank that fails keeps its error, enters the
next collective as the others do, and all ranks raise there. Only texts travel: an exception of one
rank may be impossible to pickle, or to unpickle on another one.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import torch.distributed as dist

from .._native import SafetensorError

__all__ = ["RankError", "agree", "describe", "from_first", "gather", "is_alone", "raise_portable"]

T = TypeVar("T")

_MAX_NAMED = 8  # ranks that a text names one by one


def describe(error: BaseException) -> str:
    """Return the class, the text and the notes of an error. A note of ours names the file.

    An error that has no text, because its own code raises, is described by its class only.
    """
    name = type(error).__name__
    try:
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        return f"{name}: {error}{notes}"
    except Exception:
        return name


def _named(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = ", ".join(str(rank) for rank in ranks[:_MAX_NAMED])
    return f"ranks {shown}" + (f", ... ({len(ranks)} ranks)" if len(ranks) > _MAX_NAMED else "")


class RankError(SafetensorError):
    """Some ranks of a process group failed. Every rank of the group raises this error.

    `failures` has the text of the error of each rank that failed. The keys are ranks in the group.
    On a rank that failed itself, `__cause__` is its error.
    """

    __module__ = f"{__name__.partition('.')[0]}.distributed"

    def __init__(self, failures: dict[int, str], world_size: int) -> None:
        ranks_of: dict[str, list[int]] = {}
        for rank, text in sorted(failures.items()):
            ranks_of.setdefault(text, []).append(rank)
        parts = "; ".join(f"{_named(ranks)}: {text}" for text, ranks in ranks_of.items())
        super().__init__(f"{len(failures)} of {world_size} ranks failed: {parts}")
        self.failures = dict(failures)
        self._world_size = world_size

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.failures, self._world_size)


def is_alone(group: Any) -> bool:
    """Return whether there are no other ranks: no process group, or a group of one rank."""
    if not dist.is_available() or not dist.is_initialized():
        return True
    if dist.get_rank(group) < 0:
        raise SafetensorError("this rank is not in the process group")
    return bool(dist.get_world_size(group) == 1)


def agree(group: Any, error: BaseException | None) -> None:
    """Raise on all ranks of the group if one of them has an error. All ranks must call it.

    `group`: None for the default group. A rank with an error that is not an Exception, such as
    KeyboardInterrupt, raises that error itself. Raises RankError on the others. Without other ranks,
    raises the error itself. Raises the error of torch.distributed if a rank was killed: `__cause__` is
    then the error of this rank.
    """
    if is_alone(group):
        if error is not None:
            raise error
        return
    world_size = dist.get_world_size(group)
    texts: list[str | None] = [None] * world_size
    own = None if error is None else describe(error)
    try:
        dist.all_gather_object(texts, own, group=group)
    except Exception as broken:
        raise broken from error  # the error of this rank may be the reason
    failures = {rank: text for rank, text in enumerate(texts) if text is not None}
    if not failures:
        return
    if error is not None and not isinstance(error, Exception):
        raise error
    raise RankError(failures, world_size) from error


def from_first(group: Any, make: Callable[[], T]) -> T:
    """Call `make` on rank 0 of the group, and return its result on all ranks. All must call it.

    The result can be pickled. Raises RankError on all ranks if `make` fails, or on rank 0 its error
    itself if that is not an Exception. Without other ranks, raises the error itself.
    """
    if is_alone(group):
        return make()
    fault: BaseException | None = None
    sent: list[Any] = [None]
    if dist.get_rank(group) == 0:
        try:
            sent = [(True, make())]
        except BaseException as error:
            fault = error
            sent = [(False, describe(error))]
    source = 0 if group is None else dist.get_global_rank(group, 0)
    dist.broadcast_object_list(sent, src=source, group=group)
    succeeded, result = sent[0]
    if succeeded:
        made: T = result
        return made
    if fault is not None and not isinstance(fault, Exception):
        raise fault
    raise RankError({0: result}, dist.get_world_size(group)) from fault


def gather(group: Any, value: T) -> list[T]:
    """Return the values of all ranks of the group on rank 0, and an empty list on the others.

    All ranks must call it. The values can be pickled.
    """
    if is_alone(group):
        return [value]
    first = dist.get_rank(group) == 0
    values: list[Any] = [None] * dist.get_world_size(group) if first else []
    target = 0 if group is None else dist.get_global_rank(group, 0)
    dist.gather_object(value, values if first else None, dst=target, group=group)
    return values


def raise_portable(error: BaseException) -> NoReturn:
    """Raise the error if other processes can unpickle it, or else a SafetensorError with its text.

    torch.distributed.checkpoint sends exceptions to all ranks by pickle. If that fails on one rank,
    the others wait for it.
    """
    try:
        same = type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:
        same = False
    if same:
        raise error
    raise SafetensorError(describe(error)) from error
