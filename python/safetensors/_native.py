"""Explains a missing extension. Python imports this file only if it finds no extension `_native` that fits."""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

_folder = os.path.dirname(__file__)
_found = sorted(name for name in os.listdir(_folder) if name.startswith("_native.") and "py" not in name.split(".")[-1])
_distribution = __name__.partition(".")[0].replace("_", "-")
raise ImportError(
    f"{__name__} does not fit this Python {sys.version.split()[0]} on {sys.platform}: found"
    f" {', '.join(_found) or 'no extension'} in {_folder}, expected a file that ends in"
    f" {' or '.join(EXTENSION_SUFFIXES)} (install the wheel for this Python:"
    f" {sys.executable} -m pip install --force-reinstall {_distribution})",
    name=__name__,
)
