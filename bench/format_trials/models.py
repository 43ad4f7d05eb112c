"""Formats of whole models: HDF5 as Keras writes it, and SavedModel of TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from .row import CODE, NESTED, Loader, NotOffered, Reader, Row, Tensors


class KerasHdf5(Row):
    """HDF5. Keras writes; h5py, which Keras itself uses, reads single tensors."""

    title = "HDF5 (Keras)"
    key = "keras"
    packages = ("keras", "h5py", "numpy", "ml_dtypes")
    suffix = ".weights.h5"
    aligned_by = "h5py.File(alignment_interval=4096); save_weights of Keras takes no alignment"

    def _bag(self, tensors: Tensors) -> Any:
        import keras

        class Bag(keras.layers.Layer):  # type: ignore[misc, name-defined, unused-ignore]
            def __init__(self) -> None:
                super().__init__(name="bag")
                self.held = []
                for name, array in tensors.items():
                    kind = str(array.dtype)
                    weight = self.add_weight(
                        shape=array.shape, dtype=kind, initializer="zeros", name=name
                    )
                    # torch takes no arrays of ml_dtypes: Keras casts. The values are exact in float32.
                    value = array if kind == "float32" else array.astype(np.float32)
                    weight.assign(keras.ops.cast(value, kind))
                    self.held.append(weight)
                self.built = True

            def call(self, value: Any) -> Any:
                return value

        model = keras.Sequential([Bag()])
        model.built = True
        return model

    def write(self, path: str, tensors: Tensors, variant: str = "") -> None:
        self._bag(tensors).save_weights(path)

    def write_aligned(self, path: str, tensors: Tensors, align: int) -> None:
        import h5py

        options = {"alignment_threshold": 1, "alignment_interval": align, "track_order": True}
        with h5py.File(path, "w", **options) as file:
            for name, array in tensors.items():
                file.create_dataset(name, data=array)

    def _datasets(self, file: Any) -> list[Any]:
        found: list[Any] = []
        file.visititems(lambda _, node: found.append(node) if hasattr(node, "chunks") else None)
        return found

    def names(self, path: str) -> list[str]:
        raise NotOffered("Keras numbers the weights and keeps no names")

    def readers(self) -> list[Reader]:
        def one(path: str, name: str) -> Any:
            import h5py

            with h5py.File(path, "r") as file:
                if name in file:
                    return file[name][()]
                index = "zam".index(name) if name in "zam" else int(name[1:])
                return sorted(
                    self._datasets(file), key=lambda node: int(node.name.rpartition("/")[2])
                )[index][()]

        return [Reader("h5py dataset[()]", one)]

    def loaders(self) -> list[Loader]:
        import keras

        def datasets(path: str) -> Any:
            import h5py

            with h5py.File(path, "r") as file:
                return [node[()] for node in self._datasets(file)]

        def model(path: str, **options: Any) -> Any:
            import h5py

            with h5py.File(path, "r") as file:
                whole = "model_config" in file.attrs
            if whole:
                # Keras takes the kind of file from the name.
                target = path + ".h5"
                if not os.path.exists(target):
                    os.symlink(path, target)
                return keras.models.load_model(target, **options).get_weights()
            # The caller's model: four weights, as in the files that this class replaces a weight of.
            held = self._bag({f"t{index:02}": np.zeros(1 << 18, np.float32) for index in range(4)})
            held.load_weights(path)
            return held.get_weights()

        return [
            Loader("Keras", model),
            Loader("h5py", datasets),
            Loader(
                "keras.models.load_model(safe_mode=False)",
                lambda path: model(path, safe_mode=False),
                True,
            ),
        ]

    def code(self, path: str, marker: str) -> str:
        import keras

        body = f"lambda x: (open({marker!r}, 'w').close(), x)[1]"
        model = keras.Sequential(
            [keras.Input((4,)), keras.layers.Lambda(eval(body)), keras.layers.Dense(2)]
        )
        target = path.replace(".weights.h5", ".h5")
        model.save(target)
        os.replace(target, path)
        return "a Lambda layer"

    def _replace(self, path: str, **options: Any) -> None:
        # Writes a file of four weights, and replaces the dataset of the first.
        import h5py

        self.write(path, {f"t{index:02}": np.ones(1 << 18, np.float32) for index in range(4)})
        with h5py.File(path, "r+") as file:
            name = min(node.name for node in self._datasets(file))
            del file[name]
            file.create_dataset(name, **options)

    def lie(self, path: str) -> str:
        self._replace(path, shape=(1 << 40,), dtype="u1", chunks=(1 << 20,))
        return "a dataset of 2^40 bytes without chunks"

    def bomb(self, path: str) -> str:
        self._replace(path, shape=(1 << 31,), dtype="u1", chunks=(1 << 20,), fillvalue=1)
        return "a dataset of 2 GiB that is only a fill value"

    def outside(self, path: str, secret: str) -> str:
        size = Path(secret).stat().st_size
        self._replace(path, shape=(size // 4,), dtype="f4", external=[(secret, 0, size)])
        return "a dataset in an external file"

    def store(self, path: str, kind: str) -> None:
        import keras

        if kind == "code":
            inner = keras.Sequential([keras.Input((1,)), keras.layers.Lambda(eval(CODE))])
            inner.save(path + ".h5")
            return
        import h5py

        with h5py.File(path, "w") as file:
            if kind == "nested":
                file.attrs["value"] = NESTED
            else:
                file.attrs["license"] = "apache-2.0"

    def fetch(self, path: str, kind: str) -> Any:
        import keras

        if kind == "code":
            model = keras.models.load_model(path + ".h5", safe_mode=False)
            return lambda x: np.asarray(model(x.reshape(1, 1)).detach())
        import h5py

        with h5py.File(path, "r") as file:
            return dict(file.attrs)

    def round_trip(self, path: str, array: Any) -> Any:
        import keras

        self._bag({"a": array}).save_weights(path)
        target = self._bag({"a": np.zeros_like(array)})
        target.load_weights(path)
        value = target.layers[0].held[0].value
        if keras.backend.backend() != "torch":
            return value
        return value.detach().cpu()


class SavedModel(Row):
    """A folder: a graph in Protobuf, and the variables in a tensor bundle."""

    title = "SavedModel"
    key = "tensorflow"
    packages = ("tensorflow-cpu", "numpy", "ml_dtypes")
    code_is = "graphs of operators"

    def write(self, path: str, tensors: Tensors, variant: str = "") -> None:
        import tensorflow as tf

        module = tf.Module()
        for name, array in tensors.items():
            setattr(module, name, tf.Variable(array))
        tf.saved_model.save(module, path)

    def names(self, path: str) -> list[str]:
        import tensorflow as tf

        listed = tf.train.list_variables(path + "/variables/variables")
        return [name.partition("/")[0] for name, _ in listed if "VARIABLE_VALUE" in name]

    def readers(self) -> list[Reader]:
        import tensorflow as tf

        def bundle(path: str, name: str) -> Any:
            reader = tf.train.load_checkpoint(path + "/variables/variables")
            return reader.get_tensor(name + "/.ATTRIBUTES/VARIABLE_VALUE")

        return [
            Reader("tf.train.load_checkpoint(...).get_tensor", bundle),
            Reader(
                "tf.saved_model.load",
                lambda path, name: getattr(tf.saved_model.load(path), name).numpy(),
            ),
        ]

    def loaders(self) -> list[Loader]:
        import tensorflow as tf

        def load(path: str) -> Any:
            return [
                each.numpy()
                for each in vars(tf.saved_model.load(path)).values()
                if hasattr(each, "numpy")
            ]

        def bundle(path: str) -> Any:
            reader = tf.train.load_checkpoint(path + "/variables/variables")
            names = reader.get_variable_to_shape_map()
            return [reader.get_tensor(name) for name in names if "VARIABLE_VALUE" in name]

        return [Loader("tf.saved_model.load", load), Loader("tf.train.load_checkpoint", bundle)]

    def _with_initializer(self, path: str, initialize: Any) -> None:
        # The loader calls _initialize() of a resource, whether or not the caller uses the model.
        import tensorflow as tf

        class Resource(tf.saved_model.experimental.TrackableResource):  # type: ignore[misc, name-defined, unused-ignore]
            def _create_resource(self) -> Any:
                return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[])

            def _initialize(self) -> None:
                initialize(self.resource_handle)

            @property
            def resource_handle(self) -> Any:
                if getattr(self, "handle", None) is None:
                    self.handle = self._create_resource()
                return self.handle

        module = tf.Module()
        module.t00 = tf.Variable(np.zeros(4, np.float32))
        module.resource = Resource()
        module.use = tf.function(
            lambda: tf.raw_ops.VarIsInitializedOp(resource=module.resource.resource_handle),
            input_signature=[],
        )
        tf.saved_model.save(module, path)

    def code(self, path: str, marker: str) -> str:
        import tensorflow as tf

        self._with_initializer(path, lambda _: tf.io.write_file(marker, "") and None)
        return "an initializer with `tf.io.write_file`"

    def lie(self, path: str) -> str:
        self.write(path, {"t00": np.zeros(16, np.float32)})
        index = Path(path, "variables", "variables.index")
        data = bytearray(index.read_bytes())
        # TensorShapeProto of one dimension of 16, in the bundle's entry: 12 04 12 02 08 10. The checksum is of the block.
        where = data.find(b"\x12\x02\x08\x10")
        if where < 0:
            raise NotOffered("no shape was found in the index")
        data[where + 3] = 0x7F
        index.write_bytes(bytes(data))
        return "another shape in the index"

    def bomb(self, path: str) -> str:
        import tensorflow as tf

        def fill(handle: Any) -> None:
            big = tf.fill([1 << 29], 1.0)
            tf.raw_ops.AssignVariableOp(resource=handle, value=tf.reduce_sum(big * 2.0))

        self._with_initializer(path, fill)
        return "an initializer with `tf.fill` of 2 GiB"

    def outside(self, path: str, secret: str) -> str:
        import tensorflow as tf

        module = tf.Module()
        module.secret = tf.saved_model.Asset(secret)
        raise NotOffered(f"assets are copied into the folder ({type(module.secret).__name__})")

    def store(self, path: str, kind: str) -> None:
        import tensorflow as tf

        module = tf.Module()
        if kind == "code":
            signature = [tf.TensorSpec([None], tf.float32)]
            module.call = tf.function(eval(CODE), input_signature=signature)
        else:
            module.value = NESTED if kind == "nested" else {"license": "apache-2.0"}
        tf.saved_model.save(module, path)

    def fetch(self, path: str, kind: str) -> Any:
        import tensorflow as tf

        loaded = tf.saved_model.load(path)
        if kind == "code":
            return lambda x: loaded.call(x).numpy()
        return loaded.value

    def round_trip(self, path: str, array: Any) -> Any:
        import tensorflow as tf

        module = tf.Module()
        module.a = tf.Variable(tf.constant(array))
        tf.saved_model.save(module, path)
        return tf.saved_model.load(path).a.numpy()
