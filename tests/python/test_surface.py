"""The public surface of the package: names, signatures, help, stubs, and the cost of its import."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import pydoc
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from conftest import framework, installed, run

import safetensors
from safetensors import SafetensorError, TensorSpec, Writer, _types, load, safe_open
from safetensors.numpy import load_file, save_file

PACKAGE = Path(safetensors.__file__).parent
FRAMEWORK_MODULES = {"numpy": "numpy", "torch": "torch", "flax": "jax", "tensorflow": "tensorflow", "mlx": "mlx.core", "paddle": "paddle", "distributed": "torch"}
# Classes without a constructor: objects of theirs come from calls.
MADE_BY_CALLS = {"PrefetchLoader", "PySafeSlice", "TensorMeta"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_file({"a": np.arange(50, dtype=np.int32).reshape(10, 5)}, tmp_path / "t")
    return tmp_path / "t"


# Names


def test_the_package_exports_what_programs_import() -> None:
    """The reference's names are in test_names.py."""
    ours = "Checkpoint CheckpointLayout CheckpointStream CheckpointWriter MissingTensorError PrefetchPlan Writer install load save stream"
    assert set(ours.split()) < set(safetensors.__all__)


def test_the_rust_module_is_there_after_the_package() -> None:
    code = "import safetensors\ntry: safetensors.deserialize(b'')\nexcept safetensors._safetensors_rust.SafetensorError as error: print(error)"
    assert run(code).startswith("Error while deserializing: header too small")


# Prints the modules that come with an import: the package's own, and those that take long.
COUNTED = "print(sorted(m for m in sys.modules if m.startswith('safetensors') or m in {'typing', 'inspect', 'numpy'}))"


def test_importing_the_package_imports_nothing() -> None:
    assert run(f"import sys, safetensors; {COUNTED}") == "['safetensors']\n"


def test_each_name_imports_no_more_than_it_needs() -> None:
    code = f"import sys; from safetensors import safe_open, SafetensorError, TensorSpec, __version__; {COUNTED}"
    assert run(code) == "['safetensors', 'safetensors._native', 'safetensors._version']\n"
    code = f"import sys, safetensors._safetensors_rust; {COUNTED}"
    own = ["", "._functions", "._native", "._safetensors_rust", "._types", "._version"]
    assert run(code) == f"{[*('safetensors' + module for module in own), 'typing']}\n"


@pytest.mark.parametrize("first", [*safetensors.__all__, "_native", "_safetensors_rust"])
def test_every_name_may_come_first(first: str) -> None:
    code = (
        f"import safetensors; assert {first!r} in dir(safetensors)\n"
        f"assert getattr(safetensors, {first!r}) is safetensors.{first}\n"
        f"from safetensors import {first} as again; assert again is safetensors.{first}"
    )
    run(code)


def test_other_names_are_attribute_errors() -> None:
    assert run("import safetensors; print(hasattr(safetensors, 'numpy'), hasattr(safetensors, 'nothing'))") == "False False\n"
    with pytest.raises(AttributeError, match="^module 'safetensors' has no attribute 'nothing'$"):
        safetensors.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_the_package_names_what_it_exports_once() -> None:
    """The names for type checkers, those for the interpreter, and __all__ are the same."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    checked = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert checked == safetensors._HOMES  # type: ignore[attr-defined]
    assert sorted(checked) == sorted(safetensors.__all__)


# A second interpreter of the process cannot import the package, and the first one keeps it.
INTERPRETERS = """
import sys
import safetensors
try:
    import _interpreters
    def start(isolated, code):
        made = _interpreters.create("isolated" if isolated else "legacy")
        failed = _interpreters.exec(made, code)
        if failed: raise RuntimeError(failed.formatted)
except ImportError:
    import _xxsubinterpreters as _interpreters
    def start(isolated, code):
        _interpreters.run_string(_interpreters.create(isolated=isolated), code)

def use():
    with safetensors.safe_open(sys.argv[1], "np") as f:
        print(f.get_slice("a")[0, 1:3].tolist())

use()
second = "import safetensors\\nfrom safetensors import safe_open"
for isolated in (False, True, False):
    try:
        start(isolated, second)
    except RuntimeError as error:
        print(error, flush=True)
    use()
"""
REFUSED = (
    "safetensors is imported in another interpreter of this process, and it works in one only (import it in one"
    " interpreter, or use processes; for mod_wsgi: WSGIApplicationGroup %{GLOBAL})"
)


@pytest.mark.skipif(sys.version_info[:2] in {(3, 10), (3, 12)}, reason="_xxsubinterpreters of 3.10 and 3.12 differ")
def test_the_first_interpreter_keeps_the_package(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", INTERPRETERS, str(path)], capture_output=True, text=True)
    assert done.stdout.count("[1, 2]\n") == 4, done.stdout + done.stderr
    assert done.stdout.count(REFUSED) == 3, done.stdout + done.stderr


# Signatures and help


def functions() -> Iterator[tuple[str, Any]]:
    for name in safetensors.__all__:
        if inspect.isroutine(value := getattr(safetensors, name)):
            yield name, value
    for module, needs in FRAMEWORK_MODULES.items():
        if installed(needs):
            loaded = importlib.import_module(f"safetensors.{module}")
            for name in loaded.__all__:
                if inspect.isfunction(value := getattr(loaded, name)):
                    yield f"{module}.{name}", value


def classes() -> Iterator[tuple[str, type]]:
    for name in safetensors.__all__:
        if inspect.isclass(value := getattr(safetensors, name)) and name != "PrefetchPlan":
            yield name, value


def own_methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The methods that a class defines itself; __new__ and __init__ are its signature. _make is that of a NamedTuple."""
    for name, value in vars(kind).items():
        if inspect.isroutine(value) and not inspect.isbuiltin(value) and name not in ("__new__", "__signature__", "_make"):
            yield name, value


def test_every_function_has_a_signature_and_help_and_is_found_by_pickle() -> None:
    for name, function in functions():
        assert isinstance(inspect.signature(function), inspect.Signature), name
        assert function.__doc__ and name.rpartition(".")[2] + "(" in pydoc.plain(pydoc.render_doc(function)), name
        assert pickle.loads(pickle.dumps(function)) is function, name


# Without annotations. Those of the arrays' modules are in test_functions_of_frameworks_are_alike.
SIGNATURES = {
    "serialize": "(tensor_dict, metadata=None)",
    "serialize_file": "(tensor_dict, filename, metadata=None, *, durability='full')",
    "deserialize": "(bytes)",
    "_safe_open_handle": "(f, framework, device='cpu', *, backend='mmap')",
    "safe_open": "(filename, framework, device='cpu', *, backend='mmap', accept=())",
    "TensorSpec": "(*, dtype, shape, data_ptr, data_len)",
    "numpy.save": "(tensor_dict, metadata=None)",
    "numpy.save_file": "(tensor_dict, filename, metadata=None, *, durability='full')",
    "numpy.load": "(data, *, copy=True)",
    "numpy.load_file": "(filename, *, backend='mmap')",
    "paddle.save": "(tensors, metadata=None)",
    "paddle.save_file": "(tensors, filename, metadata=None, *, durability='full')",
    "paddle.load": "(data, device='cpu')",
    "paddle.load_file": "(filename, device='cpu', *, backend='mmap')",
    "torch.save": "(tensors, metadata=None)",
    "torch.save_file": "(tensors, filename, metadata=None, *, durability='full')",
    "torch.load": "(data, *, copy=True)",
    "torch.load_file": "(filename, device='cpu', *, backend='mmap')",
    "torch.save_model": "(model, filename, metadata=None, force_contiguous=True, *, durability='full')",
    "torch.load_model": "(model, filename, strict=True, device='cpu', *, backend='mmap')",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_of_the_reference_and_our_options(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    if module:
        framework(FRAMEWORK_MODULES[module])
    signature = inspect.signature(getattr(importlib.import_module(f"safetensors.{module}".rstrip(".")), attribute))
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)) == SIGNATURES[name]


def test_annotations_are_known_at_run_time() -> None:
    for name, function in functions():
        if not name.startswith("distributed."):  # whose annotations name torch's types
            hints, parameters = typing.get_type_hints(function), inspect.signature(function, eval_str=True).parameters
            assert set(hints) == {*parameters, "return"}, name


@pytest.mark.parametrize(
    ("module", "tensor"), [("flax", "jax.Array"), ("tensorflow", "tf.Tensor"), ("mlx", "mx.array")]
)
def test_functions_of_frameworks_are_alike(module: str, tensor: str) -> None:
    """The signatures of the three modules differ in their types only."""
    if not installed(FRAMEWORK_MODULES[module]):
        pytest.skip(f"{FRAMEWORK_MODULES[module]} is not installed")
    loaded = importlib.import_module(f"safetensors.{module}")
    names = f"tensors: 'Mapping[str, {tensor}]'"
    metadata = "metadata: 'dict[str, str] | None' = None"
    expected = {
        "save": f"({names}, {metadata}) -> 'bytes'",
        "save_file": f"({names}, filename: 'str | PathLike[str]', {metadata}, *, durability: 'Durability' = 'full') -> 'None'",
        "load": f"(data: 'Buffer') -> 'dict[str, {tensor}]'",
        "load_file": f"(filename: 'str | PathLike[str]', *, backend: 'Backend' = 'mmap') -> 'dict[str, {tensor}]'",
    }
    for name, signature in expected.items():
        assert str(inspect.signature(getattr(loaded, name))) == signature


def test_every_class_has_a_signature_and_help() -> None:
    for name, kind in classes():
        if name in MADE_BY_CALLS:
            with pytest.raises(TypeError):
                kind()
        elif not issubclass(kind, Exception):
            assert isinstance(inspect.signature(kind), inspect.Signature), name
            assert kind.__init__.__qualname__ in (f"{kind.__qualname__}.__init__", "object.__init__"), name
        assert kind.__doc__ and name in pydoc.plain(pydoc.render_doc(kind))


@pytest.mark.parametrize("kind", [kind for _, kind in classes()], ids=[name for name, _ in classes()])
def test_every_method_has_a_signature_and_help(kind: type) -> None:
    page = pydoc.plain(pydoc.render_doc(kind))
    for name, method in own_methods(kind):
        signature = inspect.signature(method)
        assert next(iter(signature.parameters)) == "self", name
        if not name.startswith("_"):
            first = f"{name}(\n" if f" |  {name}(\n" in page else f"{name}{signature}".split(" -> ")[0]
            assert f" |  {first}" in page, f"{name} is not in the help"  # long ones have a line for each parameter
            assert method.__doc__, name


def test_bound_methods_have_signatures(path: Path) -> None:
    with safe_open(path, "np") as f:
        assert str(inspect.signature(f.get_slice)) == "(name)"
        assert str(inspect.signature(f.prefetch)) == "(plan=None, *, device=None, threads=8)"
        assert str(inspect.signature(f.get_slice("a").get_shape)) == "()"
        assert str(inspect.signature(f.prefetch().take)) == "(name)"
    assert str(inspect.signature(safe_open.get_tensor)) == "(self, /, name)"
    assert inspect.signature(safe_open).parameters["backend"].default == "mmap"
    assert list(inspect.signature(TensorSpec).parameters) == ["dtype", "shape", "data_ptr", "data_len"]
    for kind in (safe_open, TensorSpec):  # inspect of Python 3.11.2 reads this one
        assert kind.__text_signature__ == SIGNATURES[kind.__name__]


def test_signatures_are_inherited(path: Path) -> None:
    class Opened(safe_open):
        def keys(self) -> list[str]:
            return super().keys()[::-1]

    assert inspect.signature(Opened) == inspect.signature(safe_open)
    class WithInit(safe_open):
        def __init__(self, path: Path) -> None:
            super().__init__(path, "np")

    class WithNew(safe_open):
        def __new__(cls, path: Path) -> "WithNew":
            return super().__new__(cls)

    assert list(inspect.signature(WithInit).parameters) == ["path"]
    assert list(inspect.signature(WithNew).parameters) == ["path"]
    with Opened(path, "np") as f:
        assert not hasattr(f, "__signature__")
        assert f.keys() == ["a"] and f.get_slice(name="a").get_shape() == [10, 5]


def test_methods_say_what_they_were_given(path: Path) -> None:
    with safe_open(path, "np") as f:
        for call in (lambda: f.get_tensor(), lambda: f.get_tensor("a", "b"), lambda: f.get_tensor(nome="a")):
            with pytest.raises(TypeError, match="^get_tensor\\(\\): incompatible function arguments"):
                call()
        with pytest.raises(TypeError, match="descriptor 'keys' for .*safe_open' objects doesn't apply"):
            safe_open.keys(3)  # type: ignore[arg-type]
        f.__exit__(*range(40))  # type: ignore[call-arg]  # more than a call keeps on the stack


# Errors' attributes


def test_attributes_have_their_types_or_are_none(path: Path) -> None:
    path.with_name("cut").write_bytes(b"\x02\0\0\0\0\0\0\0{]")
    errors = [(SafetensorError("x"), (None, None, None))]
    for call, expected in (
        (lambda: safe_open(path, "np").get_tensor("zz"), ("not_found", None, None)),
        (lambda: safe_open(path.with_name("cut"), "np"), ("json_syntax", 9, None)),
        (lambda: save_file({}, path.parent / "nowhere" / "t"), ("open_failed", None, 2)),
    ):
        with pytest.raises(SafetensorError) as caught:
            call()  # type: ignore[no-untyped-call]
        errors.append((caught.value, expected))
    for error, expected in errors:
        for each in (error, pickle.loads(pickle.dumps(error))):
            assert ((each.code, each.offset, each.errno), str(each)) == (expected, str(error))


# Stubs


def test_stubs_name_the_words_that_are_taken(path: Path) -> None:
    for backend in get_args(_types.Backend):
        assert load_file(path, backend=backend).keys() == {"a"}
    for durability in get_args(_types.Durability):
        save_file({}, path.with_name("s"), durability=durability)
        Writer(path.with_name("w"), {}, durability=durability).close()
    for cache in get_args(_types.Cache):
        assert load(path, cache=cache).keys() == {"a"}
    for framework in get_args(_types.Framework):
        safe_open(path, framework).keys()


@pytest.mark.parametrize("words", ["Backend", "Durability", "Cache"])
def test_errors_name_the_words_of_the_stubs(words: str, path: Path) -> None:
    calls: dict[str, Any] = {
        "Backend": lambda: load_file(path, backend="x"),  # type: ignore[arg-type]
        "Durability": lambda: save_file({}, path, durability="x"),  # type: ignore[arg-type]
        "Cache": lambda: load(path, cache="x"),  # type: ignore[arg-type]
    }
    expected = ", ".join(f'"{word}"' for word in get_args(getattr(_types, words)))
    with pytest.raises(SafetensorError) as caught:
        calls[words]()
    assert str(caught.value) == f'{words.lower()} "x" is invalid (expected one of: {expected})'


TYPED = """
from typing import Any, assert_type
import jax, mlx.core, numpy, paddle, safetensors, tensorflow, torch
from safetensors import *
from safetensors import Checkpoint, CheckpointStream, SafetensorError, TensorSpec, Writer, __version__, load, safe_open, stream
from safetensors._types import Framework
from safetensors.numpy import save_file
from safetensors.torch import load_into
Array = numpy.ndarray[Any, Any]
assert_type(load("x"), dict[str, Array])
assert_type(load("x", keys=["w"], framework="np", memory_limit="1GB"), dict[str, Array])
assert_type(load("x", framework="pt", device="cuda", dtype="bf16"), dict[str, torch.Tensor])
assert_type(load("x", framework="jax"), dict[str, jax.Array])
assert_type(load("x", framework="tf"), dict[str, tensorflow.Tensor])
assert_type(load("x", framework="mlx"), dict[str, mlx.core.array])
assert_type(load("x", framework="paddle"), dict[str, paddle.Tensor])
assert_type(next(stream("x", framework="torch")), tuple[str, torch.Tensor])
assert_type(dict(stream("x")), dict[str, Array])
assert_type(Checkpoint("x")["w"], Array)
with Checkpoint(["x"], "pytorch", "cuda") as model:
    assert_type(model, Checkpoint[torch.Tensor])
    assert_type(model.get_tensor("w"), torch.Tensor)
    assert_type(model.load(), dict[str, torch.Tensor])
    assert_type(list(model.values()), list[torch.Tensor])
    assert_type(model.stream(), CheckpointStream[torch.Tensor])
load_into(torch.nn.Linear(1, 1), "x").missing_keys
load_into(torch.nn.Linear(1, 1), "x").wanted_keys  # wrong
def of_any(model: Checkpoint, framework: Framework) -> None:
    assert_type(model["w"], Any)
    load("x", framework=framework)
    load("x", framwork="np")  # wrong
    load("x").clear("x")  # wrong
def details(e: SafetensorError) -> tuple[str | None, int | None, int | None]:
    return e.code, e.offset, e.errno
version: str = __version__
with safe_open("x", "np", backend="pread") as f:
    names: list[str] = f.keys()
safetensors._safetensors_rust.SafetensorError
save_file({}, "x", durability="slow")  # wrong
load("x", cache="slow")  # wrong
safe_open("x", "nunpy")  # wrong
safe_open("x", "np", backend="slow")  # wrong
Writer("x", {}, durability="slow")  # wrong
safetensors.nothing  # wrong
"""


def test_type_checkers_see_names_words_and_tensors(tmp_path: Path) -> None:
    framework("torch")
    pytest.importorskip("mypy")
    (tmp_path / "typed.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--python-version", "3.12", "--cache-dir", str(tmp_path), "typed.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    wrong = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line}
    assert wrong == {n for n, line in enumerate(TYPED.splitlines(), 1) if "# wrong" in line}, done.stdout
