"""The steps of the experiments. Each runs in a process of its own, in the interpreter that has the library of the row.

A step gets its arguments as JSON and writes its result as JSON into a file. A process that dies leaves no result, and the
driver sees the signal.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pickle
import re
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import measure
from .row import CODE, NESTED, TEXT, NotOffered, Payload, Row, Tensors, as_numpy

Result = dict[str, Any]
MODULES = {
    "torch": "pickles.Torch",
    "keras": "models.KerasHdf5",
    "tensorflow": "models.SavedModel",
    "flax": "messages.Flax",
    "onnx": "messages.Onnx",
    "capnp": "messages.Capnp",
    "arrow": "arrays.Arrow",
    "npy": "arrays.Npy",
    "npz": "arrays.Npz",
    "paddle": "pickles.Paddle",
    "gguf": "arrays.Gguf",
    "safetensors": "arrays.Safetensors",
    "control_yes": "control.Mapped",
    "control_no": "control.Copied",
}
EXTRA_MEMORY = 3 << 30  # a hostile file may take this much address space more than a good one


def make_row(key: str) -> Row:
    module, _, name = MODULES[key].partition(".")
    row: Row = getattr(importlib.import_module(f"{__package__}.{module}"), name)()
    return row


def tensor(index: int, elements: int) -> Any:
    return np.random.default_rng(index).random(elements, dtype=np.float32)


def many(count: int, elements: int) -> Tensors:
    return {f"t{index:02}": tensor(index, elements) for index in range(count)}


def short(error: BaseException) -> str:
    """Return the type and the beginning of the message, without escapes and addresses."""
    text = re.sub(
        r"\x1b\[[0-9;]*m| at 0x[0-9a-f]+|stack: [0-9a-f ]*$",
        "",
        " ".join(f"{type(error).__name__}: {error}".split()),
    )
    return text if len(text) < 120 else text[:110].rpartition(" ")[0] + " ..."


def same(value: Any, wanted: Any) -> bool:
    return bool(np.array_equal(as_numpy(value).reshape(-1), wanted))


def describe(row: Row) -> Result:
    readers = [(each.label, each.variant, each.cap) for each in row.readers()]
    loaders = [(each.label, each.opt_in) for each in row.loaders()]
    row.write(os.path.join(os.environ["TRIAL_DIRECTORY"], "first" + row.suffix), many(2, 16))
    return {
        "code_is": row.code_is,
        "suffix": row.suffix,
        "versions": row.versions(),
        "title": row.title,
        "readers": readers,
        "loaders": loaders,
    }


def write(row: Row, path: str, count: int, elements: int, variant: str = "") -> Result:
    row.write(path, many(count, elements), variant)
    return {"bytes": measure.size_of(path)}


def view(row: Row, path: str, warm: str, reader: int, index: int, elements: int) -> Result:
    """Get one tensor. Measure memory, the map and the pages of the file that this brought into the page cache."""
    function = row.readers()[reader].function
    function(warm, "t00")
    gc.collect()
    wanted = tensor(index, elements)
    measure.evict(path)
    anonymous, read = measure.status("RssAnon"), measure.bytes_read()
    with measure.PeakWatch() as watch:
        value = function(path, f"t{index:02}")
        array = as_numpy(value)
        array.reshape(-1)[::512].sum()
    result = {
        "anonymous": measure.status("RssAnon") - anonymous,
        "peak": watch.peak,
        "read": measure.bytes_read() - read,
        "resident": measure.resident(measure.files_under(path)),
        "file": measure.size_of(path),
        "map": os.path.basename(measure.map_at(array.__array_interface__["data"][0])),
        "files": [os.path.basename(each) for each in measure.files_under(path)],
        "writable": bool(array.flags.writeable),
    }
    result["right"] = same(array, wanted)
    return result


def marked(index: int, elements: int) -> Any:
    # Zeros that are never touched take no memory.
    array = np.zeros(elements, dtype=np.float32)
    array[-256:] = np.arange(256) + index
    return array


def big_write(row: Row, path: str, count: int, elements: int, variant: str) -> Result:
    start = time.monotonic()
    row.write(path, {f"t{index:02}": marked(index, elements) for index in range(count)}, variant)
    return {"bytes": measure.size_of(path), "seconds": time.monotonic() - start}


def big_read(row: Row, path: str, count: int, elements: int, reader: int) -> Result:
    start = time.monotonic()
    array = as_numpy(row.readers()[reader].function(path, f"t{count - 1:02}")).reshape(-1)
    wanted = marked(count - 1, elements)
    right = array.size == elements and bool(np.array_equal(array[-1024:], wanted[-1024:]))
    return {"right": right, "seconds": time.monotonic() - start}


def hostile(row: Row, kind: str, path: str, marker: str = "") -> Result:
    try:
        how = getattr(row, kind)(path, marker) if marker else getattr(row, kind)(path)
    except NotOffered as error:
        return {"none": str(error)}
    if kind == "code":
        # The control: this payload runs if somebody unpickles it.
        control = marker + ".control"
        pickle.loads(pickle.dumps(Payload(control), protocol=2))
        assert os.path.exists(control)
        if os.path.exists(marker):
            os.unlink(marker)
    return {"how": how, "bytes": measure.size_of(path)}


def arrays_in(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [each for inner in value.values() for each in arrays_in(inner)]
    if isinstance(value, (list, tuple)):
        return [each for inner in value for each in arrays_in(inner)]
    return [value] if hasattr(value, "dtype") else []


def attempt(row: Row, path: str, warm: str, loader: int) -> Result:
    """Load a hostile file within limits of memory."""
    function = row.loaders()[loader].function
    for each in arrays_in(function(warm)):
        as_numpy(each)
    gc.collect()
    rss = measure.status("VmRSS")
    room = measure.status("VmSize") + EXTRA_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    measure.reset_peak()
    start = time.monotonic()
    outcome, said = "returned", ""
    secret = False
    try:
        loaded = function(path)
        for each in arrays_in(loaded):
            array = as_numpy(each)
            if array.dtype != object:
                flat = array.reshape(-1)
                if flat.size:
                    flat.view(np.uint8)[::4096].sum()
                secret = secret or b"SECRET" in flat[:4096].tobytes()
    except BaseException as error:
        outcome = "refused"
        said = short(error)
    gc.collect()  # a destructor may end the process
    peak = measure.status("VmHWM") - rss
    return {
        "outcome": outcome,
        "said": said,
        "peak": peak,
        "seconds": time.monotonic() - start,
        "secret": secret,
    }


def offsets(path: str, tensors: Tensors) -> dict[str, int]:
    """Return for each tensor the offset of its bytes in the file; -1 if they are not there in one piece."""
    found = dict.fromkeys(tensors, -1)
    base = 0
    for each in measure.files_under(path):
        data = Path(each).read_bytes()
        for name, array in tensors.items():
            offset = data.find(array.tobytes())
            if offset >= 0:
                found[name] = base + offset
        base += (len(data) + 65535) // 65536 * 65536
    return found


def layout(row: Row, path: str) -> Result:
    """Write three tensors in two orders, and with an alignment. Look for their bytes in the files."""
    source = {name: tensor(index, 5003 + index) for index, name in enumerate("zam")}
    result: Result = {"orders": [], "listed": []}
    for order in ("zam", "maz"):
        target = f"{path}.{order}{row.suffix}"
        tensors = {name: source[name] for name in order}
        row.write_ordered(target, tensors)
        found = offsets(target, tensors)
        result["orders"].append("".join(sorted(found, key=lambda name: found[name])))
        result["whole"] = min(found.values()) >= 0
        try:
            result["listed"].append("".join(row.names(target)))
        except NotOffered as error:
            result["listed"].append(str(error))
    target = f"{path}.aligned{row.suffix}"
    for align in (4096, 64):
        try:
            row.write_aligned(target, source, align)
        except NotOffered as error:
            result["align"] = str(error)
            break
        except Exception as error:
            result["align"] = short(error)
            break
        found = offsets(target, source)
        result[f"align{align}"] = min(found.values()) >= 0 and all(
            each % align == 0 for each in found.values()
        )
        reader = row.readers()[0].function
        result["aligned_by"] = row.aligned_by
        result[f"read{align}"] = all(same(reader(target, name), source[name]) for name in source)
    return result


def store(row: Row, path: str, kind: str) -> Result:
    row.store(path, kind)
    return {}


def fetch(row: Row, path: str, kind: str) -> Result:
    value = row.fetch(path, kind)
    if kind == "code":
        answer = float(
            np.asarray(as_numpy(value(np.asarray([2.0], dtype=np.float32)))).reshape(-1)[0]
        )
        return {"right": answer == 7.0, "got": f"f(2) = {answer} for {CODE!r}"}
    wanted = NESTED if kind == "nested" else TEXT
    return {"right": value == wanted, "got": repr(value)[:160]}


def raw_bytes(value: Any) -> bytes:
    if hasattr(value, "detach"):
        import torch

        data: bytes = value.detach().contiguous().view(torch.uint8).numpy().tobytes()
        return data
    return np.asarray(value).tobytes()


def dtype(row: Row, path: str, name: str) -> Result:
    import ml_dtypes

    array = np.asarray([1.0, -2.5, 0.1, 448.0, 0.0, -0.0, -448.0, 0.015625], dtype=np.float32)
    array = array.astype(getattr(ml_dtypes, name))
    value = row.round_trip(path, array)
    got = str(getattr(value, "dtype", type(value).__name__))
    return {
        "dtype": got,
        "intact": name in got,
        "bytes": raw_bytes(value) == array.tobytes(),
    }


STEPS: dict[str, Callable[..., Result]] = {
    function.__name__: function
    for function in (
        describe,
        write,
        view,
        big_write,
        big_read,
        hostile,
        attempt,
        layout,
        store,
        fetch,
        dtype,
    )
}


def main(request: str) -> None:
    """Run the step of this request, a JSON object with the members row, step, result and arguments."""
    asked = json.loads(request)
    os.environ["TRIAL_DIRECTORY"] = os.path.dirname(asked["result"])
    try:
        result = STEPS[asked["step"]](make_row(asked["row"]), **asked["arguments"])
    except NotOffered as error:
        result = {"failed": str(error), "offered": False}
    except Exception as error:
        result = {"failed": short(error)}
        if os.environ.get("TRIAL_DEBUG"):
            raise
    Path(asked["result"]).write_text(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)  # some libraries crash or wait at exit
