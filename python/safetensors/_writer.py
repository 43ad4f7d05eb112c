"""Writing a file tensor by tensor, or in parts of tensors: more than memory holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any

from . import _native
from ._checkpoint import Checkpoint
from ._dtypes import format_name
from ._native import SafetensorError, TensorSpec

__all__ = ["Writer"]

# What TensorSpec calls the format's dtypes.
_SPEC_NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F6_E2M3": "float6_e2m3fn",
    "F6_E3M2": "float6_e3m2fn",
}


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
    sizes = list(shape)
    if wanted == "F4":
        # A framework's F4 holds two elements; the format's counts them one by one.
        if isinstance(dtype, str) and dtype == "F4":
            if not sizes or sizes[-1] % 2:
                raise SafetensorError(f"tensors[{name!r}]: F4 needs an even last dimension")
            sizes[-1] //= 2
        return TensorSpec(dtype="float4_e2m1fn_x2", shape=sizes, data_ptr=0, data_len=0)
    return TensorSpec(dtype=_SPEC_NAMES[wanted], shape=sizes, data_ptr=0, data_len=0)


def _c_order(data: Any) -> Any:
    """Return the array itself, or a copy on the CPU whose memory is what a file holds."""
    if hasattr(data, "data_ptr"):  # torch
        return data.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if hasattr(data, "__array_interface__"):
        import numpy as np

        array = np.asarray(data)
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        return np.ascontiguousarray(array).reshape(array.shape)
    return data


def _memory(data: Any) -> tuple[int, int, str | None, tuple[int, ...] | None, Any]:
    """Return address, size, dtype and shape (None: bytes of any), and what keeps them alive."""
    held = _c_order(data)
    if hasattr(held, "data_ptr"):
        size = held.numel() * held.element_size()
        return held.data_ptr(), size, format_name(held.dtype), tuple(held.shape), held
    if hasattr(held, "__array_interface__"):
        address = held.__array_interface__["data"][0]
        return address, held.nbytes, format_name(held.dtype), held.shape, held
    import numpy as np

    view = np.frombuffer(held, dtype=np.uint8)
    return view.__array_interface__["data"][0], view.nbytes, None, None, view


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
        durability: str = "full",
    ) -> None:
        specs = {name: _spec(name, described) for name, described in tensors.items()}
        given = None if metadata is None else dict(metadata)
        self._native = _native._Writer(path, specs, given, durability)

    def write(self, name: str, data: Any, *, start: int | None = None) -> None:
        """Write a tensor, or with `start` the rows from there on (along its first dimension).

        `data`: a NumPy array or torch tensor of the tensor's dtype; or bytes, C order and
        little-endian. What is not contiguous is copied first.
        """
        dtype, shape, nbytes = self._native.meta(name)
        address, size, own_dtype, own_shape, held = _memory(data)
        if own_dtype is not None and own_dtype != dtype:
            raise SafetensorError(f"tensor `{name}` has dtype {dtype}, the data {own_dtype}")
        row = 0
        if start is not None:
            if not shape:
                raise SafetensorError(f"tensor `{name}` is a scalar and has no rows")
            row = nbytes // shape[0] if shape[0] else 0
            if start < 0:
                raise SafetensorError(f"start is {start}: rows are counted from 0")
        if own_shape is not None and dtype != "F4":
            _check_shape(name, shape, own_shape, start is not None)
        elif start is None and size != nbytes:
            raise SafetensorError(f"tensor `{name}` has {nbytes} bytes, the data {size}")
        elif start is not None and (row == 0 or size % row != 0):
            raise SafetensorError(f"tensor `{name}` has rows of {row} bytes, the data {size}")
        self._native.write(name, row * (start or 0), address, size)
        del held

    def copy(self, name: str, source: Checkpoint, source_name: str | None = None) -> None:
        """Copy a whole tensor from a checkpoint, in a few MiB of memory whatever its size."""
        wanted = name if source_name is None else source_name
        self._native.copy(name, source._native, wanted)

    def commit(self) -> None:
        """Put the file in its place. Raises SafetensorError while a byte is missing."""
        self._native.commit()

    def close(self) -> None:
        """Remove what was written, unless it was committed. May be called again."""
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
            if exc_type is None:
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
