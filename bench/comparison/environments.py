"""Makes one virtual environment per peer.

Some peers have the same package name as ours. Others need different versions of the same packages.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Each list installs torch first, with a version. Otherwise pip would install the newest torch as a
# dependency of another package, with gigabytes for CUDA.
TORCH = "torch==2.13.0"
NUMPY = "numpy==2.4.6"
PROGRAMS = ["transformers==5.23.0", "accelerate==1.15.0", "huggingface_hub==2.4.0"]
PACKAGES = {
    "reference": [TORCH, NUMPY, "safetensors==0.8.0", *PROGRAMS],
    "reference9": [TORCH, NUMPY, "safetensors==0.9.0rc1"],
    "fastsafetensors": [TORCH, NUMPY, "fastsafetensors==0.5.0"],
    "runai": [TORCH, NUMPY, "runai-model-streamer==0.17.0"],
    "torch": [TORCH, NUMPY],
    "numpy": [NUMPY],
    "h5py": [NUMPY, "h5py==3.16.0"],
}


def make(directory: Path, peer: str) -> tuple[str, str]:
    """Return the interpreter in the environment of a peer, and an error message.

    Make the environment if it does not exist or has other packages. The error message is empty on
    success.
    """
    folder = directory / peer
    python = str((folder / "bin" / "python").absolute())
    stamp = folder / "stamp"
    wanted = " ".join(PACKAGES[peer])
    if stamp.exists() and stamp.read_text() == wanted:
        return python, ""
    print(f"making {folder}: {wanted}", file=sys.stderr, flush=True)
    commands = [[sys.executable, "-m", "venv", "--clear", str(folder)]]
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--pre"]
    if peer != "reference9":
        pip.remove("--pre")
    commands += [[*pip, package] for package in PACKAGES[peer]]
    for command in commands:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            said = [line for line in done.stdout.splitlines() if line.startswith("ERROR")] or [done.stdout[-200:]]
            return python, f"{command[-1]} cannot be installed: {said[0][:200]}"
    stamp.write_text(wanted)
    return python, ""
