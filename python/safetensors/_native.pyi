"""The extension of safetensors, in C++. Use the package safetensors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal

from typing_extensions import Buffer, Self

from ._types import Backend, Durability, Fault, Framework, Progress, Request, TensorOrder, Value

_Path = str | bytes | PathLike[str] | PathLike[bytes]

_version: str

def _default_memory_limit() -> int: ...
def _is_pattern(text: str) -> bool: ...
def _matching(pattern: str, names: Iterable[str]) -> list[str]: ...
def _size_digits(text: str) -> str | None: ...
def _path_text(path: Any, argument: str, expected: str) -> str: ...
def _dtypes() -> list[tuple[str, str, int, bool, bool, bool]]: ...

class SafetensorError(Exception):
    """A file that is not a safetensors file, or a request that cannot be met.

    `code` is a str such as "invalid_offset", `offset` is the byte in the file, and `errno` is the error
    number of the system. Each one is None if it is not known.
    """

    code: str | None
    offset: int | None
    errno: int | None

class MissingTensorError(SafetensorError, KeyError):
    """A name that is not among the tensors. `name` is that name.

    It is a SafetensorError. It is also a KeyError, which programs expect of a mapping.
    """

    name: str | None

class TensorSpec:
    """The dtype, the shape and the memory of a tensor that is to be written.

    The object keeps no reference to the memory. Keep it alive until the write is over.
    """

    def __init__(self, *, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int) -> None: ...
    @property
    def dtype(self) -> str:
        """The dtype in the file, such as "F32"."""
    @property
    def shape(self) -> list[int]:
        """The dimensions in elements, outermost first."""
    @property
    def data_ptr(self) -> int:
        """The address of the elements."""
    @property
    def data_len(self) -> int:
        """The size of the memory in bytes."""

class TensorMeta:
    """The entry of a tensor in the header. It stays valid after the file is closed."""

    @property
    def dtype(self) -> str:
        """The dtype in the file, such as "F32"."""
    @property
    def shape(self) -> list[int]:
        """The dimensions in elements, outermost first."""
    @property
    def data_offsets(self) -> tuple[int, int]:
        """The range [begin, end) of the tensor, in bytes from the start of the data."""

class TensorStream:
    """An iterator over the pairs (name, tensor) of a PrefetchLoader that nobody has taken."""

    def __iter__(self) -> Self:
        """Return the iterator itself."""
    def __next__(self) -> tuple[str, Any]: ...

class PrefetchLoader:
    """Read tensors in the background and hand out each one as soon as it is complete.

    Each tensor is taken once, by `take` or by iterating. Then it is yours alone. The loader is a
    context manager. It may outlive the `safe_open` that made it. Use it from any number of threads at
    once, but not in a forked child.
    """

    def names(self) -> list[str]:
        """Return the names of the plan, in the order of their bytes in the file."""
    def take(self, name: str) -> Any:
        """Wait for a tensor and return it.

        Raises SafetensorError for a name that is not in the plan or was taken before, after `close`, and
        if reading failed.
        """
    def close(self) -> None:
        """Stop reading and release the tensors read. Tensors that you took stay valid."""
    def __len__(self) -> int:
        """Return the number of tensors in the plan."""
    def __iter__(self) -> TensorStream:
        """Iterate over the pairs that nobody has taken, in the order in which tensors are complete."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

class PySafeSlice:
    """A tensor of an open file that is read in parts: `part[2:4, ..., -1]` reads only these elements.

    It stays valid after the file is closed. Use it from any thread.
    """

    def get_shape(self) -> list[int]:
        """Return the dimensions in elements, outermost first."""
    def get_dtype(self) -> str:
        """Return the dtype in the file, such as "F32"."""
    def __getitem__(self, index: Any) -> Any:
        """Read a part of the tensor.

        With torch, an index has the meaning that torch gives it. Other frameworks take integers, slices
        with any step, and one Ellipsis; an index past the end is an error. Raises SafetensorError.
        """

class safe_open:
    """A file whose tensors are loaded when you ask for them.

    `filename`: a str, bytes or os.PathLike. `framework`: "pt", "np", "tf", "jax", "mlx" or
    "paddle". `device`: the device of the tensors (torch and paddle).

    `backend`: "mmap" returns views of the file, whose pages are read on first access. "pread" reads
    tensors into memory of their own, through the page cache. "auto" does the same, but reads data that
    is not in the page cache directly from the device if it does not fit into half of the memory with the
    results. On network and user-space (FUSE) file systems, "mmap" is the same as "pread". The environment
    variable SAFETENSORS_BACKEND replaces "mmap" by another backend. If the variable is "mmap", files are
    mapped on every file system.

    `accept`: faults of the file that are no errors: "unknown_dtypes", "unused_bytes", or both.
    `tolerated` returns those that were found. A tensor of unknown dtype is an array of bytes (uint8), and
    cannot be sliced.

    The object is a context manager. Tensors and slices stay valid after it is closed and after the file
    is removed. Use it from any number of threads at once.
    """

    def __init__(
        self, filename: _Path, framework: Framework, device: Any = "cpu", *, backend: Backend = "mmap",
        accept: Fault | Iterable[Fault] | None = ()
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    def tolerated(self) -> dict[str, int]:
        """Return the faults that `accept` allowed: the numbers "unknown_dtypes" and
        "unused_bytes". The dict is empty if the file has none of these faults."""
    def keys(self) -> list[str]:
        """Return the names of the tensors, sorted by their bytes."""
    def offset_keys(self) -> list[str]:
        """Return the names of the tensors, in the order of their bytes in the file."""
    def metadata(self) -> dict[str, str] | None:
        """Return the metadata of the header, or None if the header has no metadata."""
    def get_tensor(self, name: str) -> Any:
        """Return one tensor. Raises SafetensorError for a name that is not in the file."""
    def get_tensors(self) -> dict[str, Any]:
        """Return all tensors in a dict, in the order of their bytes in the file."""
    def get_slice(self, name: str) -> PySafeSlice:
        """Return one tensor to read in parts. The call itself reads nothing."""
    def get_tensor_meta(self, name: str) -> TensorMeta:
        """Return the entry of one tensor in the header. The call reads nothing."""
    def prefetch(
        self, plan: dict[str, slice | None] | None = None, *, device: Any = None, threads: int = 8,
    ) -> PrefetchLoader:
        """Start to read tensors in the background, and return a PrefetchLoader that hands them out.

        `plan`: a dict from names to None (the whole tensor), to a slice of rows, or to a tuple of lists of
        slices, a list for each of the first dimensions. The slices of a list are joined. They have step 1
        and lie inside of the tensor. None reads every tensor. `device`: the device of the tensors (torch and paddle); None
        is the device of the file. `threads`: the number of reader threads; 0 uses as many as are useful.
        They read 256 MiB ahead of the tensors that are taken.

        Raises SafetensorError for a plan that cannot be met. `PrefetchLoader.take` raises errors of reading.
        """
    def _checkpoint(self) -> _Checkpoint: ...
    def __len__(self) -> int:
        """Return the number of tensors."""
    def __contains__(self, name: object) -> bool:
        """Return whether the file has a tensor with this name."""
    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the tensors, sorted by their bytes."""

def _safe_open_handle(f: Any, framework: Framework, device: Any = "cpu", *, backend: Backend = "mmap") -> safe_open: ...
def serialize(tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None) -> bytes: ...
def serialize_file(
    tensor_dict: Mapping[str, TensorSpec], filename: _Path, metadata: Mapping[str, str] | None = None, *,
    durability: Durability = "full", progress: Progress | None = None
) -> None: ...
def _set_leak_warnings(enabled: bool) -> None: ...
def deserialize(bytes: Buffer) -> list[tuple[str, dict[str, Any]]]: ...
def _load(buffer: Buffer, framework: Framework, *, copy: bool = True) -> dict[str, Any]: ...

_Paths = _Path | Iterable[_Path]

class _Stream:
    def __next__(self) -> Any: ...
    def close(self) -> None: ...

class _Checkpoint:
    def __init__(
        self, paths: _Paths, framework: Framework, device: Any, backend: Backend,
        accept: Fault | Iterable[Fault] | None = None
    ) -> None: ...
    def close(self) -> None: ...
    def tolerated(self) -> dict[str, int]: ...
    def names(self) -> list[str]: ...
    def files(self) -> list[str]: ...
    def framework(self) -> str: ...
    def device(self) -> str: ...
    def backend(self) -> Backend: ...
    def metadata(self) -> dict[str, str] | None: ...
    def index_metadata(self) -> str: ...
    def views(self, requests: Iterable[tuple[str, Any]]) -> dict[str, Any]: ...
    def get_tensor_meta(self, name: str) -> TensorMeta: ...
    def meta(self, name: str, index: Any = None) -> tuple[str, list[int], int]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object) -> bool: ...
    def get_tensor(self, name: str) -> Any: ...
    def get_slice(self, name: str) -> PySafeSlice: ...
    def load(self, requests: Iterable[Request] | None, **options: Any) -> Any: ...
    def stream(self, requests: Iterable[Request], **options: Any) -> _Stream: ...

class _CheckpointLayout:
    def __init__(
        self, tensors: Mapping[str, TensorSpec], storages: Mapping[str, tuple[int, int]], max_shard_size: int,
        stem: str, metadata: Mapping[str, str] | None, index_metadata: str
    ) -> None: ...
    def files(self) -> list[tuple[str, int]]: ...
    def file_of(self, name: str) -> int: ...
    def total_size(self) -> int: ...
    def index_name(self) -> str: ...
    def index_text(self) -> str: ...

def _save_checkpoint(
    tensor_dict: Mapping[str, TensorSpec], folder: _Path, layout: _CheckpointLayout, **options: Any
) -> None: ...
def _checkpoint_writer(folder: _Path, layout: _CheckpointLayout, **options: Any) -> _Writer: ...
def _join_checkpoint(ticket: str, layout: _CheckpointLayout, *, progress: Progress | None) -> _Writer: ...

class _Writer:
    def __init__(
        self, path: _Path, tensors: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None,
        durability: Durability, data_alignment: int = 8, order: TensorOrder = "writer",
        progress: Progress | None = None, replace_symlinks: bool = False
    ) -> None: ...
    def write(self, name: str, start: int | None, value: Value) -> None: ...
    def write_slice(self, name: str, offsets: Iterable[int], sizes: Iterable[int], value: Value) -> None: ...
    def copy(self, name: str, source: _Checkpoint, source_name: str) -> None: ...
    def ticket(self) -> str: ...
    def receipt(self) -> str: ...
    def accept(self, receipt: str) -> None: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...
    def dtype(self, name: str) -> str: ...
