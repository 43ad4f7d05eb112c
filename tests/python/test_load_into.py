"""load_into does what load_state_dict does: the same verdicts, the same values, the same hooks."""

from __future__ import annotations

import copy
import gc
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sharded
from conftest import framework

torch = framework("torch")

import safetensors.torch as stt  # noqa: E402
from safetensors import SafetensorError  # noqa: E402
from safetensors.torch import load_into, save_file  # noqa: E402

Model = Any


class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Parameters, buffers of both kinds, batch norm, a recurrent layer, and an integer buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 4, bias=False))
        self.rnn = torch.nn.LSTM(4, 3)
        self.register_buffer("steps", torch.arange(7))
        self.register_buffer("cache", torch.ones(3), persistent=False)
        self.register_parameter("none", None)
        self.frozen = torch.nn.Parameter(torch.randn(2, 3), requires_grad=False)


class Tied(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.b.weight = self.a.weight


def saved(path: Path, tensors: dict[str, Any]) -> Path:
    save_file({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}, path, durability="none")
    return path


def values(model: Model) -> dict[str, Any]:
    return {name: tensor.detach().clone() for name, tensor in (*model.named_parameters(), *model.named_buffers())}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    equal = one.keys() == other.keys()
    return equal and all(one[n].dtype == other[n].dtype and torch.equal(one[n], other[n]) for n in one)


def plain(model: Model) -> bool:
    """No tensor of the model is one that load_into makes while it works."""
    return {type(t) for t in (*model.parameters(), *model.buffers())} <= {torch.Tensor, torch.nn.Parameter}


def verdict(call: Callable[[], Any]) -> tuple[str, str]:
    try:
        return "returned", repr(call())
    except Exception as error:
        # load_into adds lines about tied weights.
        return type(error).__name__, re.sub(r"\n\t[^\n]* is tied to [^\n]*", "", str(error))


def agree(path: Path, model: Model, **options: Any) -> Model:
    """Load by torch and by load_into into copies of a model, check that both agree, and return the model of load_into."""
    theirs, ours = copy.deepcopy(model), copy.deepcopy(model)
    wanted = verdict(lambda: theirs.load_state_dict(stt.load_file(path), **options))
    before = values(ours)
    assert verdict(lambda: load_into(ours, path, **options)) == wanted
    assert same(values(ours), values(theirs) if wanted[0] == "returned" else before)  # unchanged after an error
    assert plain(ours)
    if wanted[0] != "returned":
        return ours
    for (name, one), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert type(one) is type(other) and one.requires_grad == other.requires_grad, name
        assert one.is_contiguous() == other.is_contiguous() and one.stride() == other.stride(), name
    return ours


BOTH = pytest.mark.parametrize("assign", [False, True])


# Values


@BOTH
@pytest.mark.parametrize("limit", [1, "64KiB", 256 << 20])
def test_values_are_those_of_load_state_dict(tmp_path: Path, assign: bool, limit: Any) -> None:
    path = saved(tmp_path / "t", Net().state_dict())
    agree(path, Net(), assign=assign)
    model = Net()
    before = dict(model.named_parameters())
    result = load_into(model, path, assign=assign, memory_limit=limit)
    assert type(result) is type(Net().load_state_dict(Net().state_dict())) and result == ([], [])
    assert same(dict(model.state_dict()), stt.load_file(path))
    for name, parameter in model.named_parameters():
        assert (parameter is before[name]) != assign or name == "none"
    model.rnn(torch.zeros(2, 4))


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("stored", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int32, torch.bool, torch.complex64])
@pytest.mark.parametrize("own", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.float8_e5m2, torch.complex128])
def test_dtypes_are_converted_as_by_copy(tmp_path: Path, stored: Any, own: Any) -> None:
    path = saved(tmp_path / "t", {"w": torch.linspace(-3, 300, 24).reshape(4, 6).to(stored)})
    model = torch.nn.Module()
    model.register_buffer("w", torch.zeros(4, 6, dtype=own))
    agree(path, model)


STRIDED = {
    "transposed": lambda: torch.zeros(6, 4).t(), "columns": lambda: torch.zeros(4, 12)[:, 3:9], "steps": lambda: torch.zeros(8, 12)[::2, ::2],
    "channels": lambda: torch.zeros(2, 3, 2, 2).to(memory_format=torch.channels_last), "conjugated": lambda: torch.zeros(4, 6, dtype=torch.complex64).conj(),
    "expanded": lambda: torch.zeros(4, 1).expand(4, 6), "scalar": lambda: torch.tensor(3.0), "empty": lambda: torch.zeros(0, 6),
    "unfolded": lambda: torch.zeros(9).as_strided((4, 6), (1, 1)),
}  # fmt: skip


@pytest.mark.parametrize("kind", STRIDED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_parameters_may_have_strides(tmp_path: Path, kind: str, dtype: Any) -> None:
    target = STRIDED[kind]()
    path = saved(tmp_path / "t", {"w": torch.randn(target.shape).to(dtype)})
    theirs, ours = torch.nn.Module(), torch.nn.Module()
    for model in (theirs, ours):
        model.w = torch.nn.Parameter(STRIDED[kind](), requires_grad=False)
    wanted = verdict(lambda: theirs.load_state_dict(stt.load_file(path)))
    assert verdict(lambda: load_into(ours, path)) == wanted
    assert (wanted[0] == "RuntimeError") == (kind in ("expanded",)) or kind == "unfolded"
    assert torch.equal(ours.w, theirs.w) and ours.w.stride() == target.stride()


def test_bytes_between_strides_stay(tmp_path: Path) -> None:
    path = saved(tmp_path / "t", {"w": torch.ones(4, 6)})
    whole = torch.full((4, 12), 7.0)
    model = torch.nn.Module()
    model.w = torch.nn.Parameter(whole[:, 3:9])
    load_into(model, path)
    assert (whole[:, 3:9] == 1).all() and (whole[:, :3] == 7).all() and (whole[:, 9:] == 7).all()


# Verdicts


@BOTH
@pytest.mark.parametrize("strict", [True, False])
def test_missing_and_unexpected_names_are_reported(tmp_path: Path, assign: bool, strict: bool) -> None:
    state = Net().state_dict()
    del state["frozen"], state["rnn.bias_hh_l0"], state["body.1.running_mean"]
    path = saved(tmp_path / "t", {**state, "cache": torch.zeros(3), "none": torch.zeros(1), "other.x": torch.zeros(1), "body.0.weight.x": torch.zeros(1), "body.9.w": torch.zeros(1), "body.0._extra_state": torch.zeros(1)})
    agree(path, Net(), strict=strict, assign=assign)


@BOTH
@pytest.mark.parametrize("strict", [True, False])
def test_shapes_that_differ_are_reported(tmp_path: Path, assign: bool, strict: bool) -> None:
    state = {**Net().state_dict(), "frozen": torch.zeros(3, 2), "steps": torch.zeros(8), "body.2.weight": torch.zeros(4)}
    agree(saved(tmp_path / "t", state), Net(), strict=strict, assign=assign)
    model = torch.nn.Module()
    model.w = torch.nn.Parameter(torch.tensor(2.0))
    agree(saved(tmp_path / "one", {"w": torch.tensor([5.0])}), model, assign=assign)  # torch takes it for a scalar


@BOTH
def test_integers_cannot_become_parameters_with_gradients(tmp_path: Path, assign: bool) -> None:
    state = {**Net().state_dict(), "body.0.bias": torch.arange(5)}
    path = saved(tmp_path / "t", state)
    if not assign:
        agree(path, Net())
        return
    model, before = Net(), Net()
    before.load_state_dict(model.state_dict())
    with pytest.raises(RuntimeError, match='^Error.*Net:\n\tWhile copying the parameter named "body.0.bias", .*require gradients'):
        load_into(model, path, assign=True)
    assert same(values(model), values(before))


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "t", Net().state_dict())
    model = Net()
    before = values(model)
    folder = sharded.save(tmp_path / "shards", {name: tensor.numpy() for name, tensor in Net().state_dict().items()})
    second = sorted(folder.glob("*.safetensors"))[1]
    os.truncate(second, second.stat().st_size - 1)
    wrong: list[tuple[Callable[[], Any], Any, str]] = [
        (lambda: load_into({}, path), TypeError, "^model is dict: give a torch.nn.Module$"),
        (lambda: load_into(model, path, dtype="int64"), SafetensorError, "^cannot cast to I64: expected one of float8_e5m2, "),
        (lambda: load_into(model, path, memory_limit="lots"), ValueError, "^memory_limit 'lots' is invalid"),
        (lambda: load_into(model, path, device="nowhere"), RuntimeError, "nowhere"),
        (lambda: load_into(model, path, device="meta"), ValueError, "^device is meta, which holds no values$"),
        (lambda: load_into(model, tmp_path / "gone"), FileNotFoundError, "gone"),
        (lambda: load_into(model, folder), SafetensorError, "incomplete metadata, file not fully covered: "),
    ]  # fmt: skip
    for call, kind, text in wrong:
        with pytest.raises(kind, match=text):
            call()
    hooked = Net()
    hooked.register_load_state_dict_post_hook(lambda *_: None)
    nothing = saved(tmp_path / "n", {"other": torch.zeros(1)})  # no name of the model
    for call_with in (lambda **o: load_into(model, path, **o), lambda **o: load_into(hooked, path, **o), lambda **o: load_into(model, nothing, strict=False, **o)):
        for option, text in ({"cache": "x"}, '^cache "x" is invalid'), ({"threads": -1}, "^threads is -1, "), ({"memory_limit": -1}, "^memory_limit is -1, "):
            with pytest.raises(SafetensorError, match=text):
                call_with(**option)
    assert same(values(model), before)


def test_swapped_parameters_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "t", Net().state_dict())
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with pytest.raises(SafetensorError, match="use load_state_dict$"):
            load_into(Net(), path)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


# Meta, dtype, device


@BOTH
@pytest.mark.parametrize("dtype", [None, "bf16", torch.float64])
def test_meta_model_gets_memory(tmp_path: Path, assign: bool, dtype: Any) -> None:
    state = Net().half().state_dict()
    path = saved(tmp_path / "t", state)
    with torch.device("meta"):
        model = Net()
        result = load_into(model, path, assign=assign, dtype=dtype)
    assert result == ([], []) and model.cache.is_meta  # not in any file
    wanted = {None: torch.float16 if assign else torch.float32, "bf16": torch.bfloat16}.get(dtype, torch.float64)
    for name, tensor in model.state_dict().items():
        floats = state[name].is_floating_point()
        assert tensor.device.type == "cpu" and tensor.dtype == (wanted if floats else torch.int64), name
        assert torch.equal(tensor, state[name].to(tensor.dtype)), name
    assert all(isinstance(p, torch.nn.Parameter) for p in model._parameters.values() if p is not None)
    assert not model.frozen.requires_grad and model.body[0].weight.requires_grad
    assert all(weight is getattr(model.rnn, name) for weight, name in zip(model.rnn._flat_weights, model.rnn._flat_weights_names, strict=True))


def test_meta_parameters_keep_attributes_and_strides(tmp_path: Path) -> None:
    path = saved(tmp_path / "t", {"w": torch.randn(2, 3, 4, 5), "v": torch.randn(3)})
    model = torch.nn.Module()
    model.w = torch.nn.Parameter(torch.empty(2, 3, 4, 5, device="meta").to(memory_format=torch.channels_last))
    model.w.mark = "kept"
    model.v = torch.nn.Parameter(torch.empty(3, device="meta"))
    load_into(model, path)
    assert model.w.mark == "kept" and model.w.is_contiguous(memory_format=torch.channels_last)
    assert same(dict(model.state_dict()), stt.load_file(path))


def test_missing_tensors_stay_on_meta(tmp_path: Path) -> None:
    path = saved(tmp_path / "t", {"weight": torch.randn(3, 2)})
    with torch.device("meta"):
        model = torch.nn.Linear(2, 3)
    with pytest.raises(RuntimeError, match='Missing key\\(s\\) in state_dict: "bias"'):
        load_into(model, path)
    assert model.weight.is_meta
    assert load_into(model, path, strict=False) == (["bias"], [])
    assert not model.weight.is_meta and model.bias.is_meta


@BOTH
def test_dtype_changes_floats_only(tmp_path: Path, assign: bool) -> None:
    state = Net().state_dict()
    path = saved(tmp_path / "t", state)
    model = Net()
    model.body[0].weight.grad = torch.ones(5, 6)
    before = dict(model.named_parameters())
    load_into(model, path, dtype="half", assign=assign)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, state[name].half() if state[name].is_floating_point() else state[name])
    if not assign:
        assert all(parameter is before[name] for name, parameter in model.named_parameters())
        assert model.body[0].weight.grad.dtype == torch.float16


# Tied weights


@pytest.mark.parametrize("names", [["a.weight", "b.weight"], ["a.weight"], ["b.weight"], []])
@pytest.mark.parametrize("strict", [True, False])
def test_tied_weights_are_judged_as_by_torch(tmp_path: Path, names: list[str], strict: bool) -> None:
    tensors = {"a.bias": torch.ones(3), "b.bias": torch.zeros(3), **{name: torch.randn(3, 3) for name in names}}
    path = saved(tmp_path / "t", tensors)
    ours = agree(path, Tied(), strict=strict)
    assert ours.b.weight is ours.a.weight
    agree(path, Tied(), strict=strict, assign=True)


def test_tied_weights_of_a_meta_model_stay_tied(tmp_path: Path) -> None:
    path = saved(tmp_path / "t", {"a.bias": torch.ones(3), "b.bias": torch.zeros(3), "b.weight": torch.randn(3, 3)})
    with torch.device("meta"):
        model = Tied()
    assert load_into(model, path, strict=False) == (["a.weight"], [])
    assert model.a.weight is model.b.weight and torch.equal(model.a.weight, stt.load_file(path)["b.weight"])


def test_tied_weights_are_read_once(tmp_path: Path) -> None:
    state = {"a.bias": torch.ones(3), "b.bias": torch.zeros(3), "a.weight": torch.randn(3, 3), "b.weight": torch.randn(3, 3)}
    path = saved(tmp_path / "t", state)
    totals: set[int] = set()
    load_into(Tied(), path, progress=lambda done, total: totals.add(total))
    assert totals == {4 * (3 + 3 + 9)}


def test_views_of_one_memory_stay_views_unless_their_dtype_changes(tmp_path: Path) -> None:
    for dtype in (None, "half"):
        model = Tied()
        model.b.weight = torch.nn.Parameter(model.a.weight.data)  # another parameter over the same memory
        path = saved(tmp_path / "t", {**model.state_dict(), "b.weight": torch.ones(3, 3), "a.weight": torch.zeros(3, 3)})
        load_into(model, path, dtype=dtype)
        assert (model.b.weight == 1).all() and (model.a.weight == (1 if dtype is None else 0)).all()
        assert model.a.weight.dtype == model.b.weight.dtype == (torch.float16 if dtype else torch.float32)


@pytest.mark.parametrize("names", ["abc", "ab", "cba", "defgh"])
def test_views_that_overlap_are_filled_in_the_order_of_torch(tmp_path: Path, names: str) -> None:
    """The last values win, whatever the dtypes and shapes of the views."""

    def make() -> Model:
        one, two, model = torch.zeros(6), torch.zeros(12), torch.nn.Module()
        views = {"a": one, "b": one.view(2, 3), "c": one.view(torch.int32)}
        views |= {"d": two[:8], "e": two[4:], "f": two[2:6].view(2, 2), "g": two[10:], "h": torch.zeros(3)}
        for name, view in views.items():
            model.register_buffer(name, view)
        return model

    ours, theirs = make(), make()
    stored = ours.state_dict()
    path = saved(tmp_path / "t", {name: torch.randn(stored[name].shape).abs().mul(9).to(stored[name].dtype) for name in names})
    load_into(ours, path, strict=False)
    theirs.load_state_dict(stt.load_file(path), strict=False)
    assert same(values(ours), values(theirs))


def test_few_objects_live_per_tensor(tmp_path: Path) -> None:
    """Many new objects start full runs of the garbage collector, which took longer than all else."""
    count = 1000
    path = saved(tmp_path / "t", {str(i): torch.zeros(4) for i in range(count)})
    model = torch.nn.Module()
    for i in range(count):
        model.register_buffer(str(i), torch.ones(4))
    load_into(model, path)  # imports modules
    seen: list[int] = []

    def counting(done: int, total: int) -> None:
        if not seen:
            gc.collect()
            seen.append(len(gc.get_objects()))

    gc.collect()
    before = len(gc.get_objects())
    load_into(model, path, progress=counting)
    assert all((buffer == 0).all() for buffer in model.buffers())
    assert seen[0] - before < 7 * count


# Autograd and inference


@pytest.mark.parametrize("torch_counts", [True, False])
def test_change_of_a_parameter_is_seen_by_autograd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch_counts: bool
) -> None:
    from safetensors._models import pieces as _pieces

    if not torch_counts:  # as with an older torch
        monkeypatch.setattr(_pieces, "_increment_version", None)
    path = saved(tmp_path / "t", {"weight": torch.ones(2, 2), "bias": torch.ones(2)})
    model = torch.nn.Linear(2, 2)
    x = torch.randn(1, 2, requires_grad=True)
    result = model(x).sum()
    versions = [p._version for p in model.parameters()]
    load_into(model, path)
    assert all(p._version > v for p, v in zip(model.parameters(), versions, strict=True))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


@BOTH
def test_inference_tensors_follow_the_rules_of_torch(tmp_path: Path, assign: bool) -> None:
    path = saved(tmp_path / "t", {"weight": torch.ones(2, 2), "bias": torch.ones(2)})
    with torch.inference_mode():
        ours, theirs = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    wanted = verdict(lambda: theirs.load_state_dict(stt.load_file(path), assign=assign))
    assert (wanted[0] == "returned") == assign and verdict(lambda: load_into(ours, path, assign=assign)) == wanted
    assert ours.weight.is_inference() == theirs.weight.is_inference() and ours.weight.requires_grad == theirs.weight.requires_grad
    with torch.inference_mode():
        load_into(ours, path, assign=assign)
        load_into(plain := torch.nn.Linear(2, 2), path, dtype="bf16")
    assert (ours.weight == 1).all() and (plain.weight == 1).all()
    normal = torch.nn.Linear(2, 2)
    with torch.inference_mode():
        load_into(normal, path, assign=assign)
    assert (normal.weight == 1).all() and normal.weight.requires_grad and normal.weight.is_inference() == assign


# Tensors that only torch can fill


def test_stream_fills_what_a_plan_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for other devices, which this machine may lack."""
    from safetensors._models import pieces as _pieces

    monkeypatch.setattr(_pieces.Piece, "request", lambda self: None)
    path = saved(tmp_path / "t", Net().state_dict())
    agree(path, Net())
    agree(path, Net(), assign=True)
    seen: list[tuple[int, int]] = []
    with torch.device("meta"):
        model = Net()
    load_into(model, path, memory_limit=64, progress=lambda done, total: seen.append((done, total)))
    assert same(dict(model.state_dict()), stt.load_file(path)) and seen == sorted(seen) and seen[-1][0] == seen[-1][1]


def test_other_devices_are_filled(tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("this machine has no CUDA device")
    path = saved(tmp_path / "t", Net().state_dict())
    agree(path, Net().cuda())
    with torch.device("meta"):
        model = Net()
    load_into(model, path, device="cuda", dtype="bf16")
    assert all(tensor.is_cuda for tensor in model.state_dict().values())
