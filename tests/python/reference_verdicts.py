"""Run by the interpreter of the reference: reads paths from standard input, writes what it thinks of each as JSON."""

import json
import sys

from safetensors import safe_open

for line in sys.stdin:
    path = json.loads(line)
    try:
        with safe_open(path, "np") as f:
            verdict = {"keys": f.keys(), "metadata": f.metadata()}
    except Exception as error:
        verdict = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(verdict))
