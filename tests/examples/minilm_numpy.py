"""The embeddings of all-MiniLM-L6-v2 in NumPy with 64-bit floats, to compare with examples/minilm.cpp.

usage: minilm_numpy.py FOLDER IDS

Reads the file without the library, and all sizes from the model's own configuration. Prints the embeddings as JSON.
"""

import json
import math
import pathlib
import sys

import numpy as np


def load(path):
    data = np.memmap(path, dtype=np.uint8, mode="r")
    start = 8 + int(data[:8].view("<u8")[0])
    header = json.loads(bytes(data[8:start]))
    dtypes = {"F32": "<f4", "I64": "<i8"}
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = bytes(data[start + begin : start + end])
        tensors[name] = np.frombuffer(raw, dtypes[entry["dtype"]]).reshape(entry["shape"]).astype(np.float64)
    return tensors


class Bert:
    def __init__(self, folder):
        self.weights = load(folder / "model.safetensors")
        self.config = json.loads((folder / "config.json").read_text())
        pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
        modules = json.loads((folder / "modules.json").read_text())
        assert self.config["hidden_act"] == "gelu" and self.config["position_embedding_type"] == "absolute"
        assert [name for name, on in pooling.items() if on is True] == ["pooling_mode_mean_tokens"]
        assert [module["type"].split(".")[-1] for module in modules] == ["Transformer", "Pooling", "Normalize"]

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name, x):
        centered = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centered**2).mean(axis=-1, keepdims=True) + self.config["layer_norm_eps"])
        return centered / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(self, name, x):
        heads = self.config["num_attention_heads"]

        def split(part):  # [heads, tokens, size of a head]
            return self.linear(f"{name}.{part}", x).reshape(len(x), heads, -1).swapaxes(0, 1)

        query, key, value = split("query"), split("key"), split("value")
        scores = np.exp(query @ key.swapaxes(1, 2) / math.sqrt(query.shape[-1]))
        scores /= scores.sum(axis=-1, keepdims=True)
        return (scores @ value).swapaxes(0, 1).reshape(x.shape)

    def embed(self, ids):
        table = self.weights
        x = table["embeddings.word_embeddings.weight"][ids]
        x = x + table["embeddings.position_embeddings.weight"][: len(ids)]
        x = self.norm("embeddings.LayerNorm", x + table["embeddings.token_type_embeddings.weight"][0])
        erf = np.vectorize(math.erf)
        for index in range(self.config["num_hidden_layers"]):
            layer = f"encoder.layer.{index}"
            attended = self.linear(f"{layer}.attention.output.dense", self.attention(f"{layer}.attention.self", x))
            x = self.norm(f"{layer}.attention.output.LayerNorm", attended + x)
            inner = self.linear(f"{layer}.intermediate.dense", x)
            inner = inner * (1 + erf(inner / math.sqrt(2))) / 2
            x = self.norm(f"{layer}.output.LayerNorm", self.linear(f"{layer}.output.dense", inner) + x)
        mean = x.mean(axis=0)
        return mean / np.linalg.norm(mean)


if __name__ == "__main__":
    model = Bert(pathlib.Path(sys.argv[1]))
    print(json.dumps([model.embed(ids).tolist() for ids in json.loads(sys.argv[2])]))
