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
    done = subprocess.run(
        [sys.executable, "-c", start + code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_install_takes_the_place(site: Path) -> None:
    code = (
        "import safetensors_cpp; safetensors_cpp.install()\n"
        "import safetensors, safetensors.numpy, safetensors._safetensors_rust, safetensors._arrays.targets\n"
        "assert safetensors is safetensors_cpp\n"
        "from safetensors_cpp import numpy\n"
        "assert safetensors.numpy is numpy and numpy.__spec__.name == 'safetensors_cpp.numpy'\n"
        "import safetensors_cpp._native as native, safetensors._native as again; assert native is again\n"
        "from safetensors import safe_open; assert safe_open is safetensors_cpp.safe_open\n"
        "print(safetensors.__file__)"
    )
    assert run(site, code)[0] == f"{site / 'safetensors_cpp' / '__init__.py'}\n"


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


def test_without_the_variable_nothing_is_imported(site: Path) -> None:
    code = "import sys; print([name for name in sys.modules if name.startswith('safetensors')])"
    assert run(site, code)[0] == "[]\n"


def test_with_the_variable_the_extension_is_not_loaded(site: Path) -> None:
    code = "import sys; print(sorted(name for name in sys.modules if name.startswith('safetensors')))"
    expected = ["safetensors", "safetensors_cpp", "safetensors_cpp._install", "safetensors_cpp._startup"]
    assert run(site, code, "1")[0] == f"{expected}\n"


def test_install_refuses_another_package(site: Path) -> None:
    code = (
        "import safetensors, safetensors_cpp, sys\n"
        "before = sys.modules.copy(), sys.meta_path[:]\n"
        "for _ in range(2):\n"
        "  try: safetensors_cpp.install(); print('no error')\n"
        "  except ImportError as error: print(error.name, error)\n"
        "assert sys.modules['safetensors'] is safetensors and sys.meta_path == before[1]"
    )
    expected = (
        "safetensors safetensors_cpp.install(): safetensors is already imported, from"
        f" {safetensors.__file__} (call install() before the first import of safetensors, or start Python with"
        " SAFETENSORS_CPP=1)\n"
    )
    assert run(site, code)[0] == expected * 2


def test_install_refuses_a_submodule_of_another_package(site: Path) -> None:
    code = (
        "import safetensors.numpy, safetensors_cpp, sys; del sys.modules['safetensors']\n"
        "try: safetensors_cpp.install()\n"
        "except ImportError as error: print(error.name)"
    )
    assert run(site, code)[0].startswith("safetensors.")


def test_install_twice_is_once(site: Path) -> None:
    code = (
        "import safetensors_cpp, sys; safetensors_cpp.install()\n"
        "import safetensors.numpy as first; count = len(sys.meta_path)\n"
        "safetensors_cpp.install(); import safetensors.numpy as second\n"
        "assert first is second and len(sys.meta_path) == count\n"
        "safetensors_cpp.install()"
    )
    run(site, code)


def test_unknown_modules_keep_their_error(site: Path) -> None:
    code = (
        "import safetensors_cpp; safetensors_cpp.install()\n"
        "for name in ('safetensors.nothing', 'safetensors.numpy.nothing', 'safetensors._native.nothing'):\n"
        "  try: __import__(name)\n"
        "  except ModuleNotFoundError as error: print(error.name, '|', error)"
    )
    lines = run(site, code)[0].splitlines()
    assert [line.split(" | ")[0] for line in lines] == [
        "safetensors.nothing", "safetensors.numpy.nothing", "safetensors._native.nothing",
    ]  # fmt: skip
    assert lines[0].endswith("No module named 'safetensors.nothing'")


def test_reload_and_find_spec_work(site: Path) -> None:
    code = (
        "import safetensors_cpp; safetensors_cpp.install()\n"
        "import importlib, importlib.util, safetensors.numpy\n"
        "assert importlib.util.find_spec('safetensors') and importlib.util.find_spec('safetensors.torch')\n"
        "assert importlib.util.find_spec('safetensors.nothing') is None\n"
        "assert importlib.reload(safetensors.numpy) is safetensors.numpy\n"
        "assert importlib.reload(safetensors) is safetensors_cpp"
    )
    run(site, code)


def test_pickles_name_the_module_that_has_the_class(site: Path) -> None:
    code = (
        "import safetensors_cpp, pickle; safetensors_cpp.install()\n"
        "import safetensors, safetensors.numpy\n"
        "for thing in (safetensors.SafetensorError('a'), safetensors.MissingTensorError, safetensors.safe_open,\n"
        "              safetensors.Checkpoint, safetensors.numpy.load, safetensors.load):\n"
        "  text = pickle.dumps(thing)\n"
        "  assert b'safetensors_cpp' in text and type(pickle.loads(text)) is type(thing)\n"
        "print(safetensors.SafetensorError.__module__, safetensors.safe_open.__module__, safetensors.Checkpoint.__module__)"
    )
    expected = "safetensors_cpp._safetensors_rust safetensors_cpp._native safetensors_cpp._read.checkpoint\n"
    assert run(site, code)[0] == expected


def test_pickles_of_the_errors_of_ranks_name_their_module(site: Path) -> None:
    pytest.importorskip("torch.distributed")
    code = (
        "import safetensors_cpp.distributed as own, pickle\n"
        "assert own.RankError.__module__ == 'safetensors_cpp.distributed'\n"
        "assert pickle.loads(pickle.dumps(own.RankError)) is own.RankError"
    )
    run(site, code)


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
    code = (
        "try:\n  from safetensors_cpp import safe_open\n"
        "except ImportError as error: print(error.name, error)"
    )
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


def test_install_is_first_although_another_package_comes_first_on_the_path(site: Path, tmp_path: Path) -> None:
    (tmp_path / "safetensors.py").write_text("raise RuntimeError('the wrong file')")
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    code = "import safetensors, safetensors.numpy; print(safetensors.__name__, safetensors.numpy.__name__)"
    expected = "safetensors_cpp safetensors_cpp.numpy\n"
    assert run(site, f"{path}import safetensors_cpp; safetensors_cpp.install(); {code}")[0] == expected
    assert run(site, path + code, "1")[0] == expected
