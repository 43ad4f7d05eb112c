"""Formats of messages: MsgPack as flax uses it, Protobuf as ONNX uses it, Cap'n Proto with a schema of ours."""

from __future__ import annotations

import math
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from .row import (
    NESTED,
    TEXT,
    Carried,
    Loader,
    NotOffered,
    Reader,
    Row,
    Tensors,
    payload,
    save_bytes,
)

DEEP = 200_000


def varint(value: int) -> bytes:
    """Return an integer as Protobuf writes it."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


class Flax(Row):
    title = "MsgPack (flax)"
    key = "flax"
    packages = ("flax", "msgpack", "jax", "numpy", "ml_dtypes")
    suffix = ".msgpack"

    def write(self, path: str, tensors: Tensors, variant: str = "") -> None:
        from flax import serialization

        save_bytes(path, serialization.msgpack_serialize(dict(tensors)))

    def _load(self, path: str) -> Any:
        from flax import serialization

        return serialization.msgpack_restore(Path(path).read_bytes())

    def names(self, path: str) -> list[str]:
        return list(self._load(path))

    def readers(self) -> list[Reader]:
        return [
            Reader("flax.serialization.msgpack_restore", lambda path, name: self._load(path)[name])
        ]

    def loaders(self) -> list[Loader]:
        return [Loader("flax.serialization.msgpack_restore", self._load)]

    def code(self, path: str, marker: str) -> str:
        from flax import serialization

        array = np.frombuffer(payload(marker), np.uint8)
        save_bytes(path, serialization.msgpack_serialize({"t00": array, "x": payload(marker)}))
        return "a pickle as data and as a byte string"

    def _array(self, shape: list[int], data: bytes) -> bytes:
        import msgpack

        inner = msgpack.packb((shape, "uint8", data), use_bin_type=True)
        packed: bytes = msgpack.packb({"t00": msgpack.ExtType(1, inner)})
        return packed

    def lie(self, path: str) -> str:
        save_bytes(path, self._array([1 << 40], b"abc"))
        return "an array of 2^40 bytes"

    def bomb(self, path: str) -> str:
        # array32 of empty maps, one byte each.
        count = 3_600_000
        save_bytes(path, b"\x81\xa1a\xdd" + count.to_bytes(4, "big") + b"\x80" * count)
        return "an array of 3.6 million empty maps"

    def deep(self, path: str) -> str:
        save_bytes(path, b"\x91" * DEEP + b"\xc0")
        return "arrays in arrays"

    def store(self, path: str, kind: str) -> None:
        from flax import serialization

        value = {"code": Carried(), "nested": NESTED, "text": TEXT}[kind]
        save_bytes(path, serialization.msgpack_serialize(value))

    def fetch(self, path: str, kind: str) -> Any:
        return self._load(path)

    def round_trip(self, path: str, array: Any) -> Any:
        import jax.numpy as jnp

        self.write(path, {"a": jnp.asarray(array)})
        return self._load(path)["a"]


class Onnx(Row):
    """Protobuf. Variant "external" keeps the tensors in a second file of raw bytes."""

    title = "Protobuf (ONNX)"
    key = "onnx"
    packages = ("onnx", "protobuf", "numpy", "ml_dtypes")
    suffix = ".onnx"
    code_is = "graphs of operators"

    def _model(self, tensors: Tensors) -> Any:
        from onnx import helper, numpy_helper

        initializers = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
        return helper.make_model(helper.make_graph([], "weights", [], [], initializers))

    def write(self, path: str, tensors: Tensors, variant: str = "") -> None:
        import onnx

        if not variant:
            onnx.save(self._model(tensors), path)
            return
        from onnx.model_container import make_large_model, make_large_tensor_proto

        # onnx.save(save_as_external_data=True) first makes one message, of 2 GiB at most.
        large = {f"#{name}": array for name, array in tensors.items()}
        numbers = {
            name: onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            for name, array in tensors.items()
        }
        initializers = [
            make_large_tensor_proto(f"#{name}", name, numbers[name], array.shape)
            for name, array in tensors.items()
        ]
        graph = onnx.helper.make_graph([], "weights", [], [], initializers)
        os.makedirs(path, exist_ok=True)
        container = make_large_model(graph, large)
        container.save(os.path.join(path, "model.onnx"), all_tensors_to_one_file=True)

    def names(self, path: str) -> list[str]:
        import onnx

        return [each.name for each in onnx.load(path).graph.initializer]

    def _external(self, path: str, name: str) -> Any:
        import onnx
        from onnx import numpy_helper

        model = onnx.load(os.path.join(path, "model.onnx"), load_external_data=False)
        found = next(each for each in model.graph.initializer if each.name == name)
        return numpy_helper.to_array(found, base_dir=path)

    def readers(self) -> list[Reader]:
        import onnx
        from onnx import numpy_helper

        def inline(path: str, name: str) -> Any:
            for each in onnx.load(path).graph.initializer:
                if each.name == name:
                    return numpy_helper.to_array(each)
            raise KeyError(name)

        label = "numpy_helper.to_array of external data"
        return [
            Reader("onnx.load", inline),
            Reader(label, self._external, "external", "in a second file"),
        ]

    def loaders(self) -> list[Loader]:
        import onnx
        from onnx import numpy_helper

        def load(path: str) -> Any:
            model = onnx.load(path)
            return [numpy_helper.to_array(each) for each in model.graph.initializer]

        return [Loader("onnx.load", load)]

    def code(self, path: str, marker: str) -> str:
        self.write(path, {"t00": np.frombuffer(payload(marker), np.uint8)})
        return "a pickle as data"

    def lie(self, path: str) -> str:
        import onnx

        model = self._model({"t00": np.zeros(16, np.uint8)})
        model.graph.initializer[0].dims[0] = 1 << 40
        onnx.save(model, path)
        return "an initializer of 2^40 bytes"

    def bomb(self, path: str) -> str:
        # A graph (field 7 of the model) of empty nodes (field 1), two bytes each.
        count = 1_800_000
        save_bytes(path, b"\x08\x08\x3a" + varint(2 * count) + b"\x0a\x00" * count)
        return "a graph of 1.8 million empty nodes"

    def deep(self, path: str) -> str:
        # From the inside: an attribute holds a graph (field 6), a node an attribute (5), a graph a node (1).
        parts: list[bytes] = []
        size = 0
        for level in range(60_000):
            parts.append((b"\x32", b"\x2a", b"\x0a")[level % 3] + varint(size))
            size += len(parts[-1])
        save_bytes(path, b"\x08\x08\x3a" + varint(size) + b"".join(reversed(parts)))
        return "graphs in attributes of nodes, 60,000 messages"

    def outside(self, path: str, secret: str) -> str:
        import onnx

        model = self._model({"t00": np.zeros(os.path.getsize(secret), np.uint8)})
        found = model.graph.initializer[0]
        found.ClearField("raw_data")
        found.data_location = onnx.TensorProto.EXTERNAL
        entry = found.external_data.add()
        entry.key, entry.value = "location", os.path.relpath(secret, os.path.dirname(path))
        onnx.save(model, path)
        return "external data in `../`"

    def store(self, path: str, kind: str) -> None:
        import onnx
        from onnx import helper, numpy_helper

        if kind == "nested":
            raise NotOffered("metadata_props holds strings only")
        model = self._model({})
        if kind == "text":
            helper.set_model_props(model, TEXT)
        else:
            value = helper.make_tensor_value_info
            constants = [numpy_helper.from_array(np.float32(each), f"c{each}") for each in (3, 1)]
            nodes = [
                helper.make_node("Mul", ["x", "c3"], ["p"]),
                helper.make_node("Add", ["p", "c1"], ["y"]),
            ]
            ends = [[value(name, onnx.TensorProto.FLOAT, ["n"])] for name in "xy"]
            model = helper.make_model(helper.make_graph(nodes, "code", ends[0], ends[1], constants))
        onnx.save(model, path)

    def fetch(self, path: str, kind: str) -> Any:
        import onnx

        model = onnx.load(path)
        if kind == "text":
            return {each.key: each.value for each in model.metadata_props}
        from onnx.reference import ReferenceEvaluator

        session = ReferenceEvaluator(model)
        return lambda x: session.run(None, {"x": x})[0]

    def round_trip(self, path: str, array: Any) -> Any:
        import onnx
        from onnx import numpy_helper

        self.write(path, {"a": array})
        return numpy_helper.to_array(onnx.load(path).graph.initializer[0])


SCHEMA = """@0xbf5147cbbecf40c1;
struct Tensor { name @0 :Text; dtype @1 :Text; shape @2 :List(UInt64); data @3 :Data; }
struct Model { tensors @0 :List(Tensor); metadata @1 :List(Pair); nested @2 :AnyPointer; }
struct Pair { key @0 :Text; value @1 :Text; }
"""
NO_LIMIT = (1 << 61) - 1


class Capnp(Row):
    """Cap'n Proto has no schema for tensors. This schema has names, dtypes, shapes and bytes."""

    title = "Cap'n Proto"
    key = "capnp"
    packages = ("pycapnp", "numpy", "ml_dtypes")
    suffix = ".capnp"

    def __init__(self) -> None:
        self.held: list[Any] = []

    def _schema(self, text: str = SCHEMA, name: str = "tensors.capnp") -> Any:
        import capnp

        target = Path(os.environ["TRIAL_DIRECTORY"], name)
        target.write_text(text)
        return capnp.load(str(target))

    def write(self, path: str, tensors: Tensors, variant: str = "") -> None:
        model = self._schema().Model.new_message()
        listed = model.init("tensors", len(tensors))
        for (name, array), entry in zip(tensors.items(), listed, strict=True):
            entry.name, entry.dtype = name, str(array.dtype)
            entry.shape = list(array.shape)
            entry.data = array.tobytes()
        with open(path, "wb") as file:
            model.write(file)

    def names(self, path: str) -> list[str]:
        with open(path, "rb") as file:
            return [each.name for each in self._schema().Model.read(file, NO_LIMIT).tensors]

    @staticmethod
    def _array(entry: Any) -> Any:
        array = np.frombuffer(entry.get_data_as_view("data"), entry.dtype)
        if array.size != math.prod(entry.shape):
            raise ValueError(f"{array.size} elements, the shape says {list(entry.shape)}")
        return array.reshape(list(entry.shape))

    def readers(self) -> list[Reader]:
        schema = self._schema()

        def one(model: Any, name: str) -> Any:
            self.held.append(model)  # a view of its data does not keep it
            return self._array(next(each for each in model.tensors if each.name == name))

        def mapped(path: str, name: str) -> Any:
            with open(path, "rb") as file:
                view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            opened = schema.Model.from_bytes(view, traversal_limit_in_words=NO_LIMIT)
            self.held += [opened, view]
            return one(opened.__enter__(), name)

        def read(path: str, name: str) -> Any:
            with open(path, "rb") as file:
                return one(schema.Model.read(file, traversal_limit_in_words=NO_LIMIT), name)

        return [Reader("from_bytes(mmap)", mapped), Reader("Model.read(file)", read)]

    def loaders(self) -> list[Loader]:
        schema = self._schema()

        def load(path: str, **options: Any) -> Any:
            with open(path, "rb") as file:
                model = schema.Model.read(file, **options)
                return [self._array(each).copy() for each in model.tensors]

        def plain(path: str) -> Any:
            with open(path, "rb") as file:
                return [
                    np.frombuffer(each.data, each.dtype) for each in schema.Model.read(file).tensors
                ]

        unlimited = {"traversal_limit_in_words": NO_LIMIT}
        return [
            Loader("Model.read(file), data as bytes", plain),
            Loader("Model.read(file), data as views", load),
            Loader(
                "Model.read(traversal_limit_in_words=2^61)",
                lambda path: load(path, **unlimited),
                True,
            ),
        ]

    def code(self, path: str, marker: str) -> str:
        self.write(path, {"t00": np.frombuffer(payload(marker), np.uint8)})
        return "a pickle as data"

    def lie(self, path: str) -> str:
        # A frame of one segment, whose table says 2^32 - 1 words.
        save_bytes(path, (0).to_bytes(4, "little") + b"\xff\xff\xff\xff" + bytes(64))
        return "a segment of 32 GiB"

    def bomb(self, path: str) -> str:
        # 2,048 tensors whose pointers all lead to the same 1 MiB.
        count, size = 2048, 1 << 20

        def pointer(at: int, target: int, low: int, high: int) -> int:
            return (target - at - 1) % (1 << 30) << 2 | low | high << 32

        root = [0, 0, 0, 0]  # the root pointer, and a struct of three pointers
        start = len(root)  # the tag of the list
        body = start + 1
        end = body + count * 4
        root[0] = pointer(0, 1, 0, 3 << 16)
        root[1] = pointer(1, start, 1, 7 | (count * 4) << 3)
        words = [*root, count << 2 | 4 << 48]
        texts = {0: (end, 2, 4), 1: (end + 1, 2, 6), 2: (end + 2, 5, 1), 3: (end + 3, 2, size)}
        for index in range(count):
            for field, (target, kind, length) in texts.items():
                at = body + index * 4 + field
                words.append(pointer(at, target, 1, kind | length << 3))
        tail = [int.from_bytes(b"t00", "little"), int.from_bytes(b"uint8", "little"), size]
        data = b"".join(word.to_bytes(8, "little") for word in words + tail) + b"\1" * size
        save_bytes(path, (0).to_bytes(4, "little") + (len(data) // 8).to_bytes(4, "little") + data)
        return "2,048 pointers to the same 1 MiB"

    def store(self, path: str, kind: str) -> None:
        if kind == "nested":
            raise NotOffered("values have the types of the schema")
        if kind == "code":
            raise NotOffered("the schema language has no functions")
        model = self._schema().Model.new_message()
        entry = model.init("metadata", 1)[0]
        entry.key, entry.value = next(iter(TEXT.items()))
        with open(path, "wb") as file:
            model.write(file)

    def fetch(self, path: str, kind: str) -> Any:
        with open(path, "rb") as file:
            return {each.key: each.value for each in self._schema().Model.read(file).metadata}

    def round_trip(self, path: str, array: Any) -> Any:
        kind = {"bfloat16": "BFloat16", "float8_e4m3fn": "Float8"}[str(array.dtype)]
        text = f"@0xbf5147cbbecf40c2;\nstruct Values {{ values @0 :List({kind}); }}\n"
        schema = self._schema(text, f"{kind}.capnp")
        message = schema.Values.new_message(values=array.tolist())
        with open(path, "wb") as file:
            message.write(file)
        with open(path, "rb") as file:
            return schema.Values.read(file).values
