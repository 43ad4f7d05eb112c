"""Modules of torch whose parameters have the names, shapes and dtype of the tensors of a file."""

from __future__ import annotations

from typing import Any

from . import files


def module_of(paths: list[str], device: str) -> Any:
    """Return a module. On the device "meta" its parameters have no memory, elsewhere the memory holds ones."""
    import torch

    root = torch.nn.Module()
    for path in paths:
        for name, array in files.arrays(path).items():
            *parents, last = name.split(".")
            module = root
            for parent in parents:
                if not hasattr(module, parent):
                    module.add_module(parent, torch.nn.Module())
                module = getattr(module, parent)
            made = torch.ones(array.shape, dtype=torch.float16, device=device)
            module.register_parameter(last, torch.nn.Parameter(made, requires_grad=False))
    return root
