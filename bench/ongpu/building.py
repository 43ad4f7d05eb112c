"""Builds the library, its programs and the Python extension, and unpacks wheels. Nothing is installed, nothing fetched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Of a folder of wheels: what each peer is imported from, the beginning of the file's name.
WHEELS = {
    "nanobind": "nanobind-",
    "reference": "safetensors-0.8.",
    "reference9": "safetensors-0.9.",
    "fastsafetensors": "fastsafetensors-",
    "runai": "runai_model_streamer-",
    "instanttensor": "instanttensor-",
}


@dataclass
class Built:
    """Where things are, and why others are not."""

    site: dict[str, Path] = field(default_factory=dict)  # by peer: a folder for PYTHONPATH
    programs: dict[str, Path] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def _fits(name: str) -> bool:
    # Whether this interpreter can import what a wheel of this name holds.
    python = name.removesuffix(".whl").split("-")[-3:-1]
    own = f"cp3{sys.version_info[1]}"
    return python[0] in ("py3", "py2.py3", own) or (python[0].startswith("cp3") and python[1] == "abi3")


def unpack(wheels: Path | None, scratch: Path, built: Built) -> None:
    """Unpack the wheels of a folder, each into one of its own."""
    for peer, prefix in WHEELS.items():
        names = sorted(path for path in wheels.glob(prefix + "*.whl") if "+cpp" not in path.name) if wheels else []
        fitting = [path for path in names if _fits(path.name)]
        if not fitting:
            reason = f"{names[0].name} is for another Python" if names else f"no wheel {prefix}*"
            built.missing[peer] = reason + (f" in {wheels.name}" if wheels and not names else "")
            continue
        built.site[peer] = scratch / "site" / peer
        shutil.rmtree(built.site[peer], ignore_errors=True)
        with zipfile.ZipFile(fitting[-1]) as wheel:
            wheel.extractall(built.site[peer])


def _run(command: list[str], deadline: float, log: Path, environment: dict[str, str]) -> str:
    # Returns what went wrong, or nothing.
    seconds = max(deadline - time.monotonic(), 1)
    try:
        with open(log, "a") as out:
            subprocess.run(command, stdout=out, stderr=out, timeout=seconds, check=True, env=environment)
    except subprocess.TimeoutExpired:
        return "the time for building was up"
    except (OSError, subprocess.CalledProcessError) as error:
        said = [line.strip() for line in log.read_text().splitlines() if "rror" in line]
        return said[-1][:300] if said else str(error)
    return ""


def _configure(build: Path, python: bool, deadline: float, environment: dict[str, str]) -> str:
    more = ["-GNinja"] if shutil.which("ninja") and not (build / "CMakeCache.txt").exists() else []
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "SAFETENSORS_BUILD_CLI": "OFF",
        "SAFETENSORS_BUILD_BENCH": "ON",
        "SAFETENSORS_BUILD_PYTHON": "ON" if python else "OFF",
        "Python_EXECUTABLE": sys.executable,
    }
    defined = [f"-D{name}={value}" for name, value in options.items()]
    command = ["cmake", "-S", str(ROOT), "-B", str(build), *more, *defined]
    return _run(command, deadline, build.parent / "build.log", environment)


def _package(build: Path, scratch: Path) -> Path:
    # This package as it would be installed.
    site = scratch / "site" / "ours"
    shutil.rmtree(site, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "python" / "safetensors", site / "safetensors", ignore=ignored)
    for extension in (build / "python").glob("_native*.so"):
        shutil.copy2(extension, site / "safetensors")
    return site


def build(scratch: Path, wheels: Path | None, fake: bool, deadline: float) -> Built:
    """Build everything until the deadline; a part that cannot be built is missing, with the reason."""
    built = Built()
    unpack(wheels, scratch, built)
    environment = dict(os.environ)
    if "nanobind" in built.site:
        paths = [str(built.site["nanobind"]), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    folder = scratch / "build"
    folder.mkdir(exist_ok=True)
    python_missing = _configure(folder, True, deadline, environment)
    if python_missing:
        reason = _configure(folder, False, deadline, environment)
        if reason:
            built.missing.update(ours=python_missing, gpu_check=reason, limits=reason)
            return built
    targets = ["bench_gpu_check", "bench_limits"] + (["fake_cuda"] if fake else [])
    _make(folder, targets, deadline, environment, built)
    if not python_missing:
        log = scratch / "build.log"
        command = ["cmake", "--build", str(folder), "--parallel", str(jobs()), "--target", "safetensors_native"]
        python_missing = _run(command, deadline, log, environment)
    if python_missing:
        built.missing["ours"] = python_missing
    else:
        built.site["ours"] = _package(folder, scratch)
    return built


def _make(folder: Path, targets: Iterable[str], deadline: float, environment: dict[str, str], built: Built) -> None:
    command = ["cmake", "--build", str(folder), "--parallel", str(jobs()), "--target", *targets]
    reason = _run(command, deadline, folder.parent / "build.log", environment)
    found = {"gpu_check": "bench/gpu_check", "limits": "bench/limits", "fake_cuda": "bench/fake_cuda/libfake_cuda.so"}
    for name, path in found.items():
        if (folder / path).exists():
            built.programs[name] = folder / path
        elif name != "fake_cuda":
            built.missing[name] = reason or f"{path} was not built"


def jobs() -> int:
    """Return how many compilers may run at once."""
    return len(os.sched_getaffinity(0))
