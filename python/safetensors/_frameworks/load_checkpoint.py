"""Makes `load_checkpoint` for the modules of the frameworks: `load` with their framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from .._base.options import Progress
from .._hash.types import Verify
from .._read.load import load
from .._read.requests import Rename
from .._types import Backend, Cache, Framework, Paths
from .adapted import adapted

__all__ = ["LoadCheckpoint", "LoadCheckpointTo", "for_cpu", "for_devices"]

Tensor = TypeVar("Tensor")


class LoadCheckpoint(Protocol[Tensor]):
    """The type of `load_checkpoint`."""

    def __call__(
        self,
        paths: Paths,
        *,
        keys: Iterable[str] | None = None,
        slices: Mapping[str, Any] | None = None,
        rename: Rename | None = None,
        dtype: Any = None,
        threads: int = 0,
        memory_limit: int | str = 0,
        cache: Cache = "auto",
        backend: Backend = "auto",
        out: Mapping[str, Any] | None = None,
        progress: bool | Progress | None = False,
        verify: Verify | None = None,
    ) -> dict[str, Tensor]: ...


class LoadCheckpointTo(Protocol[Tensor]):
    """The type of `load_checkpoint` of a framework with devices."""

    def __call__(
        self,
        paths: Paths,
        device: Any = "cpu",
        *,
        keys: Iterable[str] | None = None,
        slices: Mapping[str, Any] | None = None,
        rename: Rename | None = None,
        dtype: Any = None,
        threads: int = 0,
        memory_limit: int | str = 0,
        cache: Cache = "auto",
        backend: Backend = "auto",
        out: Mapping[str, Any] | None = None,
        progress: bool | Progress | None = False,
        verify: Verify | None = None,
    ) -> dict[str, Tensor]: ...


def for_cpu(module: str, framework: Framework, tensor: str, noun: str) -> Any:
    """Return `load_checkpoint` for a framework on the CPU: a LoadCheckpoint.

    The arguments are those of `make_functions`.
    """

    def load_checkpoint(
        paths: Paths,
        *,
        keys: Iterable[str] | None = None,
        slices: Mapping[str, Any] | None = None,
        rename: Rename | None = None,
        dtype: Any = None,
        threads: int = 0,
        memory_limit: int | str = 0,
        cache: Cache = "auto",
        backend: Backend = "auto",
        out: Mapping[str, Any] | None = None,
        progress: bool | Progress | None = False,
        verify: Verify | None = None,
    ) -> dict[str, Tensor]:
        """Load the {noun} of a checkpoint at once, into memory of their own.

        `paths`: a file, an index, a folder that holds one of these, a pattern, or an iterable of
        these. `keys`: names and patterns, such as "model.layers.*". All arguments and errors are
        those of `safetensors.load`, with the framework of this module.
        """
        return load(
            paths,
            keys=keys,
            slices=slices,
            rename=rename,
            framework=framework,
            dtype=dtype,
            threads=threads,
            memory_limit=memory_limit,
            cache=cache,
            backend=backend,
            out=out,
            progress=progress,
            verify=verify,
        )

    return adapted(load_checkpoint, module, tensor, noun)


def for_devices(module: str, framework: Framework, tensor: str, noun: str) -> Any:
    """Return `load_checkpoint` for a framework with devices: a LoadCheckpointTo.

    The arguments are those of `make_functions`.
    """

    def load_checkpoint(
        paths: Paths,
        device: Any = "cpu",
        *,
        keys: Iterable[str] | None = None,
        slices: Mapping[str, Any] | None = None,
        rename: Rename | None = None,
        dtype: Any = None,
        threads: int = 0,
        memory_limit: int | str = 0,
        cache: Cache = "auto",
        backend: Backend = "auto",
        out: Mapping[str, Any] | None = None,
        progress: bool | Progress | None = False,
        verify: Verify | None = None,
    ) -> dict[str, Tensor]:
        """Load the {noun} of a checkpoint at once, into memory of their own.

        `paths`: a file, an index, a folder that holds one of these, a pattern, or an iterable of
        these. `device`: where the tensors go. `keys`: names and patterns, such as "model.layers.*".
        All arguments and errors are those of `safetensors.load`, with the framework of this module.
        """
        return load(
            paths,
            keys=keys,
            slices=slices,
            rename=rename,
            framework=framework,
            device=device,
            dtype=dtype,
            threads=threads,
            memory_limit=memory_limit,
            cache=cache,
            backend=backend,
            out=out,
            progress=progress,
            verify=verify,
        )

    return adapted(load_checkpoint, module, tensor, noun)
