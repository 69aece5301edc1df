"""The parameters that tensors of a call are the local parts of, if the parameters are sharded over processes."""

from __future__ import annotations

from typing import Any

import torch


def local_part(owner: Any) -> torch.Tensor:
    """The part of a DTensor that this process has. Gradients of it reach the DTensor, with its placements."""
    part: Any = owner.to_local()
    if part.grad_fn is None:
        # Without gradients, this may be a tensor of the DTensor itself.
        part = part.detach()
    part.te_owner = owner
    return part


def owner_of(tensor: torch.Tensor) -> torch.Tensor:
    """The DTensor that `local_part` took a tensor from; the tensor itself, if there is none."""
    owner: torch.Tensor = getattr(tensor, "te_owner", tensor)
    return owner
