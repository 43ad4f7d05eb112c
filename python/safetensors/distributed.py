"""Load and save checkpoints in many processes: each rank reads and writes only its own bytes.

`StorageReader` is the reader for `torch.distributed.checkpoint.load`. `load_sharded` does the same
without it: it fills a model, or makes DTensors. `StorageWriter` is the writer for
`torch.distributed.checkpoint.save` and `async_save`, and `save_sharded` does the same without it. The
collectives are those of torch.distributed. This package opens no socket.
"""

from __future__ import annotations

try:
    import torch

    from ._dcp.storage_reader import StorageReader
    from ._dcp.storage_writer import StorageWriter
    from ._ranks.agreement import RankError
    from ._ranks.load_sharded import load_sharded
    from ._ranks.save_sharded import save_sharded
except ImportError as error:
    try:
        found = f"torch {torch.__version__}"
    except NameError:
        found = "no torch"
    raise ImportError(
        f"safetensors.distributed needs torch 2.5 or newer, with torch.distributed. Found {found}: {error}"
    ) from error

__all__ = ["RankError", "StorageReader", "StorageWriter", "load_sharded", "save_sharded"]
