#!/usr/bin/env python3
"""Writes the table of docs/guides/memory.md about a training step from PyTorch.

    torch_memory.py          rewrites the text between the page's two markers
    torch_memory.py --check  fails if the page differs from what the compiler plans

transformers' Llama, with four layers of the sizes of Llama 3 8B, is captured without memory and compiled for a GPU up to the
plan of the memory. Needs PyTorch, transformers and te_mlir; no GPU.
"""

import json
import sys
import warnings

import memory_page
import torch
from torch._subclasses import FakeTensorMode
from transformers import LlamaConfig, LlamaForCausalLM

import te_mlir
from te_mlir.program import report
from te_mlir.torch.backend import Graph
from te_mlir.torch.graph import Tracing
from te_mlir.torch.signature import Options
from te_mlir.torch.states import States

TOKENS = 8192
CONFIG = LlamaConfig(
    vocab_size=128256,
    hidden_size=4096,
    intermediate_size=14336,
    num_attention_heads=32,
    num_key_value_heads=8,
    num_hidden_layers=4,
    tie_word_embeddings=False,
    use_cache=False,
)
RECIPES = {
    "high_precision": None,
    "float8_current_scaling": te_mlir.Float8CurrentScaling(),
    "float8_block_scaling": te_mlir.Float8BlockScaling(),
}


def compilations(recipes):
    """The program of the forward and backward of the model, for each recipe."""
    torch._dynamo.reset()
    found = []

    def backend(module, examples):
        tracing = Tracing(module)
        for recipe in recipes:
            found.append(Graph(tracing, examples, Options(recipe, target="sm_90", strict=True), "loss", States()))
        return module.forward

    torch.set_default_dtype(torch.bfloat16)
    try:
        with FakeTensorMode():
            model = LlamaForCausalLM(CONFIG)
            ids = torch.zeros(1, TOKENS, dtype=torch.long)
            torch.compile(
                lambda ids: model(input_ids=ids, labels=ids).loss, backend=backend, dynamic=False, fullgraph=True
            )(ids)
    finally:
        torch.set_default_dtype(torch.float32)
    return [graph.region.compilation for graph in found if len(graph.regions) == 1]


def planned(compilation, **changes):
    """The bytes of the arena, and of the gradients outside of it."""
    options = {name: value for name, value in {**compilation.options_for(True), **changes}.items() if value != ""}
    (step,) = json.loads(report(compilation.text(True), "step", "memory", "json", **options))["memory"]
    gradients = [row for row in step["arguments"] if row["name"].startswith("grad.") and row["cause"] != "input"]
    return step["arena_bytes"], sum(row["bytes"] for row in gradients)


def table():
    rows = [
        f"What forward and backward of {CONFIG.num_hidden_layers} layers of Llama 3 8B take beside weights and scratch memory, with "
        f"{TOKENS} tokens and a vocabulary of {CONFIG.vocab_size:,}, in GiB, as planned for sm_90 (`scripts/torch_memory.py`):\n",
        "| recipe | arena and gradients | arena without gradients | gradients | sum of both |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, compilation in zip(RECIPES, compilations(RECIPES.values()), strict=True):
        arena, small = planned(compilation)
        alone, gradients = planned(compilation, results_in_arena="")
        cells = (f"{size / 2**30:.2f}" for size in (arena + small, alone, gradients, alone + gradients))
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    # The capture asks tensors without memory for their address.
    warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
    sys.exit(memory_page.main(__doc__, "step from PyTorch", lambda te_opt: table()))
