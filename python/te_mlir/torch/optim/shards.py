"""Parameters that are sharded over processes (DTensor), as by `fully_shard`: each process updates its own part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from te_mlir.errors import ArgumentError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.tensor import DTensor


def as_dtensor(tensor: torch.Tensor) -> DTensor | None:
    """The tensor if it is a DTensor. Raises ArgumentError for other tensors that have no memory of their own."""
    if not is_traceable_wrapper_subclass(tensor):
        return None
    from torch.distributed.tensor import DTensor

    if not isinstance(tensor, DTensor):
        raise ArgumentError(f"expected tensors in memory of their own, but got a {type(tensor).__name__}")
    if any(placement.is_partial() for placement in tensor.placements):
        raise ArgumentError(
            f"expected a DTensor that is sharded or replicated, but got one with placements {tensor.placements}"
        )
    return tensor


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that this process has."""
    sharded = as_dtensor(tensor)
    return tensor if sharded is None else local_of(sharded)


def local_of(sharded: DTensor) -> torch.Tensor:
    """The part of a DTensor that this process has."""
    part = sharded.to_local()
    # A collective that still runs; its result is what `wait` returns.
    return part.wait() if hasattr(part, "wait") else part


def groups_of(tensor: torch.Tensor) -> tuple[ProcessGroup, ...]:
    """The groups of processes over which sums over the parts of a tensor are sums over the tensor.

    None in a process that is outside of the tensor's mesh.
    """
    sharded = as_dtensor(tensor)
    if sharded is None or sharded.device_mesh.get_coordinate() is None:
        return ()
    mesh = sharded.device_mesh
    return tuple(mesh.get_group(dim) for dim in _sharded_dims(sharded))


def check_backends(groups: Iterable[tuple[ProcessGroup, ...]], device: torch.device) -> None:
    """Raises ArgumentError if groups of processes cannot sum tensors on a device, as those of NCCL on a CPU."""
    import torch.distributed

    for group in (group for each in groups for group in each):
        # For each type of device, the backend.
        config = torch.distributed.get_backend_config(group)
        if device.type not in (pair.split(":")[0] for pair in config.split(",")):
            raise ArgumentError(
                f"expected process groups that sum the squares of gradients on '{device.type}', where the parameters are, "
                f"but got one of '{config}'; start torch.distributed with the backend 'cpu:gloo,cuda:nccl'"
            )


def part_of(tensor: torch.Tensor) -> int:
    """Which part of the tensor this process has; equal in processes that have the same part."""
    sharded = as_dtensor(tensor)
    found = 0
    if sharded is not None:
        for dim in _sharded_dims(sharded):
            found = found * sharded.device_mesh.size(dim) + sharded.device_mesh.get_local_rank(dim)
    return found


def _sharded_dims(sharded: DTensor) -> list[int]:
    """The dimensions of the mesh over which the tensor is sharded, also in strides: such a placement is no `Shard`."""
    return [dim for dim, placement in enumerate(sharded.placements) if not placement.is_replicate()]


def check_alike(tensor: torch.Tensor, other: torch.Tensor, what: str) -> None:
    """Raises ArgumentError if `other` is not sharded as `tensor` is. what: names `other`."""
    one, two = as_dtensor(tensor), as_dtensor(other)
    if (one is None) != (two is None) or (
        one is not None and two is not None and (one.device_mesh, one.placements) != (two.device_mesh, two.placements)
    ):
        raise ArgumentError(f"expected {what} sharded as its parameter, {_text(one)}, but got {_text(two)}")


def _text(tensor: DTensor | None) -> str:
    return "a tensor" if tensor is None else f"a DTensor with placements {tensor.placements} on {tensor.device_mesh}"
