"""StorageWriter without ranks and in a process of its own, and kills of ranks that save."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import framework

torch = framework("torch")

import kill_ranks  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402

import safetensors  # noqa: E402
from safetensors import SafetensorError  # noqa: E402
from safetensors.distributed import StorageWriter  # noqa: E402
from safetensors.torch import load_file, save  # noqa: E402

KILLS = int(os.environ.get("SAFETENSORS_TEST_KILLS", "20"))


def test_a_kill_leaves_the_old_or_the_new_checkpoint(tmp_path: Path) -> None:
    """SAFETENSORS_TEST_KILLS is the number of kills."""
    lines = kill_ranks.run(tmp_path, list(range(KILLS)), 60 + 5 * KILLS)
    verdicts = [line.split()[2] for line in lines]
    assert not set(verdicts) - {"old", "new"} and len(verdicts) == KILLS, "\n".join(lines)
    assert KILLS < 20 or "old" in verdicts, "\n".join(lines)


# async_save starts a process that imports the program again.
IN_A_PROCESS = """
import sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from safetensors.distributed import StorageWriter

if __name__ == "__main__":
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    state = {"w": distribute_tensor(torch.arange(12.0).reshape(4, 3), mesh, [Shard(0)], src_data_rank=None)}
    kind = AsyncCheckpointerType.PROCESS
    dcp.async_save(state, storage_writer=StorageWriter(sys.argv[1]), async_checkpointer_type=kind).result()
    dist.destroy_process_group()
"""


def test_async_save_works_in_a_process(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(IN_A_PROCESS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "RANK": "0", "WORLD_SIZE": "1"}
    environment = {**os.environ, **meeting, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run([sys.executable, str(program), str(tmp_path / "made")], env=environment, capture_output=True, text=True, timeout=180)
    files = [path.name for path in (tmp_path / "made").iterdir()] if (tmp_path / "made").exists() else []
    assert files == ["model.safetensors"], done.stdout + done.stderr
    assert torch.equal(load_file(tmp_path / "made" / "model.safetensors")["w"], torch.arange(12.0).reshape(4, 3))


# --- without a process group ---


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_saves_without_a_process_group(tmp_path: Path) -> None:
    writer = StorageWriter(tmp_path / "one")
    for name in (None, tmp_path / "two"):
        dcp.save({"b": torch.arange(3), "a": torch.ones(2)}, storage_writer=writer, checkpoint_id=name, no_dist=True)
    for folder in ("one", "two"):
        assert (tmp_path / folder / "model.safetensors").read_bytes() == save({"a": torch.ones(2), "b": torch.arange(3)})
    assert writer.checkpoint_id == tmp_path / "two"
    dcp.save({}, storage_writer=StorageWriter(tmp_path / "empty"), no_dist=True)
    assert load_file(tmp_path / "empty" / "model.safetensors") == {}


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_raises_its_own_error_without_a_process_group(tmp_path: Path) -> None:
    with pytest.raises(dcp.CheckpointException) as raised:
        dcp.save({"w": torch.zeros(2)}, storage_writer=StorageWriter(tmp_path / "nowhere" / "made"), no_dist=True)
    assert isinstance(raised.value.failures[0][0], SafetensorError)
    assert "no such file or directory" in str(raised.value)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_ends_with_the_progress_function(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def progress(done: int, total: int) -> None:
        raise Stop("enough")

    with pytest.raises(dcp.CheckpointException, match="enough"):
        dcp.save({"w": torch.zeros(1 << 20)}, storage_writer=StorageWriter(tmp_path / "made", progress=progress), no_dist=True)
    assert list(tmp_path.iterdir()) == []


def test_refuses_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"model.safetensors' would be a folder: give the path of a folder"):
        StorageWriter(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="memory_limit 'much' is invalid"):
        StorageWriter(tmp_path, memory_limit="much")
    with pytest.raises(ValueError, match="memory_limit is -1: give a number of bytes"):
        StorageWriter(tmp_path, memory_limit=-1)
    writer = StorageWriter(tmp_path / "made")
    with pytest.raises(ValueError, match="would be a folder"):
        writer.reset(tmp_path / "model.safetensors")
    assert StorageWriter.validate_checkpoint_id(tmp_path / "made")
    assert not StorageWriter.validate_checkpoint_id(tmp_path / "nowhere" / "made")
    assert not StorageWriter.validate_checkpoint_id(5)  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(writer)).checkpoint_id == writer.checkpoint_id  # async_save sends it to a process


WRONG: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"max_shard_size": 0}, ValueError),
    ({"max_shard_size": -1}, SafetensorError),
    ({"max_shard_size": 1.5}, TypeError),
    ({"max_shard_size": "much"}, ValueError),
    ({"metadata": {"step": 7}}, TypeError),
    ({"metadata": 7}, TypeError),
    ({"index_metadata": 7}, TypeError),
    ({"index_metadata": {"loss": float("nan")}}, ValueError),
]


@pytest.mark.parametrize(("arguments", "kind"), WRONG)
def test_the_constructor_refuses_what_a_save_refuses(tmp_path: Path, arguments: dict[str, Any], kind: type[Exception]) -> None:
    """The save of a coordinator would refuse it later, when all ranks wait."""
    texts = []
    for call in (
        lambda: safetensors.save({"w": torch.zeros(2)}, tmp_path / "made", **arguments),
        lambda: StorageWriter(tmp_path / "made", **arguments),
    ):
        with pytest.raises(kind) as raised:
            call()
        texts.append(str(raised.value))
    assert texts[0] == texts[1]
    assert list(tmp_path.iterdir()) == []
