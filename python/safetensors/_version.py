"""The release, as the file VERSION has it."""

from ._native import _version as __version__

__all__ = ["__version__"]
