"""What each peer does, by its own documented calls. A peer is imported when it is first called."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import files
from .modules import module_of

Function = Callable[..., Any]
Tensors = dict[str, Any]
Way = tuple[str, dict[str, Any]]  # the name of a method, and arguments besides those of the work


class Missing(Exception):
    """This version of the peer does not do that."""


def does(op: str, variant: str = "", **how: Any) -> Callable[[Function], Function]:
    """Declare that a method does a piece of work, in which of several ways, and with which arguments of that way."""

    def mark(function: Function) -> Function:
        marks = [(op, variant, how), *getattr(function, "marks", [])]  # the decorator above is applied last
        function.marks = marks  # type: ignore[attr-defined]
        return function

    return mark


def part(length: int, rank: int, world: int) -> slice:
    """Return the rank's part of a dimension."""
    return slice(length * rank // world, length * (rank + 1) // world)


def box(shape: Any, dim: int, rank: int, world: int) -> tuple[slice, ...]:
    """Return the index of the rank's part of a tensor."""
    return (slice(None),) * dim + (part(shape[dim], rank, world),)


def layers(names: Any, rank: int, world: int) -> list[str]:
    """Return the names of the rank's tensors, a run of layers."""
    ordered = sorted(names, key=lambda name: int(name.split(".")[2]))
    return ordered[part(len(ordered), rank, world)]


def own_ways(kind: type, op: str) -> dict[str, Way]:
    """Return the ways in which the methods of this class itself do `op`."""
    return {
        variant: (name, how)
        for name, member in vars(kind).items()
        for marked, variant, how in getattr(member, "marks", [])
        if marked == op
    }


class Adapter:
    """One peer. Methods marked with `does` take the paths of a set in the peer's form, then the work's arguments."""

    form = "safetensors"
    package = "safetensors"
    framework = "torch"  # of what save is given

    @classmethod
    def contenders(cls, op: str) -> dict[str, Way]:
        """Return the ways in which this peer does `op` by variant, in order of declaration."""
        found: dict[str, Way] = {}
        for kind in reversed(cls.__mro__):
            found.update(own_ways(kind, op))
        return found

    def version(self) -> str:
        return importlib.metadata.version(self.package)

    def source(self, paths: list[str], variant: str) -> Tensors:
        """Return the tensors that save is given, on a private map of the files."""
        tensors: Tensors = {}
        for path in paths:
            tensors.update(files.arrays(path))
        for array in tensors.values():
            array.reshape(-1)[::2048].sum()  # its pages are mapped now
        if "numpy" in (variant, self.framework):
            return tensors
        import torch

        return {name: torch.from_numpy(array) for name, array in tensors.items()}


def synced(path: str) -> None:
    """Make a file durable, as programs do whose library does not."""
    for place in (path, str(Path(path).parent)):
        descriptor = os.open(place, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


class Reference(Adapter):
    """The package of the format's authors."""

    @does("load", "pread", backend="pread")
    @does("view", "mmap", backend="mmap")
    def load(self, paths: list[str], backend: str) -> Tensors:
        from safetensors.torch import load_file

        tensors: Tensors = {}
        for path in paths:
            tensors.update(load_file(path, backend=backend))
        return tensors

    @does("view_numpy")
    def view_numpy(self, paths: list[str]) -> Tensors:
        from safetensors.numpy import load_file

        return dict(load_file(paths[0]))

    def _parameters(self, paths: list[str]) -> Any:
        # A module whose parameters are in memory already. It is made when it is first asked for, and kept.
        if self._kept != paths:
            self._kept, self._module = paths, module_of(paths, "cpu")
        return self._module

    _kept: list[str] | None = None
    _module: Any = None

    @does("into_new", "load_file pread, load_state_dict(assign)", backend="pread")
    @does("into_new", "load_file mmap, load_state_dict(assign)", backend="mmap")
    def assigned(self, paths: list[str], backend: str) -> Tensors:
        module = module_of(paths, "meta")
        module.load_state_dict(self.load(paths, backend), assign=True)
        return dict(module.state_dict())

    @does("into_old", "load_file pread, load_state_dict", backend="pread")
    @does("into_old", "load_file mmap, load_state_dict", backend="mmap")
    def copied(self, paths: list[str], backend: str) -> Tensors:
        module = self._parameters(paths)
        module.load_state_dict(self.load(paths, backend))
        return dict(module.state_dict())

    @does("offload", "accelerate")
    def offload(self, paths: list[str]) -> Tensors:
        try:
            from accelerate.utils import OffloadedWeightsLoader
        except ImportError:
            raise Missing("accelerate is not installed") from None
        index = {name: {"safetensors_file": path, "weight_name": name} for path in paths for name in files.arrays(path)}
        return dict(OffloadedWeightsLoader(index=index))

    @does("from_pretrained", "transformers")
    def from_pretrained(self, paths: list[str]) -> Tensors:
        os.environ["HF_HUB_OFFLINE"] = "1"
        try:
            from transformers import LlamaForCausalLM
        except ImportError:
            raise Missing("transformers is not installed") from None
        return dict(LlamaForCausalLM.from_pretrained(Path(paths[0]).parent).state_dict())

    @does("open")
    def open(self, paths: list[str]) -> object:
        from safetensors import safe_open

        with safe_open(paths[0], "np") as f:
            return f.keys()

    # A tensor of a map is a view. Works without "view" want memory of its own, in order.
    @does("slice", "pread", backend="pread")
    @does("slice", "mmap", backend="mmap", copy=True)
    @does("slice_view", "mmap", backend="mmap")
    def slice(self, paths: list[str], backend: str, dim: int, rank: int, world: int, copy: bool = False) -> Tensors:
        from safetensors import safe_open

        tensors: Tensors = {}
        for path in paths:
            with safe_open(path, "pt", backend=backend) as f:
                for name in f.keys():
                    lazy = f.get_slice(name)
                    tensor = lazy[box(lazy.get_shape(), dim, rank, world)]
                    tensors[name] = tensor.clone().contiguous() if copy else tensor
        return tensors

    @does("layers", "pread", backend="pread")
    @does("layers", "mmap", backend="mmap", copy=True)
    @does("layers_view", "mmap", backend="mmap")
    def layers(self, paths: list[str], backend: str, rank: int, world: int, copy: bool = False) -> Tensors:
        from safetensors import safe_open

        with safe_open(paths[0], "pt", backend=backend) as f:
            tensors = {name: f.get_tensor(name) for name in layers(f.keys(), rank, world)}
        return {name: tensor.clone() for name, tensor in tensors.items()} if copy else tensors

    @does("save", "numpy", module="safetensors.numpy")
    @does("save", "torch", module="safetensors.torch")
    def save(self, tensors: Tensors, target: str, durable: bool, module: str) -> str:
        importlib.import_module(module).save_file(tensors, target)
        if durable:
            synced(target)
        return target

    @does("save_bytes", "numpy")
    def save_bytes(self, tensors: Tensors, target: str) -> object:
        from safetensors.numpy import save

        return save(tensors)


class Ours(Reference):
    """This package: what the reference has, in the same calls, and what it adds."""

    @staticmethod
    def _new(paths: list[str], **options: Any) -> Tensors:
        import safetensors

        tensors: Tensors = safetensors.load(paths[0] if len(paths) == 1 else paths, framework="pt", **options)
        return tensors

    @classmethod
    def contenders(cls, op: str) -> dict[str, Way]:
        """Ours come first: what is new is what ratios are told of, where this version has it."""
        own = own_ways(cls, op)
        return own | {variant: way for variant, way in super().contenders(op).items() if variant not in own}

    @does("load", "load()")
    def load_new(self, paths: list[str]) -> Tensors:
        return self._new(paths)

    @does("load", "load(cache=keep)")
    def load_past_cache(self, paths: list[str]) -> Tensors:
        return self._new(paths, cache="keep")

    def _into(self, paths: list[str], module: Any) -> Tensors:
        from safetensors.torch import load_into

        load_into(module, paths[0] if len(paths) == 1 else paths)
        return dict(module.state_dict())

    @does("into_new", "load_into")
    def into_new(self, paths: list[str]) -> Tensors:
        return self._into(paths, module_of(paths, "meta"))

    @does("into_old", "load_into")
    def into_old(self, paths: list[str]) -> Tensors:
        return self._into(paths, self._parameters(paths))

    @does("slice", "load()", backend="auto")
    @does("slice_view", "load()", backend="mmap")
    def sliced(self, paths: list[str], backend: str, dim: int, rank: int, world: int) -> Tensors:
        from safetensors import safe_open

        boxes = {}
        for path in paths:
            with safe_open(path, "pt") as f:
                boxes.update({name: box(f.get_slice(name).get_shape(), dim, rank, world) for name in f.keys()})
        return self._new(paths, slices=boxes, backend=backend)

    @does("layers", "load()", backend="auto")
    @does("layers_view", "load()", backend="mmap")
    def chosen(self, paths: list[str], backend: str, rank: int, world: int) -> Tensors:
        from safetensors import safe_open

        with safe_open(paths[0], "pt") as f:
            names = layers(f.keys(), rank, world)
        return self._new(paths[:1], keys=names, backend=backend)

    def save(self, tensors: Tensors, target: str, durable: bool, module: str) -> str:
        importlib.import_module(module).save_file(tensors, target, durability="full" if durable else "none")
        return target


class Fastsafetensors(Adapter):
    """On a CPU and without GDS, as its documentation shows for machines without a GPU."""

    package = "fastsafetensors"

    @does("load", "direct", direct=True)
    @does("load", "buffered", direct=False)
    def load(self, paths: list[str], direct: bool) -> Tensors:
        from fastsafetensors import SafeTensorsFileLoader

        os.environ["FASTSAFETENSORS_ODIRECT"] = "1" if direct else "0"
        loader = SafeTensorsFileLoader(None, device="cpu", nogds=True)
        try:
            loader.add_filenames({0: paths})
            buffers = loader.copy_files_to_device()
            tensors = {name: buffers.get_tensor(name) for name in loader.get_keys()}
            buffers.close()  # tensors own their share of the storage
        finally:
            loader.close()
        return tensors

    @does("slice", "whole, then cut")
    def slice(self, paths: list[str], **at: int) -> Tensors:
        return {name: t[box(t.shape, **at)].clone().contiguous() for name, t in self.load(paths, True).items()}

    @does("save", "torch")
    def save(self, tensors: Tensors, target: str, durable: bool) -> str:
        from fastsafetensors import ParallelSaver

        written = ParallelSaver(num_shards=1, fsync=durable).save(tensors, target)
        for other in written:
            os.replace(other, target)  # it adds to the name
        return target


class Runai(Adapter):
    """Run:ai's model streamer: every tensor kept, which its default `owned=True` allows."""

    package = "runai-model-streamer"

    @does("load")
    def load(self, paths: list[str]) -> Tensors:
        from runai_model_streamer import SafetensorsStreamer

        with SafetensorsStreamer() as streamer:
            streamer.stream_files(paths)
            return dict(streamer.get_tensors())

    @does("slice", "whole, then cut")
    def slice(self, paths: list[str], **at: int) -> Tensors:
        from runai_model_streamer import SafetensorsStreamer

        with SafetensorsStreamer() as streamer:
            streamer.stream_files(paths)
            return {name: t[box(t.shape, **at)].clone().contiguous() for name, t in streamer.get_tensors()}


class Torch(Adapter):
    """torch.save and torch.load."""

    package = "torch"
    form = "pt"

    def make(self, source: str, target: str) -> None:
        import torch

        torch.save({name: torch.from_numpy(array) for name, array in files.arrays(source).items()}, target)

    @does("load", mmap=False)
    @does("view", "mmap", mmap=True)
    def load(self, paths: list[str], mmap: bool) -> Tensors:
        import torch

        tensors: Tensors = {}
        for path in paths:
            tensors.update(torch.load(path, weights_only=True, mmap=mmap))
        return tensors

    @does("whole", "whole, then cut", mmap=False, copy=True)
    @does("layers", "mmap", mmap=True, copy=True)
    @does("slice", "mmap", mmap=True, copy=True)
    @does("layers_view", "mmap", mmap=True, copy=False)
    @does("slice_view", "mmap", mmap=True, copy=False)
    def parts(self, paths: list[str], rank: int, world: int, mmap: bool, copy: bool, dim: int | None = None) -> Tensors:
        tensors = self.load(paths, mmap)
        if dim is None:
            tensors = {name: tensors[name] for name in layers(tensors, rank, world)}
        else:
            tensors = {name: tensor[box(tensor.shape, dim, rank, world)] for name, tensor in tensors.items()}
        return {name: tensor.clone().contiguous() for name, tensor in tensors.items()} if copy else tensors

    @does("save")
    def save(self, tensors: Tensors, target: str, durable: bool) -> str:
        import torch

        torch.save(tensors, target)
        if durable:
            synced(target)
        return target


class Numpy(Adapter):
    """np.savez and np.load."""

    package = "numpy"
    form = "npz"
    framework = "numpy"

    def make(self, source: str, target: str) -> None:
        import numpy as np

        np.savez(target, **files.arrays(source))

    @does("load")
    @does("view_numpy", "owned")
    def load(self, paths: list[str]) -> Tensors:
        import numpy as np

        tensors: Tensors = {}
        for path in paths:
            with np.load(path) as f:
                tensors.update({name: f[name] for name in f.files})
        return tensors

    @does("open")
    def open(self, paths: list[str]) -> object:
        import numpy as np

        with np.load(paths[0]) as f:
            return list(f.files)

    @does("slice", "whole, then cut")
    def slice(self, paths: list[str], **at: int) -> Tensors:
        import numpy as np

        with np.load(paths[0]) as f:
            return {name: (lambda a: a[box(a.shape, **at)].copy())(f[name]) for name in f.files}

    @does("save")
    def save(self, tensors: Tensors, target: str, durable: bool) -> str:
        import numpy as np

        with open(target, "wb") as out:  # a name of its own would get a suffix
            np.savez(out, **tensors)
        if durable:
            synced(target)
        return target


class H5py(Adapter):
    """One dataset a tensor, without compression."""

    package = "h5py"
    form = "h5"
    framework = "numpy"

    def make(self, source: str, target: str) -> None:
        self.save(files.arrays(source), target, False)

    @does("load")
    @does("view_numpy", "owned")
    def load(self, paths: list[str]) -> Tensors:
        import h5py

        tensors: Tensors = {}
        for path in paths:
            with h5py.File(path, "r") as f:
                tensors.update({name: f[name][...] for name in f})
        return tensors

    @does("open")
    def open(self, paths: list[str]) -> object:
        import h5py

        with h5py.File(paths[0], "r") as f:
            return list(f)

    @does("slice")
    def slice(self, paths: list[str], **at: int) -> Tensors:
        import h5py

        with h5py.File(paths[0], "r") as f:
            return {name: f[name][box(f[name].shape, **at)] for name in f}

    @does("save")
    def save(self, tensors: Tensors, target: str, durable: bool) -> str:
        import h5py

        with h5py.File(target, "w") as f:
            for name, array in tensors.items():
                f.create_dataset(name, data=array)
        if durable:
            synced(target)
        return target


ADAPTERS: dict[str, type[Adapter]] = {
    "ours": Ours,
    "reference": Reference,
    "reference9": Reference,
    "fastsafetensors": Fastsafetensors,
    "runai": Runai,
    "torch": Torch,
    "numpy": Numpy,
    "h5py": H5py,
}
