"""`install()` and SAFETENSORS_CPP=1: the package safetensors_cpp in the place of `safetensors`.

The tests run in new processes. There, the installed package plays the other package `safetensors`, and a copy of it
with the name safetensors_cpp is the package that is put in its place. scripts/check-wheels tests the real wheels.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import safetensors

ROOT = Path(__file__).parents[2]
PACKAGE = Path(safetensors.__file__).parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package safetensors_cpp and its .pth file."""
    folder = tmp_path_factory.mktemp("site")
    copy = folder / "safetensors_cpp"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(safetensors._native.__file__, copy)
    shutil.copy(ROOT / "python" / "packaging" / "safetensors_cpp.pth", folder)
    return folder


def run(site: Path, code: str, value: str | None = None) -> tuple[str, str]:
    """Run code after Python has read the .pth file. Returns stdout and stderr."""
    environment = {name: text for name, text in os.environ.items() if name != "SAFETENSORS_CPP"}
    if value is not None:
        environment["SAFETENSORS_CPP"] = value
    start = f"import site; site.addsitedir({str(site)!r})\n"
    done = subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_install_takes_the_place(site: Path) -> None:
    code = """
import safetensors_cpp, sys; safetensors_cpp.install()
import safetensors, safetensors.numpy, safetensors._safetensors_rust
assert safetensors is safetensors_cpp and safetensors.__file__ == sys.modules["safetensors_cpp"].__file__
from safetensors_cpp import numpy
assert safetensors.numpy is numpy and numpy.__spec__.name == 'safetensors_cpp.numpy'
import safetensors_cpp._native as native, safetensors._native as again; assert native is again
from safetensors import safe_open; assert safe_open is safetensors_cpp.safe_open
count = len(sys.meta_path); safetensors_cpp.install(); import safetensors.numpy as second
assert second is numpy and len(sys.meta_path) == count  # twice is once
import importlib, importlib.util
assert importlib.util.find_spec('safetensors') and importlib.util.find_spec('safetensors.torch')
assert importlib.util.find_spec('safetensors.nothing') is None
assert importlib.reload(numpy) is numpy and importlib.reload(safetensors) is safetensors_cpp
for name in ('safetensors.nothing', 'safetensors.numpy.nothing', 'safetensors._native.nothing'):
  try: __import__(name)
  except ModuleNotFoundError as error: print(error.name, '|', error)
"""
    lines = run(site, code)[0].splitlines()
    names = ["safetensors.nothing", "safetensors.numpy.nothing", "safetensors._native.nothing"]
    assert [line.split(" | ")[0] for line in lines] == names and lines[0].endswith("No module named 'safetensors.nothing'")


def test_the_environment_takes_the_place(site: Path) -> None:
    code = "import safetensors.numpy; print(safetensors.__name__, safetensors.numpy.__name__)"
    assert run(site, code, "1") == ("safetensors_cpp safetensors_cpp.numpy\n", "")
    for value in (None, "0", ""):
        assert run(site, code, value) == ("safetensors safetensors.numpy\n", "")


def test_other_values_are_one_line_on_stderr(site: Path) -> None:
    expected = "SAFETENSORS_CPP has no effect: unknown value 'yes', expected 1 or 0\n"
    assert run(site, "import safetensors; print(safetensors.__name__)", "yes") == ("safetensors\n", expected)


def test_python_starts_although_install_fails(site: Path) -> None:
    code = "import safetensors, os; os.environ['SAFETENSORS_CPP'] = '1'; import safetensors_cpp._startup; print('goes on')"
    shown, errors = run(site, code)
    assert shown == "goes on\n"
    assert errors.startswith("SAFETENSORS_CPP has no effect: safetensors_cpp.install(): safetensors is already imported")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("value", "expected"), [(None, []), ("1", ["safetensors", *(f"safetensors_cpp{m}" for m in ("", "._install", "._startup"))])]
)
def test_the_start_of_python_imports_little(site: Path, value: str | None, expected: list[str]) -> None:
    code = "import sys; print(sorted(name for name in sys.modules if name.startswith('safetensors')))"
    assert run(site, code, value)[0] == f"{expected}\n"


def test_install_refuses_another_package(site: Path) -> None:
    code = (
        "import safetensors, safetensors_cpp, sys\n"
        "before = sys.modules.copy(), sys.meta_path[:]\n"
        "for _ in range(2):\n"
        "  try: safetensors_cpp.install(); print('no error')\n"
        "  except ImportError as error: print(error.name, error)\n"
        "assert sys.modules['safetensors'] is safetensors and sys.meta_path == before[1]\n"
        "import safetensors.numpy; del sys.modules['safetensors']  # a submodule is enough\n"
        "try: safetensors_cpp.install(); print('no error')\n"
        "except ImportError as error: assert error.name.startswith('safetensors.')"
    )
    expected = (
        "safetensors safetensors_cpp.install(): safetensors is already imported, from"
        f" {safetensors.__file__} (call install() before the first import of safetensors, or start Python with"
        " SAFETENSORS_CPP=1)\n"
    )
    assert run(site, code)[0] == expected * 2


def test_pickles_name_the_module_that_has_the_class(site: Path) -> None:
    code = """
import safetensors_cpp, pickle; safetensors_cpp.install()
import safetensors, safetensors.numpy
things = [safetensors.SafetensorError('a'), safetensors.MissingTensorError, safetensors.safe_open,
          safetensors.Checkpoint, safetensors.numpy.load, safetensors.load]
try: import torch.distributed, safetensors.distributed
except ImportError: pass
else: things.append(safetensors.distributed.RankError); assert things[-1].__module__ == 'safetensors_cpp.distributed'
for thing in things:
  text = pickle.dumps(thing)
  assert b'safetensors_cpp' in text and type(pickle.loads(text)) is type(thing)
print(safetensors.SafetensorError.__module__, safetensors.safe_open.__module__)
"""
    assert run(site, code)[0] == "safetensors_cpp._safetensors_rust safetensors_cpp._native\n"


def test_save_and_the_extension_import_their_own_package(site: Path) -> None:
    pytest.importorskip("numpy")
    code = (
        "import safetensors_cpp as st, sys, tempfile, numpy as np\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "  st.save({'a': np.ones(3)}, folder + '/a.safetensors')\n"
        "  with st.safe_open(folder + '/a.safetensors', 'np') as f: assert '1 tensor' in repr(f)\n"
        "  assert st.load(folder + '/a.safetensors')['a'].sum() == 3\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] == 'safetensors'))"
    )
    assert run(site, code)[0] == "[]\n"


def test_threads_that_import_at_once_get_one_module(site: Path) -> None:
    code = (
        "import threading, importlib, safetensors_cpp\n"
        "barrier, found = threading.Barrier(8), []\n"
        "def work():\n"
        "  barrier.wait(); safetensors_cpp.install()\n"
        "  found.append(importlib.import_module('safetensors.numpy'))\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "import safetensors_cpp.numpy\n"
        "assert len(found) == 8 and set(map(id, found)) == {id(safetensors_cpp.numpy)}"
    )
    run(site, code)


def test_the_package_that_has_the_name_needs_no_install() -> None:
    assert safetensors.__name__ == "safetensors"
    finders = sys.meta_path[:]
    safetensors.install()
    assert sys.meta_path == finders and sys.modules["safetensors"] is safetensors


def test_an_extension_for_another_python_is_explained(site: Path, tmp_path: Path) -> None:
    copy = tmp_path / "safetensors_cpp"
    shutil.copytree(site / "safetensors_cpp", copy, ignore=shutil.ignore_patterns("_native.*.so", "_native.so"))
    (copy / "_native.cpython-36m-x86_64-linux-gnu.so").write_bytes(b"")
    code = ("try:\n  from safetensors_cpp import safe_open\n" "except ImportError as error: print(error.name, error)")
    text = run(tmp_path, f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{code}")[0]
    assert text.startswith(f"safetensors_cpp._native safetensors_cpp._native does not fit this Python {sys.version.split()[0]}")
    assert f"found _native.cpython-36m-x86_64-linux-gnu.so in {copy}, expected" in text
    assert text.rstrip().endswith("-m pip install --force-reinstall safetensors-cpp)")


def test_files_of_two_packages_in_one_folder_are_an_error(site: Path, tmp_path: Path) -> None:
    copy = tmp_path / "safetensors"
    shutil.copytree(site / "safetensors_cpp", copy, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "try: import safetensors; print('no error')\n"
        "except ImportError as error: print(error.name, error)"
    )
    assert run(tmp_path, code)[0] == "no error\n"
    for name in ("_safetensors_rust.abi3.so", "_safetensors_rust.cpython-313t-x86_64-linux-gnu.so", "_safetensors_rust.pyd"):
        (copy / name).write_bytes(b"")
        expected = (
            f"safetensors safetensors: found {name} of another package in {copy}, expected the files of one package"
            " (remove both, with `python -m pip uninstall safetensors` until it finds nothing, and install one)\n"
        )
        assert run(tmp_path, code)[0] == expected
        (copy / name).unlink()
