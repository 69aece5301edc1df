"""The few checks that are needed in a call of a step that is like the call before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from te_mlir import arrays, devices, makers
from te_mlir.overlaps import Overlaps, Watch
from te_mlir.program import FLAG


class Quick:
    """A call that was checked, and what must be checked in the next call that is like it.

    names, positional, outs: how its tensors were passed: by name, by position, or in `out`. places: for
    each tensor the indices of its pointers. bytes: for each tensor the bytes that are read or written.
    seen: the addresses of the tensors; a resized storage moves too. settled: whether the step's pointers
    are `seen`. last: the addresses that the step has, or -1 if unknown. watch: the pointers that must not
    overlap. fixed: inputs for which a recorded step is recorded again if they move; the content of others
    that move is copied to `own`. made: names of the results in the order in which a call creates them.
    results: all results, in their order. kept: the results that each call overwrites, or None. stream:
    returns the current stream. address: PyTorch's own function for the address of a tensor. flag: the
    index of the micro-batch flag if no call passes it, or -1. later: its last value.
    """

    def __init__(
        self,
        overlaps: Overlaps,
        device: tuple[int, int],
        args: tuple[Any, ...],
        named: Mapping[str, Any],
        out: Mapping[str, Any],
        guard: Callable[..., bool],
        kept: Mapping[str, Any] | None,
        later: bool,
    ) -> None:
        interface = overlaps.interface
        self.guard, self.positional, self.names, self.outs = guard, len(args), tuple(named), tuple(out)
        tensors = (*args, *named.values(), *out.values())
        self.given = [*interface.inputs[: len(args)], *named]
        carried = {a.carried_input: i for i, a in enumerate(interface.arguments) if a.carried_input >= 0}
        self.places: list[tuple[int, ...]] = []
        self.fixed: list[bool] = []
        for name in self.given:
            index = interface.index[name]
            self.places.append((index, carried[index]) if index in carried else (index,))
            self.fixed.append(index in carried or interface.arguments[index].is_weight)
        written = {a.name: i for i, a in enumerate(interface.arguments) if a.is_result and a.carried_input < 0}
        self.places.extend((written[name],) for name in out)
        self.bytes = [interface.bytes[to[0]] for to in self.places]
        self.address = sys.modules["torch"].Tensor.data_ptr
        self.stream = devices.torch_stream(device)
        self.seen = arrays.torch_addresses()(tensors)
        self.last = self.seen
        self.settled = True
        self.own: dict[int, Any] = {}
        results = [name for name in written if name not in out]
        made = [written[name] for name in results]
        kinds = [(shape, arrays.torch_dtype(dtype), shares) for shape, dtype, shares in map(interface.kind_of, results)]
        self.make = makers.TorchMaker(kinds, tensors[0].device, made)
        self.made = [results[i] for i in self.make.order]
        self.results: dict[str, Any] = dict.fromkeys(written)
        fresh = set(made) if kept is None else set()
        self.watch = Watch(overlaps, [i for i in interface.watched if i not in fresh])
        self.flag = -1 if FLAG in self.given else interface.flag
        self.later = later
        # The storages of the results that are kept.
        storages = [t.untyped_storage() for t in (kept or {}).values()]
        self.storages = list({storage.data_ptr(): storage for storage in storages}.values())
        self.kept = self.where_kept()

    def where_kept(self) -> list[int]:
        storage = sys.modules["torch"].UntypedStorage
        return [*map(storage.data_ptr, self.storages), *map(storage.nbytes, self.storages)]
