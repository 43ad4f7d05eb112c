"""Formats of arrays: Arrow, npy, npz, GGUF and safetensors."""

from __future__ import annotations

import json
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
    npy_bytes,
    payload,
    save_bytes,
)


class Arrow(Row):
    """The IPC file format. Each tensor is a column of one row, of the type arrow.fixed_shape_tensor."""

    title = "Arrow (IPC file)"
    key = "arrow"
    packages = ("pyarrow", "numpy", "ml_dtypes")
    suffix = ".arrow"

    def write(self, path: str, tensors: Tensors, variant: str = "") -> None:
        import pyarrow as pa

        columns = []
        for array in tensors.values():
            values = pa.array(array.reshape(-1))
            storage = pa.FixedSizeListArray.from_arrays(values, array.size)
            kind = pa.fixed_shape_tensor(values.type, array.shape)
            columns.append(pa.ExtensionArray.from_storage(kind, storage))
        batch = pa.record_batch(columns, names=list(tensors))
        with pa.ipc.new_file(path, batch.schema) as writer:
            writer.write_batch(batch)

    def names(self, path: str) -> list[str]:
        import pyarrow as pa

        return list(pa.ipc.open_file(path).schema.names)

    def readers(self) -> list[Reader]:
        import pyarrow as pa

        def mapped(path: str, name: str) -> Any:
            column = pa.ipc.open_file(pa.memory_map(path)).get_batch(0).column(name)
            return column.to_numpy_ndarray()[0]

        def read(path: str, name: str) -> Any:
            return pa.ipc.open_file(path).get_batch(0).column(name).to_numpy_ndarray()[0]

        return [
            Reader("open_file(memory_map).get_batch(0).column", mapped),
            Reader("open_file(path).get_batch(0).column", read),
        ]

    def loaders(self) -> list[Loader]:
        import pyarrow as pa

        def values(table: Any) -> Any:
            table.validate(full=True)
            columns = [each.combine_chunks() for each in table.columns]
            numbers = [each for each in columns if not hasattr(each, "to_numpy_ndarray")]
            tensors = [
                each.to_numpy_ndarray() for each in columns if hasattr(each, "to_numpy_ndarray")
            ]
            return [each.to_numpy(zero_copy_only=False) for each in numbers] + tensors

        return [
            Loader(
                "ipc.open_file(path).read_all",
                lambda path: values(pa.ipc.open_file(path).read_all()),
            ),
            Loader(
                "... of memory_map",
                lambda path: values(pa.ipc.open_file(pa.memory_map(path)).read_all()),
            ),
        ]

    def code(self, path: str, marker: str) -> str:
        # pyarrow before 14.0.1 unpickled this metadata (CVE-2023-47248).
        import pyarrow as pa

        kind = {
            "ARROW:extension:name": "arrow.py_extension_type",
            "ARROW:extension:metadata": payload(marker),
        }
        schema = pa.schema([pa.field("t00", pa.int32(), metadata=kind)])
        batch = pa.record_batch([pa.array([1, 2], pa.int32())], schema=schema)
        with pa.ipc.new_file(path, schema) as writer:
            writer.write_batch(batch)
        return "a pickled extension type (CVE-2023-47248)"

    def lie(self, path: str) -> str:
        # The count of the record batch becomes 2^40, wherever the metadata have it.
        import pyarrow as pa

        count = 1_234_567
        batch = pa.record_batch(
            [pa.nulls(count, pa.null()), pa.array(np.zeros(count, np.uint8))], names=["n", "a"]
        )
        with pa.ipc.new_file(path, batch.schema) as writer:
            writer.write_batch(batch)
        data = Path(path).read_bytes()
        old = count.to_bytes(8, "little")
        if data.count(old) < 3:
            raise NotOffered("no count was found")
        save_bytes(path, data.replace(old, (1 << 40).to_bytes(8, "little")))
        return f"a record batch of 2^40 rows ({data.count(old)} counts changed)"

    def bomb(self, path: str) -> str:
        import pyarrow as pa

        batch = pa.record_batch([pa.array(np.zeros(1 << 28, np.int64))], names=["t00"])
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(path, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        return "2 GiB of zeros, compressed with zstd"

    def store(self, path: str, kind: str) -> None:
        import pyarrow as pa

        if kind == "code":
            column, schema = pa.array([Carried()]), None
        elif kind == "nested":
            column, schema = pa.array([NESTED]), None
        else:
            column, schema = pa.array([1]), pa.schema([("value", pa.int64())], metadata=TEXT)
        batch = pa.record_batch([column], names=["value"]) if schema is None else None
        batch = batch or pa.record_batch([column], schema=schema)
        with pa.ipc.new_file(path, batch.schema) as writer:
            writer.write_batch(batch)

    def fetch(self, path: str, kind: str) -> Any:
        import pyarrow as pa

        table = pa.ipc.open_file(path).read_all()
        if kind == "text":
            return {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
        return table.column(0)[0].as_py()

    def round_trip(self, path: str, array: Any) -> Any:
        import pyarrow as pa

        self.write(path, {"a": array})
        return pa.ipc.open_file(path).get_batch(0).column("a").to_numpy_ndarray()[0]


class Npz(Row):
    title = "npz"
    key = "npz"
    packages = ("numpy", "ml_dtypes")
    suffix = ".npz"

    def write(self, path: str, tensors: Tensors, variant: str = "") -> None:
        np.savez(path, **tensors)  # type: ignore[arg-type, unused-ignore]

    def names(self, path: str) -> list[str]:
        return list(np.load(path).files)

    def readers(self) -> list[Reader]:
        return [
            Reader(
                'np.load(mmap_mode="r")[name]',
                lambda path, name: np.load(path, mmap_mode="r")[name],
            ),
            Reader("np.load()[name]", lambda path, name: np.load(path)[name]),
        ]

    def loaders(self) -> list[Loader]:
        def load(path: str, **options: Any) -> Any:
            found = np.load(path, **options)
            return dict(found) if hasattr(found, "files") else found

        return [
            Loader("np.load", load),
            Loader("np.load(allow_pickle=True)", lambda path: load(path, allow_pickle=True), True),
        ]

    def _objects(self, value: Any) -> Any:
        array = np.empty(1, object)
        array[0] = value
        return array

    def code(self, path: str, marker: str) -> str:
        self.write(path, {"t00": self._objects(Payload(marker))})
        return "an array of objects"

    def lie(self, path: str) -> str:
        header = npy_bytes("{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,), }")
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("t00.npy", header + b"abc")
        return "a shape of 2^40 bytes"

    def bomb(self, path: str) -> str:
        np.savez_compressed(path, t00=np.zeros(1 << 31, np.uint8))
        return "2 GiB of zeros, deflated"

    def store(self, path: str, kind: str) -> None:
        self.write(
            path, {"a": self._objects({"code": Carried(), "nested": NESTED, "text": TEXT}[kind])}
        )

    def fetch(self, path: str, kind: str) -> Any:
        return np.load(path, allow_pickle=True)["a"][0]

    def round_trip(self, path: str, array: Any) -> Any:
        self.write(path, {"a": array})
        return np.load(path)["a"]


class Npy(Npz):
    """One array per file. The tensors of the experiments are rows of this array."""

    title = "npy"
    key = "npy"
    suffix = ".npy"

    def write(self, path: str, tensors: Tensors, variant: str = "") -> None:
        arrays = list(tensors.values())
        if len({array.shape for array in arrays}) != 1:
            raise NotOffered("a file holds one array")
        np.save(path, arrays[0][None] if len(arrays) == 1 else np.stack(arrays))

    def names(self, path: str) -> list[str]:
        raise NotOffered("a file holds one array")

    def write_aligned(self, path: str, tensors: Tensors, align: int) -> None:
        raise NotOffered("the data begins at a multiple of 64; the caller cannot choose")

    def readers(self) -> list[Reader]:
        return [
            Reader(
                'np.load(mmap_mode="r")',
                lambda path, name: np.load(path, mmap_mode="r")[int(name[1:])],
            ),
            Reader("np.load", lambda path, name: np.load(path)[int(name[1:])]),
        ]

    def code(self, path: str, marker: str) -> str:
        np.save(path, self._objects(Payload(marker)), allow_pickle=True)
        return "an array of objects"

    def lie(self, path: str) -> str:
        header = npy_bytes("{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,), }")
        save_bytes(path, header + b"abc")
        return "a shape of 2^40 bytes"

    def bomb(self, path: str) -> str:
        raise NotOffered("no compression and no sharing")

    def store(self, path: str, kind: str) -> None:
        value = {"code": Carried(), "nested": NESTED, "text": TEXT}[kind]
        np.save(path, self._objects(value), allow_pickle=True)

    def fetch(self, path: str, kind: str) -> Any:
        return np.load(path, allow_pickle=True)[0]

    def round_trip(self, path: str, array: Any) -> Any:
        np.save(path, array)
        return np.load(path)


class Gguf(Row):
    title = "GGUF"
    key = "gguf"
    packages = ("gguf", "numpy", "ml_dtypes")
    suffix = ".gguf"

    def write(self, path: str, tensors: Tensors, variant: str = "", align: int = 0) -> None:
        import gguf

        writer = gguf.GGUFWriter(path, "llama")
        if align:
            writer.add_custom_alignment(align)
        for name, array in tensors.items():
            writer.add_tensor(name, array)
        self._finish(writer)

    def write_aligned(self, path: str, tensors: Tensors, align: int) -> None:
        self.write(path, tensors, align=align)

    def _finish(self, writer: Any) -> None:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def names(self, path: str) -> list[str]:
        import gguf

        return [each.name for each in gguf.GGUFReader(path).tensors]

    def readers(self) -> list[Reader]:
        import gguf

        def one(path: str, name: str) -> Any:
            return next(each.data for each in gguf.GGUFReader(path).tensors if each.name == name)

        return [Reader("GGUFReader(path).tensors[i].data", one)]

    def loaders(self) -> list[Loader]:
        import gguf

        return [
            Loader("GGUFReader", lambda path: [each.data for each in gguf.GGUFReader(path).tensors])
        ]

    def code(self, path: str, marker: str) -> str:
        self.write(path, {"t00": np.frombuffer(payload(marker), np.int8)})
        return "a pickle as data"

    def lie(self, path: str) -> str:
        self.write(path, {"t00": np.zeros(123457, np.int8)})
        data = Path(path).read_bytes()
        old = (123457).to_bytes(8, "little")
        assert data.count(old) == 1
        save_bytes(path, data.replace(old, (1 << 40).to_bytes(8, "little")))
        return "a tensor of 2^40 bytes"

    def bomb(self, path: str) -> str:
        # Array of arrays: each is empty, and 12 bytes long in the file.
        inner = (9).to_bytes(4, "little") + (0).to_bytes(8, "little")
        count = 300_000
        head = (
            b"GGUF"
            + (3).to_bytes(4, "little")
            + (0).to_bytes(8, "little")
            + (1).to_bytes(8, "little")
        )
        key = (1).to_bytes(8, "little") + b"k" + (9).to_bytes(4, "little")
        save_bytes(
            path,
            head + key + (9).to_bytes(4, "little") + count.to_bytes(8, "little") + inner * count,
        )
        return "a metadata array of 300,000 empty arrays"

    def deep(self, path: str) -> str:
        head = (
            b"GGUF"
            + (3).to_bytes(4, "little")
            + (0).to_bytes(8, "little")
            + (1).to_bytes(8, "little")
        )
        key = (1).to_bytes(8, "little") + b"k" + (9).to_bytes(4, "little")
        level = (9).to_bytes(4, "little") + (1).to_bytes(8, "little")
        save_bytes(path, head + key + level * 200_000)
        return "metadata arrays in arrays"

    def store(self, path: str, kind: str) -> None:
        import gguf

        writer = gguf.GGUFWriter(path, "llama")
        if kind == "code":
            raise NotOffered("values have the types of GGUF")
        if kind == "nested":
            writer.add_key_value("value", NESTED, gguf.GGUFValueType.ARRAY)
        else:
            writer.add_string("license", TEXT["license"])
        writer.add_tensor("a", np.zeros(4, np.float32))
        self._finish(writer)

    def fetch(self, path: str, kind: str) -> Any:
        import gguf

        return {"license": gguf.GGUFReader(path).fields["license"].contents()}

    def round_trip(self, path: str, array: Any) -> Any:
        import gguf

        writer = gguf.GGUFWriter(path, "llama")
        kind = getattr(
            gguf.GGMLQuantizationType, {"bfloat16": "BF16"}.get(str(array.dtype), "F8_E4M3"), None
        )
        if kind is None:
            raise NotOffered(f"GGMLQuantizationType has no type for {array.dtype}")
        writer.add_tensor("a", array.view(np.uint8), raw_dtype=kind)
        self._finish(writer)
        found = gguf.GGUFReader(path).tensors[0]
        return Typed(found.tensor_type.name, found.data)


class Typed:
    """What GGUFReader gives: bytes, and the type of GGUF beside them."""

    def __init__(self, name: str, data: Any) -> None:
        self.dtype = {"BF16": "bfloat16"}.get(name, name) + " as a tag, data as " + str(data.dtype)
        self.data = data

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.data


class Safetensors(Row):
    """The package of this repository."""

    title = "safetensors (ours)"
    key = "safetensors"
    packages = ("safetensors", "numpy", "ml_dtypes")
    suffix = ".safetensors"
    aligned_by = "Writer(data_alignment=...), which aligns the first tensor"

    def write(self, path: str, tensors: Tensors, variant: str = "") -> None:
        from safetensors.numpy import save_file

        save_file(tensors, path, durability="none")

    def write_ordered(self, path: str, tensors: Tensors) -> None:
        self.write_aligned(path, tensors, 8)

    def write_aligned(self, path: str, tensors: Tensors, align: int) -> None:
        from safetensors import Writer

        options = {"order": "given", "data_alignment": align}
        with Writer(path, tensors, durability="none", **options) as writer:
            for name, array in tensors.items():
                writer.write(name, array)

    def names(self, path: str) -> list[str]:
        from safetensors import safe_open

        with safe_open(path, "np") as file:
            return list(file.offset_keys())

    def readers(self) -> list[Reader]:
        import safetensors
        from safetensors.numpy import load_file

        def one(path: str, name: str) -> Any:
            with safetensors.safe_open(path, "np") as file:
                return file.get_tensor(name)

        return [
            Reader("numpy.load_file", lambda path, name: load_file(path)[name]),
            Reader("safe_open(...).get_tensor", one),
            Reader(
                "load(path, keys=[name])",
                lambda path, name: safetensors.load(path, keys=[name])[name],
            ),
        ]

    def loaders(self) -> list[Loader]:
        import safetensors
        from safetensors.numpy import load_file

        return [
            Loader("numpy.load_file", load_file),
            Loader("load(path)", lambda path: safetensors.load(path)),
        ]

    def code(self, path: str, marker: str) -> str:
        from safetensors.numpy import save_file

        save_file(
            {"__reduce__": np.frombuffer(payload(marker), np.uint8)},
            path,
            {"t": str(pickle.dumps(1))},
        )
        return "a pickle as data"

    def _file(self, path: str, header: str | bytes, data: bytes = b"") -> None:
        text = header.encode() if isinstance(header, str) else header
        save_bytes(path, len(text).to_bytes(8, "little") + text + data)

    def lie(self, path: str) -> str:
        self._file(
            path,
            json.dumps({"a": {"dtype": "U8", "shape": [1 << 40], "data_offsets": [0, 1 << 40]}}),
            b"abc",
        )
        return "a tensor of 2^40 bytes"

    def bomb(self, path: str) -> str:
        one = '"%05x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
        self._file(path, "{" + ",".join(one % index for index in range(64_000)) + "}")
        return "64,000 empty tensors"

    def deep(self, path: str) -> str:
        self._file(path, b'{"a":' * 200_000 + b"1" + b"}" * 200_000)
        return "objects in objects"

    def store(self, path: str, kind: str) -> None:
        from safetensors.numpy import save_file

        value: Any = {"code": {"code": Carried()}, "nested": NESTED, "text": TEXT}[kind]
        save_file({"a": np.zeros(4)}, path, value)

    def fetch(self, path: str, kind: str) -> Any:
        from safetensors import safe_open

        with safe_open(path, "np") as file:
            return file.metadata()

    def round_trip(self, path: str, array: Any) -> Any:
        from safetensors.numpy import load_file

        self.write(path, {"a": array})
        return load_file(path)["a"]
