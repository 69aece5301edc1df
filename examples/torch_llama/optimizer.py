#!/usr/bin/env python3
"""Times optimizers over the parameters of a Llama, with te_mlir.torch.optim and with PyTorch, each in a process of its own.

    python3 optimizer.py --out optimizer.json      # an H200: 8 layers of Llama 3 8B, 2.8 billion parameters
    python3 optimizer.py --small                   # seconds on a CPU, reference backend

A row is an optimizer, with "+clip" if it clips by the global norm of all gradients:
    te, te+clip                        te_mlir.torch.optim.AdamW
    te-bf16-moments, te-bf16-moments+clip, te-fp8-moments, te-fp8-moments+clip
                                       the same, with moments of bf16 or of 8 bits that are rounded stochastically
    torch, torch+clip                  torch.optim.AdamW(fused=True), clip_grad_norm_ before it
    te-muon, te-muon+clip, torch-muon, torch-muon+clip
                                       Muon of both, over the matrices of the layers only

Parameters are `--dtype`, and so are gradients, which are normal and do not change. As in speed.py, a row runs for a while
and is then timed back to back. `bytes` is what an element of AdamW needs: its parameter and moments read and written once,
its gradient read once; "+clip" reads gradients a second time. `flops` is what the matrix products of Muon need. Needs te_mlir
and torch.
"""

import argparse
import json
import time

import torch
from compare import SIZES
from speed import MAX_NORM, measured_apart, timed, write

ADAMW = ("te", "te-bf16-moments", "te-fp8-moments", "torch")
MUON = ("te-muon", "torch-muon")
ROWS = [name + clip for name in (*ADAMW, *MUON) for clip in ("", "+clip")]
NEWTON_SCHULZ_STEPS = 5
#: The types of the first moments, and bytes of both moments of an element; 128 have two scales of f32.
MOMENTS = {
    "te": (torch.float32, 8),
    "te-bf16-moments": (torch.bfloat16, 4),
    "te-fp8-moments": (torch.float8_e4m3fn, 2 + 8 / 128),
}


def shapes(sizes, layers):
    """Those of the layers of a Llama with fused projections, and those of the rest."""
    hidden, inner = sizes["hidden_size"], sizes["intermediate_size"]
    head = hidden // sizes["num_attention_heads"]
    qkv = hidden + 2 * head * sizes["num_key_value_heads"]
    matrices = [(qkv, hidden), (hidden, hidden), (2 * inner, hidden), (hidden, inner)]
    table = (sizes["vocab_size"], hidden)
    return matrices * layers, [*[(hidden,)] * (2 * layers + 1), table, table]


def torch_step(optimizer, parameters, clip):
    def step():
        if clip:
            torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM, foreach=True)
        optimizer.step()

    return step


def optimizer_of(row, parameters):
    """The function that takes a step."""
    name, _, clip = row.partition("+")
    options = {"lr": 1e-5, "weight_decay": 0.1}
    if name == "torch":
        return torch_step(torch.optim.AdamW(parameters, fused=True, **options), parameters, clip)
    if name == "torch-muon":
        return torch_step(torch.optim.Muon(parameters, ns_steps=NEWTON_SCHULZ_STEPS, **options), parameters, clip)
    import te_mlir.torch.optim

    options["max_norm"] = MAX_NORM if clip else None
    if name == "te-muon":
        return te_mlir.torch.optim.Muon(parameters, ns_steps=NEWTON_SCHULZ_STEPS, **options).step
    return te_mlir.torch.optim.AdamW(parameters, moments_dtype=MOMENTS[name][0], **options).step


def muon_flops(shape):
    """Of the gram matrix, its square, and the product with the matrix, in each step."""
    short, long = sorted(shape)
    return NEWTON_SCHULZ_STEPS * 2 * short * short * (2 * long + short)


def measure(row, arguments):
    """Milliseconds of a step, the rate at which it moves or computes what it needs, and seconds of the first step."""
    cuda = not arguments.small
    device = torch.device("cuda:0" if cuda else "cpu")
    synchronize = torch.cuda.synchronize if cuda else lambda: None
    sizes = dict(SIZES[arguments.small])
    if cuda:
        sizes.update(vocab_size=arguments.vocabulary)
    dtype = getattr(torch, arguments.dtype)
    torch.manual_seed(0)
    name, _, clip = row.partition("+")
    matrices, others = shapes(sizes, 2 if arguments.small else arguments.layers)
    parameters = []
    for shape in matrices if name in MUON else [*matrices, *others]:
        parameters.append(torch.nn.Parameter(torch.randn(shape, device=device, dtype=dtype) * 0.02))
        parameters[-1].grad = torch.randn(shape, device=device, dtype=dtype) * 1e-3
    step = optimizer_of(row, parameters)
    elements = sum(parameter.numel() for parameter in parameters)
    start = time.perf_counter()
    step()
    synchronize()
    result = {"row": row, "elements": elements, "first_step_s": time.perf_counter() - start}
    result.update(timed(lambda _: step(), arguments))
    if name in MUON:
        result["flops"] = sum(muon_flops(shape) for shape in matrices)
        result["tflop_per_s"] = result["flops"] / result["ms"] / 1e9
    else:
        # PyTorch's moments have the type of their parameter.
        _, moments = MOMENTS.get(name, (dtype, 2 * dtype.itemsize))
        result["bytes"] = (4 if clip else 3) * dtype.itemsize + 2 * moments
        result["tb_per_s"] = elements * result["bytes"] / result["ms"] / 1e9
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="torch_llama_optimizer.json")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a row runs before it is timed")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments)))
        return
    write(measured_apart(arguments.rows), arguments, "layers", "vocabulary", "dtype")


if __name__ == "__main__":
    main()
