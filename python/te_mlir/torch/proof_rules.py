"""Rules of the proof for elementwise operations, rows, layers, attention and losses."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from te_mlir.torch import expert_ops, varlen
from te_mlir.torch.adapter import RESHAPES, SPLITS, SWAPS, given, name_of
from te_mlir.torch.collectives import SUM, is_collective
from te_mlir.torch.expert_ops import ids_of
from te_mlir.torch.facts import ANY, COPY, ZERO, Axis, Content, Fact, Factor, aligned, axis_of, whole
from te_mlir.torch.proof import Proof, Unprovable
from te_mlir.torch.proof_sinks import INFINITE, SHARES, Between, sinks_of
from te_mlir.torch.proof_views import FILLED, Views, replaced, sizes_of

#: Ops whose value has the elements of their operand in their order.
_SAME = (
    *("contiguous", "clone", "alias", "detach", "lift_fresh_copy", "dropout", "feature_dropout", "alpha_dropout"),
    *("to", "_to_copy", "type_as", "float", "half", "bfloat16", "double", "int", "long", "bool"),
)
#: Types in which indices and positions are exact.
_EXACT = (torch.int64, torch.int32, torch.float64, torch.float32)
#: Ops between labels and a loss.
_FROM_LABELS = (*_SAME, *RESHAPES, "slice", "pad", "constant_pad_nd")
_GROWING = ("add", "sub")
_AND = ("__and__", "bitwise_and", "logical_and")
_COMPARED: dict[str, Callable[[Content, Content], bool | None]] = {
    "lt": lambda a, b: True if a.hi < b.lo else False if a.lo >= b.hi else None,
    "le": lambda a, b: True if a.hi <= b.lo else False if a.lo > b.hi else None,
    "gt": lambda a, b: True if a.lo > b.hi else False if a.hi <= b.lo else None,
    "ge": lambda a, b: True if a.lo >= b.hi else False if a.hi < b.lo else None,
}
_REDUCTIONS = (
    "sum",
    "mean",
    "amax",
    "amin",
    "any",
    "all",
    "logsumexp",
    "var",
    "std",
    "prod",
    "norm",
    "linalg_vector_norm",
    "argmax",
    "argmin",
)
_SOFTMAX = (*SHARES, "log_softmax", "_log_softmax")
#: Ops of which an element depends on elements before it along an axis.
_PREFIX = ("cumsum", "cumprod", "diff")
_LOSSES = ("cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d")


def labels_of(flat: GraphModule) -> dict[Node, float]:
    """The arguments of a graph that are labels of a cross entropy, with the label that is ignored."""
    found = {}
    for node in flat.graph.nodes:
        if node.op == "call_function" and name_of(node) in _LOSSES:
            arguments = given(node)
            label = arguments["target"]
            while label.op == "call_function" and name_of(label) in _FROM_LABELS:
                label = label.args[0]
            if label.op == "placeholder" and not label.meta["val"].is_floating_point():
                found[label] = float(arguments["ignore_index"])
    return found


def prove(full: GraphModule, used: GraphModule, arguments: Sequence[Fact], missing: int, scaled: bool) -> Proof:
    """Compares a graph with the same graph of smaller arguments; raises Unprovable.

    arguments: what is known of the arguments of `full`. missing: by how much a size is smaller. scaled: whether layers are
    quantised with scales that depend on several rows, so that padding has to be 0 where it enters a layer.
    """
    return Rules(full, used, arguments, missing, scaled).run()


class Rules(Views):
    """The rules of all ops."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        #: What is known of attention weights beside sinks, and of the values that they are computed from.
        self._beside_sinks: dict[Node, Any] = {}

    def rule(self, node: Node) -> Callable[[Node, Node], Any] | None:
        if node in self._beside_sinks:
            return self._known
        if not isinstance(node.target, torch._ops.OpOverload):
            return None
        name, tags = name_of(node), node.target.tags
        elementwise = torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags
        # PyTorch does not tag `where` with numbers. With a condition alone, it returns indices.
        elementwise = elementwise or (name == "where" and len(node.args) == 3)
        found = _RULES.get(name) or (Rules._pointwise if elementwise else None)
        if varlen.is_call(node):
            found = Rules._packed
        if is_collective(node):
            found = Rules._same
        if name.startswith("_assert") and not node.users:
            found = Rules._nothing
        return None if found is None else functools.partial(found, self)

    def _known(self, node: Node, other: Node) -> Any:
        self._same_literals(node, other)
        return self._beside_sinks[node]

    def _nothing(self, node: Node, other: Node) -> Fact:
        return whole(())

    # Elementwise operations

    def _same(self, node: Node, other: Node) -> Fact:
        fact: Fact = self.facts[node.args[0]]  # type: ignore[index]
        dtype, before = node.meta["val"].dtype, node.args[0].meta["val"].dtype  # type: ignore[union-attr]
        if dtype is not before:
            cast = _truth if dtype is torch.bool else _rounded if dtype not in _EXACT else lambda pad: pad
            axes = tuple(tuple(f._replace(pad=cast(f.pad)) for f in axis) for axis in fact.axes)
            return Fact(axes, fact.lo, fact.hi) if dtype in _EXACT else Fact(axes)
        if "dropout" in name_of(node) or node.target is SUM:
            kept = [tuple(f if f.pad == ZERO else f._replace(pad=ANY) for f in axis) for axis in fact.axes]
            return Fact(tuple(axis_of(axis) for axis in kept))
        return fact

    def _pointwise(self, node: Node, other: Node) -> Fact | None:
        self._same_literals(node, other)
        operands = node.all_input_nodes
        facts = [self.facts[n] for n in operands]
        rows = aligned(facts, node.meta["val"].dim())
        if rows is None:
            return None
        axes: list[Axis] = []
        for axis, own in rows:
            factors = []
            for place, factor in enumerate(axis):
                if factor.is_padded:
                    pads = [one[place].pad if one else None for one in own]
                    factor = factor._replace(pad=self._content(node, operands, facts, pads))
                factors.append(factor)
            axes.append(axis_of(factors))
        bounds = [self._moved(node, Content(fact.lo, fact.hi)) for fact in facts[:1] if len(facts) == 1]
        lo, hi = bounds[0][:2] if bounds else ANY[:2]
        return Fact(tuple(axes), lo, hi)

    def _moved(self, node: Node, content: Content) -> Content:
        """The bounds of an operand after an addition of a number."""
        numbers = [value for value in node.args[1:] if isinstance(value, (int, float))]
        if name_of(node) not in _GROWING or len(numbers) != 1 or node.kwargs or not isinstance(node.args[0], Node):
            return ANY
        by = numbers[0] if name_of(node) == "add" else -numbers[0]
        return Content(content.lo + by, content.hi + by)

    def _content(
        self, node: Node, operands: Sequence[Node], facts: Sequence[Fact], pads: Sequence[Content | None]
    ) -> Content:
        """What an elementwise operation computes from padding; None in `pads` for operands without this axis."""
        name = name_of(node)
        if (name == "mul" or name in _AND) and ZERO in pads:
            return ZERO
        if name in _COMPARED and len(operands) == 2 and list(operands) == list(node.args[:2]):
            a, b = (pad or Content(fact.lo, fact.hi) for pad, fact in zip(pads, facts))
            found = _COMPARED[name](a, b)
            if found is not None:
                return Content(float(found), float(found))
        known = [pad for pad in pads if pad is not None]
        if any(pad.is_number for pad in known):
            result = self._evaluated(node, operands, pads)
            if len(known) == len(pads) and all(pad.is_number for pad in known) and result is not None:
                return Content(result, result)
            return ANY
        if len(operands) == 1 and known[0].lo > -math.inf:
            return self._moved(node, known[0])
        return COPY if all(pad.copies for pad in known) else ANY

    def _evaluated(self, node: Node, operands: Sequence[Node], pads: Sequence[Content | None]) -> float | None:
        """The result for padding that is a number. Raises Unprovable if it or its gradient is not finite."""
        numbers: dict[Node, torch.Tensor] = {}
        for operand, pad in zip(operands, pads):
            dtype = operand.meta["val"].dtype
            value = pad.lo if pad is not None and pad.is_number else 1.0
            numbers[operand] = torch.tensor(value).to(dtype).requires_grad_(dtype.is_floating_point)
        args, kwargs = torch.fx.node.map_arg((node.args, dict(node.kwargs)), numbers.__getitem__)
        kwargs = {name: value for name, value in kwargs.items() if name != "device"}
        with torch.enable_grad(), torch.device("cpu"):
            try:
                result = node.target(*args, **kwargs)  # type: ignore[operator]
            except (RuntimeError, TypeError) as error:
                raise Unprovable(node, "there is no rule for the padding of its operands") from error
            leaves = [n for n in numbers.values() if n.requires_grad]
            found = [result]
            if result.requires_grad:
                found += [g for g in torch.autograd.grad(result, leaves, allow_unused=True) if g is not None]
        if not all(bool(torch.isfinite(value).all()) for value in found):
            raise Unprovable(node, "it, or its gradient, is not finite for padding of zeros")
        return float(result.detach())

    # Rows

    def _row(self, node: Node, axes: Sequence[int] | None) -> Fact:
        """The first operand of an operation over some axes; they have no padding."""
        source = node.args[0]
        fact: Fact = self.facts[source]  # type: ignore[index]
        if not fact.is_whole(*(range(len(fact.axes)) if axes is None else axes)):
            raise Unprovable(node, "it is computed over an axis with padding")
        return fact

    def _softmax(self, node: Node, other: Node) -> Fact:
        axis = given(node)["dim"] % node.meta["val"].dim()
        fact: Fact = self.facts[node.args[0]]  # type: ignore[index]
        if not fact.is_whole(axis):
            self._hide(node, node.args[0], axis)
        return self._weights(fact, axis)

    def _weights(self, fact: Fact, axis: int) -> Fact:
        """A softmax of scores over an axis. Padded keys have no weight."""
        weights = fact.filled(ANY)
        keys = axis_of([f._replace(pad=ZERO) if f.is_padded else f for f in weights.axes[axis]])
        return Fact(replaced(weights.axes, axis, keys))

    def _concatenated(self, node: Node, other: Node) -> Any:
        """Values that follow one another, or scores beside sinks, which follow the padding of keys."""
        found = sinks_of(node) if name_of(node) == "cat" else None
        fact: Fact | None = self.facts[found.scores] if found is not None else None
        if found is None or fact is None or fact.is_whole(-1):
            return self._joined(node, other)
        last = len(fact.axes) - 1
        if aligned([Fact(one.axes[:-1]) for one in (fact, self.facts[found.sinks])], last) is None:
            return None
        self._hide(node, found.scores, last)
        between = Between(fact.padded)
        several = (n for n in found.between if isinstance(n.meta["val"], (list, tuple)))
        self._beside_sinks |= dict.fromkeys(found.between, between) | dict.fromkeys(several, [between] * 2)
        self._beside_sinks |= dict.fromkeys(found.weights, self._weights(fact, last))
        return between

    def _hide(self, node: Node, source: Any, axis: int) -> None:
        """Repairs the mask of the scores that a softmax, or a `cat` before it, reads, so that it hides the padding of an axis."""
        scores = _before(source, masked=True)
        from_end = axis - node.meta["val"].dim()
        hides = name_of(node) in (*SHARES, "cat")
        if hides and name_of(scores) == "add" and not scores.kwargs and len(scores.users) == 1:
            for mask in (n for n in scores.args[::-1] if isinstance(n, Node) and n.meta["val"].is_floating_point()):
                own = self.facts[mask].axes
                if len(own) >= -from_end and not self.facts[mask].is_whole(from_end):
                    self._with(scores, mask, -math.inf, [len(own) + from_end])
                    return
        raise Unprovable(node, "it is computed over an axis with padding, which no mask that is added hides")

    def _norm(self, node: Node, other: Node) -> Fact:
        arguments = given(node)
        if not all(self.facts[n].padded == [] for n in node.all_input_nodes[1:]):
            raise Unprovable(node, "its weight has padding")
        fact = self._row(node, range(-len(arguments["normalized_shape"]), 0))
        keeps = fact.is_zero and arguments.get("bias") is None and arguments["eps"] != 0
        return fact if keeps else fact.filled(ANY)

    def _reduced(self, node: Node, other: Node) -> Fact:
        arguments, name = given(node), name_of(node)
        source = node.args[0]
        fact: Fact = self.facts[source]  # type: ignore[index]
        dims = arguments.get("dim")
        rank = len(fact.axes)
        axes = [a % rank for a in ([dims] if isinstance(dims, int) else dims or range(rank))]
        if name == "sum" and not fact.is_whole(*axes):
            fact = self._with(node, source, 0.0, axes, stops=True)  # type: ignore[arg-type]
        elif not fact.is_whole(*axes):
            raise Unprovable(node, "it is computed over an axis with padding")
        keeps = name in ("sum", "mean", "amax", "amin") and fact.is_zero
        fact = fact if keeps else fact.filled(ANY)
        keep = arguments.get("keepdim", False)
        return Fact(tuple(() if a in axes else axis for a, axis in enumerate(fact.axes) if keep or a not in axes))

    def _largest(self, node: Node, other: Node) -> Any:
        """The largest elements along an axis, and their places; or the larger one of each two elements."""
        arguments = given(node)
        if "other" in arguments:
            return self._pointwise(node, other)
        if "dim" not in arguments:
            raise Unprovable(node, "there is no rule for the padding of its operands")
        fact = self._row(node, [arguments["dim"]]).filled(ANY)
        kept = [()] if arguments["keepdim"] else []
        axis = arguments["dim"] % len(fact.axes)
        return [Fact((*fact.axes[:axis], *kept, *fact.axes[axis + 1 :]))] * 2

    # Layers

    def _layer_input(self, node: Node, source: Node) -> Fact:
        """What is known of the input of a layer, whose padding is 0 if it may change the scale of its cast."""
        return self._with(node, source, 0.0) if self.scaled and self.facts[source].padded else self.facts[source]

    def _linear(self, node: Node, other: Node) -> Fact:
        arguments = given(node)
        source, weight = arguments["input"], arguments["weight"]
        others = [weight, *([arguments["bias"]] if arguments["bias"] is not None else [])]
        if any(self.facts[n].padded for n in others) or not self.facts[source].is_whole(-1):
            raise Unprovable(node, "its weight, or an axis that it contracts, has padding")
        return self._product(self._layer_input(node, source), self.facts[weight].axes[:-1], arguments["bias"])

    def _product(self, fact: Fact, columns: tuple[Axis, ...], bias: Any) -> Fact:
        keeps = fact.is_zero and bias is None
        return Fact((fact if keeps else fact.filled(ANY)).axes[:-1] + columns)

    def _matmul(self, node: Node, other: Node) -> Fact | None:
        arguments = given(node)
        source: Node = arguments["mat1" if "mat1" in arguments else "self"]
        right = arguments["mat2"] if "mat2" in arguments else arguments["other"]
        bias = arguments["self"] if name_of(node) == "addmm" else None
        a, b = self.facts[source], self.facts[right]
        if bias is not None and self.facts[bias].padded:
            raise Unprovable(node, "its bias has padding")
        if not b.padded and len(b.axes) == 2:
            if not a.is_whole(-1):
                raise Unprovable(node, "an axis that it contracts has padding")
            return self._product(self._layer_input(node, source), b.axes[1:], bias)
        if len(a.axes) != len(b.axes) or len(a.axes) < 3:
            raise Unprovable(node, "there is no rule for the padding of its operands")
        if not a.is_whole(-1):
            # A softmax passes no gradient to padding without weight.
            weights = _before(source)
            is_softmax = name_of(weights) in SHARES or weights in self._beside_sinks
            a = self._with(node, source, 0.0, [len(a.axes) - 1], stops=not is_softmax)
        rows = aligned([Fact(a.axes[:-2]), Fact(b.axes[:-2])], len(a.axes) - 2)
        if rows is None:
            return None
        return Fact((*(axis for axis, _ in rows), a.axes[-2], b.axes[-1])).filled(ANY)

    # Experts

    def _choice(self, node: Node, other: Node) -> Fact:
        """The scores, or the ids, of the experts that each token chooses."""
        self._same_literals(node, other)
        if any(self._is_padded(n) for n in node.all_input_nodes[1:]):
            raise Unprovable(node, "its bias has padding")
        fact = self._row(node, [-1]).filled(ANY)
        return Fact((fact.axes[0], *whole(node.meta["val"].shape[1:]).axes))

    def _of_experts(self, node: Node, other: Node) -> Fact:
        """Rows of experts, or their sums: padded tokens have no experts, so that the rows of the others stay where they are."""
        ids = ids_of(node)
        assert ids is not None
        own = self._with(node, ids, -1.0)
        others = [n for n in node.all_input_nodes if n is not ids]
        if any(not self.facts[n].is_whole(*range(1, len(self.facts[n].axes))) for n in (ids, *others)):
            raise Unprovable(node, "a row of its operands has padding")
        if node.target is expert_ops.LINEAR and any(self._is_padded(n) for n in others[1:]):
            raise Unprovable(node, "its weights have padding")
        shape, used = node.meta["val"].shape, other.meta["val"].shape
        if node.target is expert_ops.SUM:
            rows = own.axes[0] if node.args[2] is not None else axis_of([Factor(used[0], shape[0])])
        else:
            rows = axis_of([Factor(used[0], shape[0])])
        return Fact((rows, *whole(shape[1:]).axes)).filled(ZERO)

    def _convolved(self, node: Node, other: Node) -> Fact | None:
        """A convolution of images, of which the batch may have padding."""
        fact = self._row(node, range(1, node.args[0].meta["val"].dim()))  # type: ignore[union-attr]
        if any(self._is_padded(n) for n in node.all_input_nodes[1:]):
            return None
        return Fact((*fact.filled(ANY).axes[:1], *whole(node.meta["val"].shape[1:]).axes))

    def _embedding(self, node: Node, other: Node) -> Fact:
        arguments = given(node)
        weight, indices = arguments["weight"], arguments["indices"]
        if self.facts[weight].padded:
            raise Unprovable(node, "its table has padding")
        fact = self._indices(node, indices, weight.meta["val"].shape[0])
        self.facts[node] = Fact(fact.filled(ANY).axes + self.facts[weight].axes[1:])
        # Zeros stay zeros in most models, so the inputs of layers need no repair.
        found = [self._with(user, node, 0.0) for user in node.users] if self.scaled else []
        return found[0] if found else self.facts[node]

    def _indexed(self, node: Node, other: Node) -> Fact | None:
        arguments = given(node)
        source, indices = arguments["self"], arguments["indices"]
        fact: Fact = self.facts[source]
        count = len(indices)
        if any(not isinstance(n, Node) or n.meta["val"].dtype is torch.bool for n in indices):
            raise Unprovable(node, "it is indexed with a mask, or not from its first axis on")
        for axis, index in enumerate(indices):
            # A negative index counts from the end.
            if not fact.is_whole(axis) and self.facts[index].lo < 0:
                raise Unprovable(node, "its indices may count from the end of an axis with padding")
        own = [self._indices(node, n, source.meta["val"].shape[axis]) for axis, n in enumerate(indices)]
        rank = node.meta["val"].dim() - (len(fact.axes) - count)
        rows = aligned(own, rank)
        if rows is None:
            return None
        rest = Fact(fact.axes[count:]).filled(ANY).axes
        return Fact(Fact(tuple(axis for axis, _ in rows)).filled(ANY).axes + rest)

    def _gathered(self, node: Node, other: Node) -> Fact | None:
        arguments = given(node)
        fact: Fact = self.facts[arguments["self"]]
        axis = arguments["dim"] % len(fact.axes)
        if not fact.is_whole(axis):
            raise Unprovable(node, "it is indexed along an axis with padding")
        found = self._indices(node, arguments["index"], arguments["self"].meta["val"].shape[axis])
        pairs = aligned([Fact(replaced(one.axes, axis, ())) for one in (fact, found)], len(fact.axes))
        return None if pairs is None else found.filled(ANY)

    def _attention(self, node: Node, other: Node) -> Fact | None:
        arguments = given(node)
        q, k, v = (self.facts[arguments[n]] for n in ("query", "key", "value"))
        mask = arguments["attn_mask"]
        if {len(fact.axes) for fact in (q, k, v)} != {len(q.axes)} or not all(f.is_whole(-1) for f in (q, k, v)):
            raise Unprovable(node, "there is no rule for the padding of its operands")
        if not k.is_whole(-2):
            causal = arguments["is_causal"] and q.axes[-2] and sizes_of(q.axes[-2]) == sizes_of(k.axes[-2])
            if mask is not None:
                hidden = mask.meta["val"].dtype
                fill = 0.0 if hidden is torch.bool else torch.finfo(hidden).min
                if self.facts[mask].is_whole(-1):
                    raise Unprovable(node, "its mask is the same for all keys, some of which are padding")
                self._with(node, mask, fill, [len(self.facts[mask].axes) - 1])
            elif not causal:
                raise Unprovable(node, "its queries see padding; a causal attention, or one with a mask, hides it")
        own = Fact(q.axes[:-1] + k.axes[-2:-1])
        batches = [Fact(fact.axes[:-2][:1]) for fact in (q, k, v)]
        heads = all(f.is_whole(*range(1, len(f.axes) - 2)) for f in (q, k, v))
        masks = mask is None or aligned([own, self.facts[mask]], len(own.axes))
        if aligned(batches, 1) is None or not heads or not masks:
            return None
        return Fact(q.axes[:-1] + v.axes[-1:]).filled(ANY)

    def _packed(self, node: Node, other: Node) -> list[Fact | None]:
        """Attention of documents: padding is after the last boundary, and belongs to no document."""
        self._same_literals(node, other)
        reason = varlen.unsupported(node)
        if reason is not None:
            raise Unprovable(node, reason)
        q, k, v = (self.facts[n] for n in node.args[:3])  # type: ignore[index]
        if not all(fact.is_whole(*range(1, len(fact.axes))) for fact in (q, k, v)) or any(
            self._is_padded(n) for n in node.all_input_nodes if n not in node.args[:3]
        ):
            raise Unprovable(node, "there is no rule for the padding of its operands")
        return [Fact(q.axes[:-1] + v.axes[-1:]).filled(ANY), *(None for _ in node.meta["val"][1:])]

    def _loss(self, node: Node, other: Node) -> Fact | None:
        arguments = given(node)
        logits, target = self.facts[arguments["self"]], arguments["target"]
        if target.meta["val"].is_floating_point() or arguments["reduction"] == 0 or not logits.is_whole(1):
            raise Unprovable(node, "its targets are no labels, or it is not a mean or a sum")
        labels = self._with(node, target, float(arguments["ignore_index"]))
        rows = aligned([Fact(logits.axes[:1] + logits.axes[2:]), labels], len(labels.axes))
        return None if rows is None else Fact(())


_Rule = Callable[[Rules, Node, Node], Any]

_RULES: dict[str, _Rule] = {
    # PyTorch does not tag these.
    **dict.fromkeys(("__and__", "__or__", "__xor__"), Rules._pointwise),
    **dict.fromkeys(_SAME, Rules._same),
    **dict.fromkeys(RESHAPES, Rules._reshaped),
    **dict.fromkeys(SWAPS, Rules._swapped),
    "permute": Rules._permuted,
    **dict.fromkeys(("expand", "broadcast_to", "expand_as"), Rules._expanded),
    **dict.fromkeys(("tril", "triu"), Rules._triangle),
    "slice": Rules._sliced,
    "select": Rules._selected,
    **dict.fromkeys(SPLITS, Rules._split),
    **dict.fromkeys(("cat", "stack"), Rules._concatenated),
    **dict.fromkeys(("pad", "constant_pad_nd"), Rules._appended),
    **dict.fromkeys(_PREFIX, Rules._prefix),
    "arange": Rules._counted,
    **dict.fromkeys((*FILLED, "full", "full_like", "new_full"), Rules._filled),
    **dict.fromkeys(_SOFTMAX, Rules._softmax),
    **dict.fromkeys(("rms_norm", "layer_norm"), Rules._norm),
    **dict.fromkeys(_REDUCTIONS, Rules._reduced),
    **dict.fromkeys(("max", "min"), Rules._largest),
    "linear": Rules._linear,
    **dict.fromkeys(("matmul", "mm", "bmm", "addmm"), Rules._matmul),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), Rules._convolved),
    "embedding": Rules._embedding,
    "index": Rules._indexed,
    "gather": Rules._gathered,
    **dict.fromkeys(("expert_probs", "expert_ids"), Rules._choice),
    **dict.fromkeys(("expert_rows", "expert_linear", "expert_sum"), Rules._of_experts),
    "scaled_dot_product_attention": Rules._attention,
    **dict.fromkeys(_LOSSES, Rules._loss),
}


def _before(node: Any, masked: bool = False) -> Node:
    """The value before casts, copies and dropouts. masked: before those that keep -infinity, of values with one user."""
    while name_of(node) in _SAME and not (masked and (len(node.users) > 1 or node.meta["val"].dtype not in INFINITE)):
        node = node.args[0]
    return node  # type: ignore[no-any-return]


def _truth(pad: Content) -> Content:
    if pad.is_number or pad.lo > 0 or pad.hi < 0:
        truth = float(pad != ZERO)
        return Content(truth, truth)
    return pad if pad.copies else ANY


def _rounded(pad: Content) -> Content:
    return pad if pad.copies or pad == ZERO else ANY
