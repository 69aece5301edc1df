"""Binds the groups of a program to process groups of torch.distributed.

A program names groups by number (`te.groups`). On a GPU, a step uses the NCCL communicator of
the process group. On a CPU, it sends and receives through the process group, with any backend
that supports this (gloo).
"""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from te_mlir.errors import ArgumentError
from te_mlir.runtime import Context


def bind_group(context: Context, group_id: int, group: dist.ProcessGroup | None = None) -> None:
    """Binds `group` (by default all processes) to the number `group_id` of programs on `context`.

    Every process of the group must call this before a program is compiled on the context.
    The process group must outlive the context. Use one that nothing else uses
    (`dist.new_group(ranks)`): the collectives of two users of one communicator
    would have to run in one order on all ranks.
    """
    if group is None:
        group = dist.group.WORLD
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ArgumentError(
            f"argument 'group': expected a group that contains this process, but rank {dist.get_rank()} is not in it"
        )
    if size == 1:
        context.bind_group(group_id, None, 1, 0)
    elif context.backend == "cuda":
        context.bind_nccl(group_id, _communicator(group, context.device[1]), size, rank)
    else:
        context.bind_exchange(group_id, _Exchange(group, size, rank), size, rank)


def refuse_averages() -> None:
    """Raises ArgumentError if DistributedDataParallel would average gradients in this call, because they are in main_grad."""
    outer = DistributedDataParallel._active_ddp_module
    # The gradients of a reentrant checkpoint are computed later, when DistributedDataParallel is not active.
    if outer is not None and outer.require_backward_grad_sync and (torch.is_grad_enabled() or outer.training):
        raise ArgumentError(
            "argument 'main_grad': expected gradients of only this process, but DistributedDataParallel would average "
            "them, and uses only 'grad'; compile without main_grad, or call it under no_sync() and sum main_grad "
            "over the processes"
        )


def is_gathered(parameter: torch.Tensor) -> bool:
    """Whether fully_shard (FSDP2) gathered `parameter` from shards for this call."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    # fully_shard stores a state for each of its modules here.
    states = getattr(sys.modules.get("torch.distributed._composable_state"), "_module_state_mapping", ())
    modules = [m for m in states if isinstance(m, fsdp.FSDPModule)] if fsdp else []
    return any(p is parameter for module in modules for p in module.parameters())


def _communicator(group: Any, index: int) -> int:
    """The address of the group's ncclComm_t on a GPU."""
    device = torch.device("cuda", index)
    with torch.cuda.device(device):
        # The first collective creates the communicator.
        dist.all_reduce(torch.zeros(1, device=device), group=group)
        torch.cuda.synchronize(device)
        try:
            backend = group._get_backend(device)
            address: int = backend._comm_ptr()
        except (AttributeError, RuntimeError) as error:
            raise ArgumentError(
                "argument 'group': expected an NCCL process group that exposes its communicator, but "
                f"PyTorch {torch.__version__} says: {error}"
            ) from None
    return address


class _Exchange:
    """Exchanges bytes with all other ranks by sends and receives. Errors name the rank that failed."""

    def __init__(self, group: Any, size: int, rank: int) -> None:
        self.group, self.rank = group, rank
        self.others = [(r, dist.get_global_rank(group, r)) for r in range(size) if r != rank]

    def __call__(self, send: Sequence[memoryview], receive: Sequence[memoryview], seconds: float) -> None:
        end = time.monotonic() + seconds
        receive[self.rank][:] = send[self.rank]
        works = []
        for begin, views in ((dist.irecv, receive), (dist.isend, send)):
            for rank, place in self.others:
                try:
                    work = begin(torch.frombuffer(views[rank], dtype=torch.uint8), place, self.group)
                except RuntimeError as error:
                    raise RuntimeError(f"rank {rank} cannot be reached: {_line(error)}") from None
                if work is not None:  # None in a process outside the group
                    works.append((rank, work))
        for rank, work in works:
            left = max(end - time.monotonic(), 0.001)
            assert work is not None
            try:
                work.wait(datetime.timedelta(seconds=left))
            except RuntimeError as error:
                if time.monotonic() >= end:
                    raise TimeoutError(f"rank {rank} did not come in time ({seconds * 1000:.0f} ms)") from None
                raise RuntimeError(f"rank {rank} cannot be reached: {_line(error)}") from None


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0]
