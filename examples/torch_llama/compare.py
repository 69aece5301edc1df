#!/usr/bin/env python3
"""Trains transformers' Llama through te and through torch.compile, and compares time, loss and memory.

    python3 compare.py --out results.json            # an H200: 4 layers of Llama 3 8B
    python3 compare.py --small --out results.json    # minutes on a CPU, reference backend

Both train the same LlamaForCausalLM in bf16 with AdamW, from the same random
weights, on the same batches of bytes. "te" has its linear layers in FP8 as --recipe
says. The band is torch.compile's loss over --seeds seeds of the weights.

The peer is at its best: its attention is PyTorch's causal flash attention without a
mask tensor. transformers makes a mask tensor while torch.compile traces it, which
excludes flash attention; --mask-tensor leaves it so. Needs te_mlir, torch and
transformers.
"""

import argparse
import gc
import json
import pathlib
import statistics
import time

import torch
import transformers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import te_mlir
import te_mlir.torch

#: The experts of Qwen3 30B-A3B, and of a small model.
EXPERTS = {
    False: {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": True},
    True: {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True},
}
SIZES = {
    False: dict(
        vocab_size=32000,
        hidden_size=4096,
        intermediate_size=14336,
        num_attention_heads=32,
        num_key_value_heads=8,
        num_hidden_layers=4,
    ),
    True: dict(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=2,
    ),
}
RECIPES = {
    "high_precision": te_mlir.HighPrecision,
    "delayed_scaling": te_mlir.DelayedScaling,
    "float8_current_scaling": te_mlir.Float8CurrentScaling,
    "float8_block_scaling": te_mlir.Float8BlockScaling,
}


def batches(steps, sequences, sequence, seed, device):
    """Random windows of the text beside the byte-level example; the model shifts its labels itself."""
    path = pathlib.Path(__file__).resolve().parents[1] / "byte_lm" / "text.txt"
    text = torch.tensor(list(path.read_bytes()))
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        starts = torch.randint(0, len(text) - sequence, (sequences,), generator=generator)
        yield torch.stack([text[s : s + sequence] for s in starts]).to(device)


def model_of(sizes, device, name="llama", small=False):
    """A model with random weights, in bf16: "llama", "qwen3", which normalises queries and keys, "qwen3-moe", which has
    experts, fewer ones if it is `small`, or "gpt2" without dropout, whose head is its embedding."""
    if name == "gpt2":
        own = {"num_key_value_heads": None, "intermediate_size": None, "n_positions": 1024, "use_cache": False}
        dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
        config = GPT2Config(**(sizes | own | dropout))
        with torch.device(device):
            return GPT2LMHeadModel(config).to(torch.bfloat16)
    heads = {"head_dim": sizes["hidden_size"] // sizes["num_attention_heads"]}
    if name == "qwen3":
        kind, config = Qwen3ForCausalLM, Qwen3Config(**(heads | sizes), use_cache=False)
    elif name == "qwen3-moe":
        kind, config = Qwen3MoeForCausalLM, Qwen3MoeConfig(**(heads | EXPERTS[small] | sizes), use_cache=False)
    else:
        kind, config = LlamaForCausalLM, LlamaConfig(**sizes, use_cache=False)
    with torch.device(device):
        model = kind(config)
    # Positions stay exact, as they do where transformers loads a model in 16 bits.
    rotary = model.model.rotary_emb
    inverse = rotary.inv_freq
    model = model.to(torch.bfloat16)
    rotary.inv_freq = inverse
    return model


def draw_weights(model, seed):
    """In place, so that what is compiled stays compiled."""
    device = next(model.parameters()).device
    generator = torch.Generator(device).manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # of a norm
                parameter.fill_(1.0)
            else:
                parameter.normal_(0.0, 0.02, generator=generator)


class Loss(torch.nn.Module):
    """Only the loss: the logits are not a result."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, labels=ids).loss


def causal_attention(module, query, key, value, attention_mask, scaling=None, **_):
    """Causal attention of heads [batch, heads, sequence, size], without a mask tensor."""
    result = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=scaling, enable_gqa=True
    )
    return result.transpose(1, 2).contiguous(), None


def without_mask_tensor(model):
    """The model, with `causal_attention` in place of what transformers chooses."""
    ALL_ATTENTION_FUNCTIONS.register("causal", causal_attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register("causal", lambda *_, **__: None)
    model.config._attn_implementation = "causal"
    return model


def train(name, compiled, model, arguments, device, seed):
    """Losses, the median time of a step after the first ten, and memory."""
    draw_weights(model, seed)
    cuda = device.type == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr, weight_decay=0.01, fused=cuda)
    losses, times = [], []
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        free_before = torch.cuda.mem_get_info()[0]
    lowest = None
    for ids in batches(arguments.steps, arguments.sequences, arguments.sequence, 1000, device):
        if cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        loss = compiled(ids)
        loss.backward()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if cuda:
            free = torch.cuda.mem_get_info()[0]
            lowest = free if lowest is None else min(lowest, free)
    result = {
        "name": name,
        "seed": seed,
        "losses": losses,
        "final_loss": statistics.mean(losses[-10:]),
        "ms_forward_backward": 1000 * statistics.median(times[10:] or times),
    }
    if cuda:
        result["peak_torch_bytes"] = torch.cuda.max_memory_allocated()
        # Of the whole device, so that memory outside of PyTorch's allocator counts too.
        result["device_bytes"] = free_before - lowest
    print(f"{name}, seed {seed}: {result['ms_forward_backward']:.2f} ms, loss {result['final_loss']:.4f}", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="torch_llama.json")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--recipe", choices=RECIPES, default="float8_current_scaling")
    parser.add_argument("--override", choices=["none", "high_precision", "dequantized"], default="none")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sequences", type=int)
    parser.add_argument("--sequence", type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--vocabulary", type=int, help="rows of the embedding and the head")
    parser.add_argument("--mask-tensor", action="store_true", help="leave the peer the mask that transformers makes")
    parser.add_argument("--eager", action="store_true", help="the peer is PyTorch without torch.compile")
    arguments = parser.parse_args()
    small = arguments.small
    arguments.sequences = arguments.sequences or 4
    arguments.sequence = arguments.sequence or (32 if small else 2048)
    arguments.lr = arguments.lr or (3e-3 if small else 1e-4)
    device = torch.device("cpu" if small else "cuda:0")

    runs = []
    sizes = dict(SIZES[small], vocab_size=arguments.vocabulary or SIZES[small]["vocab_size"])
    model = model_of(sizes, device)
    options = {"recipe": RECIPES[arguments.recipe](), "strict": True}
    if arguments.override != "none":
        options["backward_override"] = arguments.override
    compiled = te_mlir.torch.jit(Loss(model), **options)
    runs.append(train(f"te {arguments.recipe} {arguments.override}", compiled, model, arguments, device, 0))
    graphs = compiled.te.graphs
    report = compiled.te.report("precision")
    rows = [line.split() for line in report.splitlines()]
    products = [row for row in rows if row[:1] in (["fprop"], ["dgrad"], ["wgrad"])]
    ledger = {
        "graphs": len(graphs),
        "left_to_pytorch": [reason for graph in graphs for reason in graph.reasons],
        "products": len(products),
        "products_in_fp8": sum("f8E" in " ".join(row) for row in products),
    }
    print(ledger, flush=True)
    del compiled, graphs
    torch._dynamo.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    if not arguments.mask_tensor:
        without_mask_tensor(model)
    peer = Loss(model) if arguments.eager or small else torch.compile(Loss(model))
    for seed in range(arguments.seeds):
        runs.append(train("torch bf16", peer, model, arguments, device, seed))

    mine, peers = runs[0], runs[1:]
    finals = [run["final_loss"] for run in peers]
    summary = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "model": {
            "class": "LlamaForCausalLM",
            **sizes,
            "tokens": arguments.sequences * arguments.sequence,
            "sequence": arguments.sequence,
        },
        "peer": "a mask tensor" if arguments.mask_tensor else "causal flash attention",
        "ledger": ledger,
        "time_ratio": mine["ms_forward_backward"] / statistics.median(r["ms_forward_backward"] for r in peers),
        "band": [min(finals), max(finals)],
        "loss": mine["final_loss"],
        "in_band": min(finals) <= mine["final_loss"] <= max(finals),
    }
    if "device_bytes" in mine:
        summary["memory_ratio"] = mine["device_bytes"] / max(r["device_bytes"] for r in peers)
    pathlib.Path(arguments.out).write_text(json.dumps({"summary": summary, "runs": runs}, indent=1) + "\n")
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
