"""Finds the documents of attention masks by the operations that compute them, so that no call looks at a mask.

A mask that a model computes from its arguments is an `and` of constants, of comparisons of the ids of documents along
queries with the same ids along keys, of comparisons of positions, and of truth values of tokens along keys. Then the
documents are known from one number for each token, and the mask itself is not computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, GraphModule, Node

from te_mlir.torch.adapter import CASTS, given, name_of
from te_mlir.torch.documents import Documents
from te_mlir.torch.masks import CAUSAL, OTHER, Kind, kind_for

#: For each axis of a value, what it is of the mask: a number for an axis before the last two, QUERY or KEY; None if its
#: size is 1.
Labels = tuple[int | None, ...]
QUERY, KEY = -2, -1

#: The key in a mask's meta for its `Terms`.
META = "te_terms"

_COPIES = ("contiguous", "clone", "alias", "detach")
_RESHAPES = ("view", "reshape", "unsqueeze", "squeeze", "_unsafe_view", "flatten", "unflatten")
_FILLED = {"ones": 1, "new_ones": 1, "ones_like": 1, "zeros": 0, "new_zeros": 0, "zeros_like": 0}


class Terms(NamedTuple):
    """What a mask is computed from.

    rows: the node of the planes that `rows_of_terms` computes. kind: the kind of the mask in whole rows. ids, tokens:
    whether it has ids of documents, and tokens that no query sees. of_queries: whether these tokens see no key either.
    """

    rows: Node
    kind: Kind
    ids: bool
    tokens: bool
    of_queries: bool

    @property
    def is_blind(self) -> bool:
        """Whether results of queries that see no key are set to 0: not of padded rows without any token."""
        return self.tokens and (self.of_queries or self.kind.name == CAUSAL.name)

    def fit(self, batches: Sequence[int], sequence: int, is_self: bool) -> bool:
        """Whether an attention may read them. is_self: whether query i is the token of key i."""
        *lead, size = self.rows.meta["val"].shape[1:]
        lead = [1] * (len(batches) - len(lead)) + lead
        if size != sequence or len(lead) != len(batches) or any(a not in (1, b) for a, b in zip(lead, batches)):
            return False
        return not self.tokens or (is_self and lead == list(batches))

    def documents(self, planes: torch.Tensor, batches: Sequence[int]) -> Documents:
        """The documents of a batch. planes: the tensor of `rows`."""
        *lead, sequence = planes.shape[1:]
        lead = [1] * (len(batches) - len(lead)) + lead
        spread = planes.reshape(4, *lead, sequence).expand(4, *batches, sequence)
        starts, used, new, fits = spread.reshape(4, -1, sequence)
        seeing = used if self.of_queries else torch.ones_like(used)
        if self.is_blind and not self.of_queries:
            own = torch.arange(sequence, device=used.device)
            first = own.where(new, 0).cummax(-1).values
            if self.kind.window_left is not None:
                first = first.maximum(own - self.kind.window_left)
            count = used.cumsum(-1)
            seeing = count > torch.nn.functional.pad(count, (1, 0)).gather(-1, first)
        return Documents.of(starts, seeing, fits.all())


class _Unknown(Exception):
    """The mask is computed in another way."""


def rows_of_terms(lead: Sequence[int], sequence: int, ids: Any, is_sorted: bool, *tokens: Any) -> torch.Tensor:
    """What is known of each token, bool [4, *lead, sequence]: whether documents or padding start there, whether it is
    no padding, whether its id is another than that of the token before, and whether all rows are made of documents.

    ids: [*lead or 1, sequence], or None. is_sorted: whether ids do not come again. tokens: like ids, 0 for padding.
    """
    of = ids if ids is not None else tokens[0]
    used = torch.ones((*lead, sequence), dtype=torch.bool, device=of.device)
    for token in tokens:
        used = used & (token != 0)
    new = torch.zeros_like(used)
    new[..., 0] = True
    fits = torch.ones(lead, dtype=torch.bool, device=of.device)
    if ids is not None:
        ids = ids.expand(used.shape)
        new[..., 1:] = ids[..., 1:] != ids[..., :-1]
        if not is_sorted:
            # Tokens before padding, by their ids: there are as many ids as there are runs of them.
            by_id = ids.argsort(dim=-1, stable=True)
            order = by_id.gather(-1, (~used).gather(-1, by_id).int().argsort(dim=-1, stable=True))
            ordered, real = ids.gather(-1, order), used.gather(-1, order)
            distinct = real[..., :1].long().sum(-1) + ((ordered[..., 1:] != ordered[..., :-1]) & real[..., 1:]).sum(-1)
    goes_on = (used[..., 1:] == used[..., :-1]) & ~(new[..., 1:] & used[..., 1:])
    starts = torch.nn.functional.pad(~goes_on, (1, 0), value=True)
    if ids is not None and not is_sorted:
        fits = distinct == (starts & used).sum(-1)
    elif tokens:
        # The tokens of each document are next to each other.
        document = new.cumsum(-1) - 1
        fits = torch.zeros_like(document).scatter_add_(-1, document, (starts & used).long()).amax(-1) <= 1
    return torch.stack([starts, used, new, fits.unsqueeze(-1).expand(used.shape)])


class _Reader:
    """Reads the operations that compute one mask."""

    def __init__(self, module: GraphModule, sequence: int) -> None:
        self.module, self.sequence = module, sequence
        #: The keys that constants show to queries, as they are: a mask of keys has no rows.
        self.seen = torch.ones(1, 1, dtype=torch.bool)
        self.ids: list[tuple[Node, Labels]] = []
        self.tokens: dict[int, list[tuple[Node, Labels]]] = {QUERY: [], KEY: []}
        #: Positions of keys and of queries that are compared: (node, name of the comparison, what is taken from queries).
        self.positions: list[tuple[Node, Labels, str, int]] = []
        self._constants: dict[Node, torch.Tensor | None] = {}

    # Values

    def constant(self, node: Any) -> torch.Tensor | None:
        """The value of a node that depends on no argument, on the CPU; None for other nodes."""
        if not isinstance(node, Node):
            return torch.as_tensor(node) if isinstance(node, (int, float, bool)) else None
        if node not in self._constants:
            self._constants[node] = self._evaluated(node)
        return self._constants[node]

    def _evaluated(self, node: Node) -> torch.Tensor | None:
        if node.op == "get_attr":
            found = getattr(self.module, str(node.target), None)
            return found.cpu() if isinstance(found, torch.Tensor) else None
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor):
            return None
        name = name_of(node)
        if name in _FILLED:
            return torch.full(value.shape, _FILLED[name], dtype=value.dtype)
        operands = {n: self.constant(n) for n in node.all_input_nodes}
        if any(v is None for v in operands.values()) or node.is_impure():
            return None
        place = lambda v: (
            operands[v] if isinstance(v, Node) else torch.device("cpu") if isinstance(v, torch.device) else v
        )
        args, kwargs = (torch.fx.node.map_aggregate(v, place) for v in (node.args, dict(node.kwargs)))
        found = node.target(*args, **kwargs)  # type: ignore[operator, arg-type]
        return found if isinstance(found, torch.Tensor) else None

    def below(self, node: Any, labels: Labels, truth: bool = False) -> tuple[Any, Labels]:
        """The value below operations that move or repeat elements. truth: and below casts to truth values."""
        while isinstance(node, Node) and node.op == "call_function" and self.constant(node) is None:
            name, source = name_of(node), node.args[0] if node.args else None
            if not isinstance(source, Node) or not isinstance(source.meta.get("val"), torch.Tensor):
                break
            own, shape = node.meta["val"], tuple(source.meta["val"].shape)
            if name in ("expand", "expand_as", "broadcast_to"):
                last = labels[len(labels) - len(shape) :]
                labels = tuple(n if size != 1 else None for size, n in zip(shape, last))
            elif name in _RESHAPES:
                if [n for n in shape if n != 1] != [n for n in own.shape if n != 1]:
                    break
                kept = iter([n for size, n in zip(own.shape, labels) if size != 1])
                labels = tuple(next(kept) if size != 1 else None for size in shape)
            elif name in CASTS or name in _COPIES:
                dtypes = own.dtype, source.meta["val"].dtype
                if dtypes[0] is not dtypes[1] and torch.bool not in dtypes[: 1 if truth else 0]:
                    break
            elif name == "slice":
                if tuple(own.shape) != shape or given(node)["step"] != 1:
                    break
            elif name == "index":
                found = self._indexed(node, labels)
                if found is None:
                    break
                labels = found
            else:
                break
            node = source
        return node, labels

    def _indexed(self, node: Node, labels: Labels) -> Labels | None:
        """The labels of a value that is indexed with 0, 1, 2, ... along each of its axes; None for other indices."""
        indices, shape = node.args[1], node.args[0].meta["val"].shape  # type: ignore[union-attr]
        if len(indices) != len(shape):  # type: ignore[arg-type]
            return None
        found: list[int | None] = []
        for index, size in zip(indices, shape):  # type: ignore[arg-type]
            value = self.constant(index)
            if value is None or not torch.equal(value.reshape(-1), torch.arange(size)):
                return None
            axes = [a - value.dim() for a, n in enumerate(value.shape) if n != 1]
            if len(axes) > 1 or (axes and -axes[0] > len(labels)):
                return None
            found.append(labels[axes[0]] if axes else None)
        return tuple(found)

    # Terms

    def collect(self, node: Any, labels: Labels, added: bool) -> None:
        """Adds the terms of a value that is true where a key is visible; or 0, if it is added to scores."""
        node, labels = self.below(node, labels, truth=not added)
        value = self.constant(node)
        if value is not None:
            if added and not ((value == 0) | (value <= -1e4)).all():
                raise _Unknown
            self._add(value == 0 if added else value != 0, labels)
            return
        args: Any = node.args
        name = name_of(node) if node.op == "call_function" else ""
        own = node.meta["val"]
        if added != own.is_floating_point():
            raise _Unknown
        if added:
            # where(visible, 0, -inf) or masked_fill(0, hidden, -inf), where 0 may be a mask itself.
            hidden = self.constant(args[2]) if name in ("where", "masked_fill") else None
            if hidden is None or not (hidden <= -1e4).all():
                raise _Unknown
            if name == "where":
                self.collect(args[0], self._of(args[0], labels), False)
                self.collect(args[1], self._of(args[1], labels), True)
            else:
                self.collect(args[0], self._of(args[0], labels), True)
                self._collect_not(args[1], self._of(args[1], labels))
        elif name in ("__and__", "bitwise_and", "logical_and") and own.dtype is torch.bool:
            for operand in args:
                self.collect(operand, self._of(operand, labels), False)
        elif name in ("eq", "le", "lt", "ge", "gt") and isinstance(args[1], Node):
            self._compare(name, args[0], args[1], labels)
        else:
            self._add_tokens(node, labels)

    def _collect_not(self, node: Any, labels: Labels) -> None:
        node, labels = self.below(node, labels, truth=True)
        args: Any = node.args
        name = name_of(node) if node.op == "call_function" else ""
        if name in ("bitwise_not", "logical_not") and node.meta["val"].dtype is torch.bool:
            self.collect(args[0], self._of(args[0], labels), False)
            return
        equal = self.constant(args[1]) if name == "eq" else None
        if equal is None or equal.any():
            raise _Unknown
        self._add_tokens(*self.below(args[0], self._of(args[0], labels)))

    @staticmethod
    def _of(operand: Any, labels: Labels) -> Labels:
        """The labels of an operand, whose axes are the last ones of a result."""
        if not isinstance(operand, Node):
            return ()
        shape = operand.meta["val"].shape
        return tuple(n if size != 1 else None for size, n in zip(shape, labels[len(labels) - len(shape) :]))

    def _add(self, seen: torch.Tensor, labels: Labels) -> None:
        """Adds a constant."""
        for axis, n in enumerate(labels):
            if n not in (QUERY, KEY, None):
                first = seen.narrow(axis, 0, 1)
                if not torch.equal(first.expand_as(seen), seen):
                    raise _Unknown
                seen = first
        own = self._of_shape(seen.shape, labels)
        shape = [1, 1]
        for size, n in zip(seen.shape, own):
            if n is not None:
                shape[n] = size
        self.seen = self.seen & seen.reshape(shape)

    @staticmethod
    def _of_shape(shape: Sequence[int], labels: Labels) -> Labels:
        return tuple(n if size != 1 else None for size, n in zip(shape, labels))

    def _add_tokens(self, node: Node, labels: Labels) -> None:
        sides = [n for n in labels if n in (QUERY, KEY)]
        if len(sides) != 1:
            raise _Unknown
        self.tokens[sides[0]].append((node, _along(labels, sides[0])))

    def _compare(self, name: str, a: Any, b: Any, labels: Labels) -> None:
        (a, of_a), (b, of_b) = (self.below(v, self._of(v, labels)) for v in (a, b))
        if QUERY in of_a:
            name = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}.get(name, name)
            (a, of_a), (b, of_b) = (b, of_b), (a, of_a)
        less = 0
        if isinstance(b, Node) and b.op == "call_function" and name_of(b) == "sub" and not b.kwargs:
            taken = self.constant(b.args[1])
            if taken is None or taken.numel() != 1 or taken.is_floating_point():
                raise _Unknown
            less = int(taken)
            b, of_b = self.below(b.args[0], self._of(b.args[0], of_b))
        # Keys are compared with the queries that have the same values. NaN does not equal itself.
        if a is not b or KEY not in of_a or QUERY not in of_b or _along(of_a, KEY) != _along(of_b, QUERY):
            raise _Unknown
        if a.meta["val"].is_floating_point():
            raise _Unknown
        if name == "eq" and not less:
            self.ids.append((a, _along(of_a, KEY)))
        elif name != "eq":
            self.positions.append((a, _along(of_a, KEY), name, less))
        else:
            raise _Unknown

    def seen_with_positions(self) -> torch.Tensor:
        """The keys that are visible in a row of one document, bool [sequence or 1, sequence or 1]."""
        seen, place = self.seen, torch.arange(self.sequence)
        for node, _, name, less in self.positions:
            # In a document that begins where positions do not go on, they differ as places do.
            if not self.ids or _restarts(self.below(self.ids[0][0], self.ids[0][1])[0]) is not node:
                raise _Unknown
            seen = seen & getattr(torch, name)(place, place[:, None] - less)
        return seen


def _along(labels: Labels, side: int) -> Labels:
    """Labels where queries, or keys, are tokens."""
    return tuple(KEY if n == side else n for n in labels)


def _is_prefix_sum(node: Node) -> bool:
    """Whether a node is the number of truth values up to each place of the last axis."""
    if node.op != "call_function" or name_of(node) != "cumsum":
        return False
    source, axis = node.args[:2]
    value = source.meta["val"]  # type: ignore[union-attr]
    is_exact = node.meta["val"].dtype in (torch.int32, torch.int64)
    return is_exact and value.dtype is torch.bool and axis in (-1, value.dim() - 1)


def _restarts(ids: Node) -> Node | None:
    """The positions of ids that count the places where positions do not go on: `cumsum(diff(positions) != 1)`."""
    if not _is_prefix_sum(ids):
        return None
    changed: Any = ids.args[0]
    if name_of(changed) != "ne" or changed.args[1] != 1:
        return None
    step: Any = changed.args[0]
    if name_of(step) != "diff":
        return None
    arguments = given(step)
    source: Node = arguments["self"]
    prepend: Node | None = arguments["prepend"]
    last = source.meta["val"].dim() - 1
    if arguments["n"] != 1 or arguments["dim"] not in (-1, last) or arguments["append"] is not None:
        return None
    size = source.meta["val"].shape[-1]
    is_whole = prepend is not None and prepend.meta["val"].shape[-1] == 1 and step.meta["val"].shape[-1] == size
    return source if is_whole else None


def _read(module: GraphModule, mask: Node) -> Terms | None:
    """The terms of a mask, with a new node for its rows; None if it is computed in another way."""
    value = mask.meta["val"]
    (*lead, queries), sequence = value.shape[:-1], value.shape[-1]
    reader = _Reader(module, sequence)
    labels: Labels = tuple(n if size != 1 else None for n, size in enumerate(lead))
    labels += (QUERY if queries != 1 else None, KEY)
    try:
        reader.collect(mask, labels, value.is_floating_point())
        seen = reader.seen_with_positions()
    except _Unknown:
        return None
    ids, tokens = list(dict.fromkeys(reader.ids)), list(dict.fromkeys(reader.tokens[KEY]))
    if len(ids) > 1 or not (ids or tokens) or not set(reader.tokens[QUERY]) <= set(tokens):
        return None
    kind = kind_for(seen, None, sequence, None)
    if kind == OTHER:
        return None
    graph = module.graph
    # Behind the mask, which may itself say which tokens are visible.
    with graph.inserting_before(mask.next):
        operands = [_spread(graph, node, own, len(lead)) for node, own in (*ids, *tokens)]
        if any(operand is None for operand in operands):
            return None
        own_ids = operands[0] if ids else None
        is_sorted = bool(ids) and _is_prefix_sum(ids[0][0])
        arguments = (tuple(lead), sequence, own_ids, is_sorted, *operands[len(ids) :])
        rows = graph.call_function(rows_of_terms, arguments)
    with value.fake_mode:
        rows.meta["val"] = torch.empty((4, *lead, sequence), dtype=torch.bool, device=value.device)
    return Terms(rows, kind, bool(ids), bool(tokens), bool(reader.tokens[QUERY]))


def _spread(graph: Graph, node: Node, labels: Labels, count: int) -> Node | None:
    """A value with these labels as [.., sequence], with `count` axes before the last one; None if their order is another."""
    order = [n for n in labels if n is not None]
    wanted = sorted(order, key=lambda n: count if n == KEY else n)
    if order != wanted or len(set(order)) != len(order):
        return None
    value = node.meta["val"]
    sizes = dict(zip(labels, value.shape))
    shape = [sizes.get(n, 1) for n in range(count)] + [sizes[KEY]]
    if shape == list(value.shape):
        return node
    made = graph.call_function(torch.ops.aten.reshape.default, (node, shape))
    with value.fake_mode:
        made.meta["val"] = torch.empty(shape, dtype=value.dtype, device=value.device)
    return made


def find_terms(module: GraphModule, dependent: set[Node], written: set[Node]) -> None:
    """Notes the terms of the masks that a graph computes.

    dependent: nodes that no mask may depend on. written: those whose memory is written to.
    """
    unread = dependent | written
    for node in module.graph.nodes if written else ():
        if any(n in unread for n in node.all_input_nodes):
            unread.add(node)
    for mask in {n: None for node in module.graph.nodes for n in _masks_in(node) if n not in unread}:
        terms = _read(module, mask)
        if terms is not None:
            mask.meta[META] = terms


def _masks_in(node: Node) -> list[Node]:
    """The operands of a node that may be masks of attention."""
    if node.op != "call_function" or not str(node.target).startswith("aten."):
        return []
    name = name_of(node)
    if name == "scaled_dot_product_attention":
        found = [given(node)["attn_mask"]]
    elif name in ("add", "where", "masked_fill"):
        found = list(node.all_input_nodes)
    else:
        return []
    values = [(n, n.meta.get("val")) for n in found if isinstance(n, Node)]
    square = lambda v: v.dim() > 1 and v.shape[-1] > 1 and v.shape[-2] in (1, v.shape[-1])
    is_mask = lambda v: v.dtype is torch.bool or v.is_floating_point()
    return [n for n, v in values if isinstance(v, torch.Tensor) and square(v) and is_mask(v)]
