#!/usr/bin/env python3
"""What a compiled forward and backward costs the host, and whether it allocates on the device.

    python3 host_cost.py --out results.json    # a GPU if there is one, else the reference backend

Of transformers' Llama, small, so that launches do not wait for the device: microseconds
of a call in all, in the runtime (launches, or the replay of a CUDA graph), and beyond.
"step" is one call of te_mlir.compile's Step on tensors ("reused": results are the same
tensors in every call; "moved": ids and the incoming gradient have other addresses than in the call
before, whose results are still alive, as in training). It is the median of several rounds,
which are listed, because other programs use the host, too; "torch" is forward and backward
through torch.compile and autograd. "empty" is the same model through torch.compile with a
backend that launches nothing: one node of autograd, which returns a constant loss and
gradients of any content. What "torch" costs beyond "empty" is te's. Both are measured
again without torch.compile's guards (`torch.compiler.set_stance`), and with the backward
on the caller's thread (`torch.autograd.set_multithreading_enabled`), which does not have to
wake another one on a GPU. There "paced" is the
empty one again, with the processor busy for as long as te's launches take it: between
launches caches and the thread of autograd's backward go cold. "parts_us" is where time
goes, measured apart, because looking costs some us as well: PARTS of te, and what is
before and behind the graph and its node of autograd, in torch.compile, the model's own
Python and autograd. "large" is a model whose gradients have more than a mebibyte, so that
each is an allocation. Without a GPU the launches are left out, as the reference backend
computes in them: what is beyond them is the same code.
"""

import argparse
import contextlib
import itertools
import json
import pathlib
import statistics
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import te_mlir
import te_mlir.torch
from te_mlir import makers
from te_mlir.runtime import Instance
from te_mlir.torch.autograd import Call
from te_mlir.torch.backend import Graph
from te_mlir.torch.eager import Before, Feeder
from te_mlir.torch.main_grad import MainGrads
from te_mlir.torch.runner import Loaded, Region
from te_mlir.torch.signature import Guard

CONFIG = dict(
    vocab_size=512,
    hidden_size=256,
    intermediate_size=512,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_hidden_layers=3,
)
LARGE = {**CONFIG, "vocab_size": 1024, "hidden_size": 1024, "intermediate_size": 2048}
PARTS = {
    "before": (Before, "__call__"),
    "arguments": (Feeder, "__call__"),
    "checks": (Guard, "check"),
    "main_grads": (MainGrads, "of_call"),
    "forward": (Loaded, "run_forward"),
    "backward": (Loaded, "run_backward"),
    "new tensors": (makers.TorchMaker, "unsorted"),
    "region": (Region, "__call__"),
    "node": (Call, "backward"),
    "graph": (Graph, "__call__"),
}
#: So often a step is made and measured.
ROUNDS = 5
#: Seconds that this call was in the runtime.
inside = 0.0


class Parts:
    """Seconds of a call by part, less those in others and in the runtime."""

    def __init__(self):
        self.spent, self.open, self.moments = {}, [], {}

    def watched(self, name, function):
        def call(*arguments):
            self.open.append(0.0)
            start, before = time.perf_counter(), inside
            try:
                return function(*arguments)
            finally:
                end, ran = time.perf_counter(), inside - before
                self.moments[name] = start, end
                self.add(name, end - start - self.open.pop() - ran)
                if self.open:
                    self.open[-1] += end - start - ran

        return call

    def add(self, name, seconds):
        self.spent[name] = self.spent.get(name, 0.0) + seconds

    def around(self, start, middle, end):
        """Of a call that took from `start` to `end`, its forward to `middle`."""
        for name, begin, (first, last), stop in (
            ("the graph", start, self.moments["graph"], middle),
            ("the node", middle, self.moments["node"], end),
        ):
            self.add(f"before {name}", first - begin)
            self.add(f"behind {name}", stop - last)


@contextlib.contextmanager
def taken_apart(found, methods):
    """`found` records calls of these methods, name: (class, method)."""
    kept = {}
    for name, (owner, method) in methods.items():
        kept[name] = vars(owner)[method]
        function = found.watched(name, getattr(owner, method))
        setattr(owner, method, staticmethod(function) if isinstance(kept[name], staticmethod) else function)
    try:
        yield
    finally:
        for name, (owner, method) in methods.items():
            setattr(owner, method, kept[name])


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


def parts(call, repeats, device, methods):
    """Medians of the microseconds of each part; `call` gives the moments after its forward and at its end, or None."""
    rows = []
    found = Parts()
    with taken_apart(found, methods):
        for _ in range(repeats):
            if device.type == "cuda":
                torch.cuda.synchronize()
            found.spent, start = {}, time.perf_counter()
            moments = call()
            if moments:
                found.around(start, *moments)
            rows.append(found.spent)
    return {name: round(1e6 * statistics.median(row[name] for row in rows), 1) for name in rows[-1]}


def device_memory(device):
    """Bytes that the device lacks, and how often PyTorch asked it for some."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free, torch.cuda.memory_stats()["num_device_alloc"]


def model_of(device, config=CONFIG):
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**config, use_cache=False)).to(torch.bfloat16).to(device)


class Loss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, labels=ids).loss


def busy(seconds):
    """Has the processor work for so long, as if in the runtime."""
    global inside
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        pass
    inside += time.perf_counter() - start


class Nothing(torch.autograd.Function):
    """The least that a compiled graph can be to autograd."""

    @staticmethod
    def forward(ctx, loss, seconds, *wanted):
        ctx.wanted, ctx.seconds = wanted, seconds
        busy(seconds)
        return loss.clone()

    @staticmethod
    def backward(ctx, _):
        busy(ctx.seconds)
        return (None, None, *(torch.empty_like(tensor) for tensor in ctx.wanted))


class EmptyGraph:
    def __init__(self, loss, seconds, anchor, wanted):
        self.loss, self.seconds, self.anchor, self.wanted = loss, seconds, anchor, wanted

    def __call__(self, *tensors):
        if self.anchor is not None:
            return (Nothing.apply(self.loss, self.seconds, self.anchor),)
        return (Nothing.apply(self.loss, self.seconds, *[tensors[i] for i in self.wanted]),)


def trained(compiled, ids, parameters):
    """Forward and backward of a model, which is then as before; and moments for `parts`."""

    def call():
        loss = compiled(ids)
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        for parameter in parameters:
            parameter.grad = None
        return middle, end

    return call


def without(call, repeats, device):
    """What is beyond launches without torch.compile's guards, without a thread of autograd's own, and without both."""
    result = {}
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        result["beyond_without_guards_us"] = microseconds(call, repeats, device)["beyond_us"]
        with torch.autograd.set_multithreading_enabled(False):
            result["beyond_without_both_us"] = microseconds(call, repeats, device)["beyond_us"]
    with torch.autograd.set_multithreading_enabled(False):
        result["beyond_without_threads_us"] = microseconds(call, repeats, device)["beyond_us"]
    return result


def measure_empty(device, repeats, ids, main_grad=False, launches_us=0.0, **_):
    """What torch.compile and autograd cost without any launch."""
    torch._dynamo.reset()
    model, loss = model_of(device), torch.zeros((), device=device)
    anchor = torch.zeros((), device=device, requires_grad=True) if main_grad else None

    def backend(module, examples):
        wanted = [i for i, example in enumerate(examples) if example.requires_grad]
        return EmptyGraph(loss, launches_us / 2e6, anchor, wanted)

    compiled = torch.compile(Loss(model), backend=backend, dynamic=False, fullgraph=True)
    call = trained(compiled, ids, list(model.parameters()))
    result = microseconds(call, repeats, device)
    result.update(without(call, repeats, device))
    methods = {"graph": (EmptyGraph, "__call__"), "node": (Nothing, "backward")}
    result["parts_us"] = parts(call, repeats, device, methods)
    return result


def measure_torch(device, repeats, ids, config=CONFIG, **options):
    torch._dynamo.reset()
    model = model_of(device, config)
    compiled = te_mlir.torch.jit(
        Loss(model), recipe=te_mlir.Float8CurrentScaling(), strict=True, cache_weights=True, **options
    )
    call = trained(compiled, ids, list(model.parameters()))
    call()
    call()
    before = device_memory(device)
    result = microseconds(call, repeats, device)
    after = device_memory(device)
    result["allocates"] = None if before is None else after != before
    result.update(without(call, repeats, device))
    result["parts_us"] = parts(call, repeats, device, PARTS)
    result["launches"] = compiled.te.graphs[0].region.load(True).places.end
    return result, compiled.te.graphs[0].region


def measure_step(device, repeats, region, moved=False, **options):
    """The same program as a Step, called with tensors by name."""
    step = te_mlir.compile(
        region.compilation.text(True), "step", context=region.context, **region.compilation.options_for(True), **options
    )
    weights = {spec.name for spec in region.signature.inputs if spec.weight}
    given = {
        spec.name: torch.ones(spec.shape, device=device).to(spec.dtype) * 0.02
        for spec in region.signature.inputs
        if spec.dtype.is_floating_point
    }
    for spec in region.signature.inputs:
        if not spec.dtype.is_floating_point:
            given[spec.name] = torch.zeros(spec.shape, dtype=spec.dtype, device=device)
    for name in step.inputs:
        if name.startswith("grad."):
            given[name] = torch.ones((), device=device)

    other = {n: t.clone() if moved and n not in weights else t for n, t in given.items()}
    turns, kept = itertools.cycle((given, other)), []

    def call():
        result = step(**next(turns))
        if moved:
            kept[:] = [result]

    for _ in range(4):
        call()
    before = device_memory(device)
    result = microseconds(call, repeats, device)
    after = device_memory(device)
    result["allocates"] = None if before is None else after != before
    result["parts_us"] = parts(call, repeats, device, PARTS)
    result["tensors"] = len(given)
    result["results"] = len(step.results)
    return result


def middle_step(*arguments, **options):
    rounds = [measure_step(*arguments, **options) for _ in range(ROUNDS)]
    times = [row["beyond_us"] for row in rounds]
    return {**sorted(rounds, key=lambda row: row["beyond_us"])[ROUNDS // 2], "rounds_us": times}


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
        rows[name], region = measure_torch(device, repeats, ids, **options)
        print(name, rows[name], flush=True)
        if device.type == "cuda":
            paced = measure_empty(device, repeats, ids, launches_us=rows[name]["runtime_us"], **options)
            rows[f"{empty} paced"] = paced
            print(f"{empty} paced", paced, flush=True)
        if "captured" in name:
            continue
        kinds = {
            "": {},
            " moved": {"moved": True},
            " reused": {"reuse_results": True},
            " captured": {"cuda_graph": True},
        }
        for kind, option in kinds.items():
            row = name.replace("torch", "step") + kind
            rows[row] = middle_step(device, repeats, region, **option)
            print(row, rows[row], flush=True)
    rows["torch large"], region = measure_torch(device, repeats, ids, LARGE)
    rows["step large"] = middle_step(device, repeats, region)
    for name in ("torch large", "step large"):
        print(name, rows[name], flush=True)
    summary = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "model": CONFIG,
        "rows": rows,
    }
    pathlib.Path(arguments.out).write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
