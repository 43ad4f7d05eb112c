"""Engines that load in two processes, run as they are on our package: transformers and accelerate."""

from __future__ import annotations

import os

from conftest import framework

os.environ.setdefault("HF_HUB_OFFLINE", "1")
for name in ("torch", "transformers", "accelerate"):
    framework(name)

import rank_tests  # noqa: E402

from programs import ranks_engines  # noqa: E402

results, test_two_ranks, _ = rank_tests.make(ranks_engines, sizes=(2,))
