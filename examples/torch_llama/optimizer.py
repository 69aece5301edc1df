#!/usr/bin/env python3
"""Times AdamW over the parameters of a Llama, with te_mlir.torch.optim and with PyTorch, each in a process of its own.

    python3 optimizer.py --out optimizer.json      # an H200: 8 layers of Llama 3 8B, 2.8 billion parameters
    python3 optimizer.py --small                   # seconds on a CPU, reference backend

A row is an optimizer, with "+clip" if it clips by the global norm of all gradients:
    te, te+clip                        te_mlir.torch.optim.AdamW
    te-bf16-moments, te-bf16-moments+clip
                                       the same, with moments of bf16 that are rounded stochastically
    torch, torch+clip                  torch.optim.AdamW(fused=True), clip_grad_norm_ before it

Parameters are `--dtype`, and so are gradients, which are normal and do not change. As in speed.py, a row runs for a while
and is then timed back to back. `bytes` is what an element needs: its parameter and moments read and written once, its
gradient read once; "+clip" reads gradients a second time. Needs te_mlir and torch.
"""

import argparse
import json
import time

import torch
from compare import SIZES
from speed import measured_apart, timed, write

ROWS = [name + clip for name in ("te", "te-bf16-moments", "torch") for clip in ("", "+clip")]
#: Of the gradients of most models.
MAX_NORM = 1.0


def shapes(sizes, layers):
    """Those of a Llama with fused projections."""
    hidden, inner = sizes["hidden_size"], sizes["intermediate_size"]
    head = hidden // sizes["num_attention_heads"]
    qkv = hidden + 2 * head * sizes["num_key_value_heads"]
    layer = [(qkv, hidden), (hidden, hidden), (2 * inner, hidden), (hidden, inner), (hidden,), (hidden,)]
    table = (sizes["vocab_size"], hidden)
    return [*layer * layers, table, table, (hidden,)]


def optimizer_of(row, parameters):
    """The function that takes a step, and the bytes of the moments of an element."""
    name, _, clip = row.partition("+")
    options = {"lr": 1e-5, "weight_decay": 0.1}
    if name == "torch":
        fused = torch.optim.AdamW(parameters, fused=True, **options)

        def step():
            if clip:
                torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM, foreach=True)
            fused.step()

        return step, 2 * parameters[0].element_size()
    import te_mlir.torch.optim

    moments = torch.bfloat16 if name == "te-bf16-moments" else torch.float32
    own = te_mlir.torch.optim.AdamW(parameters, max_norm=MAX_NORM if clip else None, moments_dtype=moments, **options)
    return own.step, 2 * moments.itemsize


def measure(row, arguments):
    """Milliseconds of a step, the rate at which it moves what it needs, and seconds of the first step."""
    cuda = not arguments.small
    device = torch.device("cuda:0" if cuda else "cpu")
    synchronize = torch.cuda.synchronize if cuda else lambda: None
    sizes = dict(SIZES[arguments.small])
    if cuda:
        sizes.update(vocab_size=arguments.vocabulary)
    dtype = getattr(torch, arguments.dtype)
    torch.manual_seed(0)
    parameters = []
    for shape in shapes(sizes, 2 if arguments.small else arguments.layers):
        parameters.append(torch.nn.Parameter(torch.randn(shape, device=device, dtype=dtype) * 0.02))
        parameters[-1].grad = torch.randn(shape, device=device, dtype=dtype) * 1e-3
    step, moments = optimizer_of(row, parameters)
    elements = sum(parameter.numel() for parameter in parameters)
    element = 3 * dtype.itemsize + 2 * moments + (dtype.itemsize if row.endswith("+clip") else 0)
    start = time.perf_counter()
    step()
    synchronize()
    result = {"row": row, "elements": elements, "bytes": element, "first_step_s": time.perf_counter() - start}
    result.update(timed(lambda _: step(), arguments))
    result["tb_per_s"] = elements * element / result["ms"] / 1e9
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
