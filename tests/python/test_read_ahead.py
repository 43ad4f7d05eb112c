"""Lazy views and ReadAhead, which the load format of vLLM stands on: values, bytes, the budget, errors."""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
from conftest import framework

torch = framework("torch")

from safetensors import Checkpoint  # noqa: E402
from safetensors._models.lazy_views import LazyView, Root, slice_of  # noqa: E402
from safetensors._models.read_ahead import ReadAhead  # noqa: E402
from safetensors._vllm import layer_order, register  # noqa: E402
from safetensors.torch import save_file  # noqa: E402


def model(layers: int = 8) -> dict[str, Any]:
    torch.manual_seed(0)
    tensors = {"embed.weight": torch.randn(96, 8), "norm.weight": torch.randn(8)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        tensors[f"{prefix}.q.weight"] = torch.randn(16, 8)
        tensors[f"{prefix}.o.weight"] = torch.randn(8, 16)
        tensors[f"{prefix}.experts.0.weight"] = torch.randn(8, 8)
        tensors[f"{prefix}.experts.1.weight"] = torch.randn(8, 8)
    return tensors


def opened(tensors: dict[str, Any], folder: Path, **options: Any) -> ReadAhead:
    save_file(tensors, folder / "m.safetensors")
    checkpoint = Checkpoint(folder / "m.safetensors", "pt")
    names = sorted(checkpoint, key=layer_order)
    return ReadAhead(checkpoint, names, [True] * len(names), **options)


def only(tensor: Any, folder: Path) -> Any:
    """A lazy tensor, after the iteration."""
    return dict(opened({"t": tensor}, folder).tensors())["t"]


def test_names_are_in_the_order_of_layers() -> None:
    names = ["a.10.w", "a.9.w", "b", "a.9.v.2", "a.9.v.10", "a.0"]
    assert sorted(names, key=layer_order) == ["a.0", "a.9.v.2", "a.9.v.10", "a.9.w", "a.10.w", "b"]


OPERATIONS: list[Any] = [
    lambda t, r: t.narrow(
        d := r.randrange(t.dim()), s := r.randrange(t.size(d)), r.randint(1, t.size(d) - s)
    ),
    lambda t, r: t[r.randrange(t.size(0))],
    lambda t, r: t[r.randrange(-t.size(0), 0) :],
    lambda t, r: t[..., :: r.randint(1, 3)],
    lambda t, r: t.transpose(r.randrange(t.dim()), r.randrange(t.dim())),
    lambda t, r: t.chunk(2, dim=r.randrange(t.dim()))[0],
    lambda t, r: torch.split(t, 2, dim=r.randrange(t.dim()))[-1],
    lambda t, r: t.unsqueeze(r.randrange(t.dim() + 1)),
    lambda t, r: t.squeeze(),
    lambda t, r: t.flatten(),
    lambda t, r: t.reshape(-1, 1),
    lambda t, r: t.detach(),
    lambda t, r: t.data,
    lambda t, r: t.contiguous(),
    lambda t, r: t.unbind(r.randrange(t.dim()))[-1],
    lambda t, r: t.permute(*r.sample(range(t.dim()), t.dim())),
    lambda t, r: t.select(r.randrange(t.dim()), 0),
    lambda t, r: t.view(torch.int32),
    lambda t, r: t.to(torch.float64),
    lambda t, r: t[torch.tensor([0])],
    lambda t, r: t.repeat_interleave(2, 0),
]


@pytest.mark.parametrize("seed", range(300))
def test_views_of_lazy_tensors_are_those_of_tensors(seed: int, tmp_path: Path) -> None:
    generator = random.Random(seed)
    shape = [generator.randint(1, 6) for _ in range(generator.randint(1, 4))]
    plain = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    lazy = only(plain, tmp_path)
    for _ in range(generator.randint(1, 5)):
        if plain.dim() == 0:
            break
        operation = generator.choice(OPERATIONS)
        state = generator.getstate()
        try:
            plain_next = operation(plain, generator)
        except RuntimeError:
            generator.setstate(state)
            with pytest.raises(RuntimeError):
                operation(lazy, generator)
            continue
        generator.setstate(state)
        plain, lazy = plain_next, operation(lazy, generator)
        assert (lazy.shape, lazy.dtype, lazy.device) == (plain.shape, plain.dtype, plain.device)
    into = torch.zeros_like(plain)
    into.copy_(lazy)
    assert torch.equal(into, plain)
    assert torch.equal(lazy.clone(), plain) and lazy.tolist() == plain.tolist()


def test_a_slice_reads_its_elements_only(tmp_path: Path) -> None:
    plain = torch.arange(4 * 6 * 10.0).reshape(4, 6, 10)
    for view, elements in [
        (lambda t: t.narrow(0, 1, 2), 120),
        (lambda t: t[3], 60),
        (lambda t: t[2].narrow(1, 4, 3).t(), 18),
        (lambda t: t.transpose(0, 2)[::3], 4 * 6 * 4),
        (lambda t: t.chunk(2, dim=1)[1], 120),
        (lambda t: t.data[1:3, :, 5], 12),
        (lambda t: t[0, 0, 0], 1),
        (lambda t: t, 240),
        (lambda t: t.flatten()[:12], 240),  # no box: read whole
    ]:
        ahead = opened({"t": plain}, tmp_path)
        (_, lazy) = next(ahead.tensors())
        into = torch.zeros(view(plain).shape)
        assert ahead.used_bytes == 0
        into.copy_(view(lazy))
        assert torch.equal(into, view(plain)) and ahead.used_bytes == elements * 4


def test_gaps_are_bytes_read_and_not_bytes_used(tmp_path: Path) -> None:
    plain = torch.arange(64 * 100.0).reshape(64, 100)
    ahead = opened({"t": plain}, tmp_path)
    (_, lazy) = next(ahead.tensors())
    assert (ahead.used_bytes, ahead.read_bytes) == (0, 0)
    assert torch.equal(lazy[:, 7].clone(), plain[:, 7])
    assert ahead.used_bytes == 64 * 4 and 63 * 400 + 4 <= ahead.read_bytes <= ahead.total_bytes


def test_a_view_that_is_no_box_has_no_slices() -> None:
    base = torch.zeros(4, 3)
    assert slice_of(base.flatten()[2:5], (4, 3)) is None
    assert slice_of(base.as_strided((2,), (4,)), (4, 3)) is None
    assert slice_of(base[1:3].t(), (4, 3)) == ((slice(1, 3, 1), slice(0, 3, 1)), (1, 0))


def test_shape_and_dtype_are_known_without_reading(tmp_path: Path) -> None:
    ahead = opened({"t": torch.zeros(3, 4, dtype=torch.bfloat16)}, tmp_path)
    (_, lazy) = next(ahead.tensors())
    assert lazy.shape == (3, 4) and lazy.size(1) == 4 and lazy.dim() == 2 and lazy.numel() == 12
    assert lazy.dtype is torch.bfloat16 and lazy.device == torch.device("cpu")
    assert not lazy.is_meta and not lazy.is_cuda and isinstance(lazy, torch.Tensor)
    assert lazy.is_contiguous() and not lazy.t().is_contiguous() and lazy.nbytes == 24
    torch.empty(3, 4, device="meta").copy_(lazy)
    lazy.mark = "q"  # vLLM does so
    assert lazy.mark == "q" and ahead.used_bytes == 0


def test_changes_in_place_are_seen_by_all_views(tmp_path: Path) -> None:
    for change in (
        lambda t: t.mul_(2),
        lambda t: t.__setitem__(0, 7.0),
        lambda t: t.narrow(0, 1, 1).fill_(3),
        lambda t: t.__iadd__(1),
        lambda t: torch.ops.aten.add_(t, 1),
        lambda t: torch.add(t, 1, out=t),
        lambda t: t.numpy().fill(5),
    ):
        plain = torch.arange(12.0).reshape(3, 4)
        lazy = only(plain, tmp_path)
        view = lazy.narrow(0, 0, 2)
        change(plain), change(lazy)
        for _ in range(2):
            assert torch.equal(lazy.clone(), plain)
            assert torch.equal(view.clone(), plain[:2])
            assert torch.equal(lazy[1:].clone(), plain[1:])


def use(name: str, tensor: Any, want: Any) -> int:
    """Copy what a rank needs, as a model of vLLM does. Return the number of its bytes."""
    if ".q." in name:
        tensor, want = tensor.narrow(0, 4, 4), want.narrow(0, 4, 4)
    elif ".o." in name:
        tensor, want = tensor.narrow(1, 4, 4), want.narrow(1, 4, 4)
    elif "experts.0" in name:
        return 0
    into = torch.zeros(want.shape)
    into.copy_(tensor)
    assert torch.equal(into, want), name
    return int(want.nbytes)


@pytest.mark.parametrize("limit", [1, 600, 4096, "1MiB"])
def test_it_reads_what_is_used_and_nothing_twice(limit: Any, tmp_path: Path) -> None:
    tensors = model()
    ahead = opened(tensors, tmp_path, memory_limit=limit)
    seen, used = [], 0
    for name, tensor in ahead.tensors():
        seen.append(name)
        used += use(name, tensor, tensors[name])
    assert seen == sorted(tensors, key=layer_order)
    assert ahead.used_bytes == used < ahead.total_bytes == sum(t.nbytes for t in tensors.values())


def test_it_reads_ahead_within_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = model(40)
    ahead = opened(tensors, tmp_path, memory_limit=2000)
    alone: list[str] = []
    load = ahead._native.load

    class Native:
        def __getattr__(self, name: str) -> Any:
            return getattr(native, name)

        def load(self, requests: Any, **options: Any) -> Any:
            alone.extend(request[0] for request in requests)
            return load(requests, **options)

    native = ahead._native
    ahead._native = Native()  # type: ignore[assignment]
    most = 0
    for name, tensor in ahead.tensors():
        use(name, tensor, tensors[name])
        most = max(most, sum(t.nbytes for ready in ahead._ready.values() for t in ready.values()))
        assert ahead._window == 1000 and most <= 1000
    first = {f"model.layers.0.{rest}" for rest in ("q.weight", "o.weight", "experts.1.weight")}
    assert set(alone) == first | {"embed.weight", "norm.weight"}
    assert most > 0


def test_a_wrong_guess_costs_bytes_and_no_values(tmp_path: Path) -> None:
    tensors = model(30)
    ahead = opened(tensors, tmp_path, memory_limit=3000)
    generator = random.Random(0)
    for name, tensor in ahead.tensors():
        want = tensors[name]
        for _ in range(generator.randrange(3)):
            start = generator.randrange(want.size(0))
            assert torch.equal(tensor[start:].clone(), want[start:])
    assert ahead._stream is None


def test_tensors_are_valid_after_the_iteration(tmp_path: Path) -> None:
    tensors = model()
    ahead = opened(tensors, tmp_path)
    held = dict(ahead.tensors())
    del ahead
    for name in sorted(held, reverse=True):
        use(name, held[name], tensors[name])


def test_a_tensor_goes_with_its_last_view(tmp_path: Path) -> None:
    tensors = model(20)
    ahead = opened(tensors, tmp_path, memory_limit=3000)
    roots: list[weakref.ref[Any]] = []
    for name, tensor in ahead.tensors():
        assert torch.equal(tensor + 0, tensors[name])  # needs all values in memory
        roots.append(weakref.ref(tensor.root))
        alive: list[Any] = [found() for found in roots if found() is not None]
        assert len(alive) <= 2 and alive[-1].values is not None
        del alive
    view = tensor[:2]
    del tensor
    assert [found() is None for found in roots[:-1]] == [True] * (len(tensors) - 1)
    assert torch.equal(view.clone(), tensors[name][:2])
    del view
    assert roots[-1]() is None and ahead.used_bytes == ahead.total_bytes


def test_threads_get_one_copy_of_the_values() -> None:
    reads: list[int] = []

    def read(root: Root, index: Any) -> Any:
        reads.append(1)
        time.sleep(0.05)
        return torch.zeros(3)

    root = Root("t", "F32", torch.empty(3, device="meta"), read)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(root.pin())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reads) == 1 and all(tensor is found[0] for tensor in found)


def test_names_that_are_elsewhere_are_not_read_ahead(tmp_path: Path) -> None:
    tensors = model(20)
    save_file(tensors, tmp_path / "m.safetensors")
    checkpoint = Checkpoint(tmp_path / "m.safetensors", "pt")
    names = sorted(checkpoint, key=layer_order)
    here = [not name.startswith("model.layers.") or int(name.split(".")[2]) < 10 for name in names]
    ahead = ReadAhead(checkpoint, names, here)
    used = sum(
        use(name, t, tensors[name]) for (name, t), own in zip(ahead.tensors(), here, strict=True) if own
    )
    assert ahead.used_bytes == used


def test_an_end_in_the_middle_closes_the_stream(tmp_path: Path) -> None:
    ahead = opened(model(30), tmp_path, memory_limit=3000)
    tensors = ahead.tensors()
    for name, tensor in tensors:
        use(name, tensor, tensor.clone())
        if ".layers.4." in name:
            break
    assert ahead._stream is not None
    tensors.close()
    assert ahead._stream is None and not ahead._ready


def test_an_error_of_reading_names_the_file(tmp_path: Path) -> None:
    tensors = model(30)
    ahead = opened(tensors, tmp_path, memory_limit=3000)
    path = tmp_path / "m.safetensors"
    with pytest.raises(Exception) as raised:
        for position, (name, tensor) in enumerate(ahead.tensors()):
            if position == 20:
                os.truncate(path, 4000)
            use(name, tensor, tensors[name])
    assert "m.safetensors" in str(raised.value) + "".join(getattr(raised.value, "__notes__", []))
    assert ahead._stream is None


def test_threads_may_use_one_tensor(tmp_path: Path) -> None:
    tensors = model(20)
    ahead = opened(tensors, tmp_path, memory_limit=3000)
    errors: list[BaseException] = []

    def work(name: str, tensor: Any, start: int) -> None:
        try:
            assert torch.equal(tensor.narrow(0, start, 1).clone(), tensors[name][start : start + 1])
        except BaseException as error:
            errors.append(error)

    for name, tensor in ahead.tensors():
        threads = [threading.Thread(target=work, args=(name, tensor, start)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def test_a_lazy_tensor_cannot_become_a_parameter(tmp_path: Path) -> None:
    """torch refuses it: the parameter would read the file at each use."""
    with pytest.raises(RuntimeError, match="Parameter"):
        torch.nn.Parameter(only(torch.zeros(2), tmp_path))


def test_a_packed_dtype_is_read_whole(tmp_path: Path) -> None:
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this torch has no float4_e2m1fn_x2")
    plain = torch.arange(24, dtype=torch.uint8).reshape(4, 6).view(torch.float4_e2m1fn_x2)
    lazy = only(plain, tmp_path)
    assert lazy.shape == (4, 6)
    assert torch.equal(lazy[1:3].view(torch.uint8), plain[1:3].view(torch.uint8))


def test_without_vllm_registering_only_warns(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with caplog.at_level(logging.WARNING, "vllm"):
        register()
    assert "no load format safetensors_plan" in caplog.text


def test_the_package_imports_nothing_for_vllm() -> None:
    code = "import safetensors, safetensors.torch, sys; print([m for m in sys.modules if 'vllm' in m or 'read_ahead' in m])"
    assert subprocess.run([sys.executable, "-c", code], stdout=-1, text=True, check=True).stdout == "[]\n"


def test_lazy_views_are_tensors(tmp_path: Path) -> None:
    lazy = only(torch.ones(2, 3), tmp_path)
    assert isinstance(lazy[0], LazyView) and isinstance(lazy.chunk(2)[0], LazyView)
    assert type(lazy + 1) is torch.Tensor and torch.equal(torch.cat([lazy, lazy]), torch.ones(4, 3))
    assert torch.equal(sum(row for row in lazy), torch.full((3,), 2.0))
