"""The Python part of scripts/demo: writes weights of the size of GPT-2 small, and reads a slice of them."""

import os
import sys
import time

import ml_dtypes
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


def weights() -> dict[str, np.ndarray]:
    """Return the 148 tensors of the published model: matrices in BF16, the rest in F32, of random numbers."""
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (50257, 768), "wpe.weight": (1024, 768)}
    parts = (("attn.c_attn", 768, 2304), ("attn.c_proj", 768, 768), ("mlp.c_fc", 768, 3072), ("mlp.c_proj", 3072, 768))
    for layer in range(12):
        for name, rows, columns in parts:
            shapes |= {f"h.{layer}.{name}.weight": (rows, columns), f"h.{layer}.{name}.bias": (columns,)}
        shapes |= {f"h.{layer}.ln_{number}.{name}": (768,) for number in (1, 2) for name in ("weight", "bias")}
    shapes |= {f"ln_f.{name}": (768,) for name in ("weight", "bias")}
    random = np.random.default_rng(1).normal(0.0, 0.02, 1 << 16).astype(np.float32)
    halves = random.astype(ml_dtypes.bfloat16)
    return {name: np.resize(halves if len(shape) == 2 else random, shape) for name, shape in shapes.items()}


def main() -> None:
    """Write the weights, or read them."""
    work, path = sys.argv[1:]
    if work == "write":
        save_file(weights(), path, metadata={"format": "pt"})
        return
    start = time.perf_counter()
    arrays = load_file(path)
    print(f"load_file: {len(arrays)} arrays in {(time.perf_counter() - start) * 1e3:.2f} ms, no element is read yet")
    start = time.perf_counter()
    with safe_open(path, "np") as f:
        rows = f.get_slice("wte.weight")[1000:1002, :4]
    print(f"get_slice of {os.path.getsize(path) / 2**20:.0f} MiB in {(time.perf_counter() - start) * 1e3:.2f} ms:\n{rows}")


if __name__ == "__main__":
    main()
