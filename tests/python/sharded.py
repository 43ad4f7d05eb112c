"""Helpers: example tensors, checkpoints of several files made by hand, and comparison of tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import safetensors.numpy as stn

INDEX = "model.safetensors.index.json"


def tensors() -> dict[str, Any]:
    """Names to arrays, of which every second one goes into the second file."""
    return {
        "wte": np.arange(80, dtype=np.float32).reshape(10, 8),
        "bias": np.arange(8, dtype=np.float16),
        "ids": np.arange(6, dtype=np.int64),
        "scale": np.array(2.5, dtype=np.float64),
        "empty": np.zeros((0, 3), dtype=np.float32),
        "mask": np.array([[True, False], [False, True]]),
    }


def save(folder: Path, arrays: Mapping[str, Any], count: int = 2, **metadata: str) -> Path:
    """Spread the arrays over files as save_pretrained of transformers does, and index them."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"model-{i + 1:05d}-of-{count:05d}.safetensors" for i in range(count)]
    weight_map = {name: names[i % count] for i, name in enumerate(arrays)}
    for file in names:
        part = {name: arrays[name] for name, where in weight_map.items() if where == file}
        stn.save_file(part, folder / file, {"format": "pt", **metadata}, durability="none")
    size = sum(array.nbytes for array in arrays.values())
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    return folder


def same(a: Any, b: Any) -> bool:
    """Whether both are the same bytes of the same shape; the first may be torch's."""
    if type(a).__module__ == "torch":
        import torch

        raw = a.contiguous().reshape(-1).view(torch.uint8) if a.numel() else a
        return (tuple(a.shape) == b.shape and raw.numpy().tobytes() == np.ascontiguousarray(b).tobytes())
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
