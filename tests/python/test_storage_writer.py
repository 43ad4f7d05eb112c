"""StorageWriter on one rank and on many: bytes of the files, memory, failures."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from conftest import framework

torch = framework("torch")

import ranks  # noqa: E402
import ranks_save  # noqa: E402

CASES = [n for n, f in vars(ranks_save).items() if inspect.isfunction(f) and f.__module__ == "ranks_save" and list(inspect.signature(f).parameters) == ["folder"]]
DEADLY = "survives_the_death_of_a_rank"
CASES.remove(DEADLY)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made: dict[int, ranks.Results] = {}

    def get(world_size: int) -> ranks.Results:
        if world_size not in made:
            made[world_size] = ranks.run("ranks_save", world_size, tmp_path_factory.mktemp(f"save{world_size}"), [*CASES, DEADLY])
        return made[world_size]

    return get


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("world_size", [1, 2, 4, 8])
def test_ranks(results: Any, world_size: int, case: str) -> None:
    assert results(world_size)[case] == {}, "\n".join(results(world_size)[case].values())


@pytest.mark.parametrize("world_size", [2, 4, 8])
def test_ranks_survive_the_death_of_one(results: Any, world_size: int) -> None:
    found = results(world_size)[DEADLY]
    assert list(found) == [world_size - 1] and found[world_size - 1].startswith("did not run"), found
