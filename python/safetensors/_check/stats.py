"""Computes statistics of the values of tensors: range, mean, deviation, zeros, NaN, a histogram."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from .. import _native
from .._base.options import Progress, reporter
from .._base.paths import to_paths
from .._read.requests import select
from .._types import Paths

__all__ = ["StatsBin", "TensorStats", "stats"]


class StatsBin(NamedTuple):
    """The numbers of a tensor with 2 ** exponent <= abs(number) < 2 ** (exponent + 1).

    `exponent`: from -1074 to 1023. `negative`, `positive`: how many of these numbers are negative,
    and how many are positive.
    """

    exponent: int
    negative: int
    positive: int


@dataclass(frozen=True, slots=True)
class TensorStats:
    """Statistics of one tensor. The members are those of `safetensors stats --json`.

    Every element is a number. BOOL is the value of its byte, and an integer of more than 53 bits is
    rounded to the nearest float. An element of C64 is two numbers, its real and its imaginary part.

    `name`, `dtype`, `shape`: those of the tensor in the file, with the format's name of the dtype.
    `count`: count of the numbers: the elements, or for C64 twice as many. `nan`,
    `positive_infinity`, `negative_infinity`: number of NaN and of infinities. `zeros`: number of
    zeros, also of -0.0.

    The next members are those of the finite numbers, and None if no number is finite. `min`, `max`:
    the smallest and the largest number. `absmax`: the largest absolute value. `mean`: the arithmetic
    mean. `std`: the deviation of the whole population, as `numpy.std` computes it by default.

    `histogram`: the bins that are not empty, by exponent, or None if it was not requested. NaN,
    infinities and zeros are in no bin.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    count: int
    nan: int
    positive_infinity: int
    negative_infinity: int
    zeros: int
    min: float | None
    max: float | None
    absmax: float | None
    mean: float | None
    std: float | None
    histogram: tuple[StatsBin, ...] | None = None


def stats(
    paths: Paths,
    *,
    keys: Iterable[str] | None = None,
    histogram: bool = False,
    threads: int = 0,
    progress: bool | Progress | None = False,
) -> dict[str, TensorStats]:
    """Return statistics of the values of tensors of a file or a model, by the names of the tensors.

    `paths`, `keys`, `progress`: as in `load`. `histogram`: also count the numbers per power of two,
    which takes longer. `threads`: 0 is one per processor, at most 16.

    The dict has the order of `keys`, or of the files and their bytes. Each tensor is read once, in
    chunks. Memory is bounded: about 1 MiB per thread, and the result. The error of `mean` is at most
    one unit in its last place, and 1e-30 of the mean of all |x|, which counts if large numbers cancel
    each other. The relative error of `std` is at most 1e-13. The result does not depend on the number
    of threads. The GIL is released while values are read.

    Raises SafetensorError (an invalid file, a file that became shorter), MissingTensorError for an
    unknown name and for a pattern without a match, TypeError, OSError, and what `progress` raises.
    """
    report, end_progress = reporter(progress, "Reading")
    try:
        checkpoint = _native._Checkpoint(to_paths(paths, "paths"), "np", "cpu", "pread")
        names = None if keys is None else select(checkpoint, keys)
        found = _native._stats(
            checkpoint, names, histogram=histogram, threads=threads, progress=report
        )
    finally:
        end_progress()
    made = {each[0]: TensorStats(*each[:-1], _bins(each[-1])) for each in found}
    return made if names is None else {name: made[name] for name in names}


def _bins(histogram: list[tuple[int, int, int]] | None) -> tuple[StatsBin, ...] | None:
    return None if histogram is None else tuple(StatsBin(*each) for each in histogram)
