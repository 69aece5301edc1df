"""Rewrites mixtures of experts in an ATen graph as ops that are compiled.

Models sort the ids of the experts that their tokens chose, look up the rows of the tokens in that order, multiply them
by `grouped_mm`, and look up or add the results in the order of tokens. Here, the rows of each expert begin at a multiple
of `ALIGNMENT` from the first product to the last, and the ids alone say where they are, so that nothing is sorted.
"""

from __future__ import annotations

import operator
from collections.abc import Set
from typing import Any

import torch
from torch.fx import Graph, Node

from te_mlir.frontend.experts import Grouped, Routing, rows_for
from te_mlir.torch.adapter import CASTS, SPLITS, name_of
from te_mlir.torch.adapter import given as arguments_of
from te_mlir.torch.effects import frozen_nodes
from te_mlir.torch.expert_ops import LINEAR, ROWS, SUM
from te_mlir.torch.nodes import call, called, cast
from te_mlir.torch.orders import (
    counted,
    divided,
    index_of,
    order_of,
    without_casts,
    without_views,
    without_widening,
)
from te_mlir.torch.patterns import is_op
from te_mlir.torch.routers import choose

_aten = torch.ops.aten

#: Products of groups of rows.
PRODUCTS = ("aten._grouped_mm.default", "transformers.grouped_mm_fallback.default")
#: Ops whose result has a row for each row of their operands, in which no other row matters.
_OF_ROWS = (
    *("add", "sub", "rsub", "mul", "div", "neg", "abs", "square", "pow", "exp", "clamp", "clamp_min", "clamp_max"),
    *("silu", "gelu", "relu", "sigmoid", "tanh", "softplus", "leaky_relu", "hardtanh", "relu6"),
    *("contiguous", "clone", "alias", *CASTS),
)


def as_experts(graph: Graph, dependent: Set[Node], written: Set[Node]) -> None:
    """Replaces the products of groups of rows among the nodes `dependent` of a graph, and what they are computed from.

    written: the nodes whose memory is written in place. Added ops do not read them at another time than the graph does.
    """
    products = {node for node in graph.nodes if node in dependent and is_product(node)}
    if not products:
        return
    rewriter = _Rewriter(graph, written)
    for node in list(graph.nodes):
        if node in products:
            rewriter.product(node)
        elif any(n in rewriter.grouped for n in node.all_input_nodes):
            rewriter.follow(node)
    rewriter.finish()
    _erase_dead(graph)
    for node in [n for n in graph.nodes if is_op(n, "topk")]:
        choose(graph, node, written)
    _erase_dead(graph)


def is_product(node: Node) -> bool:
    """Whether a node multiplies groups of rows [rows, in] by matrices [groups, in, out] in elements of one type."""
    if str(node.target) not in PRODUCTS:
        return False
    x, w, *more = node.args
    if _ends(node) is None or len(more) > 1 or node.kwargs.get("bias") is not None:
        return False
    values = [n.meta["val"] for n in (x, w, node) if isinstance(n, Node)]
    if [value.dim() for value in values] != [2, 3, 2] or len({value.dtype for value in values}) != 1:
        return False
    # The kernels of a GPU multiply groups of bfloat16 only.
    is_taken = values[0].device.type == "cpu" or values[0].dtype is torch.bfloat16
    return is_taken and 0 not in (*values[0].shape, *values[1].shape)


def is_empty(node: Node) -> bool:
    """Whether a node multiplies groups that have no rows together, which stays in PyTorch."""
    return str(node.target) in PRODUCTS and 0 in node.args[0].meta["val"].shape[:1]  # type: ignore[union-attr]


def _ends(product: Node) -> Node | None:
    """The last row of each group, plus one."""
    given = product.args[2] if len(product.args) > 2 else product.kwargs.get("offs")
    return given if isinstance(given, Node) else None


class _Rewriter:
    """Adds the compiled ops to a graph, next to what they replace."""

    def __init__(self, graph: Graph, written: Set[Node]) -> None:
        self.graph, self.written = graph, written
        #: Nodes through which no gradient passes.
        self._frozen = frozen_nodes(graph)
        #: What the rows of the values of the graph are; of a node with several values, one for each.
        self.grouped: dict[Node, Grouped | list[Grouped]] = {}
        #: The experts of rows that are in the order of experts already, by the ends of groups.
        self._of_ends: dict[Node, Routing] = {}
        #: Ids as [tokens, k], by the values of the graph.
        self._matrices: dict[Node, Node] = {}

    def _one(self, node: Any) -> Grouped | None:
        found = self.grouped.get(node) if isinstance(node, Node) else None
        return found if isinstance(found, Grouped) else None

    def _index_of(self, node: Any) -> tuple[Node, Node] | None:
        """(x, i) of a node that looks up x[i] with a gradient; None for other nodes."""
        return index_of(node) if node not in self._frozen else None

    def product(self, node: Node) -> None:
        """Adds the layer that a product is."""
        x, w = node.all_input_nodes[:2]
        like, ends, weights = x.meta["val"], _ends(node), w.meta["val"]
        assert ends is not None
        experts = weights.shape[0]
        with self.graph.inserting_before(node):
            given = self._one(x)
            if given is not None and given.sorted and given.probs is None and self._is_of(given.routing, ends):
                rows, routing = given.rows, given.routing
            else:
                source, routing = self._source(x, ends, experts)
                shape = rows_for(routing.ids.meta["val"].numel(), experts), like.shape[1]
                rows = called(self.graph, source.meta["val"].new_empty(shape), ROWS, source, routing.ids, experts)
                if source is not x:
                    rows = _cast_as(self.graph, rows, x)
            value = like.new_empty((rows.meta["val"].shape[0], weights.shape[2]))
            made = called(self.graph, value, LINEAR, rows, _transposed(self.graph, w), routing.ids, None)
        self.grouped[node] = Grouped(made, routing)

    def _is_of(self, routing: Routing, ends: Node) -> bool:
        """Whether rows are grouped as a product with these ends expects them."""
        if routing.order is None:
            return self._of_ends.get(ends) is routing
        return counted(ends, routing.experts) is routing.order.vector

    def _source(self, x: Node, ends: Node, experts: int) -> tuple[Node, Routing]:
        """The tokens whose rows a product takes, and their experts."""
        looked = self._index_of(without_casts(x)) if x not in self._frozen else None
        if looked is not None and looked[0].meta["val"].dim() == 2:
            tokens, index = looked
            node, k = divided(index)
            order, count = order_of(node), tokens.meta["val"].shape[0] * k
            if order is not None and counted(ends, experts) is order.vector:
                is_kept = self.written.isdisjoint((tokens, ends, order.vector, order.node))
                if is_kept and order.vector.meta["val"].numel() == count:
                    return tokens, Routing(self._matrix(order.vector, k), (count // k, k), order, experts)
        if ends not in self._of_ends:
            device, count = ends.meta["val"].device, x.meta["val"].shape[0]
            rows = call(self.graph, _aten.arange.default, count, device=device, pin_memory=False)
            # Rows behind the last group get a number that no group has.
            ids = call(self.graph, _aten.searchsorted.Tensor, ends, rows, right=True)
            ids = call(self.graph, _aten.unsqueeze.default, ids, 1)
            self._of_ends[ends] = Routing(ids, (count, 1), None, experts)
        return x, self._of_ends[ends]

    def _matrix(self, ids: Node, k: int) -> Node:
        if ids not in self._matrices:
            is_matrix = ids.meta["val"].dim() == 2 and ids.meta["val"].shape[1] == k
            with self.graph.inserting_after(ids):
                self._matrices[ids] = ids if is_matrix else call(self.graph, _aten.reshape.default, ids, [-1, k])
        return self._matrices[ids]

    def follow(self, node: Node) -> None:
        """Notes what rows a node that reads such values has, or adds the sum that it is."""
        if node.op != "call_function" or any(n in self.grouped and n in self.written for n in node.all_input_nodes):
            return
        if node.target is operator.getitem:
            several: Any = self.grouped.get(node.all_input_nodes[0])
            if isinstance(several, list):
                self.grouped[node] = several[node.args[1]]  # type: ignore[index]
            return
        with self.graph.inserting_before(node):
            found = self._biased(node) or self._weighted(node) or self._followed(node) or self._in_order(node)
            if found is not None:
                self.grouped[node] = found
            else:
                self._summed(node)

    def _biased(self, node: Node) -> Grouped | None:
        """The sum of a product and the bias of the expert of each row."""
        if not is_op(node, "add", "add_") or node.kwargs.get("alpha", 1) != 1:
            return None
        given, looked = self._one(node.args[0]), self._index_of(node.args[1])
        if given is None or looked is None or given.order is None or given.probs is not None:
            return None
        rows = given.rows
        if rows.target is not LINEAR or rows.args[3] is not None or rows.meta["val"].dtype != node.meta["val"].dtype:
            return None
        biases, ids = looked
        if without_casts(ids) is not given.order.values or not self.written.isdisjoint((biases, given.order.values)):
            return None
        made = called(self.graph, rows.meta["val"].clone(), LINEAR, *rows.args[:3], biases)
        return given._replace(rows=made)

    def _weighted(self, node: Node) -> Grouped | None:
        """Rows times the weight that their token gives them."""
        if not is_op(node, "mul") or len(node.args) != 2:
            return None
        for rows, factor in (node.args, node.args[::-1]):
            given = self._one(rows)
            if given is None or given.probs is not None or not isinstance(factor, Node) or factor in self._frozen:
                continue
            if factor.meta["val"].shape != (node.meta["val"].shape[0], 1):
                continue
            vector = without_views(factor)
            if given.order is not None:
                looked = self._index_of(vector)
                if looked is None or looked[1] is not given.order.node:
                    return None
                vector = looked[0]
                if vector.meta["val"].numel() != vector.meta["val"].shape[0]:
                    return None
            if vector in self.written:
                return None
            return given._replace(rows=cast(self.graph, given.rows, node.meta["val"].dtype), probs=vector)
        return None

    def _followed(self, node: Node) -> Grouped | list[Grouped] | None:
        """Rows that are computed from rows with the same places."""
        name, value = name_of(node), node.meta["val"]
        if not str(node.target).startswith("aten."):
            return None
        operands = node.all_input_nodes[:1] if name in CASTS else node.all_input_nodes
        own = [self._one(n) for n in operands]
        first = own[0]
        if first is None or any(one is None or not one.has_places_of(first) for one in own):
            return None
        if name in CASTS:
            return first._replace(rows=cast(self.graph, first.rows, value.dtype))
        if first.probs is not None or operands[0].meta["val"].dim() != 2:
            return None
        if name in SPLITS or name == "slice":
            if name == "unbind" or arguments_of(node)["dim"] not in (1, -1):
                return None
        elif name not in _OF_ROWS or value.dim() != 2 or value.shape[0] != operands[0].meta["val"].shape[0]:
            return None
        inner = {n: one.rows for n, one in zip(operands, own) if one is not None}
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), inner.__getitem__)
        made = call(self.graph, node.target, *args, **kwargs)  # type: ignore[arg-type]
        if not isinstance(value, (list, tuple)):
            return first._replace(rows=made)
        parts = (called(self.graph, part, operator.getitem, made, i) for i, part in enumerate(made.meta["val"]))
        return [first._replace(rows=part) for part in parts]

    def _in_order(self, node: Node) -> Grouped | None:
        """Rows in the order of the ids again, as entries [tokens, k, columns] or [entries, columns]."""
        looked = self._index_of(node)
        given = self._one(looked[0] if looked is not None else node.args[0])
        if given is None:
            return None
        if looked is not None:
            is_back = given.order is not None and given.order.is_inverse(looked[1])
            return given._replace(sorted=False) if is_back else None
        shape = (*given.routing.shape, given.rows.meta["val"].shape[1])
        is_view = is_op(node, "view", "reshape", "_unsafe_view", "unflatten")
        return given if is_view and given.order is None and node.meta["val"].shape == shape else None

    def _summed(self, node: Node) -> None:
        """Replaces the sum over the rows of each token."""
        if is_op(node, "sum"):
            given = self._one(node.args[0])
            entries = node.all_input_nodes[0].meta["val"]
            if entries.dim() != 3 or arguments_of(node)["dim"] not in ([1], [-2]) or node.meta["val"].dim() != 2:
                return
        else:
            added = _added(node, self.written)
            given = self._one(added[1]) if added is not None else None
            if added is None or given is None or given.order is None:
                return
            tokens, k = divided(without_views(added[0]))
            size = given.routing.shape[0], given.rows.meta["val"].shape[1]
            if tokens is not given.order.node or k != given.routing.shape[1] or node.meta["val"].shape != size:
                return
        if given is None:
            return
        shape, graph, dtype = list(given.routing.shape), self.graph, node.meta["val"].dtype
        if given.probs is None:
            device = given.rows.meta["val"].device
            probs = call(graph, _aten.ones.default, shape, dtype=torch.float32, device=device, pin_memory=False)
        else:
            probs = call(graph, _aten.reshape.default, given.probs, shape)
        rows = without_widening(given.rows)
        own = rows.meta["val"].dtype
        # The sum is rounded once, to the type that its readers cast it to.
        if own != dtype and not all(is_op(u, *CASTS) and u.meta["val"].dtype is own for u in node.users):
            rows = cast(graph, rows, dtype)
        value = rows.meta["val"].new_empty((shape[0], rows.meta["val"].shape[1]))
        made = called(graph, value, SUM, rows, given.routing.ids, probs, given.routing.experts)
        made = cast(graph, made, dtype)
        made.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(made)
        graph.erase_node(node)

    def finish(self) -> None:
        """Replaces what else reads rows by lookups of them in their order."""
        for node, given in reversed(self.grouped.items()):
            if isinstance(given, Grouped) and any(user not in self.grouped for user in node.users):
                with self.graph.inserting_before(node):
                    looked = self._looked_up(node, given)
                # Views of the node, which may be written to, have the memory of its value.
                looked.meta["val"] = node.meta["val"]
                node.replace_all_uses_with(looked, lambda user: user not in self.grouped)

    def _looked_up(self, node: Node, given: Grouped) -> Node:
        graph, routing, rows = self.graph, given.routing, given.rows
        value = rows.meta["val"].new_empty((routing.ids.meta["val"].numel(), rows.meta["val"].shape[1]))
        made = called(graph, value, SUM, rows, routing.ids, None, routing.experts)
        if given.probs is not None:
            made = call(graph, _aten.mul.Tensor, made, call(graph, _aten.reshape.default, given.probs, [-1, 1]))
        if given.order is not None:
            made = call(graph, _aten.index.Tensor, made, [given.order.node])
        made = cast(graph, made, node.meta["val"].dtype)
        shape = node.meta["val"].shape
        return made if made.meta["val"].shape == shape else call(graph, _aten.reshape.default, made, list(shape))


def _cast_as(graph: Graph, node: Node, like: Any) -> Node:
    """A node with the casts of another, in their order, each of which may round."""
    if not is_op(like, *CASTS):
        return node
    return cast(graph, _cast_as(graph, node, like.args[0]), like.meta["val"].dtype)


def _transposed(graph: Graph, w: Node) -> Node:
    """The weights [experts, out, in] of matrices [experts, in, out]."""
    below: Any = without_casts(w)
    if is_op(below, "transpose", "mT") and sorted(axis % 3 for axis in below.args[1:]) in ([1, 2], []):
        return _cast_as(graph, below.args[0], w)
    return call(graph, _aten.transpose.int, w, 1, 2)


def _added(node: Node, written: Set[Node]) -> tuple[Node, Node] | None:
    """(index, rows) of a node that adds rows to zeros at an index of the first dimension; None for other nodes."""
    arguments: Any = node.args
    if is_op(node, "index_add", "scatter_add"):
        zeros, axis, index, rows = arguments[:4]
    elif str(node.target) == "torchtitan.deterministic_scatter_add.default":
        axis, (zeros, index, rows) = 0, arguments
    else:
        return None
    is_zero = is_op(zeros, "zeros") and zeros not in written
    has_all = index.meta["val"].shape in (rows.meta["val"].shape[:1], rows.meta["val"].shape)
    return (index, rows) if has_all and axis == 0 and is_zero and not node.kwargs else None


def _erase_dead(graph: Graph) -> None:
    """Erases what nothing reads, also writes to memory that nothing else reads."""
    graph.eliminate_dead_code()
    for node in reversed(graph.nodes):
        written: Any = node.args[0] if is_op(node, "index_put_", "scatter_") else None
        if not node.users and is_op(written, "empty", "zeros") and len(written.users) == 1:
            graph.erase_node(node)
    graph.eliminate_dead_code()
