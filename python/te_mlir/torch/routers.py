"""Replaces the choice of experts in an ATen graph with ops that are compiled."""

from __future__ import annotations

import math
import operator
from collections.abc import Set
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, Node

from te_mlir.torch.adapter import given as arguments_of
from te_mlir.torch.effects import frozen_nodes, storages
from te_mlir.torch.expert_ops import IDS, PROBS, reads_ids
from te_mlir.torch.nodes import call, called, cast
from te_mlir.torch.orders import item_of, without_casts, without_views, without_widening
from te_mlir.torch.patterns import is_op


class _Limit(NamedTuple):
    """Keys [tokens, experts] of which only those of some groups count.

    marks: what has 1 for each chosen group and 0 for others, [tokens, groups]; None if all groups count.
    """

    keys: Node
    groups: int = 1
    chosen: int = 1
    marks: Node | None = None


def choose(graph: Graph, topk: Node, written: Set[Node]) -> None:
    """Replaces a choice of experts whose ids only compiled ops and lookups of scores read, and the scores.

    written: the nodes whose memory is written in place.
    """
    values, k = arguments_of(topk)["self"], _largest(topk)
    items = {user.args[1]: user for user in topk.users if user.target is operator.getitem}
    if 1 not in items or k is None or values.meta["val"].dim() != 2:
        return
    limit = _limit(values)
    scores, bias = _unbiased(limit.keys)
    kind: Any = without_widening(scores)
    reads = _reads(items, scores, scores is values)
    if reads is None or k > values.meta["val"].shape[1] // limit.groups * limit.chosen:
        return
    is_scored = _is_scores(kind)
    logits = without_widening(kind.args[0] if is_scored else scores)
    nodes = {*_between(topk, {logits, bias}), *items.values(), logits, bias} - {None}
    if not _are_kept(nodes, limit, written):  # type: ignore[arg-type]
        return
    frozen = frozen_nodes(graph)
    if len({node in frozen for node in (*_between(scores, {logits}), *reads)}) > 1:
        return
    value = torch.empty_like(items[1].meta["val"], dtype=torch.float32)
    users = {*reads, *items[1].users}
    with graph.inserting_before(next(node for node in graph.nodes if node in users)):
        added = call(graph, torch.ops.aten.detach.default, bias) if bias is not None else None
        arguments = logits, k, is_op(kind, "sigmoid"), not is_scored, added, limit.groups, limit.chosen
        ids = called(graph, value.long(), IDS, *arguments)
    for read in reads:
        with graph.inserting_before(read):
            made = cast(graph, called(graph, value, PROBS, *arguments), read.meta["val"].dtype)
        read.replace_all_uses_with(made)
    items[1].replace_all_uses_with(ids)


def _reads(items: dict[Any, Node], scores: Node, is_key: bool) -> list[Node] | None:
    """The nodes that are the scores of the chosen experts; None if other nodes read the choice.

    items: the values and the ids that topk gives. is_key: whether the values are the scores.
    """
    values, ids = [items[0]] if 0 in items else [], items[1]
    if values and not is_key:
        return None
    kind = without_widening(scores)
    if _is_scores(kind):
        if kind.meta["val"].dtype is not torch.float32:
            return None
        lookups = [user for user in ids.users if _looks_up(user, scores)]
    else:
        # Softmax after the choice gives the scores that it gives before, divided by their sum.
        values, lookups = [user for value in values for user in value.users], []
        if not values or not all(map(_is_softmax, values)):
            return None
    is_read = all(reads_ids(user) or user in lookups for user in ids.users)
    return values + lookups if is_read else None


def _is_scores(node: Any) -> bool:
    """Whether a node is what experts are chosen by: a softmax of the last axis, or a sigmoid."""
    return _is_softmax(node) or is_op(node, "sigmoid")


def _is_softmax(node: Any) -> bool:
    return is_op(node, "softmax", "_softmax") and node.args[1] in (1, -1)


def _looks_up(node: Node, scores: Node) -> bool:
    """Whether a node looks up the scores of the experts of each token."""
    return is_op(node, "gather") and node.args[0] is scores and node.args[1] in (1, -1)


def _unbiased(keys: Any) -> tuple[Node, Node | None]:
    """(scores, bias) of keys that are the sum of scores and a bias of each expert; (keys, None) for others."""
    if is_op(keys, "add") and not keys.kwargs and keys.meta["val"].dtype is torch.float32:
        experts = keys.meta["val"].shape[1]
        for scores, bias in (keys.args, keys.args[::-1]):
            is_bias = isinstance(bias, Node) and bias.meta["val"].shape in ((experts,), (1, experts))
            if is_bias and _is_scores(without_widening(scores)) and bias.meta["val"].is_floating_point():
                return scores, bias
    return keys, None


def _limit(values: Any) -> _Limit:
    """The groups whose experts can be chosen, where the keys of others are filled with -infinity.

    These are the groups in which the sum of the two largest keys is largest.
    """
    every = _Limit(values)
    if not is_op(values, "masked_fill") or values.args[2] != -math.inf:
        return every
    keys, hidden, _ = values.args
    marks = without_views(without_casts(hidden.args[0])) if is_op(hidden, "bitwise_not", "logical_not") else None
    found = _marked(marks)
    if found is None:
        return every
    sums, chosen = found
    two = item_of(sums.args[0], 0, "topk") if is_op(sums, "sum") and not sums.kwargs else None
    if two is None or list(sums.args[1]) not in ([2], [-1]) or _largest(two) != 2:  # type: ignore[arg-type]
        return every
    groups, of = sums.meta["val"].shape[1], arguments_of(two)["self"]
    is_split = of.meta["val"].shape == (len(keys.meta["val"]), groups, keys.meta["val"].shape[1] // groups)
    return _Limit(keys, groups, chosen, marks) if is_split and without_views(of) is without_views(keys) else every


def _marked(marks: Any) -> tuple[Node, int] | None:
    """(x, k) of a node that is 1 at the k largest elements of each row of x, and 0 elsewhere; None for others."""
    if not is_op(marks, "scatter", "scatter_") or len(marks.args) != 4 or marks.kwargs:
        return None
    zeros, axis, index, mark = marks.args
    best = item_of(index, 1, "topk")
    k = _largest(best) if best is not None and is_op(zeros, "zeros") and axis in (1, -1) and mark == 1 else None
    if k is None:
        return None
    x = arguments_of(best)["self"]  # type: ignore[arg-type]
    return (x, k) if x.meta["val"].shape == marks.meta["val"].shape and x.meta["val"].dim() == 2 else None


def _largest(topk: Node) -> int | None:
    """How many of the largest elements a node finds along the last axis; None if it finds others."""
    given = arguments_of(topk)
    last = given["self"].meta["val"].dim() - 1
    return given["k"] if given["largest"] and given["dim"] in (last, -1) else None


def _between(node: Node, ends: Set[Any]) -> set[Node]:
    """A node, and all nodes that it is computed from behind `ends`."""
    found: set[Node] = set()
    todo = [node]
    while todo:
        one = todo.pop()
        if one not in found and one not in ends:
            found.add(one)
            todo += one.all_input_nodes
    return found


def _are_kept(nodes: Set[Node], limit: _Limit, written: Set[Node]) -> bool:
    """Whether nothing is written to nodes, except for the marks of a limit, which have no other users."""
    marks = storages(limit.marks.meta["val"]) if limit.marks is not None else set()
    own = {node for node in nodes if storages(node.meta["val"]) & marks}
    return written.isdisjoint(nodes - own) and all(len(node.users) == 1 for node in own)
