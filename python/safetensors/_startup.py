"""Reads SAFETENSORS_CPP when Python starts. The `.pth` file of safetensors-cpp imports this module.

Python must start in any case, so a failure is one line on stderr.
"""

import os
import sys

_value = os.environ.get("SAFETENSORS_CPP", "")
try:
    if _value == "1":
        from ._install import install

        install()
    elif _value not in ("", "0"):
        raise ValueError(f"unknown value {_value!r}, expected 1 or 0")
except Exception as error:
    print(f"SAFETENSORS_CPP has no effect: {error}", file=sys.stderr)
