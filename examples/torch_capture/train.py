#!/usr/bin/env python3
"""Trains a GPT on bytes of a text, with the whole step as one CUDA graph: forward, backward, clipping and update.

    train.py [--recipe R] [--steps N] [--micro-batches M]     losses and times; on a GPU also those of captured steps

A step reads its batch, its learning rate and the numbers of the steps of the optimizer on the device, so a replay needs
nothing of the host but a copy of the next batch. Both runs have the same losses, bit for bit. On a CPU, only steps that
are not captured run.
"""

import argparse
import contextlib
import pathlib
import time

import torch
from torch import nn
from torch.nn import functional as F

import te_mlir
import te_mlir.torch
import te_mlir.torch.optim

TEXT = pathlib.Path(__file__).resolve().parents[1] / "byte_lm" / "text.txt"
RECIPES = {
    "high_precision": te_mlir.HighPrecision(),
    "delayed_scaling": te_mlir.DelayedScaling(amax_history_len=16),
    "float8_current_scaling": te_mlir.Float8CurrentScaling(),
    "float8_block_scaling": te_mlir.Float8BlockScaling(),
}
#: Steps before the capture: they compile, and PyTorch's allocator gets its memory.
WARM_UP = 3


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (
            part.view(rows, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """The loss of the next byte."""

    def __init__(self, layers, width, heads, length):
        super().__init__()
        self.bytes, self.places = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, tokens, targets):
        x = self.bytes(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def batches(arguments, device):
    """Random places of the text, with the bytes that follow them; a batch for each step."""
    text = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
    generator = torch.Generator().manual_seed(0)
    for _ in range(arguments.steps):
        count = arguments.micro_batches * arguments.rows
        starts = torch.randint(len(text) - arguments.length - 1, (count,), generator=generator)
        rows = torch.stack([text[start : start + arguments.length + 1] for start in starts.tolist()]).to(device)
        yield rows[:, :-1], rows[:, 1:]


def train(arguments, device, captured):
    """(The losses, the parameters, milliseconds of a step without its batch)."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = GPT(arguments.layers, arguments.width, arguments.heads, arguments.length).to(device, dtype)
    micro_batches = arguments.micro_batches
    # Several micro-batches share casts of weights, and add up their gradients in float32.
    sums = {"main_grad": True, "cache_weights": True} if micro_batches > 1 else {}
    compiled = te_mlir.torch.jit(model, recipe=RECIPES[arguments.recipe], strict=True, **sums)
    # A graph reads what changes between steps in tensors, whose addresses do not change.
    rate = torch.zeros((), device=device) if captured else 0.0
    optimizer = te_mlir.torch.optim.AdamW(
        model.parameters(), lr=rate, max_norm=1.0, capturable=captured, main_grad=bool(sums)
    )
    shape = micro_batches * arguments.rows, arguments.length
    tokens, targets = (torch.zeros(shape, dtype=torch.int64, device=device) for _ in range(2))

    def step():
        optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=device)
        for number, batch in enumerate(zip(tokens.chunk(micro_batches), targets.chunk(micro_batches))):
            with compiled.te.microbatch(first=number == 0) if sums else contextlib.nullcontext():
                loss = compiled(*batch) / micro_batches
                loss.backward()
            total += loss.detach()
        optimizer.step()
        return total

    graph = torch.cuda.CUDAGraph() if captured else None
    # As in PyTorch, steps before a capture run on a stream of their own.
    side = torch.cuda.Stream() if captured else None
    losses, times, captured_loss = [], [], None
    for number, batch in enumerate(batches(arguments, device)):
        tokens.copy_(batch[0])
        targets.copy_(batch[1])
        now = arguments.rate * (1 - number / arguments.steps)
        if captured:
            rate.fill_(now)
        else:
            optimizer.param_groups[0]["lr"] = now
        if graph is not None and number == WARM_UP:
            with torch.cuda.graph(graph):
                captured_loss = step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        if captured_loss is not None:
            graph.replay()
            losses.append(captured_loss.clone())
        elif side is not None:
            with torch.cuda.stream(side):
                losses.append(step())
        else:
            losses.append(step())
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    parameters = [parameter.detach() for parameter in model.parameters()]
    return torch.stack(losses).tolist(), parameters, 1000 * sorted(times)[len(times) // 2]


def main(given=None):
    """The losses of steps that are not captured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipe", choices=RECIPES, default="float8_current_scaling")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--rate", type=float, default=1e-3)
    arguments = parser.parse_args(given)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    losses, parameters, eager = train(arguments, device, captured=False)
    print(f"losses {losses[0]:.3f} to {losses[-1]:.3f}, {eager:.2f} ms a step")
    if device.type == "cuda":
        again, others, replayed = train(arguments, device, captured=True)
        print(f"captured: {replayed:.2f} ms a step")
        if again != losses:
            different = next(number for number, pair in enumerate(zip(losses, again)) if pair[0] != pair[1])
            raise SystemExit(f"captured losses differ from step {different} on: {losses[different]} {again[different]}")
        if not all(torch.equal(a, b) for a, b in zip(parameters, others)):
            raise SystemExit("captured steps end with other parameters")
        print("captured losses and parameters have the same bits")
    return losses


if __name__ == "__main__":
    main()
