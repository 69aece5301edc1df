#!/usr/bin/env python3
"""Times forward and backward of transformers' Llama, or of another model, through te, torch.compile and torchao, each in a process of its own.

    python3 speed.py --out speed.json                          # an H200: 4 layers of Llama 3 8B, one sequence of 8192
    python3 speed.py --small --rows te-block torch             # seconds on a CPU, reference backend
    python3 speed.py --model qwen3                             # 4 layers of Qwen3 8B
    python3 speed.py --model qwen3-moe --vocabulary 151936     # 4 layers of Qwen3 30B-A3B, 128 experts each
    python3 speed.py --model gpt2 --layers 12 --vocabulary 50257 --sequences 8 --sequence 1024   # of GPT-2 XL
    python3 speed.py --layers 16 --recompute                   # activations of layers are computed again in the backward
    python3 speed.py --update                                  # whole steps: gradients are clipped, and AdamW updates

A row is a program:
    te-bf16, te-delayed, te-current, te-block     te with this recipe; with "+graph", recorded as a CUDA graph (with
                                                  --update, the whole step as one graph of PyTorch)
    torch                                         torch.compile in bf16
    torchao                                       the same, with the linear layers of torchao's tensorwise FP8
    transformer-engine-bf16, -delayed, -current, -block
                                                  TransformerEngine's modules (transformer_engine_llama.py)

The peers are at their best: causal flash attention without a mask tensor (compare.py). Each row runs for a while, so that
the clock is that of sustained work, and is then timed back to back, without a wait for each step. Gradients are dropped
after each step, as an optimizer with `zero_grad(set_to_none=True)` does. With `--update`, te's rows have te_mlir.torch.optim.AdamW
with moments of bf16 and `max_norm`, and the others torch.optim.AdamW(fused=True), whose moments have the type of the
parameters, bf16, after clip_grad_norm_. Memory is what the whole device has in use
after a step, without what it had before the first one. Clock and power are those of the timed steps (nvidia-smi).
Needs te_mlir, torch and transformers; torchao and TransformerEngine for their rows.
"""

import argparse
import contextlib
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch
from compare import SIZES, Loss, draw_weights, model_of, without_mask_tensor

RECIPES = {
    "te-bf16": "HighPrecision",
    "te-delayed": "DelayedScaling",
    "te-current": "Float8CurrentScaling",
    "te-block": "Float8BlockScaling",
}
#: Of 8B parameters, of Qwen3 30B-A3B, and of GPT-2 XL; the other sizes are those of Llama 3 8B, and the vocabulary is an option.
MODEL_SIZES = {
    "llama": {"intermediate_size": 14336},
    "qwen3": {"intermediate_size": 12288},
    "qwen3-moe": {"hidden_size": 2048, "intermediate_size": 6144, "num_key_value_heads": 4, "head_dim": 128},
    "gpt2": {"hidden_size": 1600, "num_attention_heads": 25},
}
#: Of the gradients of most models.
MAX_NORM = 1.0
OTHER = "transformer-engine-"
ROWS = ["torch", "torchao", "te-bf16", "te-delayed", "te-current", "te-current+graph", "te-block"]
ROWS += [OTHER + name for name in ("bf16", "delayed", "current", "block")]


def package_of(row):
    """The package that a row needs."""
    if row.startswith(OTHER):
        return "transformer_engine"
    return row if row in ("torch", "torchao") else "te_mlir"


class ClockAndPower:
    """While it is entered, nvidia-smi samples the GPU's clock and power; `medians` has both afterwards."""

    def __enter__(self):
        query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "-lms", "100"]
        self.sampler = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.sampler.terminate()
        samples = [[float(value) for value in line.split(",")] for line in self.sampler.communicate()[0].splitlines()]
        # Steps of less than 100 ms together have no sample.
        self.medians = dict(zip(("clock_mhz", "power_w"), map(statistics.median, zip(*samples))))


def timed(step, arguments):
    """Milliseconds of `step(index)`, clock and power, after the row has run for a while."""
    cuda = not arguments.small
    synchronize = torch.cuda.synchronize if cuda else lambda: None
    start = time.perf_counter()
    while time.perf_counter() - start < arguments.seconds:
        step(1)
        synchronize()
    with ClockAndPower() if cuda else contextlib.nullcontext() as sampled:
        start = time.perf_counter()
        for index in range(arguments.steps):
            step(index)
        synchronize()
        result = {"ms": 1000 * (time.perf_counter() - start) / arguments.steps}
    return {**result, **sampled.medians} if cuda else result


def measured_apart(rows):
    """What this program prints for each row with `--one ROW`, in a process of its own."""
    results = []
    for row in rows:
        command = [sys.executable, *sys.argv, "--one", row]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        results.append(json.loads(run.stdout.splitlines()[-1]))
        print(
            "  ".join(f"{key} {value:.4g}" if key != "row" else f"{value:22}" for key, value in results[-1].items()),
            flush=True,
        )
    return results


def write(rows, arguments, *names):
    """Writes the rows as JSON, with the arguments that say what was measured."""
    result = {
        "torch": torch.__version__,
        "device": "cpu" if arguments.small else torch.cuda.get_device_name(),
        "model": {name: getattr(arguments, name) for name in names},
        "rows": rows,
    }
    pathlib.Path(arguments.out).write_text(json.dumps(result, indent=1) + "\n")


def compiled(row, model, arguments):
    """The loss of the model as the program that a row names; with `--recompute`, activations are not saved.

    te saves the inputs of residual blocks then, two for each layer, and the peers save the input of each layer.
    """
    name, _, graph = row.partition("+")
    if name in RECIPES:
        import te_mlir
        import te_mlir.torch

        options = {"cuda_graph": True} if graph and not arguments.update else {}
        if arguments.recompute:
            options["remat"] = "everything"
        return te_mlir.torch.jit(Loss(model), recipe=getattr(te_mlir, RECIPES[name])(), strict=True, **options)
    without_mask_tensor(model)
    if arguments.recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.train()
    if name == "torchao":
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training

        convert_to_float8_training(model, config=Float8LinearConfig())
    return torch.compile(Loss(model))


def update_of(row, parameters, arguments):
    """What drops the gradients after a backward; with `--update`, it clips them and updates the parameters before."""
    name, _, graph = row.partition("+")
    if not arguments.update:

        def update():
            for parameter in parameters:
                parameter.grad = None

        return update
    options = {"lr": 1e-5, "weight_decay": 0.1}
    is_te = name in RECIPES
    if is_te:
        import te_mlir.torch.optim

        moments = {"moments_dtype": torch.bfloat16, "max_norm": MAX_NORM}
        optimizer = te_mlir.torch.optim.AdamW(parameters, capturable=bool(graph), **moments, **options)
    else:
        optimizer = torch.optim.AdamW(parameters, fused=not arguments.small, **options)

    def update():
        if not is_te:
            torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return update


def captured(step, batch):
    """`step(batch)` as a CUDA graph of PyTorch, which reads its batch where it was captured."""
    own = torch.zeros_like(batch)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step(own)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(own)

    def replay(batch):
        own.copy_(batch)
        graph.replay()

    return replay


def measure(row, arguments):
    """Milliseconds of a step, memory, and seconds of the first step."""
    cuda = not arguments.small
    device = torch.device("cuda:0" if cuda else "cpu")
    synchronize = torch.cuda.synchronize if cuda else lambda: None
    sizes = dict(SIZES[arguments.small])
    if cuda:
        sizes.update(vocab_size=arguments.vocabulary, num_hidden_layers=arguments.layers)
        sizes.update(MODEL_SIZES[arguments.model])
    if row.startswith(OTHER):
        from transformer_engine_llama import TransformerEngineLlama

        model = program = TransformerEngineLlama(sizes, row.removeprefix(OTHER))
        draw_weights(model, 0)
    else:
        model = model_of(sizes, device, arguments.model, arguments.small)
        draw_weights(model, 0)
        program = compiled(row, model, arguments)
    shape = (arguments.sequences, 32 if arguments.small else arguments.sequence)
    batches = [torch.randint(0, sizes["vocab_size"], shape, device=device) for _ in range(4)]

    update = update_of(row, list(model.parameters()), arguments)

    def step_of(batch):
        program(batch).backward()
        update()

    def step(index):
        step_of(batches[index % 4])

    synchronize()
    if cuda:
        # What creating the model left in PyTorch's allocator would not be counted where a step uses it again.
        torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0] if cuda else 0
    start = time.perf_counter()
    if cuda and arguments.update and row.endswith("+graph"):
        step_of = captured(step_of, batches[0])
    step(0)
    synchronize()
    result = {"row": row, "first_step_s": time.perf_counter() - start}
    result.update(timed(step, arguments))
    if cuda:
        result["device_mib"] = (free - torch.cuda.mem_get_info()[0]) / 2**20
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="torch_llama_speed.json")
    parser.add_argument(
        "--rows", nargs="+", help="see the top of this file (default: those whose packages are installed)"
    )
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--model", choices=MODEL_SIZES, default="llama")
    parser.add_argument("--recompute", action="store_true", help="activation checkpoints for each layer")
    parser.add_argument("--update", action="store_true", help="clip the gradients and update the parameters")
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=8192)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a row runs before it is timed")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments)))
        return
    for row in arguments.rows or ():
        if row not in ROWS and row.removesuffix("+graph") not in RECIPES:
            parser.error(f"expected a row of {', '.join(ROWS)}, but got '{row}'")
    # The TransformerEngine model is Llama, and its layers save their activations.
    possible = [
        row for row in ROWS if not row.startswith(OTHER) or (arguments.model == "llama" and not arguments.recompute)
    ]
    for row in set(arguments.rows or ()) - set(possible):
        if row in ROWS:
            parser.error(f"{row} has neither --model nor --recompute")
    chosen = arguments.rows or [row for row in possible if importlib.util.find_spec(package_of(row))]
    left_out = [] if arguments.rows else [row for row in possible if row not in chosen]
    if left_out:
        print(f"left out, because their packages are not installed: {', '.join(left_out)}")
    names = ("model", "recompute", "update", "layers", "vocabulary", "sequences", "sequence")
    write(measured_apart(chosen), arguments, *names)


if __name__ == "__main__":
    main()
