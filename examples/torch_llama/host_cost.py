#!/usr/bin/env python3
"""What a compiled forward and backward costs the host, and whether it allocates on the device.

    python3 host_cost.py --out results.json    # a GPU where there is one, else the reference backend

Of transformers' Llama, small, so that launches do not wait for the device: microseconds
of a call in all, in the runtime (launches, or the replay of a CUDA graph), and beyond.
"step" is one call of te_mlir.compile's Step on tensors ("reused": results are the same
tensors in every call); "torch" is forward and backward
through torch.compile and autograd. "empty" is the same model through torch.compile with a
backend that launches nothing: one node of autograd, which returns a constant loss and
gradients of any content. What "torch" costs beyond "empty" is te's. Both are measured
again without torch.compile's guards (`torch.compiler.set_stance`). Without a GPU the
launches are left out, as the reference backend computes in them: what is beyond them is
the same code.
"""

import argparse
import json
import pathlib
import statistics
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import te_mlir
import te_mlir.torch
from te_mlir.runtime import Instance

CONFIG = dict(
    vocab_size=512,
    hidden_size=256,
    intermediate_size=512,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_hidden_layers=3,
)
inside = 0.0


def timed(function, enqueue):
    def call(*arguments):
        global inside
        start = time.perf_counter()
        if enqueue:
            function(*arguments)
        inside += time.perf_counter() - start

    return call


def microseconds(call, repeats, device):
    """Medians over calls that find the device idle: in all, and in the runtime."""
    global inside
    for _ in range(3):
        call()
    total, runtime = [], []
    for _ in range(repeats):
        if device.type == "cuda":
            torch.cuda.synchronize()
        inside, start = 0.0, time.perf_counter()
        call()
        total.append(time.perf_counter() - start)
        runtime.append(inside)
    beyond = [all - part for all, part in zip(total, runtime)]
    rows = {"total_us": total, "runtime_us": runtime, "beyond_us": beyond}
    return {name: round(1e6 * statistics.median(times), 1) for name, times in rows.items()}


def device_memory(device):
    """Bytes that the device lacks, and how often PyTorch asked it for some."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free, torch.cuda.memory_stats()["num_device_alloc"]


def model_of(device):
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**CONFIG, use_cache=False)).to(torch.bfloat16).to(device)


class Loss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, labels=ids).loss


class Nothing(torch.autograd.Function):
    """The least that a compiled graph can be to autograd."""

    @staticmethod
    def forward(ctx, loss, *wanted):
        ctx.wanted = wanted
        return loss.clone()

    @staticmethod
    def backward(ctx, _):
        return (None, *(torch.empty_like(tensor) for tensor in ctx.wanted))


def measure_empty(device, repeats, ids, main_grad=False, **_):
    """What torch.compile and autograd cost without any launch."""
    torch._dynamo.reset()
    model, loss = model_of(device), torch.zeros((), device=device)
    parameters, anchor = list(model.parameters()), torch.zeros((), device=device, requires_grad=True)

    def backend(module, examples):
        wanted = [i for i, example in enumerate(examples) if example.requires_grad]
        if main_grad:
            return lambda *tensors: (Nothing.apply(loss, anchor),)
        return lambda *tensors: (Nothing.apply(loss, *[tensors[i] for i in wanted]),)

    compiled = torch.compile(Loss(model), backend=backend, dynamic=False, fullgraph=True)

    def call():
        compiled(ids).backward()
        for parameter in parameters:
            parameter.grad = None

    result = microseconds(call, repeats, device)
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        result["beyond_without_guards_us"] = microseconds(call, repeats, device)["beyond_us"]
    return result


def measure_torch(device, repeats, ids, **options):
    torch._dynamo.reset()
    model = model_of(device)
    compiled = te_mlir.torch.jit(
        Loss(model), recipe=te_mlir.Float8CurrentScaling(), strict=True, cache_weights=True, **options
    )
    parameters = list(model.parameters())

    def call():
        compiled(ids).backward()
        for parameter in parameters:
            parameter.grad = None

    call()
    call()
    before = device_memory(device)
    result = microseconds(call, repeats, device)
    after = device_memory(device)
    result["allocates"] = None if before is None else after != before
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        result["beyond_without_guards_us"] = microseconds(call, repeats, device)["beyond_us"]
    result["launches"] = compiled.te.graphs[0].region.load(True).end
    return result, compiled.te.graphs[0].region, parameters


def measure_step(device, repeats, region, **options):
    """The same program as a Step, called with tensors by name."""
    step = te_mlir.compile(region.text(True), "step", context=region.context, **region.options_for(True), **options)
    given = {
        spec.name: torch.ones(spec.shape, device=device).to(spec.dtype) * 0.02
        for spec in region.inputs
        if spec.dtype.is_floating_point
    }
    for spec in region.inputs:
        if not spec.dtype.is_floating_point:
            given[spec.name] = torch.zeros(spec.shape, dtype=spec.dtype, device=device)
    for name in step.inputs:
        if name.startswith("grad."):
            given[name] = torch.ones((), device=device)

    def call():
        step(**given)

    call()
    call()
    before = device_memory(device)
    result = microseconds(call, repeats, device)
    after = device_memory(device)
    result["allocates"] = None if before is None else after != before
    result["tensors"] = len(given)
    result["results"] = len(step.results)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="host_cost.json")
    parser.add_argument("--repeats", type=int)
    arguments = parser.parse_args()
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    repeats = arguments.repeats or 300
    ids = torch.randint(0, 512, (2, 64), device=device)
    for name in ("run", "run_part", "replay"):
        setattr(Instance, name, timed(getattr(Instance, name), device.type == "cuda"))
    rows = {}
    for name, options in {
        "torch": {},
        "torch main_grad": {"main_grad": True},
        "torch main_grad captured": {"main_grad": True, "cuda_graph": True},
    }.items():
        empty = name.replace("torch", "empty")
        if "captured" not in name:
            rows[empty] = measure_empty(device, repeats, ids, **options)
            print(empty, rows[empty], flush=True)
        rows[name], region, _ = measure_torch(device, repeats, ids, **options)
        print(name, rows[name], flush=True)
        if "captured" in name:
            continue
        for kind, option in {"": {}, " reused": {"reuse_results": True}, " captured": {"cuda_graph": True}}.items():
            row = name.replace("torch", "step") + kind
            rows[row] = measure_step(device, repeats, region, **option)
            print(row, rows[row], flush=True)
    summary = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "model": CONFIG,
        "rows": rows,
    }
    pathlib.Path(arguments.out).write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
