"""save_model and load_model: the tensors saved of models whose tensors share memory, and the differences that load_model
accepts and refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKENDS, framework

torch = framework("torch")

import safetensors  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, load_model, save_file, save_model  # noqa: E402

FAILED = "Error(s) in loading state_dict for {}:"
MISSING = "\n    Missing key(s) in state_dict: "
UNEXPECTED = "\n    Unexpected key(s) in state_dict: "


class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Layers a and b, tied or not, and perhaps a third."""

    def __init__(self, tied: bool = True, third: bool = False) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        if tied:
            self.b.weight, self.b.bias = self.a.weight, self.a.bias
        if third:
            self.c = torch.nn.Linear(4, 4)


class Buffers(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Whatever tensors it is given."""

    def __init__(self, **buffers: Any) -> None:
        super().__init__()
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def held(path: Path) -> tuple[list[str], dict[str, str] | None]:
    with safe_open(path, "pt") as f:
        return f.keys(), f.metadata()


def refusal(model: Any, path: Path, **options: Any) -> str:
    with pytest.raises(RuntimeError) as caught:
        load_model(model, path, **options)
    return str(caught.value)


# What is saved.


def test_a_part_of_another_tensor_is_dropped(path: Path) -> None:
    whole = torch.arange(100.0).reshape(10, 10)
    save_model(Buffers(part=whole[:1], whole=whole), path)
    assert held(path) == (["whole"], {"part": "whole"})
    other = torch.zeros(10, 10)
    assert load_model(Buffers(part=other[:1], whole=other), path) == (set(), [])
    assert torch.equal(other, whole)


def test_a_tied_pair_is_saved_once_and_noted(path: Path) -> None:
    save_model(Model(), str(path))
    assert held(path) == (["a.bias", "a.weight"], {"b.bias": "a.bias", "b.weight": "a.weight"})
    given = {"b.bias": "mine", "x": "y"}
    save_model(Model(), str(path), metadata=given)
    assert held(path)[1] == {"b.bias": "mine", "b.weight": "a.weight", "x": "y"} and len(given) == 2


@pytest.mark.parametrize("names", [{"b": (0, 1)}, {"b": (0, 5), "c": (0, 5)}, {"b": (0, 5), "c": (5, 10)}, {"b": (0, 5), "c": (2, 7)}], ids=str)
def test_views_that_leave_part_of_the_memory_out_are_refused(names: dict[str, tuple[int, int]], path: Path) -> None:
    whole = torch.zeros(10, 10)
    model = Buffers(**{name: whole[begin:end] for name, (begin, end) in names.items()})
    with pytest.raises(RuntimeError, match="found no suitable name to keep for saving amongst: ") as caught:
        save_model(model, path)
    assert "'b'" in str(caught.value) and "None is covering the entire storage" in str(caught.value) and not path.exists()


def test_empty_views_and_scalars(path: Path) -> None:
    save_model(Buffers(empty=torch.zeros(10, 10)[:0], scalar=torch.tensor(7)), path)
    assert load_file(path)["empty"].shape == (0, 10) and load_file(path)["scalar"] == 7
    save_model(torch.nn.BatchNorm1d(3), path)
    assert held(path)[0] == ["bias", "num_batches_tracked", "running_mean", "running_var", "weight"]


def test_metadata_are_there_only_if_given_or_needed(path: Path) -> None:
    for metadata, wanted in ((None, None), ({}, {}), ({"k": "v"}, {"k": "v"})):
        save_model(Model(tied=False), path, metadata)
        assert held(path)[1] == wanted
    save_model(torch.nn.ReLU(), path)
    assert held(path) == ([], None)


def test_memory_layouts_are_packed_or_refused(path: Path) -> None:
    image = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)
    save_model(Buffers(image=image), path)
    assert torch.equal(load_file(path)["image"], image) and load_file(path)["image"].is_contiguous()
    with pytest.raises(ValueError, match="non contiguous tensor: `image`") as caught:
        save_model(Buffers(image=image), path, None, False)
    assert str(caught.value).endswith(" Or use save_model(..., force_contiguous=True), read the docs for potential caveats.")


def test_transposed_twins_are_one(path: Path) -> None:
    matrix = torch.arange(6.0).reshape(2, 3)
    save_model(Buffers(a=matrix.t(), b=matrix.t()), path)
    assert held(path) == (["a"], {"b": "a"}) and torch.equal(load_file(path)["a"], matrix.t())


def test_durability_is_passed_on(path: Path) -> None:
    for durability in ("full", "file", "none"):
        save_model(Model(), path, durability=durability)
    with pytest.raises(safetensors.SafetensorError, match='durability "x" is invalid'):
        save_model(Model(), path, durability="x")


def test_models_with_other_than_tensors_are_refused(path: Path) -> None:
    class Extra(Model):
        def get_extra_state(self) -> int:
            return 1

    with pytest.raises(AttributeError, match="'int' object has no attribute 'device'"):
        save_model(Extra(), path)


# What is forgiven.


@pytest.mark.parametrize("kept", [("a.weight", "a.bias"), ("b.weight", "b.bias"), ("b.weight", "a.bias")])
def test_the_file_may_have_either_of_the_names(kept: tuple[str, str], path: Path) -> None:
    weight, bias = torch.rand(4, 4), torch.rand(4)
    save_file({kept[0]: weight, kept[1]: bias}, path)
    model = Model()
    assert load_model(model, path) == (set(), [])
    assert torch.equal(model.a.weight, weight) and torch.equal(model.b.bias, bias)
    assert model.a.weight is model.b.weight


def test_no_note_is_needed_and_a_false_one_does_not_matter(path: Path) -> None:
    state = {name: tensor.clone() for name, tensor in Model().a.state_dict(prefix="a.").items()}
    for metadata in (None, {"b.weight": "elsewhere"}):
        save_file(state, path, metadata)
        assert load_model(Model(), path) == (set(), [])


# What is not.


def test_twins_that_are_tied_no_more(path: Path) -> None:
    save_model(Model(), path)
    assert refusal(Model(tied=False), path) == FAILED.format("Model") + MISSING + '"b.bias", "b.weight"'
    assert load_model(Model(tied=False), path, False) == ({"b.weight", "b.bias"}, [])


def test_both_names_in_the_file_of_a_model_that_ties_them(path: Path) -> None:
    save_model(Model(tied=False), path)
    assert refusal(Model(), path) == FAILED.format("Model") + UNEXPECTED + '"b.bias", "b.weight"'
    missing, unexpected = load_model(Model(), path, strict=False)
    assert missing == set() and sorted(unexpected) == ["b.bias", "b.weight"]


def test_a_model_of_another_kind(path: Path) -> None:
    save_model(Model(tied=False), path)
    own, other = '"bias", "weight"', '"a.bias", "a.weight", "b.bias", "b.weight"'
    assert refusal(torch.nn.Linear(1, 1), path) == FAILED.format("Linear") + MISSING + own + UNEXPECTED + other
    missing, unexpected = load_model(torch.nn.Linear(1, 1), path, strict=False)
    assert missing == {"bias", "weight"} and unexpected == ["a.bias", "a.weight", "b.bias", "b.weight"]


def test_neither_of_the_twins_in_the_file(path: Path) -> None:
    save_file({"b.weight": torch.zeros(4, 4), "zz": torch.zeros(1)}, path)
    text = FAILED.format("Model") + MISSING + '"a.bias"' + UNEXPECTED + '"zz"'
    assert refusal(Model(), path) == text
    assert load_model(Model(), path, strict=False) == ({"a.bias"}, ["zz"])


def test_a_layer_too_many_on_either_side(path: Path) -> None:
    names = '"c.bias", "c.weight"'
    save_model(Model(), path)
    assert refusal(Model(third=True), path) == FAILED.format("Model") + MISSING + names
    save_model(Model(third=True), path)
    assert refusal(Model(), path) == FAILED.format("Model") + UNEXPECTED + names
    assert load_model(Model(), path, strict=False) == (set(), ["c.bias", "c.weight"])


def test_what_is_there_is_loaded_before_the_error(path: Path) -> None:
    model, other = Model(), Model(third=True)
    save_model(model, path)
    refusal(other, path)
    assert torch.equal(other.b.weight, model.a.weight)


def test_a_model_of_views_is_refused_as_when_saving(path: Path) -> None:
    save_file({"b": torch.zeros(1, 10)}, path)
    assert "found no suitable name to keep" in refusal(Buffers(b=torch.zeros(10, 10)[:1]), path, strict=False)


def test_shapes_that_differ(path: Path) -> None:
    save_file({"a.weight": torch.zeros(2, 2)}, path)
    text = "size mismatch for a.weight: copying a param with shape torch.Size([2, 2]) from checkpoint"
    for strict in (True, False):
        assert text in refusal(Model(), path, strict=strict)


# Arguments.


@BACKENDS
@pytest.mark.parametrize("device", ["cpu", None, torch.device("cpu")])
def test_devices_and_backends(device: Any, backend: str, path: Path) -> None:
    model, other = Model(), Model()
    save_model(model, path)
    assert load_model(other, path, True, device, backend=backend) == (set(), [])
    assert torch.equal(model.a.weight, other.b.weight)
    path.unlink()
    assert other.a.weight.sum() == model.a.weight.sum()


def test_arguments_are_checked(path: Path) -> None:
    save_model(Model(), path)
    with pytest.raises(safetensors.SafetensorError, match="^device x is invalid$"):
        load_model(Model(), path, device="x")
    with pytest.raises(safetensors.SafetensorError, match='^backend "x" is invalid'):
        load_model(Model(), path, backend="x")
    with pytest.raises(FileNotFoundError):
        load_model(Model(), path.with_name("none"))


def test_what_is_loaded_can_be_trained(path: Path) -> None:
    save_model(Model(), path)
    before = path.read_bytes()
    model = Model()
    load_model(model, path)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.b(model.a(torch.ones(1, 4))).sum().backward()
    old = model.a.weight.detach().clone()
    optimizer.step()
    assert not torch.equal(old, model.a.weight) and path.read_bytes() == before


def test_a_view_of_a_row_saves_a_row(tmp_path: Path) -> None:
    save_file({"b": torch.zeros(100, 100)[:1, :]}, tmp_path / "view")
    assert (tmp_path / "view").stat().st_size < 1000


def test_the_example_runs() -> None:
    example = Path(__file__).parents[2] / "docs" / "examples" / "save_model.py"
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    size, same = done.stdout.splitlines()
    assert 40_000 < int(size.removeprefix("bytes in the file: ")) < 41_000 and same == "same result: True"
