"""Clients of `prefetch`, each with the calling pattern of a program: transformers (pull request 48930), vLLM (57973)
and diffusers. They run on the CPU and are compared with the plain load of the same files. The reference 0.9.0rc1
prefetches to CUDA devices only, so it cannot run here."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import framework

from safetensors import SafetensorError, load, safe_open, save

torch = framework("torch")

LAYERS, WIDTH = 6, 96


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three shards of one model, whose tensors are small and large, of several dtypes."""
    torch.manual_seed(0)
    state = {"embed": torch.randn(700, WIDTH), "ids": torch.arange(9), "scale": torch.tensor(2.5)}
    for layer in range(LAYERS):
        state[f"{layer}.q"] = torch.randn(WIDTH, WIDTH).to(torch.bfloat16)
        state[f"{layer}.o"] = torch.randn(WIDTH, 2 * WIDTH).to(torch.float16)
        state[f"{layer}.norm"] = torch.ones(WIDTH) * layer
    save(state, tmp_path / "model", max_shard_size="200KB")
    found = sorted((tmp_path / "model").glob("*.safetensors"))
    assert len(found) >= 3
    return found


def equal(tensor: Any, expected: Any) -> bool:
    return tensor.dtype == expected.dtype and torch.equal(tensor, expected)


def transformers(files: list[Path], rank: int, ranks: int) -> dict[str, Any]:
    """Plans the part of a rank, takes tensors in the order of the model by four threads, and casts them."""
    with ExitStack() as stack:
        loaders: dict[str, Any] = {}
        for file in files:
            opened = stack.enter_context(safe_open(file, framework="pt", device="cpu"))
            plan: dict[str, Any] = {}
            for name in opened.keys():
                rows, *columns = opened.get_slice(name).get_shape() or [0]
                if name.endswith(".q"):  # columnwise: rows of each half, as of a fused weight
                    part = rows // 2 // ranks
                    halves = [slice(start + rank * part, start + (rank + 1) * part) for start in (0, rows // 2)]
                    plan[name] = (halves, [slice(None)])
                elif name.endswith(".o"):  # rowwise
                    part = columns[0] // ranks
                    plan[name] = ([slice(0, rows)], [slice(rank * part, (rank + 1) * part)])
                else:
                    plan[name] = None
            loader = opened.prefetch(plan, device="cpu")
            assert loader.names() == [name for name in opened.offset_keys() if name in plan]
            loaders.update(dict.fromkeys(plan, loader))
        with ThreadPoolExecutor(4) as pool:
            taken = {name: pool.submit(loader.take, name) for name, loader in sorted(loaders.items(), reverse=True)}
            return {name: future.result().to(torch.float32) for name, future in taken.items()}


@pytest.mark.parametrize("rank", [0, 1])
def test_transformers_takes_parts_in_the_order_of_the_model(files: list[Path], rank: int) -> None:
    found, whole = transformers(files, rank, 2), load(files, framework="pt")
    assert found.keys() == whole.keys()
    for name, tensor in whole.items():
        if name.endswith(".q"):
            tensor = torch.cat([half.chunk(2)[rank] for half in tensor.chunk(2)])
        if name.endswith(".o"):
            tensor = tensor.chunk(2, dim=1)[rank]
        assert equal(found[name], tensor.to(torch.float32)), name


def vllm(files: list[Path]) -> Iterator[tuple[str, Any]]:
    """Yields all weights, file after file, in the order in which they are complete."""
    for file in files:
        with safe_open(file, framework="pt") as opened, opened.prefetch(device="cpu") as loader:
            yield from loader


def test_vllm_iterates_and_may_stop_early(files: list[Path]) -> None:
    whole = load(files, framework="pt")
    found = dict(vllm(files))  # tensors outlive their loaders
    assert found.keys() == whole.keys() and all(equal(found[name], whole[name]) for name in whole)
    weights = vllm(files)
    name, tensor = next(weights)
    weights.close()  # a model that needs no more weights; the loader closes
    assert equal(tensor, whole[name])


def diffusers(file: Path) -> dict[str, Any]:
    """Takes every name of the file, in the order of `keys`."""
    with safe_open(file, framework="pt", device="cpu") as opened:
        loader = opened.prefetch()
        return {name: loader.take(name) for name in opened.keys()}


def test_diffusers_makes_a_state_dict_per_file(files: list[Path]) -> None:
    for file in files:
        found, whole = diffusers(file), load(file, framework="pt")
        assert list(found) == list(safe_open(file, "pt").keys())
        assert all(equal(found[name], whole[name]) for name in whole)
        for tensor in found.values():
            tensor.zero_()  # each is the caller's alone
        assert all(equal(tensor, whole[name]) for name, tensor in diffusers(file).items())


def test_clients_fall_back_when_a_tensor_was_taken(files: list[Path]) -> None:
    with safe_open(files[0], framework="pt") as opened, opened.prefetch() as loader:
        name = loader.names()[0]
        first = loader.take(name)
        with pytest.raises(SafetensorError, match="already delivered"):
            loader.take(name)
        assert equal(opened.get_tensor(name), first)
        assert name not in dict(loader)
