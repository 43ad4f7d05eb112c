"""Prints the verdict of the reference package on files. An interpreter that has this package runs it.

Reads paths from standard input, one JSON string per line, and writes one JSON object per path.
"""

import json
import sys

from safetensors import safe_open

for line in sys.stdin:
    path = json.loads(line)
    try:
        with safe_open(path, "np") as f:
            slices = {name: f.get_slice(name) for name in f.keys()}
            verdict = {
                "keys": f.keys(),
                "metadata": f.metadata(),
                "tensors": {name: [s.get_dtype(), s.get_shape()] for name, s in slices.items()},
            }
    except Exception as error:
        verdict = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(verdict))
