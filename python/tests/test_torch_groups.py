"""Groups of torch.distributed: two processes on the reference backend, over gloo, as torchrun starts them."""

import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import te_mlir  # noqa: E402

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "torch_distributed" / "tensor_parallel.py"

BEGIN = """
import sys, time
import torch
import torch.distributed as dist
import te_mlir, te_mlir.torch
dist.init_process_group("gloo")
rank = dist.get_rank()
context = te_mlir.Context("reference")
TEXT = '''module attributes {te.groups = [#te.group<id = 5, name = "ep", axis = "ep", size = 2>]} {
  func.func @step(%x: tensor<4x3xf32> {te.name = "x"}) -> (tensor<2x6xf32> {te.name = "y"}, tensor<4x3xf32> {te.name = "s"}) {
    %y = te.all_to_all %x group 5 split 0 concat 1 : tensor<4x3xf32> -> tensor<2x6xf32>
    %s = te.all_reduce %x group 5 : tensor<4x3xf32>
    return %y, %s : tensor<2x6xf32>, tensor<4x3xf32>
  }
}'''
x = torch.arange(12.0).reshape(4, 3) + 100 * rank
"""


def launch(code, ranks=2):
    """Runs the code in several processes. Returns (output, exit code) of each."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(code)] if isinstance(code, pathlib.Path) else [sys.executable, "-c", code]
    started = []
    for rank in range(ranks):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = os.environ | {name: str(value) for name, value in place.items()} | {"OMP_NUM_THREADS": "1"}
        started.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        )
    return [(process.communicate(timeout=300)[0], process.returncode) for process in started]


def test_exchange_and_sum():
    ends = launch(
        BEGIN
        + """
te_mlir.torch.bind_group(context, 5)
step = te_mlir.compile(TEXT, "step", context=context)
for _ in range(3):
    found = step(x=x)
both = [torch.arange(12.0).reshape(4, 3) + 100 * r for r in range(2)]
assert torch.equal(found["y"], torch.cat([each[2 * rank : 2 * rank + 2] for each in both], 1)), found
assert torch.equal(found["s"], both[0] + both[1]), found
"""
    )
    assert [code for _, code in ends] == [0, 0], ends


# The group consists of ranks 1 and 2 of three, so that ranks in the group differ from those of the job.
def test_part_of_the_processes():
    ends = launch(
        BEGIN
        + """
group = dist.new_group([1, 2])
if rank == 0:
    try:
        te_mlir.torch.bind_group(context, 5, group)
    except te_mlir.ArgumentError as error:
        assert "rank 0 is not in it" in str(error), error
    else:
        raise SystemExit("rank 0 is in no group")
else:
    te_mlir.torch.bind_group(context, 5, group)
    found = te_mlir.compile(TEXT, "step", context=context)(x=x)
    place = dist.get_rank(group)
    both = [torch.arange(12.0).reshape(4, 3) + 100 * dist.get_global_rank(group, r) for r in range(2)]
    assert torch.equal(found["y"], torch.cat([each[2 * place : 2 * place + 2] for each in both], 1)), found
dist.barrier()
""",
        ranks=3,
    )
    assert [code for _, code in ends] == [0, 0, 0], ends


def test_missing_rank_is_named():
    ends = launch(
        BEGIN
        + """
te_mlir.torch.bind_group(context, 5)
context.set_group_timeout(1.5)
step = te_mlir.compile(TEXT, "step", context=context, source_name="step.mlir")
step(x=x)
if rank == 1:
    time.sleep(8)
else:
    try:
        step(x=x)
    except te_mlir.RuntimeFailure as error:
        print(error)
import os
sys.stdout.flush()
os._exit(0)
"""
    )
    assert re.search(
        r"all_to_all \(slot 0, '[^']+' at step.mlir:3:10\): group 5 \(rank 0 of 2\): rank 1 did not come in time \(1500 ms\)",
        ends[0][0],
    ), ends


def test_errors_of_an_exchange_are_reported():
    context = te_mlir.Context("reference")

    def exchange(send, receive, seconds):
        assert len(send) == len(receive) == 2 and seconds == 600
        raise ValueError("no such place")

    with pytest.raises(te_mlir.RuntimeFailure, match=r"group 3 \(rank 1 of 2\): no such place"):
        context.bind_exchange(3, exchange, 2, 1)
    with pytest.raises(te_mlir.RuntimeFailure, match="expected 'size' to be one or more, but got 0"):
        context.bind_exchange(3, exchange, 0, 0)
    with pytest.raises(te_mlir.RuntimeFailure, match="'milliseconds' to be one or more, but got 0"):
        context.set_group_timeout(0)
    with pytest.raises(te_mlir.RuntimeFailure, match="reference"):
        context.bind_nccl(3, 16, 2, 1)


def test_example():
    """Tensor parallelism over two processes: gradients of weights have the bits of one process."""
    ends = launch(EXAMPLE)
    assert [code for _, code in ends] == [0, 0], ends
    said = ends[0][0]
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", said)]
    assert len(losses) == 20 and losses[-1] < 0.8 * losses[0], said
    assert "have the bits of one process: [True, True]" in said, said
    # Two bf16 values are added, instead of one f32 sum.
    assert float(said.split("is off by ")[1]) < 2.0**-7, said
