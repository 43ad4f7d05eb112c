"""The command `safetensors` of the package, on a large file."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import command



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
