"""A model whose layers share their weights, saved and loaded. Run it: python save_model.py"""

import os
import tempfile

import torch
from safetensors.torch import load_model, save_model


class Tied(torch.nn.Module):
    """Two names for one matrix, as language models tie embedding and head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(100, 100)
        self.head = torch.nn.Linear(100, 100)
        self.head.weight = self.embed.weight
        self.head.bias = self.embed.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply both layers."""
        result: torch.Tensor = self.head(self.embed(x))
        return result


def main() -> None:
    """Save a model, load it into another, and compare what they compute."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        model = Tied()
        save_model(model, path, metadata={"step": "1000"})
        print("bytes in the file:", os.path.getsize(path))

        other = Tied()
        missing, unexpected = load_model(other, path)
        assert not missing and not unexpected
        assert other.head.weight is other.embed.weight  # still tied
        x = torch.ones(1, 100)
        print("same result:", torch.equal(model(x), other(x)))


if __name__ == "__main__":
    main()
