"""Formats that are pickles: files of torch and of Paddle."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from .row import (
    NESTED,
    TEXT,
    Carried,
    Loader,
    NotOffered,
    Payload,
    Reader,
    Row,
    Tensors,
    payload,
    save_bytes,
)


def deep_pickle(levels: int) -> bytes:
    """Return a pickle of lists in lists."""
    return b"\x80\x02" + b"]" * levels + b"a" * (levels - 1) + b"."


class Torch(Row):
    title = "pickle (torch)"
    key = "torch"
    packages = ("torch", "numpy", "ml_dtypes")
    suffix = ".pt"

    def write(self, path: str, tensors: Tensors, variant: str = "") -> None:
        import torch

        torch.save({name: torch.from_numpy(array) for name, array in tensors.items()}, path)

    def write_aligned(self, path: str, tensors: Tensors, align: int) -> None:
        from torch.utils.serialization import config

        config.save.storage_alignment = align
        self.write(path, tensors)

    def names(self, path: str) -> list[str]:
        import torch

        return list(torch.load(path))

    def readers(self) -> list[Reader]:
        import torch

        return [
            Reader("torch.load(mmap=True)", lambda path, name: torch.load(path, mmap=True)[name]),
            Reader("torch.load", lambda path, name: torch.load(path)[name]),
        ]

    def loaders(self) -> list[Loader]:
        import torch

        return [
            Loader("torch.load", torch.load),
            Loader("torch.load(mmap=True)", lambda path: torch.load(path, mmap=True)),
            Loader(
                "torch.load(weights_only=False)",
                lambda path: torch.load(path, weights_only=False),
                True,
            ),
        ]

    def code(self, path: str, marker: str) -> str:
        import torch

        torch.save({"t00": torch.zeros(4), "x": Payload(marker)}, path)
        return "`__reduce__`"

    def _zip(self, path: str, change: str, compression: int = zipfile.ZIP_STORED) -> None:
        # Rewrites a good file: `change` is "size" or "data".
        good = path + ".good"
        self.write(good, {"t00": np.zeros(16, np.float32)})
        with zipfile.ZipFile(good) as source, zipfile.ZipFile(path, "w", compression) as target:
            for name in source.namelist():
                data = source.read(name)
                if change == "deep" and name.endswith("data.pkl"):
                    data = deep_pickle(200_000)
                elif change != "deep" and name.endswith("data.pkl"):
                    # BININT1 16, the count of elements of the storage and of the shape, becomes LONG1.
                    count = (1 << 29) if change == "data" else (1 << 40)
                    data = data.replace(b"K\x10", b"\x8a\x06" + count.to_bytes(6, "little"))
                if change == "data" and name.endswith("data/0"):
                    with target.open(name, "w", force_zip64=True) as out:
                        for _ in range(2048):
                            out.write(bytes(1 << 20))
                else:
                    target.writestr(name, data)
        Path(good).unlink()

    def lie(self, path: str) -> str:
        self._zip(path, "size")
        return "a storage of 2^40 elements"

    def bomb(self, path: str) -> str:
        self._zip(path, "data", zipfile.ZIP_DEFLATED)
        return "a deflated storage of 2 GiB of zeros"

    def deep(self, path: str) -> str:
        self._zip(path, "deep")
        return "lists in lists"

    def store(self, path: str, kind: str) -> None:
        import torch

        torch.save({"code": Carried(), "nested": NESTED, "text": TEXT}[kind], path)

    def fetch(self, path: str, kind: str) -> Any:
        import torch

        return torch.load(path, weights_only=kind != "code")

    def round_trip(self, path: str, array: Any) -> Any:
        import torch

        name = str(array.dtype)
        tensor = torch.from_numpy(array.view(np.uint8)).view(getattr(torch, name))
        torch.save({"a": tensor}, path)
        return torch.load(path)["a"]


class Paddle(Row):
    title = "pdparams (Paddle)"
    key = "paddle"
    packages = ("paddlepaddle", "numpy", "ml_dtypes")
    suffix = ".pdparams"

    def write(self, path: str, tensors: Tensors, variant: str = "") -> None:
        import paddle

        paddle.save({name: paddle.to_tensor(array) for name, array in tensors.items()}, path)

    def names(self, path: str) -> list[str]:
        import paddle

        return [name for name in paddle.load(path) if name != "StructuredToParameterName@@"]

    def readers(self) -> list[Reader]:
        import paddle

        def plain(path: str, name: str) -> Any:
            return paddle.load(path, return_numpy=True)[name]

        def tensor(path: str, name: str) -> Any:
            return paddle.load(path)[name].numpy()

        return [
            Reader("paddle.load(return_numpy=True)", plain),
            Reader("paddle.load", tensor),
        ]

    def loaders(self) -> list[Loader]:
        import paddle

        return [
            Loader("paddle.load", lambda path: paddle.load(path, return_numpy=True)),
        ]

    def code(self, path: str, marker: str) -> str:
        save_bytes(path, payload(marker))
        return "`__reduce__`"

    def lie(self, path: str) -> str:
        save_bytes(path, b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b"abc.")
        return "a byte string of 2^40 bytes"

    def bomb(self, path: str) -> str:
        # One byte string of 1 MiB, joined from a list that names it 2,048 times.
        import operator

        class Repeat:
            def __reduce__(self) -> tuple[Any, ...]:
                return (operator.mul, (bytes(1 << 20), 2048))

        save_bytes(path, pickle.dumps(Repeat(), protocol=2))
        return "`operator.mul(bytes, 2048)`"

    def deep(self, path: str) -> str:
        save_bytes(path, deep_pickle(200_000))
        return "lists in lists"

    def store(self, path: str, kind: str) -> None:
        import paddle

        if kind == "code":
            save_bytes(path, pickle.dumps(Carried(), protocol=2))
        else:
            paddle.save(NESTED if kind == "nested" else TEXT, path)

    def fetch(self, path: str, kind: str) -> Any:
        import paddle

        return paddle.load(path)

    def round_trip(self, path: str, array: Any) -> Any:
        import paddle

        name = str(array.dtype)
        try:
            wide = paddle.to_tensor(array.astype(np.float32))
            paddle.save({"a": wide.astype(name)}, path)
        except Exception as error:
            raise NotOffered(f"{type(error).__name__}: {error}"[:160]) from error
        value = paddle.load(path)["a"]
        return Named(str(value.dtype), value.view("uint8").numpy())


class Named:
    """The bytes of a tensor and the name of its dtype, as a framework says it."""

    def __init__(self, dtype: str, raw: Any) -> None:
        self.dtype = dtype
        self.raw = raw

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.raw
