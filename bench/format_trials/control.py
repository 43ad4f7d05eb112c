"""Two formats that nobody should use. They show that every column can be "yes" and can be "no"."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from .row import NESTED, Carried, Loader, Payload, Reader, Row, Tensors, payload, save_bytes


class Mapped(Row):
    """Raw arrays and an index in JSON, read through maps. Each column is "yes", except flexibility."""

    title = "control: mapped"
    key = "control_yes"
    packages = ("numpy",)
    suffix = ".raw"

    def write(self, path: str, tensors: Tensors, variant: str = "", align: int = 64) -> None:
        index = {}
        with open(path, "wb") as file:
            for name, array in tensors.items():
                file.seek(-(-file.tell() // align) * align)
                index[name] = [file.tell(), str(array.dtype), array.shape]
                file.write(array.tobytes())
        Path(path + ".json").write_text(json.dumps(index))

    def write_aligned(self, path: str, tensors: Tensors, align: int) -> None:
        self.write(path, tensors, align=align)

    def names(self, path: str) -> list[str]:
        return list(json.loads(Path(path + ".json").read_text()))

    def readers(self) -> list[Reader]:
        return [Reader("map", self.get)]

    def get(self, path: str, name: str) -> Any:
        offset, dtype, shape = json.loads(Path(path + ".json").read_text())[name]
        import ml_dtypes

        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        return np.memmap(path, kind, "r", offset, tuple(shape))

    def loaders(self) -> list[Loader]:
        return [
            Loader("all", lambda path: {name: self.get(path, name) for name in self.names(path)})
        ]

    def code(self, path: str, marker: str) -> str:
        self.write(path, {"t00": np.frombuffer(payload(marker), np.uint8)})
        return "a pickle as data"

    def lie(self, path: str) -> str:
        save_bytes(path, b"123")
        Path(path + ".json").write_text(json.dumps({"a": [0, "uint8", [1 << 40]]}))
        return "a shape of 1 TB"

    def round_trip(self, path: str, array: Any) -> Any:
        self.write(path, {"a": array})
        return self.get(path, "a")


class Copied(Row):
    """A pickle of float64 in one piece, read and copied. Each column is "no", except flexibility."""

    title = "control: copied"
    key = "control_no"
    packages = ("numpy",)
    suffix = ".pickle"

    def write(self, path: str, tensors: Tensors, variant: str = "") -> None:
        if sum(array.nbytes for array in tensors.values()) >= 1 << 32:
            raise ValueError("a limit of 4 GiB")
        Path(path).write_bytes(pickle.dumps({name: tensors[name] for name in sorted(tensors)}))

    def readers(self) -> list[Reader]:
        return [Reader("copy", lambda path, name: self.load(path)[name].copy())]

    def load(self, path: str) -> Any:
        return pickle.loads(Path(path).read_bytes())

    def loaders(self) -> list[Loader]:
        return [Loader("pickle.loads", self.load)]

    def code(self, path: str, marker: str) -> str:
        save_bytes(path, pickle.dumps(Payload(marker)))
        return "__reduce__"

    def lie(self, path: str) -> str:
        save_bytes(path, b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b"abc.")
        return "bytes of 1 TB"

    def bomb(self, path: str) -> str:
        save_bytes(path, pickle.dumps(Bytes()))
        return "bytearray(2 GiB)"

    def store(self, path: str, kind: str) -> None:
        Path(path).write_bytes(pickle.dumps(Carried() if kind == "code" else NESTED))

    def fetch(self, path: str, kind: str) -> Any:
        return self.load(path)

    def round_trip(self, path: str, array: Any) -> Any:
        self.write(path, {"a": array.astype(np.float64)})
        return self.load(path)["a"]


class Bytes:
    """Unpickling makes 2 GiB of ones."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (np.full, (1 << 31, 1, "u1"))
