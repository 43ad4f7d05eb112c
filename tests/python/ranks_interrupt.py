"""Ctrl-C during dcp.load, on the last rank. Each case needs processes of its own: most of them break the process group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import DefaultLoadPlanner
from torch.distributed.checkpoint.utils import _DistWrapper

from safetensors.distributed import StorageReader
from safetensors.torch import save_file


def interrupted(*args: Any, **kwargs: Any) -> Any:
    raise KeyboardInterrupt


def is_last() -> bool:
    return dist.get_rank() == dist.get_world_size() - 1


def load(folder: Path, planner: Any = None) -> BaseException | None:
    path = folder / f"{dist.get_rank()}.safetensors"
    save_file({"w": torch.ones(4)}, path)
    dist.barrier()
    state = {"w": torch.zeros(4)}
    try:
        dcp.load(state, storage_reader=StorageReader(folder / "0.safetensors"), planner=planner)
    except BaseException as error:
        return error
    return None


def in_the_planner(folder: Path) -> None:
    planner = DefaultLoadPlanner()
    if is_last():
        planner.create_local_plan = interrupted  # type: ignore[method-assign]
    error = load(folder, planner)
    assert isinstance(error, dcp.CheckpointException), error
    assert list(error.failures) == [dist.get_world_size() - 1]
    assert load(folder) is None  # the process group works as before


def in_an_exchange(folder: Path) -> None:
    if is_last():
        _DistWrapper.gather_object = interrupted  # type: ignore[method-assign]
    error = load(folder)
    if is_last():
        assert type(error) is KeyboardInterrupt  # and the process ends
    else:
        assert type(error) is RuntimeError and "onnection" in str(error), repr(error)
