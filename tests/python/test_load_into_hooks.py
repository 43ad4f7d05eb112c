"""load_into and models that take part in loading: hooks, own methods, extra state; errors and signals; memory."""

from __future__ import annotations

import copy
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sharded
from conftest import framework, run
from test_load_into import BOTH, agree, plain, saved, values, verdict

torch = framework("torch")

import safetensors.torch as stt  # noqa: E402
from safetensors import SafetensorError  # noqa: E402
from safetensors._models import load_into as _load_into  # noqa: E402
from safetensors.torch import load_into  # noqa: E402

Linear = torch.nn.Linear
STATE = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.tensor([-1.0, 5.0])}


# Hooks before


class Renamed(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Takes old names, splits one tensor into two, and changes values."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = Linear(3, 2, bias=False), Linear(3, 2, bias=False)
        self.scale = torch.nn.Parameter(torch.zeros(4))
        self.register_load_state_dict_pre_hook(self.hook)

    @staticmethod
    def hook(module: Any, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        qk = state.pop(prefix + "qk")
        state[prefix + "q.weight"], state[prefix + "k.weight"] = qk.chunk(2)
        state[prefix + "scale"] = state.pop(prefix + "gamma")
        state[prefix + "scale"].mul_(2)  # in place


@BOTH
def test_hook_may_rename_split_and_change_tensors(tmp_path: Path, assign: bool) -> None:
    path = saved(tmp_path / "t", {"qk": torch.randn(4, 3), "gamma": torch.arange(4.0)})
    model = agree(path, Renamed(), assign=assign)
    assert model.scale.tolist() == [0, 2, 4, 6]


@BOTH
def test_hooks_of_torch_itself_work(tmp_path: Path, assign: bool) -> None:
    weight_norm = torch.nn.utils.parametrizations.weight_norm
    path = saved(tmp_path / "t", {"bias": torch.ones(2), "weight_g": torch.rand(2, 1), "weight_v": torch.randn(2, 3)})
    agree(path, weight_norm(Linear(3, 2)), assign=assign)  # renames
    spectral = torch.nn.utils.spectral_norm(Linear(3, 2))
    agree(saved(tmp_path / "s", {n: t for n, t in spectral.state_dict().items()}), spectral, assign=assign)  # computes
    path = saved(tmp_path / "l", STATE)
    theirs, ours = torch.nn.LazyLinear(2), torch.nn.LazyLinear(2)
    theirs.load_state_dict(stt.load_file(path), assign=assign)
    load_into(ours, path, assign=assign)
    empty = torch.nn.LazyLinear(2, device="meta", dtype=torch.float64)
    load_into(empty, path, assign=assign)
    assert torch.equal(ours.weight, theirs.weight) and ours.in_features == theirs.in_features == empty.in_features
    assert torch.equal(empty.weight.float(), theirs.weight) and (empty.weight.dtype == torch.float32) == assign


@BOTH
def test_hook_may_copy_and_use_values_at_once(tmp_path: Path, assign: bool) -> None:
    def hook(module: Any, state: dict[str, Any], *rest: Any) -> None:
        module.mean.copy_(state["weight"].mean())
        module.double = module.mean * 2
        module.kept = state["bias"]
        module.info = (state["weight"].shape, state["weight"].dtype, state["weight"].device, len(state["weight"]))

    path = saved(tmp_path / "t", STATE)
    ours, theirs = Linear(3, 2), Linear(3, 2)
    for model in (ours, theirs):
        model.register_buffer("mean", torch.zeros(()), persistent=False)
        model.register_load_state_dict_pre_hook(hook)
    load_into(ours, path, assign=assign)
    theirs.load_state_dict(stt.load_file(path), assign=assign)
    path.unlink()
    assert ours.mean == theirs.mean == 2.5 and ours.double == 5 and ours.info == theirs.info
    assert torch.equal(ours.kept + 0, STATE["bias"]) and ours.kept.tolist() == [-1, 5]
    again = copy.deepcopy(ours.kept)
    assert torch.equal(again, STATE["bias"]) and type(again) is torch.Tensor


def test_hook_may_put_a_tensor_into_a_buffer(tmp_path: Path) -> None:
    def hook(module: Any, state: dict[str, Any], *rest: Any) -> None:
        module.register_buffer("late", state["weight"])
        state["late"] = state.pop("bias").sum()

    path = saved(tmp_path / "t", STATE)
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.zeros(2, 3))
    model.register_buffer("bias", torch.zeros(()), persistent=False)
    model._register_load_state_dict_pre_hook(hook, with_module=True)
    verdict(lambda: load_into(model, path))
    assert type(model._buffers["late"]) is torch.Tensor


# Hooks after


@BOTH
def test_hook_after_sees_the_values(tmp_path: Path, assign: bool) -> None:
    path = saved(tmp_path / "t", {f"0.{name}": tensor for name, tensor in STATE.items()} | {"1.weight": torch.ones(1, 2)})
    model = torch.nn.Sequential(Linear(3, 2), Linear(2, 1))
    seen: list[Any] = []

    def hook(module: Any, keys: Any) -> None:
        seen.append((module.weight.detach().clone(), type(module.weight)))
        module.weight.data.mul_(10)
        keys.missing_keys[:] = [key for key in keys.missing_keys if key != "1.bias"]

    for child in model:
        child.register_load_state_dict_post_hook(hook)
    count = [len(child._load_state_dict_post_hooks) for child in model]
    assert load_into(model, path, assign=assign) == ([], [])
    assert torch.equal(seen[0][0], STATE["weight"]) and torch.equal(seen[1][0], torch.ones(1, 2))
    assert {kind for _, kind in seen} == {torch.nn.Parameter}
    assert torch.equal(model[0].weight, STATE["weight"] * 10) and count == [len(child._load_state_dict_post_hooks) for child in model]


# Own methods


class Quantized(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Loads itself: computes with its parameter just after torch has filled it, and keeps a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.child = torch.nn.Parameter(torch.zeros(2, 3)), Linear(3, 2)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        self.scale = state.pop(prefix + "scale")
        super()._load_from_state_dict(state, prefix, *rest)
        self.top = float(self.weight.detach().abs().max() * self.scale)


@BOTH
def test_method_of_a_module_sees_the_values(tmp_path: Path, assign: bool) -> None:
    state = {"weight": STATE["weight"], "scale": torch.tensor(3.0), **{f"child.{n}": t for n, t in STATE.items()}}
    inner = torch.nn.Sequential(Quantized())
    path = saved(tmp_path / "t", {f"0.{name}": tensor for name, tensor in state.items()})
    model = agree(path, inner, assign=assign)[0]
    assert model.top == 15.0 and type(model.scale) is torch.Tensor
    assert "_load_from_state_dict" not in model.__dict__
    with torch.device("meta"):
        empty = torch.nn.Sequential(Linear(3, 2), torch.nn.BatchNorm1d(2))
    state = torch.nn.Sequential(Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict()
    load_into(empty, saved(tmp_path / "n", state))
    assert all(torch.equal(tensor, state[name]) for name, tensor in empty.state_dict().items())


@BOTH
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("result", [None, ([], ["other"])])
def test_own_load_state_dict_sees_the_values_and_may_return_anything(tmp_path: Path, assign: bool, device: str, result: Any) -> None:
    class Own(Linear):  # type: ignore[misc, valid-type]
        def load_state_dict(self, state: Any, **options: Any) -> Any:
            super().load_state_dict(state, **options)
            self.total = float(self.weight.detach().sum())  # sees the values
            return result

    model = Own(3, 2, device=device)
    assert load_into(model, saved(tmp_path / "t", STATE), assign=assign, dtype="half") is result
    assert model.total == 15.0 and not model._load_state_dict_post_hooks
    assert all(torch.equal(model.state_dict()[name], STATE[name].half()) for name in STATE)


class Extra(Linear):  # type: ignore[misc, valid-type]
    def get_extra_state(self) -> Any:
        return torch.tensor([1.0])

    def set_extra_state(self, state: Any) -> None:
        self.extra = state


@pytest.mark.parametrize("strict", [True, False])
def test_extra_state_is_given_to_its_module(tmp_path: Path, strict: bool) -> None:
    path = saved(tmp_path / "t", {**STATE, "_extra_state": torch.tensor([7.0])})
    model = Extra(3, 2)
    assert load_into(model, path, strict=strict) == ([], [])
    assert type(model.extra) is torch.Tensor and model.extra.tolist() == [7]
    agree(path, Linear(3, 2), strict=strict)
    agree(saved(tmp_path / "n", STATE), Extra(3, 2), strict=strict)


# Errors while reading, and signals


@BOTH
def test_read_error_leaves_no_half_made_tensors(tmp_path: Path, assign: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Sequential(*(Linear(64, 64) for _ in range(4)))
    path = saved(tmp_path / "t", model.state_dict())
    read = _load_into.read_pieces

    def cut(*args: Any, **named: Any) -> None:
        os.truncate(path, path.stat().st_size // 2)
        read(*args, **named)

    monkeypatch.setattr(_load_into, "read_pieces", cut)
    with pytest.raises(SafetensorError, match="file became shorter"):
        load_into(model, path, assign=assign)
    monkeypatch.undo()
    tensors = values(model)
    assert plain(model)
    assert all(tensor.is_meta == assign for tensor in tensors.values())
    path.unlink()
    load_into(model, saved(path, torch.nn.Sequential(*(Linear(64, 64) for _ in range(4))).state_dict()))
    assert not any(tensor.is_meta for tensor in model.parameters())


@BOTH
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_file_may_be_cut_while_a_hook_runs(tmp_path: Path, assign: bool, device: str) -> None:
    """The next module raises the error. A map of the file would end the process."""
    path = saved(tmp_path / "t", torch.nn.Sequential(Linear(64, 64), Linear(64, 64)).state_dict())
    model = torch.nn.Sequential(Linear(64, 64, device=device), Linear(64, 64, device=device))
    model[0].register_load_state_dict_pre_hook(lambda *_: os.truncate(path, 4096))
    with pytest.raises(SafetensorError, match="file became shorter"):
        load_into(model, path, assign=assign)
    assert plain(model) and not any("_load_from_state_dict" in module.__dict__ for module in model.modules())
    assert model[1].weight.device.type == device


@BOTH
def test_each_module_reads_and_frees_its_own_values(tmp_path: Path, assign: bool) -> None:
    model = torch.nn.Sequential(*(Linear(4, 4) for _ in range(3)))
    path = saved(tmp_path / "t", model.state_dict())
    with_values: list[set[str]] = []
    model[1].register_load_state_dict_post_hook(lambda *_: None)
    seen: list[tuple[int, int]] = []
    model[2].register_load_state_dict_pre_hook(lambda module, state, *_: with_values.append({n for n, t in state.items() if not t.is_meta}))
    agree(path, model, assign=assign)
    load_into(model, path, assign=assign, progress=lambda done, total: seen.append((done, total)))
    assert with_values[-1] == {"2.weight", "2.bias"}
    assert seen == sorted(seen) and seen[-1] == (3 * 80, 3 * 80) and len(seen) >= 3
    more = saved(tmp_path / "more", model.state_dict() | {"other": torch.ones(5)})
    load_into(model, more, strict=False, assign=assign, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (260, 260)
    model.register_load_state_dict_pre_hook(lambda module, state, *_: with_values.append({n for n, t in state.items() if not t.is_meta}))
    load_into(model, path, assign=assign)
    assert len(with_values[-2]) == 6


def test_ctrl_c_ends_it_and_the_model_can_be_loaded_again(tmp_path: Path) -> None:
    model = torch.nn.Sequential(*(Linear(64, 64) for _ in range(4)))
    path = saved(tmp_path / "t", {name: torch.full_like(tensor, 7.0) for name, tensor in model.state_dict().items()})
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            load_into(model, path, threads=1, memory_limit=4096, progress=lambda done, total: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, previous)
    assert plain(model)
    for tensor in model.parameters():
        tensor.detach().zero_()  # whatever was read before the signal
    assert load_into(model, path) == ([], []) and all((tensor == 7.0).all() for tensor in model.parameters())


# Memory

PEAK = """
import sys, torch
from pathlib import Path
from safetensors.torch import load_into
def status(field):
    return int(next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(field)).split()[1]) << 10
class Holder(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        for i in range(16): setattr(self, f"t{i}", torch.nn.Parameter(torch.ones(1 << 22, dtype=dtype)))
path, kind, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
load_into(torch.nn.Linear(2, 2), path, strict=False)  # imports, threads
before = status("VmRSS:")
with torch.device("meta" if kind.startswith("meta") else "cpu"):
    model = Holder(torch.float16 if kind == "casts" else torch.float32)
size = sum(p.numel() * p.element_size() for p in model.parameters())
Path("/proc/self/clear_refs").write_text("5")  # the peak is now what the process holds
load_into(model, path, memory_limit=limit, assign=kind.endswith("assign"), dtype="half" if kind == "narrows" else None)
assert all((p == int(name[1:])).all() for name, p in model.named_parameters())
print((status("VmHWM:") - before - size) >> 20)
"""


@pytest.mark.parametrize("kind", ["in place", "casts", "narrows", "assign", "meta", "meta, assign"])
def test_peak_of_memory_is_the_model_and_the_limit(tmp_path: Path, kind: str) -> None:
    """256 MiB are loaded. A second copy of the model, or of half of it, would be seen."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this system does not tell what a process held at most")
    arrays = {f"t{i}": np.full(1 << 22, i, np.float32) for i in range(16)}
    folder = sharded.save(tmp_path, arrays)
    limit = 16 << 20
    # The limit, 16 MiB for a tensor of the assertion, the rest is the allocator's and that of the interpreter.
    assert int(run(PEAK, folder, kind, limit)) < 64
