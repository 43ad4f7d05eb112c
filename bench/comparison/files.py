"""The files that the peers read, written without any of them, and a reader that is too simple to be wrong."""

from __future__ import annotations

import json
import mmap
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 1 << 20
Entry = tuple[str, list[int]]  # a name and the shape of a tensor of F16


@dataclass
class Set:
    """Some files of one kind that hold one model."""

    folder: Path
    count: int = 0  # of tensors
    bytes: int = 0  # of all tensors
    header: int = 0  # bytes of the headers
    each: int = 0  # bytes of the largest tensor
    row: int = 0  # bytes of a row of it
    paths: list[str] = field(default_factory=list)

    def form(self, suffix: str) -> list[str]:
        """Return the paths of the same in the form that another peer reads."""
        return [str(Path(path).with_suffix("." + suffix)) for path in self.paths]

    def words(self) -> dict[str, object]:
        """Return what the rows of the table say of it."""
        return {
            "size": human(self.bytes),
            "count": f"{self.count:,}",
            "files": len(self.paths),
            "each": human(self.each),
            "run_rows": human(self.each // 8),
            "run_columns": human(self.row // 8),
        }


def human(size: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if size >= 1000 else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


def _write(path: Path, entries: list[Entry], random_bytes: bytes, at: int) -> tuple[int, int]:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}  # transformers insists on it
    end = 0
    for name, shape in entries:
        size = 2
        for length in shape:
            size *= length
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        written = 0
        while written < end:  # the bytes differ from place to place, so that a wrong offset is seen
            start = (at + written * 7) % (len(random_bytes) // 2)
            part = min(end - written, len(random_bytes) // 2)
            out.write(random_bytes[start : start + part])
            written += part
        out.flush()
        os.fsync(out.fileno())
    return len(text) + 8, end


class Library:
    """Makes each set of files when it is first asked for. size: MiB of the largest."""

    def __init__(self, directory: Path, size: int) -> None:
        self.directory = directory
        self.size = size * MIB
        self.random = random.Random(1).randbytes(64 * MIB)
        self.sets: dict[str, Set] = {}

    def __getitem__(self, name: str) -> Set:
        if name not in self.sets:
            self.sets[name] = self._make(name)
        return self.sets[name]

    def _matrices(self, count: int, size: int) -> list[Entry]:
        rows = max(8, size // count // 8192 // 8 * 8)
        return [(f"model.layers.{i}.weight", [rows, 4096]) for i in range(count)]

    def _llama(self, folder: Path) -> list[Entry]:
        # The tensors of a Llama, and the config that transformers needs to build it.
        vocabulary, hidden, inner = 32_000, 2048, 5632
        layer = {f"self_attn.{letter}_proj": [hidden, hidden] for letter in "qkvo"}
        layer |= {"mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden], "mlp.down_proj": [hidden, inner]}
        layer |= {"input_layernorm": [hidden], "post_attention_layernorm": [hidden]}
        ends = 2 * 2 * vocabulary * hidden  # bytes of the two tensors at the ends
        each = 2 * (4 * hidden * hidden + 3 * hidden * inner)
        count = max(1, round((self.size - ends) / each))
        config = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "dtype": "float16",
            "vocab_size": vocabulary,
            "hidden_size": hidden,
            "intermediate_size": inner,
            "num_hidden_layers": count,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "tie_word_embeddings": False,
        }
        (folder / "config.json").write_text(json.dumps(config))
        entries = [("model.embed_tokens.weight", [vocabulary, hidden])]
        for i in range(count):
            entries += [(f"model.layers.{i}.{name}.weight", shape) for name, shape in layer.items()]
        return [*entries, ("model.norm.weight", [hidden]), ("lm_head.weight", [vocabulary, hidden])]

    def _make(self, name: str) -> Set:
        folder = self.directory / name
        folder.mkdir()
        files: list[list[Entry]]
        if name == "model":
            files = [self._matrices(45, self.size)]
        elif name == "shards":
            entries = self._matrices(45, self.size)
            files = [entries[i : i + 6] for i in range(0, 45, 6)]
        elif name == "small":
            width = max(8, self.size // (2048 * MIB // 1024))
            files = [[(f"model.layers.{i // 256}.experts.{i % 256}.w", [32, width]) for i in range(18_432)]]
        elif name == "llama":
            files = [self._llama(folder)]
        elif name == "tiny":
            names = sorted(f"model.layers.{i // 1024}.mlp.experts.{i % 1024}.weight" for i in range(100_000))
            files = [[(tensor, [1]) for tensor in names]]
        else:
            files = [self._matrices(48, self.size // 2)]
        made = Set(folder)
        for i, entries in enumerate(files):
            path = folder / f"model-{i + 1:05}-of-{len(files):05}.safetensors"
            if name == "llama":
                path = folder / "model.safetensors"  # the name that transformers looks for
            header, size = _write(path, entries, self.random, i * MIB)
            made.paths.append(str(path))
            made.header += header
            made.bytes += size
            made.count += len(entries)
        shape = files[0][0][1]
        made.row = 2 * shape[-1]
        made.each = made.row * (shape[0] if len(shape) > 1 else 1)
        return made

    def forget_forms(self, name: str) -> None:
        """Remove what other peers made of a set; the set itself stays."""
        for path in self.sets[name].folder.iterdir() if name in self.sets else ():
            if path.suffix != ".safetensors":
                path.unlink()


def arrays(path: str) -> dict[str, Any]:
    """Return NumPy arrays on a private map of a file."""
    import numpy as np

    data = np.memmap(path, dtype=np.uint8, mode="c")
    start = 8 + int.from_bytes(bytes(data[:8]), "little")
    header = json.loads(bytes(data[8:start]))
    flat = np.asarray(data)
    return {
        name: flat[start + about["data_offsets"][0] : start + about["data_offsets"][1]]
        .view(np.float16)
        .reshape(about["shape"])
        for name, about in header.items()
        if name != "__metadata__"
    }


def _resident(path: str) -> float:
    # The share of its pages that are in the page cache, asked through mincore; 1 where it cannot be known.
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    size = os.path.getsize(path)
    if size == 0:
        return 0
    pages = (ctypes.c_ubyte * ((size + mmap.PAGESIZE - 1) // mmap.PAGESIZE))()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE) as mapped:
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        failed = libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages)
    if failed:
        return 1
    return sum(1 for page in pages if page & 1) / len(pages)


def warm(path: str) -> None:
    """Bring a file into the page cache."""
    with open(path, "rb", buffering=0) as file:
        block = bytearray(16 << 20)
        while file.readinto(block):
            pass


def evict(paths: list[str]) -> str:
    """Make the page cache forget these files. Return how that was done; raise OSError where it cannot be."""
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if max(map(_resident, paths)) < 0.01:
        return "posix_fadvise(DONTNEED) of each file"
    with open("/proc/sys/vm/drop_caches", "w") as drop:
        drop.write("1")
    if max(map(_resident, paths)) >= 0.01:
        raise OSError("the files stay in the page cache after drop_caches")
    return "/proc/sys/vm/drop_caches"
