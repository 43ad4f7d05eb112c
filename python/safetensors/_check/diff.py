"""Compares two sets of tensors in files: names, dtypes, shapes and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, NoReturn

from .. import _native
from .._base.options import Progress, reporter
from .._base.paths import to_paths
from .._types import Paths

__all__ = ["DiffResult", "TensorDiff", "TensorSummary", "diff"]


class TensorSummary(NamedTuple):
    """A tensor of a file: its name, the format's name of its dtype, and its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class TensorDiff(NamedTuple):
    """A tensor that differs.

    `kind`: "only_first" or "only_second" (the other set has no such tensor), "shape", "dtype" (the
    shapes are equal; values are compared, too), or "values". `first`, `second`: the tensors, or None.

    The numbers are those of "values" and "dtype", else 0. `differing`: number of elements that are not
    equal. `first_differing`: index of the first one in C order. `nan_differing`: number of elements
    that are NaN in exactly one tensor. `max_error`, `mean_error`: largest |a - b|, and the sum of all
    |a - b| divided by the number of elements. An element that is NaN in one tensor has no error.
    """

    kind: Literal["only_first", "only_second", "shape", "dtype", "values"]
    first: TensorSummary | None
    second: TensorSummary | None
    differing: int
    first_differing: int
    nan_differing: int
    max_error: float
    mean_error: float


@dataclass(frozen=True, slots=True)
class DiffResult:
    """The result of `diff`.

    `tensors`: the tensors that differ. `equal_tensors`: number of tensors that do not. `equal`: True if
    no tensor differs. A result has no truth value of its own: `if diff(a, b)` raises TypeError, because
    it reads as "they differ" and as "they are equal".
    """

    tensors: list[TensorDiff]
    equal_tensors: int

    @property
    def equal(self) -> bool:
        """True if no tensor differs."""
        return not self.tensors

    def __bool__(self) -> NoReturn:
        raise TypeError("a DiffResult has no truth value: use its member `equal`")


def diff(
    first: Paths,
    second: Paths,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    ulps: int = 0,
    values: bool = True,
    rename: Mapping[str, str] | None = None,
    threads: int = 0,
    progress: bool | Progress | None = False,
) -> DiffResult:
    """Return how the tensors of two files or models differ.

    `first`, `second`: what `load` takes: a file, a folder, an index, a pattern, or a list of files.
    Values of one dtype are equal if their bytes are equal, unless a tolerance is given. Then two
    elements are equal if |a - b| <= atol + rtol * |b|, or if `b` is at most `ulps` floats of this dtype
    away from `a`. Tensors with other dtypes differ, and their values are compared as numbers.
    `values=False` reads headers only. `rename` gives the names in `second` of tensors that have another
    one there. `threads`: 0 is one per processor, at most 16. `progress`: as in `load`.

    Memory is bounded: about 3 MiB per thread. The metadata of the files is not compared.
    Raises SafetensorError (an invalid file; a tolerance that is negative or NaN; two tensors of `first`
    get one name), OSError, and what `progress` raises.
    """
    report, end_progress = reporter(progress, "Comparing")
    try:
        found, equal_tensors = _native._diff(
            to_paths(first, "first"),
            to_paths(second, "second"),
            rtol=rtol,
            atol=atol,
            ulps=ulps,
            values=values,
            rename=None if rename is None else dict(rename),
            threads=threads,
            progress=report,
        )
    finally:
        end_progress()
    return DiffResult([_difference(*each) for each in found], equal_tensors)


def _difference(
    kind: Literal["only_first", "only_second", "shape", "dtype", "values"],
    first: tuple[str, str, tuple[int, ...]] | None,
    second: tuple[str, str, tuple[int, ...]] | None,
    *numbers: int | float,
) -> TensorDiff:
    return TensorDiff(
        kind,
        None if first is None else TensorSummary(*first),
        None if second is None else TensorSummary(*second),
        *numbers,  # type: ignore[arg-type]
    )
