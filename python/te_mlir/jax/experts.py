"""Rewrites mixtures of experts in a graph as ops that are compiled.

Programs sort the ids of the experts that their tokens chose, look up the rows of the tokens in that order, multiply them
by `ragged_dot`, and look up or add the results in the order of tokens. Here, the rows of each expert begin at a multiple
of `ALIGNMENT` from the first product to the last, and the ids alone say where they are, so that nothing is sorted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from te_mlir.frontend.base import Unsupported
from te_mlir.frontend.experts import Grouped, Routing, rows_for
from te_mlir.frontend.graph import Atom, Const, Node, Var, order_of, readers_of, short
from te_mlir.frontend.looking import SAME_ORDER, narrowest, node_of, part_of, scalar
from te_mlir.frontend.softmax import match_softmax
from te_mlir.jax import orders
from te_mlir.jax.graph import ELEMENTWISE, Graph, apply, is_of_integers, repeated, typed

#: Operations whose result at a row of zeros may be infinite or NaN, as that of padding would be.
_NOT_OF_ZEROS = ("log", "rsqrt", "sqrt", "is_finite")


def as_experts(graph: Graph) -> None:
    """Replaces the products of groups of rows of a graph, and what they are computed from.

    A product that stays has a parameter `failure`, which says why.
    """
    nodes = sorted({n for v in graph.outputs if isinstance(v, Var) for n in order_of(v)}, key=lambda n: n.index)
    if not any(node.name == "ragged_dot_general" for node in nodes):
        return
    rewriter = _Rewriter(graph, nodes)
    for node in nodes:
        if node.name == "ragged_dot_general":
            rewriter.product(node)
        elif any(v in rewriter.grouped for v in node.inputs):
            rewriter.follow(node)
    rewriter.finish()


class _Rewriter:
    """Adds the compiled ops to a graph, and makes what reads the values that they replace read theirs."""

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        self.graph, self.nodes = graph, nodes
        self._readers = readers_of(graph.outputs)
        #: What the rows of the values of the graph are.
        self.grouped: dict[Atom, Grouped] = {}
        #: The products that are replaced.
        self._products: list[Node] = []
        #: The first reason for which a product with these sizes of groups stays, which also holds for those behind it.
        self._failures: dict[Atom, Unsupported] = {}
        self._counted: dict[tuple[Atom, int], Var | None] = {}
        #: The experts of rows that are in the order of experts already, by the sizes of groups.
        self._of_sizes: dict[Atom, Routing] = {}
        self._choices: dict[Var, Var | None] = {}
        self._rows: dict[tuple[Atom, Var], Var] = {}
        self._routings: dict[tuple[Var, int], Routing] = {}

    def _add(
        self, name: str, inputs: Sequence[Atom], shape: Sequence[int], dtype: str, like: Node, **params: Any
    ) -> Var:
        """A value that an added op computes."""
        node = Node(name, inputs, params, like.origin)
        node.outputs = [typed(shape, np.dtype(dtype), node)]
        node.index = self.graph.count = self.graph.count + 1
        return node.output

    def _apply(self, function: Any, inputs: Sequence[Atom], like: Node) -> Var:
        (made,) = apply(self.graph, function, inputs, (like.origin.equation, *like.origin.calls))
        assert isinstance(made, Var)
        return made

    def _repeat(self, node: Node, inputs: Sequence[Atom]) -> list[Var]:
        return [made for made in repeated(self.graph, node, inputs) if isinstance(made, Var)]

    def _replace(self, old: Var, new: Var) -> None:
        """Makes what reads a value read another one."""
        for node in self._readers.get(old, []):
            node.inputs = [new if v is old else v for v in node.inputs]
        self.graph.outputs = [new if v is old else v for v in self.graph.outputs]

    # The products

    def product(self, node: Node) -> None:
        """Adds the layer that a product is."""
        sizes = node.inputs[2]
        try:
            if sizes in self._failures:
                raise self._failures[sizes]
            self.grouped[node.output] = self._layer(node)
            self._products.append(node)
        except Unsupported as unsupported:
            node.params["failure"] = self._failures[sizes] = unsupported

    def _layer(self, node: Node) -> Grouped:
        x, w, sizes = node.inputs
        order, experts = _order_of_weights(node), w.shape[0]
        ids = self._ids(sizes, experts)
        given = self.grouped.get(x)
        if given is not None and given.sorted and given.probs is None and self._is_of(given.routing, sizes, ids):
            rows, routing = given.rows, given.routing
        else:
            rows, routing = self._tokens(node, ids)
        shape = rows.shape[0], w.shape[order[1]]
        made = self._add("expert_linear", [rows, w, routing.ids], shape, node.output.dtype, node, order=order)
        return Grouped(made, routing)

    def _ids(self, sizes: Atom, experts: int) -> Var | None:
        """The ids that are counted by sizes of groups."""
        if (sizes, experts) not in self._counted:
            self._counted[sizes, experts] = orders.counted(sizes, experts)
        return self._counted[sizes, experts]

    def _is_of(self, routing: Routing, sizes: Atom, ids: Var | None) -> bool:
        """Whether rows are grouped as a product with these sizes expects them."""
        if routing.order is None:
            return self._of_sizes.get(sizes) is routing
        return ids is routing.order.ids

    def _tokens(self, node: Node, ids: Var | None) -> tuple[Var, Routing]:
        """The rows of the tokens that a product takes, for each expert."""
        x, w, sizes = node.inputs
        casts: list[Node] = []
        source: Atom = x
        while (cast := node_of(source, "convert_element_type")) is not None:
            casts, source = [cast, *casts], cast.inputs[0]
        found = self._looked_up(source, ids, w.shape[0]) if ids is not None else None
        if found is not None:
            source, order, k = found
            routing = self._routing(node, order, k, w.shape[0])
        elif isinstance(sizes, Const) or is_of_integers(sizes):
            casts, source, routing = [], x, self._given(node)
        else:
            raise Unsupported(node, _NO_SIZES if ids is None else _NO_ROWS, always=True)
        key = source, routing.ids
        if key not in self._rows:
            shape = rows_for(math.prod(routing.shape), routing.experts), x.shape[1]
            made = self._add("expert_rows", key, shape, source.dtype, node, experts=routing.experts)
            self._rows[key] = made
        rows = self._rows[key]
        for cast in casts:
            rows = self._repeat(cast, [rows])[0]
        return rows, routing

    def _looked_up(self, x: Atom, ids: Var, experts: int) -> tuple[Var, orders.Order, int] | None:
        """(tokens, order, k) of rows that are those of tokens in the order of k ids for each token."""
        found = orders.lookup_of(x)
        index = orders.source_of(found.places) if found is not None else None
        order = orders.order_of(index, experts) if index is not None else None
        if found is None or order is None or order.ids is not ids:
            return None
        count, tokens = order.node.shape[0], _repeated(found.x)
        if tokens is None or len(tokens.shape) != 2 or count % tokens.shape[0]:
            return None
        k = count // tokens.shape[0]
        of = (lambda n: n) if tokens is not found.x else (lambda n: n // k)
        return (tokens, order, k) if orders.is_function(found.places, order.node, of, count) else None

    def _routing(self, node: Node, order: orders.Order, k: int, experts: int) -> Routing:
        """The experts of tokens with k ids each: those that a router chooses, or integers."""
        if (order.node, experts) not in self._routings:
            ids, shape = order.ids, (order.node.shape[0] // k, k)
            chosen = self._choice(ids, experts)
            if chosen is None and not is_of_integers(ids):
                raise Unsupported(node, _NO_CHOICE, always=True)
            if chosen is None:
                chosen = self._apply(lambda a: jnp.reshape(a, shape), [ids], node)
            self._routings[order.node, experts] = Routing(chosen, shape, order, experts)
        return self._routings[order.node, experts]

    def _given(self, node: Node) -> Routing:
        """The experts of rows that are in the order of experts, from sizes of groups that are known before the call."""
        x, w, sizes = node.inputs
        if sizes not in self._of_sizes:
            count = x.shape[0]
            # Rows behind the last group get a number that no group has.
            numbers = lambda s: jnp.searchsorted(jnp.cumsum(s), jnp.arange(count), side="right")[:, None]
            (ids,) = apply(self.graph, numbers, [sizes], (node.origin.equation, *node.origin.calls))
            self._of_sizes[sizes] = Routing(ids, (count, 1), None, w.shape[0])
        return self._of_sizes[sizes]

    # The choice of experts

    def _choice(self, ids: Var, experts: int) -> Var | None:
        """The experts of each token that a router chooses; None if it is another choice, or none."""
        if ids not in self._choices:
            self._choices[ids] = self._chosen(ids, experts)
        return self._choices[ids]

    def _chosen(self, ids: Var, experts: int) -> Var | None:
        node = node_of(ids, "top_k")
        if node is None or ids is not node.outputs[1] or node.inputs[0].shape[-1] != experts:
            return None
        values, scores, last = node.outputs[0], narrowest(node.inputs[0]), len(ids.shape) - 1
        if int(node.params.get("axis", -1)) not in (-1, last) or not isinstance(scores, Var):
            return None
        softmax, sigmoid, after = match_softmax(scores), node_of(scores, "logistic"), None
        if softmax is not None and softmax.axis == last:
            logits: Atom = softmax.x
        elif sigmoid is not None:
            logits = sigmoid.inputs[0]
        else:
            # Softmax after the choice gives the scores that it gives before, divided by their sum.
            after = next((v for n in self.nodes for v in n.outputs if self._is_softmax_of(v, values)), None)
            logits = scores
        is_scored = after is None
        if (after is None and softmax is None and sigmoid is None) or (is_scored and scores.dtype != "float32"):
            return None
        k = ids.shape[-1]
        params = {"k": k, "sigmoid": sigmoid is not None and is_scored, "normalize": not is_scored}
        inputs, read = [narrowest(logits)], values if after is None else after
        self._replace(read, self._add("expert_probs", inputs, read.shape, read.dtype, node, **params))
        return self._add("expert_ids", inputs, (math.prod(ids.shape[:-1]), k), "int32", node, **params)

    def _is_softmax_of(self, value: Var, x: Var) -> bool:
        found = match_softmax(value) if value.floating else None
        return found is not None and narrowest(found.x) is x and found.axis == len(x.shape) - 1

    # What is computed from products

    def follow(self, node: Node) -> None:
        """Notes what rows the values of a node have that reads such values, or adds the sum that it is."""
        if self._summed(node):
            return
        found = self._weighted(node) or self._in_order(node)
        several = [found] if found is not None else self._followed(node)
        if several is not None:
            self.grouped.update(zip(node.outputs, several))
            return
        routings = [self.grouped[v].routing for v in node.inputs if v in self.grouped]
        for product in self._products:
            if self.grouped[product.output].routing in routings:
                product.params.setdefault("failure", Unsupported(node, _NOT_KEPT, always=True))

    def _weighted(self, node: Node) -> Grouped | None:
        """Rows times the weight that their token gives them."""
        if node.name != "mul":
            return None
        for rows, factor in (node.inputs, node.inputs[::-1]):
            given = self.grouped.get(rows)
            if given is None or given.probs is not None or factor in self.grouped:
                continue
            if not isinstance(factor, Var) or factor.shape != (*rows.shape[:-1], 1):
                return None
            vector = _same_order(factor)
            if given.order is not None:
                found = orders.lookup_of(vector)
                count = math.prod(given.routing.shape)
                if found is None or not orders.is_same(found.places, given.order.node, count):
                    return None
                vector = _same_order(found.x)
            return given._replace(probs=vector) if isinstance(vector, Var) else None
        return None

    def _followed(self, node: Node) -> list[Grouped] | None:
        """Rows that are computed from rows with the same places."""
        own = [self.grouped.get(v) for v in node.inputs]
        first = next(one for one in own if one is not None)
        if any(one is not None and not one.has_places_of(first) for one in own):
            return None
        if node.name == "convert_element_type":
            return [first._replace(rows=self._repeat(node, [first.rows])[0])]
        if first.probs is not None or not first.sorted or len(node.inputs[own.index(first)].shape) != 2:
            return None
        columns = part_of(node.output) if node.name == "slice" else None
        if columns is not None:
            cut = lambda v: jax.lax.slice_in_dim(v, *columns[1:], axis=1)
            return [first._replace(rows=self._apply(cut, [first.rows], node))]
        if node.name != "split" and (node.name not in ELEMENTWISE or node.name in _NOT_OF_ZEROS):
            return None
        if node.name == "split" and int(node.params["axis"]) != 1:
            return None
        inner: list[Atom] = []
        for value, one in zip(node.inputs, own):
            number = scalar(value)
            if one is None and number is None:
                return None
            # A number has the sizes of the rows, or none.
            inner.append(one.rows if one is not None else _resized(value, first.rows.shape[0]))
        return [first._replace(rows=made) for made in self._repeat(node, inner)]

    def _in_order(self, node: Node) -> Grouped | None:
        """Rows in the order of the ids again, as entries [tokens, k, columns] or [entries, columns]."""
        value = node.output
        found = orders.lookup_of(value)
        given = self.grouped.get(found.x) if found is not None else None
        if found is not None and given is not None:
            is_back = given.order is not None and orders.is_inverse(found.places, given.order.node)
            return given._replace(sorted=False) if is_back else None
        put = orders.written(value)
        given = self.grouped.get(put.x) if put is not None else None
        if put is not None and given is not None and given.order is not None:
            is_back = value.shape == put.x.shape and orders.is_same(put.places, given.order.node, value.shape[0])
            return given._replace(sorted=False) if is_back else None
        given = self.grouped.get(node.inputs[0])
        if given is None or node.name != "reshape" or given.order is not None:
            return None
        return given if value.shape == (*given.routing.shape, given.rows.shape[1]) else None

    def _summed(self, node: Node) -> bool:
        """Replaces the sum over the rows of each token."""
        given, probs = self._terms(node)
        if given is None:
            return False
        shape, probs = given.routing.shape, probs or given.probs
        weights: Atom = probs if probs is not None else Const(np.ones(shape, np.float32), shape)
        if weights.shape[-1:] != shape[1:]:
            weights = self._apply(lambda p: p.reshape(shape), [weights], node)
        sum_, rows = node.output, narrowest(given.rows)
        # The sum is rounded once, to the type that its readers cast it to.
        if rows.dtype != sum_.dtype and not self._is_cast_to(sum_, rows.dtype):
            rows = given.rows
        inputs = [rows, given.routing.ids, weights]
        made = self._add("expert_sum", inputs, sum_.shape, sum_.dtype, node, experts=given.routing.experts)
        self._replace(sum_, made)
        return True

    def _terms(self, node: Node) -> tuple[Grouped | None, Var | None]:
        """The rows of each token that a node adds up, and the weights that it gives them; (None, None) for other nodes."""
        nothing = None, None
        if node.name == "reduce_sum":
            given = self.grouped.get(node.inputs[0])
            is_of_tokens = len(node.inputs[0].shape) == 3 and tuple(node.params["axes"]) == (1,)
            return (given, None) if given is not None and is_of_tokens else nothing
        if node.name == "dot_general":
            summed, batches = node.params["dimension_numbers"]
            is_of_tokens = [tuple(map(int, axes)) for axes in (*summed, *batches)] == [(1,), (1,), (0,), (0,)]
            for rows, probs in (node.inputs, node.inputs[::-1]):
                given = self.grouped.get(rows)
                if given is not None and given.probs is None and not given.sorted and is_of_tokens:
                    is_pair = len(rows.shape) == 3 and isinstance(probs, Var) and probs.shape == given.routing.shape
                    return (given, probs) if is_pair and probs not in self.grouped else nothing
            return nothing
        found = orders.added(node.output) if len(node.outputs) == 1 else None
        given = self.grouped.get(found.x) if found is not None else None
        if found is None or given is None or given.order is None:
            return nothing
        tokens, k = given.routing.shape
        is_of_tokens = node.output.shape == (tokens, given.rows.shape[1]) and orders.is_function(
            found.places, given.order.node, lambda n: n // k, tokens * k
        )
        return (given, None) if is_of_tokens else nothing

    def _is_cast_to(self, value: Var, dtype: str) -> bool:
        """Whether all that reads a value are casts to a type, also of views of it."""
        readers = self._readers.get(value, [])
        if value in self.graph.outputs or not readers:
            return False
        return all(
            node.output.dtype == dtype
            if node.name == "convert_element_type"
            else node.name in SAME_ORDER and self._is_cast_to(node.output, dtype)
            for node in readers
        )

    def finish(self) -> None:
        """Looks up the rows of products in the program's order for what else reads them, and counts who reads what."""
        for node in self._products:
            value, found = node.output, self.grouped[node.output]
            routing = found.routing
            # JAX computes the order of a choice, so that it is not known in the compiled function.
            if node_of(routing.ids, "expert_ids") is None:
                inputs = [found.rows, routing.ids]
                looked = self._add("expert_sum", inputs, value.shape, value.dtype, node, experts=routing.experts)
                if routing.order is not None:
                    taken = lambda y, order: jnp.take(y, order, axis=0, mode="clip")
                    looked = self._apply(taken, [looked, routing.order.node], node)
                self._replace(value, looked)
        outputs = self.graph.outputs
        readers = readers_of(outputs)
        for var in {*readers, *(v for v in outputs if isinstance(v, Var))}:
            var.uses = sum(node.inputs.count(var) for node in readers.get(var, [])) + outputs.count(var)


def _order_of_weights(node: Node) -> tuple[int, int, int]:
    """The axes of a product's weights as [experts, out, in]; raises Unsupported for other products."""
    x, w, _ = node.inputs
    numbers = node.params["ragged_dot_dimension_numbers"]
    (summed, batches), mine = numbers.dot_dimension_numbers, node.output.dtype
    axes = [tuple(map(int, a)) for a in (summed[0], numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions)]
    of_w = tuple(map(int, summed[1]))
    if axes != [(1,), (0,), (0,)] or batches != ((), ()) or of_w not in ((1,), (2,)) or len(x.shape) != 2:
        shapes = "[rows, in], [experts, in, out] or [experts, out, in], and sizes of groups of rows"
        raise Unsupported(node, f"expected operands {shapes}", always=True)
    if mine not in (x.dtype, w.dtype) or x.dtype != w.dtype:
        raise Unsupported(
            node,
            f"expected its operands and its result in elements of one type, but got {short(mine)}; cast the operands, and "
            "leave out preferred_element_type",
            always=True,
        )
    if 0 in (*x.shape, *w.shape):
        raise Unsupported(node, "expected rows, experts and columns", always=True)
    return (0, 2, 1) if of_w == (1,) else (0, 1, 2)


def _same_order(value: Atom) -> Atom:
    """The value whose elements another has in the same order, below views of all of them."""
    while (node := node_of(value, *SAME_ORDER, "broadcast_in_dim")) is not None:
        if math.prod(node.inputs[0].shape) != math.prod(value.shape):
            break
        value = node.inputs[0]
    return value


def _repeated(x: Atom) -> Var | None:
    """The matrix of which a value has each row several times, one after another; or the value itself."""
    spread = node_of(_same_order(x), "broadcast_in_dim")
    if spread is not None and len(x.shape) == 2 and len(spread.output.shape) == 3:
        inner = _same_order(spread.inputs[0])
        axes = tuple(int(a) for a in spread.params["broadcast_dimensions"])
        if len(inner.shape) == 2 and axes in ((0, 2), (0, 1, 2)) and spread.output.shape[::2] == inner.shape:
            x = inner
    return x if isinstance(x, Var) else None


def _resized(number: Atom, rows: int) -> Const:
    """A constant number with the sizes of rows of experts, if it has those of rows."""
    assert isinstance(number, Const)
    shape = (rows, *number.shape[1:]) if number.shape and number.shape[0] != 1 else number.shape
    return Const(number.compact.reshape(-1)[0].reshape((1,) * len(shape)), shape)


_NO_SIZES = (
    "its group sizes are computed from compiled values; expected jnp.bincount(ids, length=experts) of ids that jax.lax.top_k "
    "chooses, or sizes that are computed from integers"
)
_NO_ROWS = (
    "its rows are not those of tokens in the order of its groups; expected jnp.take(x, order // k, axis=0), where order is "
    "jnp.argsort(ids) of the ids that its group sizes count"
)
_NO_CHOICE = (
    "its experts are chosen from compiled values in another way than by jax.lax.top_k of a softmax or a sigmoid in float32, or "
    "of logits with a softmax of the chosen ones"
)
_NOT_KEPT = (
    "it reads rows of experts in their order, which JAX computes; expected activations, sums and products of rows, and behind "
    "the last ragged_dot jnp.take(y, jnp.argsort(order), axis=0) or an addition at order // k"
)
