#!/usr/bin/env python3
"""Writes the files that the tests of the command read, byte by byte: python3 make_inputs.py FOLDER"""
import itertools
import json
import os
import struct
import sys


def container(header, data=b"", pad=True):
    """A file from the header's text (str or bytes) and its data."""
    text = header if isinstance(header, bytes) else header.encode()
    if pad:
        text += b" " * (-(8 + len(text)) % 8)
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def of_tensors(tensors, metadata=None, pad=True):
    """A valid file: tensors are (name, dtype, shape, bytes), laid out in this order."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape, content in tensors:
        header[name] = entry(dtype, shape, len(data), len(data) + len(content))
        data += content
    return container(json.dumps(header, separators=(",", ":"), ensure_ascii=False), data, pad)


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def good():
    return of_tensors(
        [
            ("layer.2.weight", "F32", [2, 3], floats(0.0, 1.0, -2.5, 0.1, 1e-7, 3e38)),
            ("layer.10.weight", "F32", [3], floats(10, 20, 30)),
            ("layer.1.bias", "I16", [2, 2], struct.pack("<4h", -1, 2, -3, 32767)),
            ("scale", "F32", [], floats(0.5)),
            ("empty", "U8", [0, 4], b""),
        ],
        {"format": "pt", "license": "apache-2.0"},
    )


def all_dtypes():
    nan32, inf32 = 0x7FC00000, 0x7F800000
    return of_tensors(
        [
            ("u64", "U64", [2], struct.pack("<2Q", 0, 2**64 - 1)),
            ("i64", "I64", [2], struct.pack("<2q", -(2**63), 2**63 - 1)),
            ("f64", "F64", [4], struct.pack("<4d", 0.1, -1e300, 5e-324, 1.0)),
            ("c64", "C64", [4], floats(1, 2, -0.5, -0.25) + struct.pack("<4I", nan32, inf32, 0x80000000, 0xFF800000)),
            ("f32", "F32", [6], floats(0.1, 16777216.0, -0.0) + struct.pack("<3I", nan32, inf32, inf32 | 1 << 31)),
            ("u32", "U32", [2], struct.pack("<2I", 0, 2**32 - 1)),
            ("i32", "I32", [2], struct.pack("<2i", -(2**31), 2**31 - 1)),
            ("bf16", "BF16", [8], struct.pack("<8H", 0x3F80, 0x3DCD, 0x4049, 0x7F7F, 0x0001, 0x7F80, 0xFF80, 0x7FC0)),
            ("f16", "F16", [8], struct.pack("<8H", 0x3C00, 0x2E66, 0x4248, 0x7BFF, 0x0001, 0x7C00, 0xFC00, 0x8000)),
            ("u16", "U16", [2], struct.pack("<2H", 0, 65535)),
            ("i16", "I16", [2], struct.pack("<2h", -32768, 32767)),
            ("e5m2fnuz", "F8_E5M2FNUZ", [5], bytes([0x00, 0x40, 0x7F, 0x80, 0xFF])),
            ("e4m3fnuz", "F8_E4M3FNUZ", [5], bytes([0x01, 0x40, 0x7F, 0x80, 0xFF])),
            ("e8m0", "F8_E8M0", [4], bytes([0, 127, 130, 255])),
            ("e4m3", "F8_E4M3", [6], bytes([0x00, 0x01, 0x38, 0x7E, 0x7F, 0x80])),
            ("e5m2", "F8_E5M2", [6], bytes([0x01, 0x3C, 0x7B, 0x7C, 0xFC, 0x7D])),
            ("i8", "I8", [2], bytes([0x80, 0x7F])),
            ("u8", "U8", [2], bytes([0, 255])),
            # Four elements in three bytes, from the lowest bit up: 1, 0b011111, 0b100001, 0b001000.
            ("e3m2", "F6_E3M2", [4], (1 | 0b011111 << 6 | 0b100001 << 12 | 0b001000 << 18).to_bytes(3, "little")),
            ("e2m3", "F6_E2M3", [4], (1 | 0b011111 << 6 | 0b100001 << 12 | 0b001000 << 18).to_bytes(3, "little")),
            ("f4", "F4", [16], bytes(range(0x10, 0x110, 0x22)[i] & 0xFF for i in range(8))),
            ("bool", "BOOL", [3], bytes([0, 1, 2])),
        ]
    )


HOSTILE_NAMES = [
    "",
    "../../x",
    "a\nb",
    "a\x1b[31mred\x1b[0m",
    "back\\slash",
    "bidi\u202egnp.exe",
    "bom\ufeff",
    "del\x7f",
    "null\x00",
    'quote"quote',
    "tab\t",
    "zero\u200bwidth",
    "\u00fcml\u00e4ut \u4e2d\u6587 \U0001f600",
    "-dash",
    "[a,b]",
    "{}",
    "%%",
    "++",
]


def hostile_names():
    metadata = {"key\u202e": "line\nline\x1b[2J", "format": "p\u200bt"}
    return of_tensors([(name, "U8", [1], bytes([i])) for i, name in enumerate(HOSTILE_NAMES)], metadata)


def broken(a, data=bytes(8)):
    """One tensor with text a behind its name."""
    return container('{"a":' + a + "}", data)


def rules():
    good_entry = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
    yield "rule01_empty", b""
    yield "rule02_huge", struct.pack("<Q", 100_000_001) + b"{}"
    yield "rule03_past_end", struct.pack("<Q", 100) + b"{}"
    yield "rule04_utf8", container(b'{"\xff":' + good_entry.encode() + b"}", bytes(8))
    yield "rule05_syntax", container('{"a":' + good_entry + ",}", bytes(8))
    yield "rule05_dtype", broken('{"dtype":"float16","shape":[2],"data_offsets":[0,8]}')
    yield "rule06_hole", broken('{"dtype":"F32","shape":[2],"data_offsets":[8,16]}', data=bytes(16))
    yield "rule06_name", container('{"a\\u202e":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}', bytes(16))
    yield "rule09_size", broken('{"dtype":"F32","shape":[3],"data_offsets":[0,8]}')
    yield "rule10_truncated", broken(good_entry, data=bytes(5))
    yield "rule10_longer", broken(good_entry, data=bytes(9))


def accepted():
    """Faults that --accept allows: two unknown dtypes, and 3 unused bytes."""
    tensors = {"w": entry("F32", [1], 0, 4), "x": entry("F8_E3M4", [2, 3], 4, 10), "y": entry("a\u202e", [], 10, 11)}
    yield "accepted/all.safetensors", container(json.dumps(tensors), bytes(14))
    overlap = {"w": entry("F32", [1], 0, 4), "x": entry("U8", [2], 3, 5)}
    yield "accepted/overlap.safetensors", container(json.dumps(overlap), bytes(5))


def grid():
    """[40, 50, 60] U32, each its own index: for slices of every kind."""
    return of_tensors([("grid", "U32", [40, 50, 60], struct.pack("<120000I", *range(120000)))])


def many(count):
    return of_tensors([(f"model.layers.{i}.weight", "U8", [1], b"x") for i in range(count)])


def changed():
    """good(), with differences of each kind."""
    return of_tensors(
        [
            ("layer.2.weight", "F32", [2, 3], floats(0.0, 1.0, -2.0, 0.1, 1e-7, 2.9e38)),
            ("layer.10.weight", "F16", [3], struct.pack("<3e", 10, 20.5, float("inf"))),
            ("layer.1.bias", "I16", [4], struct.pack("<4h", -1, 2, -3, 32767)),
            ("scale", "F32", [], struct.pack("<I", 0x3F000001)),
            ("new", "U8", [1], b"x"),
        ],
        {"format": "np", "author": "A. \u202ePerson"},
    )


def modules():
    """A model of layers: the first differs from the others, and hidden numbers are no layers."""
    names = [
        "embed.weight",
        "norm",
        "norm.scale",
        "seq.0.weight",
        "seq.2.weight",
        "seq.007.weight",
        "x.9999999999999999999.y",
    ]
    names += ["\u202e.a", "a..b", "." * 40, "b.", ".c", "{0..1}.w"]
    tensors = [(name, "F32", [2], floats(1, 2)) for name in names]
    for layer in range(12):
        tensors.append((f"layers.{layer}.norm", "F16", [2], bytes(4)))
        for expert in range(0 if layer == 0 else 3):
            tensors.append(
                (f"layers.{layer}.experts.{expert}.up", "U8", [3 if layer < 11 else 4], bytes(3 if layer < 11 else 4))
            )
    return of_tensors(tensors)


def checkpoints():
    """Models of several files: (path, bytes)."""
    first = of_tensors(
        [("layer.0.weight", "F32", [2], floats(1, 2)), ("layer.10.weight", "F32", [1], floats(3))], {"format": "pt"}
    )
    second = of_tensors(
        [("layer.2.weight", "F16", [2], bytes(4)), ("norm", "F32", [2], floats(5, 6))], {"format": "np"}
    )
    shards = {"layer.0.weight": 1, "layer.10.weight": 1, "layer.2.weight": 2, "norm": 2}

    def index(weight_map, total_size):
        files = {name: f"model-{file:05}-of-00002.safetensors" for name, file in weight_map.items()}
        return json.dumps({"metadata": {"total_size": total_size}, "weight_map": files}).encode()

    for folder, weight_map, total_size in (
        ("model", shards, 24),
        ("noted", {"layer.0.weight": 1, "norm": 2}, 17),  # tensors that the index lacks, a wrong size, a stray file
        ("wrong", {**shards, "gone": 2}, 24),
        ("broken", shards, 24),
    ):
        yield f"{folder}/model-00001-of-00002.safetensors", first
        if folder == "noted":
            yield f"{folder}/old\u202e.safetensors", first
        yield f"{folder}/model-00002-of-00002.safetensors", second[:-1] if folder == "broken" else second
        yield f"{folder}/model.safetensors.index.json", index(weight_map, total_size)
    yield "lacking/model-00001-of-00002.safetensors", first
    yield "lacking/model.safetensors.index.json", index(shards, 24)
    yield "alone/adapter_model.safetensors", good()
    yield "unclear/a.safetensors", good()
    yield "unclear/b.safetensors", good()
    yield "none.json", b'{"metadata": {}, "weight_map": {}}'


def quantized():
    """A model with a config.json: (path, bytes)."""
    yield "packed/model.safetensors", of_tensors(
        [
            ("m.weight_packed", "I32", [4, 4], bytes(64)),
            ("m.weight_scale", "BF16", [4, 1], bytes(8)),
            ("m.weight_shape", "I64", [2], bytes(16)),
        ]
    )
    yield (
        "quantized/fp8.st",
        of_tensors(
            [
                (f"layers.{i}.{part}", *rest)
                for i in range(2)
                for part, *rest in (
                    ("weight", "F8_E4M3", [2, 2], bytes(4)),
                    ("scale_weight", "F32", [], floats(0.0013)),
                )
            ]
            + [("norm.weight", "BF16", [2], bytes(4)), ("mask", "BOOL", [2], bytes(2))]
        ),
    )
    yield "packed/config.json", b'{"quantization_config": {"quant_method": "compressed-tensors"}}'


def pipelines():
    """A pipeline of diffusers, with variants: (path, bytes)."""

    def one(name, size):
        return of_tensors([(name, "F16", [size], bytes(2 * size))])

    def index(variant):
        files = {
            "down": f"diffusion_pytorch_model{variant}-00001-of-00002.safetensors",
            "up": f"diffusion_pytorch_model{variant}-00002-of-00002.safetensors",
        }
        return json.dumps({"metadata": {"total_size": 12}, "weight_map": files}).encode()

    yield "sd/unet/config.json", b'{"_class_name": "UNet2DConditionModel", "num_attention_heads": null}'
    for variant in ("", ".fp16"):
        yield f"sd/unet/diffusion_pytorch_model{variant}-00001-of-00002.safetensors", one("down", 4)
        yield f"sd/unet/diffusion_pytorch_model{variant}-00002-of-00002.safetensors", one("up", 2)
    yield "sd/unet/diffusion_pytorch_model.safetensors.index.json", index("")
    yield "sd/unet/diffusion_pytorch_model.safetensors.index.fp16.json", index(".fp16")
    yield "sd/vae/diffusion_pytorch_model.safetensors", one("encoder", 3)
    yield "sd/vae/diffusion_pytorch_model.fp16.safetensors", one("encoder", 3)
    yield "sd/text_encoder/model.safetensors", one("embed", 5)
    yield "sd/text_encoder/.hidden/model.safetensors", one("hidden", 5)
    yield "sd/scheduler/scheduler_config.json", b"{}"
    yield "sd/extra/deep/adapter.safetensors", one("deep", 1)


def kinds():
    """Files of other kinds: (path, bytes)."""
    yield "kinds/pytorch_model.bin", b"\x80\x02}q\x00X\x01\x00\x00\x00a" + bytes(20)
    yield "kinds/config.json", b'{"model_type": "llama"}'
    yield "kinds/pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    yield "kinds/model.onnx", b"\x08\x08\x12\x07pytorch\x1a\x052.0.0" + bytes(20)
    yield "kinds/zeros.st", bytes(100)
    yield "kinds/pytorch_model.bin.index.json", b'{"weight_map": {"a": "pytorch_model.bin"}}'


def main(folder):
    os.makedirs(folder, exist_ok=True)
    files = {
        "good": good(),
        "dtypes": all_dtypes(),
        "names": hostile_names(),
        "nothing": container("{}"),
        "no_padding": container('{"__metadata__":{}}', pad=False),
        "white_space": container(' \n{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', b"ab"),
        "odd": of_tensors([("byte", "U8", [1], b"x"), ("word", "F32", [2], floats(1, 2))], pad=False),
        "changed": changed(),
        "modules": modules(),
        "slack": container('{"__metadata__":{"a":"1"}}' + " " * 46),
        "grid": grid(),
        "many": many(2000),
        **dict(rules()),
    }
    for name, content in files.items():
        with open(os.path.join(folder, name + ".safetensors"), "wb") as file:
            file.write(content)
    os.makedirs(os.path.join(folder, "folder"), exist_ok=True)
    for name, content in itertools.chain(checkpoints(), quantized(), pipelines(), kinds(), accepted()):
        os.makedirs(os.path.join(folder, os.path.dirname(name)), exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    os.mkfifo(os.path.join(folder, "fifo"))
    os.symlink("loop", os.path.join(folder, "loop"))


if __name__ == "__main__":
    main(sys.argv[1])
