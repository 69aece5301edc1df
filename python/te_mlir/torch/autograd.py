"""The forward and backward of a region as one node of autograd."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from te_mlir.errors import ArgumentError
from te_mlir.torch.arena import Arena, Pool
from te_mlir.torch.main_grad import Begin, MainGrads
from te_mlir.torch.places import Places
from te_mlir.torch.scales import Lease, Scales
from te_mlir.torch.signature import Signature
from te_mlir.torch.tensors import dense


class Runs(Protocol):
    """A program in two parts, such as `runner.Loaded`."""

    places: Places
    pool: Pool
    scales: Scales

    def later(self) -> bool: ...

    def run_forward(
        self,
        arena: Arena,
        tensors: Sequence[torch.Tensor],
        addresses: list[int],
        later: bool,
        mains: list[int] | None = None,
        end: int | None = None,
    ) -> list[torch.Tensor]: ...

    def run_backward(
        self, arena: Arena, later: bool, saved: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]: ...


class Differentiated(Protocol):
    """A region that a node of autograd calls, such as `runner.Region`."""

    signature: Signature
    main_grads: MainGrads
    anchor: torch.Tensor
    is_first_microbatch: bool | None
    reached: tuple[frozenset[int], ...]

    def load(self, training: bool) -> Runs: ...


class Call(torch.autograd.Function):
    """A call of a region that is differentiated; the tensors that need gradients come last."""

    @staticmethod
    def forward(
        ctx: Any, region: Differentiated, tensors: tuple[torch.Tensor, ...], addresses: list[int], *_: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        loaded, sums, first = region.load(True), region.main_grads, region.is_first_microbatch
        mains, where = sums.of_call(tensors)
        ctx.shared = [(own.main_grad, sums.of(i, tensors[i])) for i, own in sums.shared.items()]
        later = loaded.later()
        arena = loaded.pool.take()
        ctx.lease = Lease(loaded.pool, loaded.scales, arena)
        results = loaded.run_forward(arena, tensors, addresses, later, where)
        if first:
            for index in sums.begun:
                sums.of_owner(index, tensors[index]).zero_()
        spans = [(where[place], where[place] + size) for place, size in sums.alone]
        ctx.begin = None
        late = [k for k, (place, _) in enumerate(sums.alone) if place in loaded.places.begun_late]
        if first and late:
            ctx.begin = Begin([mains[sums.alone[k][0]] for k in late], [spans[k] for k in late])
        # For parts that are shared, and for columns: the `main_grad` of the whole parameter, which was set to 0 before.
        whole = [sums.of_owner(i, tensors[i]) for i in sums.shared]
        ctx.written = spans + [(grad.data_ptr(), grad.data_ptr() + 4 * grad.numel()) for grad in whole]
        ctx.owners = [tensors[i] for _, i in sums.whole]
        ctx.sums = [mains[k] for k, _ in sums.whole]
        ctx.set_materialize_grads(False)
        ctx.region, ctx.loaded, ctx.later, ctx.mains = region, loaded, later, mains
        # Autograd keeps these tensors alive, and notices if they are changed in place.
        places = loaded.places
        ctx.save_for_backward(*[tensors[i] for i in places.saved_inputs], *[results[i] for i in places.saved_outputs])
        constants = region.signature.constants
        if constants:
            ctx.mark_non_differentiable(*[results[i] for i in constants])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> Any:
        region = ctx.region
        if ctx.lease.arena is None:
            raise ArgumentError(
                "expected one backward for each forward, but got a second; what the forward saved is freed after the "
                "first, so add up the losses of a call before their backward, or call the forward again (retain_graph has "
                "no effect here)"
            )
        # Raises if a tensor was changed in place since the forward.
        saved = ctx.saved_tensors
        given = _cotangents(region, cotangents)
        now = [getattr(owner, "main_grad", None) for owner in ctx.owners]
        if any(map(operator.is_not, now, ctx.sums)):
            places = (i for (_, i), a, b in zip(region.main_grads.whole, now, ctx.sums) if a is not b)
            raise ArgumentError(
                f"argument '{region.signature.inputs[next(places)].name}.main_grad': expected the tensor of the "
                "forward, but there is another before its backward; set it to zero in place"
            )
        for own, _ in ctx.shared:
            own.zero_()
        arena = ctx.lease.end()
        assert arena is not None, "this is the first backward"
        begun = ctx.begin.end() if ctx.begin else ()
        if ctx.later and ctx.written:
            Begin.clear(ctx.written)
        try:
            gradients = ctx.loaded.run_backward(arena, ctx.later, saved, given)
        finally:
            ctx.loaded.pool.give(arena)
        for part, main in (*ctx.shared, *begun):
            main.add_(part)
        Begin.report(ctx.written)
        # This is the case with create_graph.
        if torch.is_grad_enabled():
            gradients = _Once.apply(region.anchor, *gradients)
        missing = {i for i in region.signature.through if cotangents[i] is None}
        if missing or frozenset() in region.reached:
            # As in PyTorch, an input has no gradient, and not zeros, if none of the results that depend on it has one.
            gradients = [None if reached <= missing else g for g, reached in zip(gradients, region.reached)]
        return (None, None, None, *([None] if region.signature.mains else []), *gradients)


def _cotangents(region: Differentiated, cotangents: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    """The cotangents that the backward takes, in its types and layouts; raises ArgumentError for others."""
    signature = region.signature
    for index, cotangent in enumerate(cotangents):
        if cotangent is not None and index not in signature.through:
            spec = signature.outputs[index]
            raise ArgumentError(
                f"result '{spec.name}' of shape {list(spec.shape)}: expected a gradient only at the results without "
                "dimensions of its graph (the loss), but got one at this result; compile with differentiate_outputs='all'"
            )
    given = []
    for index in signature.through:
        spec, cotangent = signature.outputs[index], cotangents[index]
        if cotangent is None:
            cotangent = torch.zeros(spec.shape, dtype=spec.dtype, device=signature.device)
        if torch._C._functorch.is_batchedtensor(cotangent) or torch._C._functorch.is_legacy_batchedtensor(cotangent):
            raise ArgumentError(
                f"result '{spec.name}': expected one gradient of {list(spec.shape)}, but got several at once "
                "(is_grads_batched, vmap); call the backward for each"
            )
        given.append(dense(cotangent.to(spec.dtype)))
    return given


_quick_apply = super(torch.autograd.Function, Call).apply


def apply(*arguments: Any) -> Any:
    """Call.apply. Without functorch, this skips its search for functorch's tensors, which costs 1 us for each argument."""
    return (Call.apply if torch._C._are_functorch_transforms_active() else _quick_apply)(*arguments)


class _Once(torch.autograd.Function):
    """Returns gradients unchanged, and raises if they are differentiated."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(gradient.detach() for gradient in gradients)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise ArgumentError(
            "expected a gradient of results, but got one of a gradient (create_graph=True); te has no second derivatives"
        )
