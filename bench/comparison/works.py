"""The rows of the table: what is done, on which files, what is the least that the system takes, what we want."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PREAD = ("pread_huge",)
DEVICE = ("direct",)
FILL = ("fill",)  # the limit of a cold load that leaves the bytes in the page cache


@dataclass(frozen=True)
class Gate:
    """What we want of our first contender.

    kind is one of limit, ratio, cpu (seconds per GiB), read, peak, pss, and device (bytes read from it / file).
    """

    kind: str
    value: float
    peer: str = ""  # of a ratio
    variant: str = ""  # of that peer; empty: its fastest


@dataclass(frozen=True)
class Work:
    """One piece of work that every contender does which declares one of `ops`."""

    name: str
    says: str
    data: str  # the name of a set of files
    ops: tuple[str, ...]
    args: dict[str, Any] = field(default_factory=dict)
    then: str = ""  # what is done to the result while the clock runs: read, touch or write
    limits: tuple[str, ...] = ()  # beginnings of names of bench/limits; the fastest is the limit
    part: float | str = 1.0  # of the bytes of the set, or "header": what the limit moves
    cold: bool = False
    processes: int = 1  # more: each with its own rank
    again: bool = False  # in a new process, after another one did it with the files cold
    fresh: bool = False  # each turn in a new process, which has imported only torch or NumPy
    gates: tuple[Gate, ...] = ()


ROWS = {"dim": 0, "rank": 3, "world": 8}
COLUMNS = {"dim": 1, "rank": 3, "world": 8}

# fmt: off
WORKS = [
    Work("load", "{size} in {count} tensors, one file, into memory of their own", "model", ("load",), limits=PREAD,
         gates=(Gate("limit", 1.25), Gate("peak", 1.02))),
    Work("first_load", "load or view {size}, one byte of every page read, cold, in a new process", "model",
         ("load", "view"), then="touch", cold=True, fresh=True, gates=(Gate("ratio", 1, "reference"),)),
    Work("again_load", "load or view {size}, one byte of every page read, in a new process after a cold one", "model",
         ("load", "view"), then="touch", fresh=True, again=True, gates=(Gate("ratio", 1, "reference"),)),
    Work("load_write", "load or view {size} in {count} tensors, then write one byte of every page", "model",
         ("load", "view"), then="write", limits=PREAD, gates=(Gate("ratio", 8, "reference", "mmap"),)),
    Work("view_numpy", "{size} in {count} tensors, NumPy load_file, arrays returned", "model", ("view_numpy",),
         gates=(Gate("ratio", 100, "reference"),)),
    Work("view_numpy_read", "{size} in {count} tensors, NumPy load_file, every byte read", "model", ("view_numpy",),
         then="read", limits=("sum",), gates=(Gate("ratio", 4, "reference"),)),
    Work("view_torch", "{size} in {count} tensors, torch load_file, tensors returned", "model", ("view",)),
    Work("slice_rows", "one eighth of the rows of every tensor (runs of {run_rows})", "model", ("slice",), args=ROWS,
         limits=PREAD, part=1 / 8, gates=(Gate("read", 1.05),)),
    Work("slice_columns", "one eighth of the columns of every tensor (runs of {run_columns})", "model", ("slice",),
         args=COLUMNS, limits=PREAD, part=1 / 8, gates=(Gate("read", 1.25),)),
    Work("save_none", "save {size}, not durable", "model", ("save",), args={"durable": False},
         limits=("write_buffered",), gates=(Gate("limit", 1 / 0.95), Gate("ratio", 1.5, "reference", "numpy"))),
    Work("save_full", "save {size}, durable", "model", ("save",), args={"durable": True}, limits=("write_direct",),
         gates=(Gate("limit", 1 / 0.95), Gate("ratio", 1.5, "reference", "numpy"))),
    Work("save_bytes", "NumPy save of {size} to bytes", "model", ("save_bytes",), limits=("memcpy_small",)),
    Work("cold_load", "{size} in {count} tensors, into memory of their own, cold", "model", ("load",), limits=FILL,
         cold=True, gates=(Gate("limit", 1.1), Gate("cpu", 0.4), Gate("peak", 1.02))),
    Work("cold_touch", "load or view {size}, then read one byte of every page, cold", "model", ("load", "view"),
         then="touch", limits=DEVICE, cold=True),
    Work("cold_slice_rows", "one eighth of the rows of every tensor, cold", "model", ("slice",), args=ROWS,
         limits=DEVICE, part=1 / 8, cold=True),
    Work("cold_slice_columns", "one eighth of the columns of every tensor, cold", "model", ("slice",), args=COLUMNS,
         limits=DEVICE, part=1 / 8, cold=True),
    Work("shards_load", "{size} in {files} files, into memory of their own", "shards", ("load",), limits=PREAD),
    Work("cold_shards_load", "{size} in {files} files, into memory of their own, cold", "shards", ("load",),
         limits=FILL, cold=True, gates=(Gate("limit", 1.1),)),
    Work("small_view_torch", "{count} tensors of {each}, torch load_file, tensors returned", "small", ("view",),
         limits=("pread_small_1",), part="header", gates=(Gate("ratio", 4, "reference", "mmap"),)),
    Work("small_view_numpy", "{count} tensors of {each}, NumPy load_file, arrays returned", "small", ("view_numpy",),
         limits=("pread_small_1",), part="header", gates=(Gate("ratio", 10, "reference"),)),
    Work("small_load", "{count} tensors of {each}, into memory of their own", "small", ("load",), limits=PREAD),
    Work("small_save", "save {count} tensors of {each}, not durable", "small", ("save",), args={"durable": False},
         limits=("write_buffered",)),
    Work("into_new", "{size} in {count} tensors, into a module on the meta device, then one byte of every page written",
         "model", ("into_new",), then="write", limits=PREAD, gates=(Gate("limit", 1.1), Gate("peak", 1.02))),
    Work("into_old", "{size} in {count} tensors, into the parameters of a module", "model", ("into_old",),
         limits=("pread_touched",), gates=(Gate("limit", 1.1),)),
    Work("offload",
         "{count} weights of {size}, each by accelerate's disk offload, which opens the file each time; one byte of every page read",
         "llama", ("offload",), then="touch", limits=PREAD, gates=(Gate("ratio", 1, "reference"),)),
    Work("from_pretrained", "transformers from_pretrained of {size}, then one byte of every page read", "llama",
         ("from_pretrained",), then="touch", limits=PREAD, gates=(Gate("ratio", 1, "reference"),)),
    Work("cold_from_pretrained", "transformers from_pretrained of {size}, then one byte of every page read, cold",
         "llama", ("from_pretrained",), then="touch", cold=True, limits=DEVICE, gates=(Gate("ratio", 1, "reference"),)),
    Work("tiny_open", "{count} tensors of {each}, names listed", "tiny", ("open",), limits=("pread_small_1",),
         part="header", gates=(Gate("ratio", 5, "reference"),)),
    Work("tiny_load", "{count} tensors of {each}, into memory of their own", "tiny", ("load",),
         limits=("pread_small_1",), part="header"),
    *(Work(f"group_cold_load_{processes}", f"{processes} processes, each loads all of {{size}}, cold", "group",
           ("load",), processes=processes, cold=True, gates=(Gate("ratio", 1, "reference"), Gate("device", 1.1)))
      for processes in (2, 4, 8)),
    Work("group_rows", "8 processes, each an eighth of the rows of {size}", "group", ("slice", "whole"),
         args={"dim": 0, "world": 8}, limits=PREAD, processes=8, gates=(Gate("read", 1.05),)),
    Work("group_columns", "8 processes, each an eighth of the columns of {size}", "group", ("slice", "whole"),
         args={"dim": 1, "world": 8}, limits=PREAD, processes=8, gates=(Gate("read", 1.25),)),
    Work("group_layers", "8 processes, each an eighth of the tensors of {size}", "group", ("layers", "whole"),
         args={"world": 8}, limits=PREAD, processes=8, gates=(Gate("read", 1.05),)),
    Work("group_row_views", "8 processes, each views an eighth of the rows of {size}, one byte of every page read",
         "group", ("slice_view",), args={"dim": 0, "world": 8}, then="touch", processes=8, gates=(Gate("pss", 1.05),)),
    Work("group_layer_views", "8 processes, each views an eighth of the tensors of {size}, one byte of every page read",
         "group", ("layers_view",), args={"world": 8}, then="touch", processes=8, gates=(Gate("pss", 1.05),)),
    Work("group_maps", "8 processes, each views all of {size}, one byte of every page read", "group", ("view",),
         then="touch", processes=8, gates=(Gate("pss", 1.05),)),
]
# fmt: on
