"""Small models; the Llama is that of examples/torch_llama."""

import pathlib
import sys

import torch.nn.functional as F
from torch import nn

sys.path.append(str(pathlib.Path(__file__).parents[2] / "examples" / "torch_llama"))

from llama import Llama, RMSNorm  # noqa: E402, F401


class GPT(nn.Module):
    """A block with layer norms, biases and gelu, on floats."""

    def __init__(self, width=64, approximate="tanh"):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.approximate = approximate

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate=self.approximate))
