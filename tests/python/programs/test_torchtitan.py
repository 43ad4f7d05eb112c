"""torchtitan in two processes, run as it is on our package."""

from __future__ import annotations

import os

from conftest import framework

os.environ.setdefault("HF_HUB_OFFLINE", "1")
for name in ("torch", "torchtitan", "triton"):  # torchtitan imports triton
    framework(name)

import rank_tests  # noqa: E402

from programs import ranks_torchtitan  # noqa: E402

results, test_two_ranks, _ = rank_tests.make(ranks_torchtitan, sizes=(2,))
