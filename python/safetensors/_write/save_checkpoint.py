"""Saves a model of several files: splits it, writes its files and their index."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from typing import Any

from .. import _native
from .._arrays.targets import is_torch
from .._base.options import Progress, count_text, ending, reporter, to_bytes, to_metadata, to_size
from .._base.paths import to_path
from .._native import TensorSpec
from .._read.checkpoint import DEFAULT_BUDGET
from .._types import Durability
from .writer import TensorWriter, to_specs

__all__ = ["CheckpointLayout", "CheckpointWriter", "SaveOptions", "write_checkpoint", "write_file"]

DEFAULT_SHARD_SIZE = "5GB"  # 5 * 10**9 bytes, as in huggingface_hub

# (tensor name) -> address and size in bytes of the tensor in host memory, and the owner of the bytes
Fetch = Callable[[str], "tuple[int, int, Any]"]
# The arguments of the native layout after the tensors: storages, size of files, stem, metadata, and the
# text of the metadata of the index.
_LayoutOptions = tuple[dict[str, tuple[int, int]], Any, str, "dict[str, str] | None", str]


def _storages(tensors: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return a number and a size in bytes for each storage of torch tensors.

    huggingface_hub counts a tensor with the size of its storage, and a shared storage once.
    """
    numbers: dict[Any, int] = {}
    storages = {}
    for name, tensor in tensors.items():
        if not is_torch(tensor):
            continue
        if str(tensor.layout) != "torch.strided":
            raise ValueError(f"tensors[{name!r}] is sparse: make it dense with `.to_dense()` first")
        storage = tensor.untyped_storage()
        if tensor.is_meta:  # nobody can tell whether such tensors share memory
            storages[name] = 0, storage.nbytes()
            continue
        key = (tensor.device, storage.data_ptr(), storage.nbytes())
        storages[name] = numbers.setdefault(key, len(numbers) + 1), storage.nbytes()
    return storages


def _layout_options(
    tensors: Mapping[str, Any], max_shard_size: int | str, stem: str, metadata: Mapping[str, str] | None,
    index_metadata: Mapping[str, Any] | None,
) -> _LayoutOptions:
    """Return the arguments of a native layout. Raises SafetensorError, TypeError, ValueError, which name the argument."""
    if index_metadata is not None and not isinstance(index_metadata, Mapping):
        raise TypeError(f"index_metadata is {type(index_metadata).__name__}: give a dict")
    text = "" if index_metadata is None else json.dumps(dict(index_metadata), allow_nan=False)
    if to_bytes(max_shard_size, "max_shard_size") == 0:
        raise ValueError("max_shard_size is 0: expected at least 1 byte")
    size = to_size(max_shard_size, "max_shard_size", 1)
    return _storages(tensors), size, stem, to_metadata(metadata), text


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """The options of every function that saves a model of several files. See `safetensors.save`."""

    max_shard_size: int | str | None = None
    metadata: Mapping[str, str] | None = None
    index_metadata: Mapping[str, Any] | None = None
    new_folder: bool = False
    remove_old_files: bool = True
    durability: Durability = "full"
    progress: bool | Progress | None = None
    memory_limit: int | str = DEFAULT_BUDGET  # for tensors that are copied first

    def layout_options(self, tensors: Mapping[str, Any]) -> _LayoutOptions:
        """Return the arguments of the native layout of these tensors."""
        size = DEFAULT_SHARD_SIZE if self.max_shard_size is None else self.max_shard_size
        return _layout_options(tensors, size, "model", self.metadata, self.index_metadata)

    def layout(self, tensors: Mapping[str, Any]) -> CheckpointLayout:
        """Return the layout of these tensors."""
        return _remake(CheckpointLayout, tensors, self.layout_options(tensors))

    def start(self, shared: bool = False) -> tuple[dict[str, Any], Callable[[], None]]:
        """Return the arguments of a native writer, and a function that ends the progress.

        `shared`: several processes write the files.
        """
        given: dict[str, Any] = {
            "new_folder": bool(self.new_folder), "remove_old_files": bool(self.remove_old_files), "shared": shared,
            "durability": self.durability,
        }
        report, end_progress = reporter(self.progress, "Saving")
        return given | {"progress": report}, end_progress

    def writer(
        self, folder: str, layout: _native._CheckpointLayout, shared: bool = False
    ) -> tuple[_native._Writer, Callable[[], None]]:
        """Create the files of a layout. Returns their writer, and a function that ends the progress."""
        given, end_progress = self.start(shared)
        try:
            return _native._checkpoint_writer(folder, layout, **given), end_progress
        except BaseException:
            with suppress(Exception):
                end_progress()
            raise


def _files_text(files: int) -> str:
    return f"{files:,} file{'' if files == 1 else 's'}"


class CheckpointLayout:
    """Decides which tensors of a model go into which file, as huggingface_hub does.

    `tensors`: names to (dtype, shape), or to arrays, whose dtype and shape are taken. Each file
    takes tensors in this order, up to `max_shard_size` (bytes, or a text such as "5GB"). A larger
    tensor gets a file of its own. `stem`: the start of the file names. `metadata`: the metadata of
    each file. `index_metadata`: more members for the `metadata` of the index. A layout depends on
    these arguments alone: processes with the same arguments make the same layout. It can be copied
    and pickled. Raises SafetensorError, and ValueError for a `max_shard_size` that is not a size.
    """

    def __init__(
        self, tensors: Mapping[str, Any], *, max_shard_size: int | str = DEFAULT_SHARD_SIZE, stem: str = "model",
        metadata: Mapping[str, str] | None = None, index_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        specs = to_specs(tensors)
        self._make(specs, _layout_options(tensors, max_shard_size, stem, metadata, index_metadata))

    def _make(self, specs: dict[str, TensorSpec], options: _LayoutOptions) -> None:
        self._specs = specs
        self._options = options
        self._native = _native._CheckpointLayout(specs, *options)

    @property
    def files(self) -> dict[str, list[str]]:
        """The names of the tensors of each file, by the name of the file.

        In a folder that has a model, the files may get the names of another generation.
        """
        names = [name for name, _ in self._native.files()]
        files: dict[str, list[str]] = {name: [] for name in names}
        for tensor in self._specs:
            files[names[self._native.file_of(tensor)]].append(tensor)
        return files

    @property
    def total_size(self) -> int:
        """The number of bytes of all tensors. Tensors that share a storage count once."""
        return self._native.total_size()

    @property
    def index(self) -> dict[str, Any] | None:
        """The index: `metadata` and `weight_map`. None if there is one file."""
        text = self._native.index_text()
        return json.loads(text) if text else None

    @property
    def index_name(self) -> str:
        """The name of the index, such as "model.safetensors.index.json"."""
        return self._native.index_name()

    def __len__(self) -> int:
        """Return the number of tensors."""
        return len(self._specs)

    def __repr__(self) -> str:
        files = _files_text(len(self._native.files()))
        return f"<CheckpointLayout: {count_text(len(self))} in {files}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # The copy makes the layout again from the arguments, which checks them again.
        tensors = {name: (spec.dtype, spec.shape) for name, spec in self._specs.items()}
        return _remake, (type(self), tensors, self._options)


def _remake(kind: type[CheckpointLayout], tensors: Mapping[str, Any], options: _LayoutOptions) -> CheckpointLayout:
    """Return a layout, also from a pickle or for a copy."""
    made = kind.__new__(kind)
    made._make(to_specs(tensors), options)
    return made


class CheckpointWriter(TensorWriter):
    """Writes the files of a model in several calls. They appear when the `with` ends without error.

    `tensors`: a CheckpointLayout, or names to (dtype, shape) or arrays, from which one is made with
    `max_shard_size`, `metadata` and `index_metadata`. A folder that does not exist appears at once,
    with all files. In a folder that exists, the files are put in place one after the other, and the
    index last. docs/checkpoints.md says which files a crash leaves. `new_folder=True` refuses a
    folder that exists. `remove_old_files`: whether files of an older model with the same stem are
    removed at the end. `durability`: as in `save_file`. `progress`: a function that gets the number
    of bytes written and the total. True shows a bar if tqdm is installed.
    Any number of threads may use a writer, but not a forked child. Raises SafetensorError,
    MissingTensorError for a name that is not in the layout, TypeError for an argument that belongs
    to the layout if a layout is given.

        with CheckpointWriter("model", {"w": ("F32", (1000, 512))}) as writer:
            for start, rows in blocks:
                writer.write("w", rows, start=start)
    """

    def __init__(
        self, folder: str | PathLike[str], tensors: CheckpointLayout | Mapping[str, Any], *,
        max_shard_size: int | str | None = None, metadata: Mapping[str, str] | None = None,
        index_metadata: Mapping[str, Any] | None = None, new_folder: bool = False, remove_old_files: bool = True,
        durability: Durability = "full", progress: bool | Progress | None = None,
    ) -> None:
        options = SaveOptions(
            max_shard_size, metadata, index_metadata, new_folder, remove_old_files, durability, progress
        )
        if isinstance(tensors, CheckpointLayout):
            for argument in ("max_shard_size", "metadata", "index_metadata"):
                if getattr(options, argument) is not None:
                    raise TypeError(f"{argument} belongs to the layout: give it to CheckpointLayout")
        self.layout = tensors if isinstance(tensors, CheckpointLayout) else options.layout(tensors)
        self._folder = to_path(folder, "folder")
        self._native, self._end_report = options.writer(self._folder, self.layout._native)

    def __repr__(self) -> str:
        files = _files_text(len(self.layout._native.files()))
        return f"<CheckpointWriter {self._folder!r}: {count_text(len(self.layout))} in {files}>"


def write_checkpoint(
    specs: dict[str, TensorSpec], tensors: Mapping[str, Any], folder: str | PathLike[str], options: SaveOptions,
    fetch: Fetch | None = None,
) -> None:
    """Save tensors whose dtypes, shapes and bytes the specs describe.

    `tensors`: the tensors of the framework. `fetch` gives the bytes of one tensor at a time, if the
    specs have no bytes.
    """
    folder = to_path(folder, "folder")
    layout = _native._CheckpointLayout(specs, *options.layout_options(tensors))
    with ending(options.start()) as given:
        if fetch is None:
            _native._save_checkpoint(specs, folder, layout, **given)
        else:
            _write_fetched(_native._checkpoint_writer(folder, layout, **given), specs, fetch)


def write_file(
    specs: dict[str, TensorSpec], filename: str | PathLike[str], metadata: Mapping[str, str] | None,
    durability: Durability, fetch: Fetch | None = None, progress: bool | Progress | None = None,
) -> None:
    """Save tensors as one file. `fetch`: as in `write_checkpoint`."""
    with ending(reporter(progress, "Saving")) as report:
        if fetch is None:
            _native.serialize_file(specs, filename, metadata, durability=durability, progress=report)
        else:
            writer = _native._Writer(filename, specs, metadata, durability, progress=report, replace_symlinks=True)
            _write_fetched(writer, specs, fetch)


def _write_fetched(writer: _native._Writer, names: Iterable[str], fetch: Fetch) -> None:
    try:
        for name in names:
            address, size, owner = fetch(name)
            writer.write(name, None, (address, size, None, None, owner))
            del owner  # before the next tensor comes into memory
        writer.commit()
    finally:
        writer.close()
