"""save_sharded on one rank and on many: bytes of the files, owners of elements, failures."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import framework

torch = framework("torch")

import rank_tests  # noqa: E402
import ranks_save_sharded  # noqa: E402

from safetensors import SafetensorError  # noqa: E402
from safetensors.distributed import save_sharded  # noqa: E402
from safetensors.torch import load_file, save  # noqa: E402

results, test_ranks, test_ranks_survive_the_death_of_one = rank_tests.make(ranks_save_sharded)


def test_saves_a_module_without_a_process_group(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 4)
    model.bias = torch.nn.Parameter(model.weight[:, 0])  # tied weights: a copy per name
    save_sharded(model, tmp_path / "made")
    assert (tmp_path / "made" / "model.safetensors").read_bytes() == save({n: t.detach().clone() for n, t in model.state_dict().items()})
    save_sharded({"w": torch.zeros(3), "n": torch.zeros(2, dtype=torch.int8)}, tmp_path / "half", dtype=torch.float16)
    assert {name: tensor.dtype for name, tensor in load_file(tmp_path / "half" / "model.safetensors").items()} == {"w": torch.float16, "n": torch.int8}


def test_raises_its_own_error_without_a_process_group(tmp_path: Path) -> None:
    with pytest.raises(SafetensorError, match="no such file or directory"):
        save_sharded({"w": torch.zeros(2)}, tmp_path / "nowhere" / "made")
    with pytest.raises(TypeError, match="target is int: give a module or a dict"):
        save_sharded(5, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        save_sharded({"w": torch.zeros(1 << 20)}, tmp_path / "made", progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def interrupt(done: int, total: int) -> None:
    raise KeyboardInterrupt
