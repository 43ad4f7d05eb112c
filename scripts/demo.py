"""The Python part of scripts/demo: a checkpoint through NumPy, and a model that ties its weights through torch."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any


def timed(what: str, work: Callable[[], Any]) -> Any:
    """Do some work and print how long it took."""
    start = time.perf_counter()
    result = work()
    print(f"  {what:50s} {(time.perf_counter() - start) * 1e3:8.2f} ms")
    return result


def with_numpy(path: str) -> None:
    """Load a checkpoint lazily, and read a slice of it."""
    from safetensors import safe_open
    from safetensors.numpy import load_file

    print(f"safetensors.numpy, {os.path.getsize(path) / 2**20:.0f} MiB:")
    arrays = timed("load_file: all arrays, no byte read yet", lambda: load_file(path))
    total = sum(a.nbytes for a in arrays.values())
    print(f"  {len(arrays)} arrays, {total} bytes, wte.weight is {arrays['wte.weight'].dtype}{arrays['wte.weight'].shape}")
    with safe_open(path, "np") as f:
        rows = timed("get_slice('wte.weight')[1000:1002, :4]", lambda: f.get_slice("wte.weight")[1000:1002, :4])
    print("  " + str(rows).replace("\n", "\n  "))


def with_torch(folder: str) -> None:
    """Save and load a model that ties its head to its embedding, and compare the times with those of torch."""
    import torch
    from safetensors.torch import load_model, save_model

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(20_000, 768)
            self.layers = torch.nn.ModuleList(torch.nn.Linear(768, 768) for _ in range(40))
            self.head = torch.nn.Linear(768, 20_000, bias=False)
            self.head.weight = self.embed.weight

    model, other = Tied(), Tied()
    ours, theirs = os.path.join(folder, "model.safetensors"), os.path.join(folder, "model.pt")
    print("safetensors.torch, a model that ties its head to its embedding:")
    timed("save_model (safe after a power cut)", lambda: save_model(model, ours))
    timed("torch.save (not synced)", lambda: torch.save(model.state_dict(), theirs))
    missing, unexpected = timed("load_model", lambda: load_model(other, ours))
    timed("load_state_dict(torch.load)", lambda: other.load_state_dict(torch.load(theirs)))
    assert not missing and not unexpected and other.head.weight is other.embed.weight
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters()))
    print(f"  {os.path.getsize(ours) / 2**20:.0f} MiB, shared matrix stored once; weights are equal and still tied")
    os.remove(ours)
    os.remove(theirs)


def main() -> None:
    """Run the part with NumPy, and the part with torch if torch is installed."""
    with_numpy(sys.argv[1])
    try:
        import torch  # noqa: F401
    except ImportError:
        print("torch is not installed: scripts/demo --torch installs it (CPU) and shows a model, too")
    else:
        with_torch(os.path.dirname(os.path.abspath(sys.argv[1])))


if __name__ == "__main__":
    main()
