"""Writing a file tensor by tensor, or in parts of tensors: more than memory holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from os import PathLike
from types import TracebackType
from typing import Any

from . import _native
from ._checkpoint import Checkpoint
from ._dtypes import FRAMEWORK_NAMES, PACKED, format_name
from ._native import SafetensorError, TensorSpec
from ._targets import is_masked, is_numpy, is_torch
from ._types import Durability

__all__ = ["Writer"]

def _spec(name: str, described: Any) -> TensorSpec:
    """Return what (dtype, shape), or an array that has both, says of a tensor."""
    if hasattr(described, "dtype") and hasattr(described, "shape"):
        dtype, shape = described.dtype, described.shape
    else:
        try:
            dtype, shape = described
        except (TypeError, ValueError):
            raise TypeError(f"tensors[{name!r}] is neither (dtype, shape) nor an array") from None
    wanted = format_name(dtype)
    try:
        sizes = list(shape)
    except TypeError:
        raise TypeError(f"tensors[{name!r}]: shape {shape!r} is no list of integers") from None
    if wanted == "F4":
        # A framework's F4 holds two elements; the format's counts them one by one.
        if isinstance(dtype, str) and dtype == "F4":
            if not sizes or sizes[-1] % 2:
                raise SafetensorError(f"tensors[{name!r}]: F4 needs an even last dimension")
            sizes[-1] //= 2
        return TensorSpec(dtype="float4_e2m1fn_x2", shape=sizes, data_ptr=0, data_len=0)
    return TensorSpec(dtype=FRAMEWORK_NAMES[wanted], shape=sizes, data_ptr=0, data_len=0)


def _c_order(data: Any, name: str) -> Any:
    """Return an array on the CPU whose memory is what a file holds: itself, or a copy."""
    if is_torch(data):
        return data.detach().cpu().resolve_conj().resolve_neg().contiguous()
    import numpy as np

    if is_masked(data):
        raise TypeError(f"tensor `{name}`: a masked array has no bytes for a file: fill it first")
    array = np.asarray(data)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return np.ascontiguousarray(array).reshape(array.shape)


def _memory(
    data: Any, name: str
) -> tuple[int, int, str | None, tuple[int, ...] | None, Any]:
    """Return address, size, dtype and shape (None: bytes of any), and what keeps them alive."""
    if is_torch(data) or is_numpy(data) or hasattr(data, "__array__"):
        held = _c_order(data, name)
        if is_torch(held):
            size = held.numel() * held.element_size()
            return held.data_ptr(), size, format_name(held.dtype), tuple(held.shape), held
        address = held.__array_interface__["data"][0]
        return address, held.nbytes, format_name(held.dtype), held.shape, held
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(
            f"tensor `{name}`: {type(data).__name__} is neither an array nor bytes"
        ) from None
    if not view.nbytes:
        return 0, 0, None, None, view
    import numpy as np

    # A copy of what is not contiguous is NumPy's: it lets other threads run.
    held = np.frombuffer(view, np.uint8) if view.c_contiguous else np.ascontiguousarray(view)
    return held.__array_interface__["data"][0], held.nbytes, None, None, held


class Writer:
    """Writes a file in pieces, which appears at `path` all at once when the `with` ends well.

    `tensors`: names to (dtype, shape), or to arrays, of which only dtype and shape are taken.
    `metadata`, `durability`: as in `save_file`. Until the end programs see the old file; after an
    exception it is as it was. Every byte of every tensor must be written once. May be used from any
    number of threads; not in a forked child. Raises SafetensorError.

        with Writer("model.safetensors", {"w": ("F32", (1000, 512))}) as writer:
            for start, rows in blocks:
                writer.write("w", rows, start=start)
    """

    def __init__(
        self,
        path: str | PathLike[str],
        tensors: Mapping[str, Any],
        metadata: Mapping[str, str] | None = None,
        *,
        durability: Durability = "full",
    ) -> None:
        if not isinstance(tensors, Mapping):
            raise TypeError(f"tensors is {type(tensors).__name__}: give a dict of names")
        specs = {name: _spec(name, described) for name, described in tensors.items()}
        given = None if metadata is None else dict(metadata)
        self._native = _native._Writer(path, specs, given, durability)
        self._ended = False

    def write(self, name: str, data: Any, *, start: int | None = None) -> None:
        """Write a tensor, or with `start` the rows from there on (along its first dimension).

        `data`: a NumPy array, a torch tensor or what NumPy makes an array of, of the tensor's dtype;
        or bytes, C order and little-endian. What is not contiguous is copied first. Its memory must
        stay as it is meanwhile: other threads run.
        """
        dtype, shape, nbytes = self._native.meta(name)
        address, size, own_dtype, own_shape, held = _memory(data, name)
        if own_dtype == "U8" and dtype in PACKED:
            own_dtype = own_shape = None  # its bytes
        if own_dtype is not None and own_dtype != dtype:
            raise SafetensorError(f"tensor `{name}` has dtype {dtype}, the data {own_dtype}")
        row = 0
        if start is not None:
            start = index(start)
            if not shape:
                raise SafetensorError(f"tensor `{name}` is a scalar and has no rows")
            row, rest = divmod(nbytes, shape[0]) if shape[0] else (0, 0)
            if rest:
                raise SafetensorError(
                    f"tensor `{name}` has rows that do not end with a byte: write it whole"
                )
            if start < 0:
                raise SafetensorError(f"start is {start}: rows are counted from 0")
            if start > shape[0]:
                raise SafetensorError(f"start is {start}: tensor `{name}` has {shape[0]} rows")
        if own_shape is not None and dtype not in PACKED:
            _check_shape(name, shape, own_shape, start is not None)
        elif start is None and size != nbytes:
            raise SafetensorError(f"tensor `{name}` has {nbytes} bytes, the data {size}")
        elif size and start is not None and (row == 0 or size % row != 0):
            raise SafetensorError(f"tensor `{name}` has rows of {row} bytes, the data {size}")
        self._native.write(name, row * (start or 0), address, size)
        del held  # not before

    def copy(self, name: str, source: Checkpoint, source_name: str | None = None) -> None:
        """Copy a whole tensor from a checkpoint, in a few MiB of memory whatever its size."""
        if not isinstance(source, Checkpoint):
            raise TypeError(f"source is {type(source).__name__}: give a Checkpoint")
        wanted = name if source_name is None else source_name
        self._native.copy(name, source._native, wanted)

    def commit(self) -> None:
        """Put the file in its place. Raises SafetensorError while a byte is missing.

        The end of the `with` does it, too. Not while another thread writes.
        """
        self._native.commit()
        self._ended = True

    def close(self) -> None:
        """Remove what was written, unless it was committed. May be called again."""
        self._ended = True
        self._native.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exc_type is None and not self._ended:
                self.commit()
        finally:
            self.close()


def _check_shape(name: str, shape: Sequence[int], own: tuple[int, ...], rows: bool) -> None:
    if rows:
        fits = len(own) == len(shape) and list(own[1:]) == list(shape[1:])
        wanted = ["rows", *shape[1:]]
    else:
        fits = list(own) == list(shape)
        wanted = list(shape)
    if not fits:
        text = ", ".join(str(size) for size in wanted)
        raise SafetensorError(f"tensor `{name}` takes shape [{text}], the data has {list(own)}")
