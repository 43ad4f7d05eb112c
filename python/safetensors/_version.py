"""The version of the package, from the file VERSION."""

from ._native import _version as __version__

__all__ = ["__version__"]
