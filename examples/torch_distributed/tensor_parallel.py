"""A tensor-parallel MLP under torchrun: torch.distributed brings the processes together, te runs the step.

    torchrun --nproc-per-node=2 tensor_parallel.py [--steps=N] [--recipe=Float8BlockScaling]

On GPUs the collectives of the step are those of the process group's own communicator of NCCL, on CPUs they go over gloo.
At the end every rank computes one step of the whole MLP by itself: the gradients of its part of the weights have the same
bits, on a CPU. The output is a sum over ranks, which rounds one more time.
"""

import argparse
import os

import torch
import torch.distributed as dist

import te_mlir
import te_mlir.torch

TOKENS, WIDTH, HIDDEN = 256, 256, 1024


def module(hidden, ranks):
    """An MLP with `hidden` of its inner columns; over ranks, whose sums are the output."""
    column = " parallel <column, group = 0>" if ranks > 1 else ""
    row = " parallel <row, group = 0>" if ranks > 1 else ""
    x, w1, w2, h = (
        f"tensor<{shape}xbf16>"
        for shape in (f"{TOKENS}x{WIDTH}", f"{hidden}x{WIDTH}", f"{WIDTH}x{hidden}", f"{TOKENS}x{hidden}")
    )
    return f"""
module attributes {{te.groups = [#te.group<id = 0, name = "tp", axis = "tp", size = {ranks}>]}} {{
  func.func @mlp(%x: {x} {{te.name = "x"}}, %w1: {w1} {{te.name = "w1", te.weight}}, %w2: {w2} {{te.name = "w2", te.weight}})
      -> ({x} {{te.name = "y"}}) {{
    %h = te.linear %x, %w1{column} : {x}, {w1} -> {h}
    %a = te.activation <gelu> %h : {h} -> {h}
    %y = te.linear %a, %w2{row} : {h}, {w2} -> {x}
    return %y : {x}
  }}
}}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--recipe", default="Float8BlockScaling")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()

    if options.device == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
        context = te_mlir.Context("cuda", device.index)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
        context = te_mlir.Context("reference")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    # A group that nothing but te uses; group 0 of the program.
    context.set_group_timeout(60)
    te_mlir.torch.bind_group(context, 0, dist.new_group())
    recipe = getattr(te_mlir, options.recipe)()
    step = te_mlir.compile(module(HIDDEN // ranks, ranks), "mlp", recipe=recipe, vjp=True, context=context)

    torch.manual_seed(0)
    x = torch.randn(TOKENS, WIDTH).bfloat16().to(device)
    target = torch.randn(TOKENS, WIDTH).bfloat16().to(device)
    w1 = (torch.randn(HIDDEN, WIDTH) * WIDTH**-0.5).bfloat16().to(device)
    w2 = (torch.randn(WIDTH, HIDDEN) * HIDDEN**-0.5).bfloat16().to(device)
    # Masters in float32; the step reads them rounded.
    own1, own2 = w1.chunk(ranks, 0)[rank].float(), w2.chunk(ranks, 1)[rank].float()

    def run(step, a, b, dy):
        a, b = (each.bfloat16().contiguous() for each in (a, b))
        return step(x=x, w1=a, w2=b, **{"grad.y": dy})

    dy = torch.zeros_like(x)
    for number in range(options.steps):
        found = run(step, own1, own2, dy)
        loss = (found["y"].float() - target.float()).square().mean()
        # Once for the loss, and once for its gradient.
        dy = ((found["y"].float() - target.float()) * 1e-4).bfloat16()
        found = run(step, own1, own2, dy)
        own1 -= found["grad.w1"]
        own2 -= found["grad.w2"]
        if rank == 0:
            print(f"step {number + 1}: loss {loss:.4f}")

    # All ranks have the whole weights, and one process's gradients.
    def whole(own, axis):
        own = own.contiguous()
        every = [torch.empty_like(own) for _ in range(ranks)]
        dist.all_gather(every, own)
        return torch.cat(every, axis)

    alone = te_mlir.compile(module(HIDDEN, 1), "mlp", recipe=recipe, vjp=True, context=context)
    wanted = run(alone, whole(own1, 0), whole(own2, 1), dy)
    found = run(step, own1, own2, dy)
    same = all(
        torch.equal(found[name].view(torch.int16), wanted[name].chunk(ranks, axis)[rank].contiguous().view(torch.int16))
        for name, axis in (("grad.w1", 0), ("grad.w2", 1))
    )
    off = (found["y"].float() - wanted["y"].float()).norm() / wanted["y"].float().norm()
    agreed = [None] * ranks
    dist.all_gather_object(agreed, (same, float(off)))
    if rank == 0:
        print(f"gradients of the weights have the bits of one process: {[each[0] for each in agreed]}")
        print(f"the output is off by {max(each[1] for each in agreed):.1e}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
