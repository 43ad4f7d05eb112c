"""The stubs of the compiled part declare exactly its names and signatures."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import safetensors
from safetensors import _native

STUB = ast.parse((Path(safetensors.__file__).parent / "_native.pyi").read_text())
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}


def methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}


def in_stub(node: ast.FunctionDef) -> tuple[list[str], list[str]]:
    """Names that may stand at their place, and names that need a keyword."""
    rest = ["**" + node.args.kwarg.arg] if node.args.kwarg else []
    return [a.arg for a in node.args.args] + rest, [a.arg for a in node.args.kwonlyargs]


def at_run_time(function: Any) -> tuple[list[str], list[str]]:
    if not hasattr(function, "__nb_signature__"):  # of a public class
        parameters = inspect.signature(function).parameters.values()
        named = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        return named, [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    text = function.__nb_signature__[0][0]
    inner = text[text.index("(") + 1 : text.rindex(")")]
    parts = [re.split(r"[:=]", part)[0].strip() for part in re.split(r",\s*(?![^\[]*\])", inner)]
    parts = [part for part in parts if part]
    at = parts.index("*") if "*" in parts else len(parts)
    return parts[:at], parts[at + 1 :]


def test_every_name_is_in_the_stub() -> None:
    there = {n for n in dir(_native) if not n.startswith("__")} - {"_Memory"}
    assert there == set(FUNCTIONS) | set(CLASSES) | {"_version"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_what_the_stub_says(name: str) -> None:
    assert at_run_time(getattr(_native, name)) == in_stub(FUNCTIONS[name])


@pytest.mark.parametrize("name", [n for n in CLASSES if not n.endswith("Error")])
def test_classes_have_what_the_stub_says(name: str) -> None:
    kind = getattr(_native, name)
    stub = methods(CLASSES[name])
    there = {n for n in vars(kind) if not n.startswith("_") or n in stub}
    assert there == set(stub)
    for method, node in stub.items():
        if method != "__exit__" and inspect.isroutine(vars(kind)[method]):
            assert at_run_time(vars(kind)[method]) == in_stub(node), method
