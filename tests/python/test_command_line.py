"""The command `safetensors` of the package, on many tensors and on a large file."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import command
from conftest import framework

from safetensors import load


def test_ten_thousand_tensors_of_huggingface_hub(tmp_path: Path) -> None:
    torch = framework("torch")
    hub = framework("huggingface_hub")
    state = {f"model.layers.{i // 100}.experts.{i % 100}.w": torch.full((8,), float(i)) for i in range(10_000)}
    (tmp_path / "model").mkdir()
    hub.save_torch_state_dict(state, str(tmp_path / "model"), max_shard_size="100KB")
    command("verify", tmp_path / "model")
    command("merge", tmp_path / "model", "-o", tmp_path / "one.safetensors")
    loaded = load(tmp_path / "one.safetensors", framework="pt")
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[name], value) for name, value in state.items())
    command("diff", tmp_path / "model", tmp_path / "one.safetensors")
    assert len(command("ls", tmp_path / "model").splitlines()) >= 10_000


def test_a_sparse_file_of_5_gb(tmp_path: Path) -> None:
    size = 5 * 10**9
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    header += b" " * (-len(header) % 8)
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
    command("verify", path)
    assert "5,000,000,000" in command("info", path)
    assert command("cat", path, "w", "--slice", "-3:", "--format", "text").strip() == "[0, 0, 0]"
