"""Makes the tests of modules whose functions run on every rank.

    results, test_ranks, test_ranks_survive_the_death_of_one = rank_tests.make(ranks_dcp)

Each function of a module with the one parameter `folder` is a case. The processes of a number of ranks start once per module, at the
first test that needs them, and run all cases.
"""

from __future__ import annotations

import inspect
import os
from types import ModuleType
from typing import Any

import pytest
import ranks

# The case that kills the last rank. It comes last, because the ranks cannot go on after it.
DEADLY = "survives_the_death_of_a_rank"
SIZES = (1, 2, 4, 8) if os.environ.get("SAFETENSORS_CHECK_ALL") == "1" else (1, 4)  # each rank imports torch


def cases_of(module: ModuleType) -> list[str]:
    """The names of the cases, without that of DEADLY."""

    def is_case(value: Any) -> bool:
        return inspect.isfunction(value) and value.__module__ == module.__name__ and list(inspect.signature(value).parameters) == ["folder"]

    return [name for name, value in vars(module).items() if is_case(value) and name != DEADLY]


def make(*modules: ModuleType, sizes: tuple[int, ...] = SIZES) -> tuple[Any, Any, Any]:
    """Returns a fixture, the test of each case with each number of ranks, and the test of DEADLY. The caller must name the fixture
    `results`."""
    cases = {module.__name__: cases_of(module) for module in modules}
    deadly = [module.__name__ for module in modules if hasattr(module, DEADLY)]

    @pytest.fixture(scope="module")
    def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
        made: dict[tuple[str, int], ranks.Results] = {}

        def get(module: str, world_size: int) -> ranks.Results:
            if (module, world_size) not in made:
                folder = tmp_path_factory.mktemp(f"{module}{world_size}")
                made[module, world_size] = ranks.run(module, world_size, folder, cases[module] + [DEADLY] * (module in deadly))
            return made[module, world_size]

        return get

    @pytest.mark.parametrize(("module", "case"), [(module, case) for module in cases for case in cases[module]])
    @pytest.mark.parametrize("world_size", sizes)
    def test_ranks(results: Any, world_size: int, module: str, case: str) -> None:
        found = results(module, world_size)[case]
        assert found == {}, "\n".join(found.values())

    @pytest.mark.parametrize("module", deadly)
    @pytest.mark.parametrize("world_size", [size for size in sizes if size > 1])
    def test_ranks_survive_the_death_of_one(results: Any, world_size: int, module: str) -> None:
        found = results(module, world_size)[DEADLY]
        assert list(found) == [world_size - 1] and found[world_size - 1].startswith("did not run"), found

    return results, test_ranks, test_ranks_survive_the_death_of_one
