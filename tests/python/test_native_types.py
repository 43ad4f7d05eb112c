"""Tests that no type of the extension gives access to an instance without a value.

The tests find all types of the module, so they also cover new types. They try each type in a
process of its own, because a failure ends the process.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import run

pytestmark = pytest.mark.slow

# Defines TYPES, all types of the module by name, and `zoo(folder)`, which makes one instance of
# each type.
PRELUDE = """
import copy, copyreg, gc, os, pickle, sys, warnings
import numpy as np
import safetensors.numpy as stn
from safetensors import SafetensorError, TensorSpec, _native, safe_open
warnings.simplefilter("ignore", RuntimeWarning)  # nanobind warns about each attempt
MODULES = ("safetensors._native", "safetensors._safetensors_rust")
def subclasses(kind):  # gc.get_objects() of a free-threaded Python leaves types out
    for t in type.__subclasses__(kind):
        yield t
        yield from subclasses(t)
TYPES = {t.__name__: t for t in subclasses(object) if t.__module__ in MODULES}
for kind in (SafetensorError, _native.MissingTensorError):
    TYPES[kind.__name__] = kind
assert set(TYPES.values()) >= {t for t in vars(_native).values() if isinstance(t, type)}

def zoo(folder):
    path = os.path.join(folder, "t")
    stn.save_file({"a": np.arange(4.0)}, path, durability="none")
    handle = safe_open(path, "np")
    loader = handle.prefetch()
    checkpoint = _native._Checkpoint(path, "np", "cpu", "auto")
    request = [("a", None, None, None)]
    objects = [
        SafetensorError("text"), _native.MissingTensorError("text"), TensorSpec(dtype="bool", shape=[0], data_ptr=0, data_len=0), handle,
        handle.get_tensor_meta("a"), handle.get_slice("a"), loader, iter(loader), checkpoint,
        checkpoint.stream(request, threads=0, memory_limit=0, cache="keep"),
        _native._Writer(path + "w", {}, None, "none"), _native._CheckpointLayout({}, {}, 1, "m", None, ""), stn.load_file(path)["a"].base,
    ]
    return {type(o).__name__: o for o in objects}

def refused(call, *args):
    try:
        result = call(*args)
    except TypeError:
        return
    raise AssertionError(f"{call} {call.__defaults__} {args} returned {type(result)}")
"""

NAMES = """
assert set(zoo(sys.argv[1])) == set(TYPES), "every type needs an instance in the zoo of this test"
print(*sorted(TYPES))
"""

# Tries every way to make an instance without a value, and then every use of that instance.
WITHOUT_VALUE = """
T = TYPES[sys.argv[2]]
def nothing(*args, **kwargs): pass
def subclass(**members): return type("Sub", (T,), members)
def plain_new(cls): return object.__new__(cls)
WAYS = [
    lambda: T(), lambda: T.__new__(T), lambda: object.__new__(T), lambda: copyreg.__newobj__(T),
    lambda: copyreg._reconstructor(T, object, None), lambda: type(T).__call__(T),
    lambda: subclass()(), lambda: subclass(__init__=nothing)(), lambda: subclass(__new__=plain_new)(),
    lambda: T.__new__(subclass(__slots__=())), lambda: object.__new__(subclass(__init__=nothing)),
]
made = 0
for way in WAYS:
    try:
        value = way()
    except TypeError:
        continue
    if issubclass(T, SafetensorError):
        assert pickle.loads(pickle.dumps(T("text", 1))).args == ("text", 1)
        continue
    made += 1
    for use in (memoryview, bytes, np.asarray, np.frombuffer, copy.copy, copy.deepcopy, pickle.dumps):
        try:
            result = use(value)
        except (TypeError, ValueError, BufferError, pickle.PicklingError):
            continue
        assert use is np.asarray and result.dtype == object, (use, result)
    for name in ("__repr__", "__str__", "__hash__", "__dir__", "__sizeof__"):
        try:
            getattr(value, name)()  # works if the type inherits it from object
        except TypeError:
            pass
    for name, member in vars(T).items():
        if name in ("__new__", "__init__", "__doc__", "__module__", "__signature__", "__slotnames__"): continue
        if name == "_methods": continue  # keeps the class's methods alive
        for count in range(6):
            refused(lambda name=name: getattr(value, name)(*[None] * count) if callable(member) else getattr(value, name))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        if type(value) is T: refused(value.__reduce_ex__, protocol)
    gc.collect()
    del value
    gc.collect()
print("made", made)
"""

# Tests that an object with a value refuses a copy of its memory, a second value and another type.
WITH_VALUE = """
things = zoo(sys.argv[1])
value = things[sys.argv[2]]
if isinstance(value, SafetensorError): sys.exit()
for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
    refused(value.__reduce_ex__, protocol)
    refused(pickle.dumps, value, protocol)
refused(copy.copy, value)
refused(copy.deepcopy, value)
for other in things.values():
    if type(other) is not type(value):
        refused(setattr, value, "__class__", type(other))
arguments = {
    "TensorSpec": ((), dict(dtype="bool", shape=[1], data_ptr=1, data_len=1)),
    "safe_open": ((os.path.join(sys.argv[1], "t"), "np"), {}),
    "_Checkpoint": ((os.path.join(sys.argv[1], "t"), "np", "cpu", "auto"), {}),
    "_Writer": ((os.path.join(sys.argv[1], "w2"), {}, None, "none"), {}),
    "_CheckpointLayout": (({}, {}, 1, "m", None, ""), {}),
}
own = type(vars(type(value))["__init__"]).__name__ in ("nb_method", "function")
assert own == (sys.argv[2] in arguments), "give this type's arguments"
args, kwargs = arguments.get(sys.argv[2], ((), {}))
refused(lambda: value.__init__(*args, **kwargs))
"""


def test_instance_without_value_is_refused(tmp_path: Path) -> None:
    names = run(PRELUDE + NAMES, tmp_path).split()
    assert {"_Memory", "safe_open", "TensorSpec"} <= set(names)
    for name in names:
        try:
            said = run(PRELUDE + WITHOUT_VALUE, tmp_path, name)
        except AssertionError as problem:
            pytest.fail(f"{name}: {problem}")
        # Python can make instances of types with an `__init__`, even before it runs. Only the
        # module can make instances of the other types.
        assert (said.split()[1] != "0") == (name in ("safe_open", "TensorSpec", "_Checkpoint", "_Writer", "_CheckpointLayout")), name


def test_values_cannot_be_copied_or_replaced(tmp_path: Path) -> None:
    for name in run(PRELUDE + NAMES, tmp_path).split():
        try:
            run(PRELUDE + WITH_VALUE, tmp_path, name)
        except AssertionError as problem:
            pytest.fail(f"{name}: {problem}")


INIT_WITHIN_INIT = """
path = os.path.join(sys.argv[1], "t")
zoo(sys.argv[1])
class Again:  # initializes `value` while its own __init__ converts an argument
    def __init__(self, value, *args, **kwargs): self.again = lambda: value.__init__(*args, **kwargs)
    def __index__(self): return self.again() or 3
    def __fspath__(self): return self.again() or path
spec = TensorSpec.__new__(TensorSpec)
inner = dict(dtype="float32", shape=[7] * 100, data_ptr=1, data_len=2)
refused(lambda: spec.__init__(dtype="bool", shape=[Again(spec, **inner)], data_ptr=0, data_len=0))
assert spec.shape == [7] * 100 and spec.dtype == "F32"
handle = safe_open.__new__(safe_open)
refused(handle.__init__, Again(handle, path, "np"), "np")
assert handle.keys() == ["a"]
checkpoint = _native._Checkpoint.__new__(_native._Checkpoint)
refused(checkpoint.__init__, [Again(checkpoint, path, "np", "cpu", "auto")], "np", "cpu", "auto")
assert checkpoint.names() == ["a"]
before = sorted(os.listdir(sys.argv[1]))
writer = _native._Writer.__new__(_native._Writer)
refused(writer.__init__, Again(writer, path + "1", {}, None, "none"), {}, None, "none")
writer.close()
assert sorted(os.listdir(sys.argv[1])) == before, os.listdir(sys.argv[1])
"""


def test_init_within_init_is_refused(tmp_path: Path) -> None:
    run(PRELUDE + INIT_WITHIN_INIT, tmp_path)
