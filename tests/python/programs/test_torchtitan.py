"""torchtitan in two processes, run as it is on our package."""

from __future__ import annotations

import inspect
import os
from typing import Any

import pytest
import ranks
from conftest import framework

os.environ.setdefault("HF_HUB_OFFLINE", "1")
framework("torch")
framework("torchtitan")
framework("triton")  # torchtitan imports it

from programs import ranks_torchtitan  # noqa: E402


def is_case(value: Any) -> bool:
    return inspect.isfunction(value) and list(inspect.signature(value).parameters) == ["folder"]


CASES = [name for name, value in vars(ranks_torchtitan).items() if is_case(value)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ranks.Results:
    return ranks.run("programs.ranks_torchtitan", 2, tmp_path_factory.mktemp("ranks"), CASES)


@pytest.mark.parametrize("case", CASES)
def test_two_ranks(results: ranks.Results, case: str) -> None:
    assert results[case] == {}, "\n".join(results[case].values())
