"""Writes a file in several calls, whole tensors or rows, for files larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from .. import _native
from .._arrays.dtypes import FRAMEWORK_NAMES, UNPACKED, format_name, name_of
from .._arrays.values import refuse_nested, to_value
from .._base.options import _nothing, count_text, to_metadata
from .._base.paths import to_path
from .._native import SafetensorError, TensorSpec
from .._read.checkpoint import Checkpoint
from .._types import Durability, TensorOrder

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Writer"]


def to_specs(tensors: Mapping[str, Any]) -> dict[str, TensorSpec]:
    """Return the dtypes and shapes of a dict of names to (dtype, shape) or arrays."""
    if not isinstance(tensors, Mapping):
        raise TypeError(f"tensors is {type(tensors).__name__}: give a dict of names")
    return {name: _to_spec(name, described) for name, described in tensors.items()}


def _to_spec(name: str, described: Any) -> TensorSpec:
    """Return the dtype and shape from a pair (dtype, shape) or from an array."""
    refuse_nested(name, described)
    if hasattr(described, "dtype") and hasattr(described, "shape"):
        dtype, shape = described.dtype, described.shape
    else:
        try:
            dtype, shape = described
        except (TypeError, ValueError):
            raise TypeError(f"tensors[{name!r}] is neither (dtype, shape) nor an array") from None
    if (unpacked := name_of(dtype)) in UNPACKED and UNPACKED[unpacked] == "F4":
        raise SafetensorError(
            f"tensors[{name!r}] has dtype {unpacked}, which takes a byte for each element, and the"
            ' format packs F4: give ("F4", shape)'
        )
    wanted = format_name(dtype)
    try:
        sizes = list(shape)
    except TypeError:
        raise TypeError(f"tensors[{name!r}]: shape {shape!r} is no list of integers") from None
    if wanted == "F4":
        # A shape in a framework counts pairs of F4, a shape in the format single elements.
        if isinstance(dtype, str) and dtype == "F4":
            if not sizes or sizes[-1] % 2:
                raise SafetensorError(f"tensors[{name!r}]: F4 needs an even last dimension")
            sizes[-1] //= 2
        return TensorSpec(dtype="float4_e2m1fn_x2", shape=sizes, data_ptr=0, data_len=0)
    return TensorSpec(dtype=FRAMEWORK_NAMES[wanted], shape=sizes, data_ptr=0, data_len=0)


class TensorWriter:
    """The calls of `Writer` and `CheckpointWriter`."""

    _native: _native._Writer
    _state = ""  # "committed" or "closed"
    _end_report: Callable[[], None] = staticmethod(_nothing)

    def write(self, name: str, data: Any, *, start: int | None = None) -> None:
        """Write a whole tensor, or the rows from `start` on (along the first dimension).

        `data` is one of these:

        - An array of NumPy, torch or another framework. It has the tensor's dtype and shape.
        - A buffer of bytes (format B, b or c: bytes, bytearray, mmap). It holds the tensor's bytes,
          little-endian and in C order.
        - Any other buffer. It has the tensor's dtype. With one dimension it has the tensor's number
          of elements, otherwise the tensor's shape.
        - Numbers: scalars of Python or NumPy, alone or in nested lists. They are converted to the
          tensor's dtype. Floats are rounded. Errors are integers that do not fit, infinities that
          the dtype lacks, floats for an integer tensor and numbers for a bool tensor.

        Data that is not contiguous is copied first. Do not change the data during the call: the GIL
        is released. Raises TypeError for an object without numbers, SafetensorError for data that
        does not fit.
        """
        self._native.write(name, start, to_value(data, name, self._native.dtype(name)))

    def copy(self, name: str, source: Checkpoint, source_name: str | None = None) -> None:
        """Copy a whole tensor of any size from a checkpoint, with a few MiB of memory.

        `source_name`: the name in the checkpoint, if it is another one.
        """
        if not isinstance(source, Checkpoint):
            raise TypeError(f"source is {type(source).__name__}: give a Checkpoint")
        wanted = name if source_name is None else source_name
        self._native.copy(name, source._native, wanted)

    def commit(self) -> None:
        """Put the new files in place. The end of the `with` calls it.

        Raises SafetensorError if a byte was not written, and while another thread writes.
        """
        self._native.commit()
        self._state = "committed"
        self._end_report()

    def close(self) -> None:
        """Remove the new files unless they were committed. Idempotent."""
        self._state = self._state or "closed"
        self._native.close()
        self._end_report()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            if kind is None and not self._state:
                self.commit()
        finally:
            self.close()


class Writer(TensorWriter):
    """Writes a file in several calls. The file appears at `path` when the `with` ends without error.

    `tensors`: names to (dtype, shape), or to arrays, whose dtype and shape are taken.
    `metadata`, `durability`: as in `save_file`.
    `data_alignment`: the first tensor begins at a multiple of so many bytes: a power of two up to
    65536. Tensors lie one behind the other, so the next one is aligned only if the sizes allow it.
    `order`: "writer" sorts tensors as `save_file` does, by dtype and name. "given" keeps the order
    of `tensors`.

    Other programs see the old file until the end. After
    an exception the old file is unchanged. Every byte of every tensor must be written once. A
    writer may be used from any number of threads, but not in a forked child. Raises
    SafetensorError.

        with Writer("model.safetensors", {"w": ("F32", (1000, 512))}) as writer:
            for start, rows in blocks:
                writer.write("w", rows, start=start)
    """

    def __init__(
        self, path: str | PathLike[str], tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None, *,
        durability: Durability = "full", data_alignment: int = 8, order: TensorOrder = "writer",
    ) -> None:
        specs = to_specs(tensors)
        given = to_metadata(metadata)
        self._path = to_path(path, "path")
        self._native = _native._Writer(self._path, specs, given, durability, data_alignment, order)

    def __repr__(self) -> str:
        state = f", {self._state}" if self._state else ""
        return f"Writer({self._path!r}, {count_text(len(self._native))}{state})"
