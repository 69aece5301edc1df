"""Scales that delayed scaling changes, while forwards wait for a backward that casts with those before."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence

import torch

from te_mlir.runtime import Tensor
from te_mlir.torch.arena import Arena, Pool
from te_mlir.torch.states import States

#: Of what waits for a backward, in all threads.
_lock = threading.Lock()


class Scales:
    """The scales that the forward of a program casts with; a backward may make such a cast again.

    places: their pointers'; none where the program changes none. tensors: they themselves.
    names: what the model calls them. waiting: forwards that wait for their backward.
    """

    def __init__(self, states: States, own: Mapping[str, Tensor], places: Sequence[int], names: Sequence[str]) -> None:
        self.states = states
        self.places = list(places)
        self.tensors = [torch.from_dlpack(tensor) for tensor in own.values()] if self.places else []
        self.names = frozenset(names)
        self.waiting: weakref.WeakSet[Lease] = weakref.WeakSet()
        states.users.add(self)
        states.uses += 1
        self._others: tuple[int, weakref.WeakSet[Scales]] = (0, weakref.WeakSet())

    def wait(self, lease: Lease) -> None:
        if self.places:
            with _lock:
                self.waiting.add(lease)

    def discard(self, lease: Lease) -> None:
        if self.places:
            with _lock:
                self.waiting.discard(lease)

    def keep(self) -> None:
        """Before scales change: forwards that wait keep those that they cast with."""
        with _lock:
            users = self.states.users
            if self._others[0] != self.states.uses:
                found = (user for user in users if not user.names.isdisjoint(self.names))
                self._others = self.states.uses, weakref.WeakSet(found)
            waiting = [(other, lease.arena) for other in self._others[1] for lease in other.waiting]
        for other, arena in waiting:
            if arena is not None and not arena.keeps_scales:
                other._copy_to(arena)

    def _copy_to(self, arena: Arena) -> None:
        scales = torch.stack(self.tensors)
        if arena.scales is None:
            # Each where kernels may read it from.
            arena.scales = scales.new_zeros(len(scales), 4)
        arena.scales[:, 0] = scales
        arena.keeps_scales = True


class Lease:
    """An arena between a forward and its backward; free again when either is gone."""

    # Also of one that dynamo makes without a call of __init__.
    arena: Arena | None = None

    def __init__(self, pool: Pool, scales: Scales, arena: Arena) -> None:
        self.pool, self.scales, self.arena = pool, scales, arena
        scales.wait(self)

    def end(self) -> Arena | None:
        """The arena, the first time."""
        arena, self.arena = self.arena, None
        self.scales.discard(self)
        return arena

    def __del__(self) -> None:
        if self.arena is not None:
            self.pool.free.append(self.arena)
