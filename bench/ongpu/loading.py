"""What each peer does to get a file's tensors onto a device, by its own documented calls, in a process of its own."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

Report = dict[str, Any]
Tensors = dict[str, Any]
Way = Callable[[str, str], Tensors]  # a path and a device

PINNED = 1 << 30
MODULES = {"fastsafetensors": "fastsafetensors", "runai": "runai_model_streamer", "instanttensor": "instanttensor"}


def _load(path: str, device: str) -> Tensors:
    import safetensors

    loaded: Tensors = safetensors.load(path, framework="pt", device=device)
    return loaded


def _load_file(path: str, device: str, **how: str) -> Tensors:
    from safetensors.torch import load_file

    return dict(load_file(path, device=device, **how))


def _prefetch(path: str, device: str) -> Tensors:
    from safetensors import safe_open

    with safe_open(path, "pt", device=device) as f, f.prefetch() as loader:
        return dict(loader)


_open: list[Any] = []  # whose memory tensors are in: closed when these are gone, while no clock runs


def _fast(path: str, device: str, nogds: bool = True, direct: str = "0") -> Tensors:
    from fastsafetensors import SafeTensorsFileLoader

    if nogds:
        os.environ["FASTSAFETENSORS_ODIRECT"] = direct
    loader = SafeTensorsFileLoader(None, device=device, nogds=nogds)
    _open.append(loader)
    loader.add_filenames({0: [path]})
    buffers = loader.copy_files_to_device()
    _open.append(buffers)
    return {name: buffers.get_tensor(name) for name in loader.get_keys()}


def _runai(path: str, device: str) -> Tensors:
    from runai_model_streamer import SafetensorsStreamer

    with SafetensorsStreamer() as streamer:
        streamer.stream_files([path], device=device)
        return dict(streamer.get_tensors())


def _instant(path: str, device: str, policy: str = "") -> Tensors:
    import instanttensor

    how = {"backend": getattr(instanttensor.BackendPolicy, policy)} if policy else {}
    with instanttensor.safe_open(path, framework="pt", device=device, **how) as f:
        return dict(f.tensors())


def _torch(path: str, device: str) -> Tensors:
    import torch

    return dict(torch.load(path, map_location=device, weights_only=True))


def _torch_mapped(path: str, device: str) -> Tensors:
    import torch

    mapped = torch.load(path, weights_only=True, mmap=True)
    return {name: tensor.to(device) for name, tensor in mapped.items()}


class Pinned:
    """What the way to the device takes at least: page-locked memory that is there, copied."""

    def __init__(self) -> None:
        self.tensors: tuple[Any, Any] | None = None

    def __call__(self, size: str, device: str) -> Tensors:
        import torch

        if self.tensors is None:
            count = min(int(size), PINNED)
            host = torch.ones(count, dtype=torch.uint8, pin_memory=device != "cpu")
            self.tensors = host, torch.empty(count, dtype=torch.uint8, device=device)
        host, there = self.tensors
        left = int(size)
        while left > 0:
            part = min(left, len(host))
            there[:part].copy_(host[:part], non_blocking=True)
            left -= part
        return {}


PEERS: dict[str, dict[str, Way]] = {
    "pinned": {"copy": Pinned()},
    "ours": {"load()": _load, "load_file": _load_file},
    "reference": {"load_file": _load_file, "load_file pread": partial(_load_file, backend="pread")},
    "reference9": {"prefetch": _prefetch, "load_file": _load_file},
    "fastsafetensors": {"buffered": _fast, "direct": partial(_fast, direct="1"), "gds": partial(_fast, nogds=False)},
    "runai": {"streamer": _runai},
    "instanttensor": {"tensors": _instant, "buffered": partial(_instant, policy="BUFFERED")},
    "torch": {"torch.load": _torch, "torch.load mmap": _torch_mapped},
}


def _synchronize(device: str) -> None:
    import torch

    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def digest(tensors: Tensors) -> list[int]:
    """Return how many tensors and bytes there are, and a sum to which every byte counts by its place."""
    import torch

    total = 0
    made = 0
    for number, name in enumerate(sorted(tensors)):
        flat = tensors[name].reshape(-1).view(torch.uint8)
        total += flat.numel()
        whole = flat[: flat.numel() // 8 * 8].clone().view(torch.int64)
        weights = torch.arange(1, whole.numel() + 1, device=whole.device)
        made += (number + 1) * int((whole * weights).sum().item()) + int(flat[-8:].sum().item())
    return [len(tensors), total, made % (1 << 61)]


def _run(way: Way, request: Report) -> Report:
    device = request["device"]
    _synchronize(device)
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    tensors = way(request["path"], device)
    _synchronize(device)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    report: Report = {"seconds": seconds, "cpu": after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime}
    if tensors:
        where = {str(tensor.device).partition(":")[0] for tensor in tensors.values()}
        if where != {device.partition(":")[0]}:
            return {"missing": f"its tensors are on {', '.join(sorted(where))}"}
    if request.get("check"):
        report["digest"] = digest(tensors)
    return report


def _give_back(device: str) -> None:
    # The device's memory, too: every load begins as in a new program that has the device open already.
    import gc

    import torch

    gc.collect()
    while _open:
        _open.pop().close()
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()


def _answer(peer: str, request: Report) -> Report:
    try:
        if "make" in request:
            import torch
            from comparison import files

            source, target = request["make"]
            torch.save({name: torch.from_numpy(array) for name, array in files.arrays(source).items()}, target)
            return {}
        report = _run(PEERS[peer][request["way"]], request)
    except Exception as error:
        report = {"missing": f"{type(error).__name__}: {error}"[:200]}
    try:
        _give_back(request.get("device", "cpu"))
    except Exception as error:
        report = {"missing": f"afterwards {type(error).__name__}: {error}"[:200]}
    return report


def _version(peer: str) -> str:
    if peer in ("ours", "reference", "reference9"):
        import safetensors

        return str(safetensors.__version__)
    package = {"pinned": "torch", "runai": "runai-model-streamer"}.get(peer, peer)
    return importlib.metadata.version(package)


def serve(peer: str, device: str) -> None:
    """Answer lines of JSON until there are no more. What the peer prints goes to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        import torch

        torch.ones(8, device=device).sum().item()  # the device is open before any clock runs
        if peer in MODULES:
            importlib.import_module(MODULES[peer])
        hello = {"version": _version(peer)}
    except Exception as error:
        hello = {"missing": f"{type(error).__name__}: {error}"[:200]}
    print(json.dumps(hello), file=out, flush=True)
    for line in iter(sys.stdin.readline, "") if "version" in hello else ():
        print(json.dumps(_answer(peer, json.loads(line))), file=out, flush=True)
