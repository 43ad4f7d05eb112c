"""save_model, load_model, and the page on shared tensors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import framework

torch = framework("torch")

from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, load_model, save_file, save_model  # noqa: E402


class Pair(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, tied: bool = True) -> None:
        super().__init__()
        self.a = torch.nn.Linear(100, 100)
        self.b = torch.nn.Linear(100, 100)
        if tied:
            self.b.weight, self.b.bias = self.a.weight, self.a.bias


class Part(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        whole = torch.zeros(100, 100)
        self.a = torch.nn.Parameter(whole[:50])
        self.b = torch.nn.Parameter(whole[:50])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def test_a_tied_pair_is_saved_once_and_noted(path: Path) -> None:
    model = Pair()
    save_model(model, str(path))
    assert 40_400 < path.stat().st_size < 41_000
    with safe_open(path, "pt") as f:
        assert f.keys() == ["a.bias", "a.weight"]
        assert f.metadata() == {"b.bias": "a.bias", "b.weight": "a.weight"}


def test_the_user_s_metadata_win(path: Path) -> None:
    save_model(Pair(), str(path), metadata={"b.bias": "mine", "x": "y"})
    with safe_open(path, "pt") as f:
        assert f.metadata() == {"b.bias": "mine", "b.weight": "a.weight", "x": "y"}


def test_a_model_without_twins_gets_no_metadata(path: Path) -> None:
    save_model(Pair(tied=False), str(path))
    with safe_open(path, "pt") as f:
        assert f.metadata() is None and len(f) == 4
    given = {"k": "v"}
    save_model(Pair(), str(path), metadata=given)
    assert given == {"k": "v"}


@pytest.mark.parametrize("backend", ["mmap", "pread", "auto"])
def test_what_was_saved_is_loaded(path: Path, backend: str) -> None:
    model, other = Pair(), Pair()
    save_model(model, str(path))
    assert load_model(other, path, backend=backend) == (set(), [])
    assert torch.equal(model.a.weight, other.a.weight) and other.b.weight is other.a.weight


def test_names_that_are_missing(path: Path) -> None:
    save_model(Pair(), str(path))
    text = 'Error(s) in loading state_dict for Pair:\n    Missing key(s) in state_dict: "b.bias", "b.weight"'
    with pytest.raises(RuntimeError) as caught:
        load_model(Pair(tied=False), path)
    assert str(caught.value) == text
    assert load_model(Pair(tied=False), path, strict=False) == ({"b.bias", "b.weight"}, [])


def test_names_that_are_unexpected(path: Path) -> None:
    save_model(Pair(tied=False), str(path))
    with pytest.raises(RuntimeError) as caught:
        load_model(Pair(), path)
    assert str(caught.value) == (
        'Error(s) in loading state_dict for Pair:\n    Unexpected key(s) in state_dict: "b.bias", "b.weight"'
    )
    with pytest.raises(RuntimeError) as caught:
        load_model(torch.nn.Linear(1, 1), path)
    assert str(caught.value) == (
        'Error(s) in loading state_dict for Linear:\n    Missing key(s) in state_dict: "bias", "weight"'
        '\n    Unexpected key(s) in state_dict: "a.bias", "a.weight", "b.bias", "b.weight"'
    )
    missing, unexpected = load_model(torch.nn.Linear(1, 1), path, strict=False)
    assert missing == {"bias", "weight"} and unexpected == ["a.bias", "a.weight", "b.bias", "b.weight"]


def test_shapes_that_differ_are_torch_s_error(path: Path) -> None:
    save_model(torch.nn.Linear(2, 3), str(path))
    for strict in (True, False):
        with pytest.raises(RuntimeError, match="size mismatch for weight"):
            load_model(torch.nn.Linear(2, 4), path, strict=strict)


def test_none_covers_the_whole_memory(path: Path) -> None:
    with pytest.raises(RuntimeError, match="found no suitable name to keep for saving amongst: ") as caught:
        save_model(Part(), str(path))
    assert "None is covering the entire storage" in str(caught.value) and not path.exists()


def test_packing_is_done_or_asked_for(path: Path) -> None:
    model = torch.nn.Module()
    model.w = torch.nn.Parameter(torch.arange(20.0).reshape(4, 5).t())
    save_model(model, str(path))
    assert torch.equal(load_file(path)["w"], model.w)
    with pytest.raises(ValueError, match="non contiguous tensor: `w`") as caught:
        save_model(model, str(path), force_contiguous=False)
    assert str(caught.value).endswith(
        " Or use save_model(..., force_contiguous=True), read the docs for potential caveats."
    )


def test_a_view_of_a_row_saves_a_row(tmp_path: Path) -> None:
    a = torch.zeros(100, 100)
    save_file({"b": a[:1, :].clone()}, tmp_path / "clone")
    assert (tmp_path / "clone").stat().st_size < 1000
    save_file({"b": a[:1, :]}, tmp_path / "view")
    assert (tmp_path / "view").stat().st_size < 1000


def test_published_getting_started_code(tmp_path: Path) -> None:
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        tensors = {"weight1": torch.zeros((1024, 1024)), "weight2": torch.zeros((1024, 1024))}
        save_file(tensors, "model.safetensors")
        loaded: dict[str, Any] = {}
        with safe_open("model.safetensors", framework="pt", device="cpu") as f:
            for k in f.keys():
                loaded[k] = f.get_tensor(k)
        assert all(torch.equal(loaded[k], tensors[k]) for k in tensors)
        save_file({"embedding": torch.arange(512.0).reshape(16, 32)}, "model.safetensors")
        with safe_open("model.safetensors", framework="pt", device="cpu") as f:
            tensor_slice = f.get_slice("embedding")
            vocab_size, hidden_dim = tensor_slice.get_shape()
            tensor = tensor_slice[:, : hidden_dim // 2]
        assert vocab_size == 16 and tensor.shape == (16, 16) and tensor[1, 0] == 32
    finally:
        os.chdir(here)


def test_the_example_runs() -> None:
    example = Path(__file__).parents[2] / "docs" / "examples" / "save_model.py"
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    size, same = done.stdout.splitlines()
    assert 40_000 < int(size.removeprefix("bytes in the file: ")) < 41_000 and same == "same result: True"
