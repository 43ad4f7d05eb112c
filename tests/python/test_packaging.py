"""The metadata of the wheel, and the README as a package index shows it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_interchange import ask

ROOT = Path(__file__).parents[2]
RELATIVE = re.compile(r"\]\((?!https?:|mailto:|#)")


@pytest.fixture
def made() -> Any:
    return importlib.metadata.metadata("safetensors")


def provider() -> Any:
    spec = importlib.util.spec_from_file_location("pypi_readme", ROOT / "python" / "packaging" / "pypi_readme.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_wheel_has_the_reference_s_extras_and_ours(reference: str, made: Any) -> None:
    code = (
        "import importlib.metadata, json; "
        "print(json.dumps(importlib.metadata.metadata('safetensors').get_all('Provides-Extra')))"
    )
    assert set(json.loads(ask(reference, code))) == set(made.get_all("Provides-Extra"))


def test_the_wheel_names_author_and_classifiers(made: Any) -> None:
    assert made["Author"] and made["License-Expression"] == "Apache-2.0"
    classifiers = made.get_all("Classifier")
    for expected in ("Typing :: Typed", "Operating System :: POSIX :: Linux", "Programming Language :: C++"):
        assert expected in classifiers
    for minor in (10, 11, 12, 13):
        assert f"Programming Language :: Python :: 3.{minor}" in classifiers


def test_the_description_has_no_dead_links(made: Any) -> None:
    text = made.get_payload() or made["Description"]
    assert made["Description-Content-Type"].startswith("text/markdown")
    assert "# safetensors for C++" in text and "```python" in text
    assert not RELATIVE.search(text)
    assert text.rstrip().endswith("are those of the source distribution.")


def test_relative_links_become_paths_or_absolute() -> None:
    text = "See [how](docs/python.md#load), [this](#here) and [that](https://a.example/b).\n```sh\n[x](y)\n```\n[L](LICENSE)\n"
    rewrite = provider().rewrite
    assert rewrite(text, "").startswith(
        "See how (`docs/python.md`), [this](#here) and [that](https://a.example/b).\n```sh\n[x](y)\n```\nL (`LICENSE`)\n"
    )
    assert rewrite(text, "https://a.example/r/") == (
        "See [how](https://a.example/r/docs/python.md#load), [this](#here) and [that](https://a.example/b).\n"
        "```sh\n[x](y)\n```\n[L](https://a.example/r/LICENSE)\n"
    )


def test_every_link_of_the_readme_leads_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    paths = [match[2] for match in provider()._LINK.finditer(text)]
    assert len(paths) > 10
    for path in paths:
        assert (ROOT / path).exists(), path
