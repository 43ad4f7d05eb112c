"""load_sharded on one rank and on many: values, bytes, names, failures."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import framework

torch = framework("torch")

import rank_tests  # noqa: E402
import ranks_sharded  # noqa: E402

from safetensors import SafetensorError  # noqa: E402
from safetensors.distributed import load_sharded  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

results, test_ranks, _ = rank_tests.make(ranks_sharded)


def test_fills_plain_tensors_without_a_process_group(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model, other = torch.nn.Linear(3, 4), torch.nn.Linear(3, 4)
    save_file(model.state_dict(), tmp_path / "model.safetensors", durability="none")
    assert str(load_sharded(other, tmp_path)) == "<All keys matched successfully>"
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_raises_its_own_error_without_a_process_group(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_sharded({}, tmp_path / "nothing")
    save_file({"w": torch.zeros(2)}, tmp_path / "t.safetensors", durability="none")
    with pytest.raises(SafetensorError, match=r"the names differ: the target lacks \['w'\]"):
        load_sharded({}, tmp_path)
    with pytest.raises(TypeError, match="target is int: give a module, a dict or None"):
        load_sharded(5, tmp_path)  # type: ignore[call-overload]
