"""Keeps the scales of a forward for its backward, if delayed scaling changes them in between."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence

import torch

from te_mlir.runtime import Tensor
from te_mlir.torch.arena import Arena, Pool
from te_mlir.torch.states import States

#: Protects the forwards that wait for a backward, in all threads.
_lock = threading.Lock()


class Scales:
    """The scales that the forward of a program casts with; a backward may repeat such a cast.

    places: the indices of their pointers; empty if the program changes no scales. tensors: the
    scales. names: their names in the model. waiting: forwards that wait for their backward.
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
        """Copies the scales for all forwards that wait. Call it before the scales change."""
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
            # A row for each scale, so that each has an address that kernels can read from.
            arena.scales = scales.new_zeros(len(scales), 4)
        arena.scales[:, 0] = scales
        arena.keeps_scales = True


class Lease:
    """An arena between a forward and its backward; it is free again after the backward, or if the forward is dropped."""

    # A class attribute, because dynamo creates objects without calling __init__.
    arena: Arena | None = None

    def __init__(self, pool: Pool, scales: Scales, arena: Arena) -> None:
        self.pool, self.scales, self.arena = pool, scales, arena
        scales.wait(self)

    def end(self) -> Arena | None:
        """Returns the arena at the first call, and None later."""
        arena, self.arena = self.arena, None
        self.scales.discard(self)
        return arena

    def __del__(self) -> None:
        if self.arena is not None:
            self.pool.give(self.arena)
