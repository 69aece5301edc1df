"""Emits the nodes of an ATen graph as a function of the dialect.

Nodes that depend on a parameter, or on a tensor that needs a gradient, are compiled. PyTorch
computes the others (positions, tables, masks, integer targets) before the compiled part. A node
that cannot be emitted raises `Unsupported` with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import Node as Origin

from te_mlir import build
from te_mlir.errors import ArgumentError
from te_mlir.frontend import rotary
from te_mlir.frontend.attention import Attention, OutsideMask, batches_of_masks
from te_mlir.frontend.emitter import Unsupported, Value
from te_mlir.frontend.graph import Atom, Node, Var
from te_mlir.frontend.looking import SAME_ORDER, node_of, uncast
from te_mlir.frontend.losses import CrossEntropy
from te_mlir.frontend.scores import Scores
from te_mlir.frontend.views import viewed
from te_mlir.layout import row_major
from te_mlir.torch.arguments import describe, fake
from te_mlir.torch.documents import (
    Documents,
    Facts,
    Latest,
    boundaries_of,
    capacity_for,
    documents_in,
    rows_of,
)
from te_mlir.torch.indices import Indices
from te_mlir.torch.mask_terms import META, Terms
from te_mlir.torch.masks import CAUSAL, OTHER, Kind, OtherMask, OtherTable, is_kind, kind_for
from te_mlir.torch.tensors import dtype_name
from te_mlir.torch.weights import Weights

#: Operations that compute no element.
_VIEWS = (*SAME_ORDER, "transpose", "convert_element_type", "copy")


def _may_move_tokens(node: Node, sequence: int) -> bool:
    """Whether a slice or a concatenation gives an axis, which is not the last one, `sequence` elements."""
    if node.name not in ("slice", "concatenate"):
        return False
    before, after = node.inputs[0].shape[:-1], node.output.shape[:-1]
    return any(a != b == sequence for a, b in zip(before, after))


class Importer(Weights):
    """Emits the nodes of a graph into one function."""

    def lacks(self, node: Node) -> Unsupported:
        return Unsupported(node, node.params.get("reason", f"'{node.origin.target}' has no counterpart in te"))

    # Rotations

    def table(
        self, table: Atom, user: Node, found: rotary.Rope, order: Sequence[int], batch: int, sequence: int
    ) -> build.Value:
        width, of, source = found.x.shape[-1], found.alike, self.origin_of(table)
        if source in self.inside or source in self.wanting:
            raise Unsupported(user, "the tables of a rotation depend on compiled values")
        b, s, h, columns = (rotary.sizes(table)[a] for a in order)
        if h != 1 or s != sequence or columns != (width // 2 if of == rotary.HALF else width) or b not in (1, batch):
            wanted = "[batch or 1, 1, sequence, width]" if order[1] == 2 else "[batch or 1, sequence, 1, width]"
            wanted = wanted.replace("width", "width / 2") if of == rotary.HALF else wanted
            raise Unsupported(user, f"its tables are {list(fake(source).shape)}; expected {wanted}")
        shape = (b * sequence, width // 2)
        if of == rotary.HALF:
            half = lambda t: t.reshape(-1, width // 2).to(torch.float32).contiguous()
            return self.feed(source, of, half, shape, torch.float32)
        if self.masks.get(source.name) == OTHER:
            raise OtherTable(user, source.name, of)

        known = (rotary.has_equal_pairs if of == rotary.PAIRS else rotary.has_equal_halves)(table)
        facts = Facts()

        def make(t: torch.Tensor) -> torch.Tensor:
            rows = t.reshape(-1, width).to(torch.float32)
            first, second = (rows[:, ::2], rows[:, 1::2]) if of == rotary.PAIRS else rows.chunk(2, -1)
            if known:
                return first.contiguous()
            is_equal = (first == second).all()
            (equal,), is_now = facts(is_equal.reshape(1))
            if is_now and not equal:
                raise OtherTable(user, source.name, of)
            if not equal:
                raise ArgumentError(
                    f"{describe(source)}: the {of} of a rotary table were not equal in an earlier call, unlike when its "
                    "graph was compiled, and the results of that call are NaN"
                )
            return torch.where(is_equal, first, torch.nan).contiguous()

        return self.feed(source, of, make, shape, torch.float32)

    # Attention

    def is_on_gpu(self, user: Node) -> bool:
        return fake(user.origin).device.type != "cpu"

    def is_deterministic(self) -> bool:
        # This is the flag that PyTorch's own attention follows.
        return torch.are_deterministic_algorithms_enabled()

    def sinks(self, user: Node, sinks: Atom, heads: list[int]) -> build.Value:
        source = uncast(sinks)
        origin = self.origin_of(source)
        if str(origin.target).startswith("aten.zeros."):
            # Every element is 0, so the shape of the tensor does not matter.
            count = math.prod(user.output.shape[a] for a in heads)
            return self.feed(origin, "sinks", lambda t: t.new_zeros(count).float(), (count,), torch.float32)
        return super().sinks(user, sinks, heads)

    def _sources(self, x: Atom, sequence: int) -> set[Atom]:
        """The inputs of the layers that compute a value, and the values from outside that it depends on.

        So is a slice or a concatenation that may move tokens: it gives an axis, not the last one, `sequence` elements.
        """
        found: set[Atom] = set()
        visited: set[Atom] = set()
        pending = [(x, False)]
        while pending:
            atom, is_input = pending.pop()
            while (view := node_of(atom, *_VIEWS)) is not None:
                atom = view.inputs[0]
            if not isinstance(atom, Var) or self.stored(atom) is not None or (atom in visited and not is_input):
                continue
            visited.add(atom)
            node = atom.node
            if is_input or node is None or not self.is_inside(atom) or _may_move_tokens(node, sequence):
                found.add(atom)
            else:
                pending += [(operand, node.name == "dot_general") for operand in node.inputs if operand is not None]
        return found

    def outside_mask(
        self, user: Node, found: Attention, scores: Scores, before: Sequence[int], query: int
    ) -> OutsideMask:
        if len(scores.outside) > 1 or scores.masks:
            raise Unsupported(user, "it has several masks")
        (mask,) = scores.outside
        if mask.axes != tuple(range(len(mask.axes))):
            raise Unsupported(user, "its scores are transposed after they are masked")
        sequence = found.q.shape[found.q_of[query]]
        batches = batches_of_masks(scores, found, before, query)
        # The compiled code does not read the mask. It assumes a kind of mask, which is compared before each call.
        source = self.origin_of(mask.values)
        if source in self.inside or source in self.wanting:
            raise Unsupported(user, "its mask depends on compiled values")

        def of(t: torch.Tensor) -> torch.Tensor:
            """The mask as it is applied to scores; true or 0 means visible."""
            t = ~t if mask.hides else t
            return t if mask.scale == 1 or t.dtype is torch.bool else t * mask.scale

        # How a mask is applied identifies the feeds that are made of it.
        applied = ("_hides" if mask.hides else "") + ("" if mask.scale == 1 else f"_{mask.scale:g}")
        earlier = self.masks.get(source.name)
        kind = earlier or CAUSAL
        if kind == OTHER:
            raise Unsupported(
                user,
                "its mask is neither causal (with or without a window) nor all ones, in whole rows or in documents",
            )
        # In attention from a decoder to an encoder, query i is another token than key i, which may be padding.
        is_self = self._sources(found.q, sequence) == self._sources(found.k, sequence)
        found_terms: Terms | None = source.meta.get(META) if not applied else None
        if found_terms is not None and batches is not None and found_terms.fit(batches, sequence, is_self):
            return self._documents_of_terms(user, found_terms, source, batches, sequence, earlier)
        rows = math.prod(batches or ())

        def other(t: torch.Tensor) -> OtherMask:
            return OtherMask(user, source.name, kind_for(t, batches, sequence, earlier, is_self))

        def check(t: torch.Tensor) -> torch.Tensor:
            t = of(t)
            if not is_kind(t, sequence, kind):
                raise other(t)
            return torch.zeros((), dtype=torch.float32, device=t.device)

        if not kind.documents:
            # The feed is a scalar that no op reads. It exists because `check` runs when a feed is computed.
            self.feed(source, f"mask{applied}", check, (), torch.float32)
            return OutsideMask(kind.name == CAUSAL.name, kind.window_left)
        if batches is None:
            raise Unsupported(
                user, "its mask has documents, and its axes are in another order than its queries and keys"
            )

        def look(t: torch.Tensor) -> Documents:
            t = of(t)
            read = rows_of(t, batches, sequence)
            if read is None:
                raise OtherMask(user, source.name, OTHER)
            documents = documents_in(read, is_self, kind.name == CAUSAL.name, kind.window_left)
            fits, number, has_blind = documents.facts.tolist()
            if not fits or number > kind.documents or has_blind > kind.blind:
                raise other(t)
            return documents

        way = f"{'x'.join(map(str, batches))}_{sequence}_{is_self}{applied}"
        return self._documents(source, source, kind, way, rows * sequence, look)

    def _documents_of_terms(
        self, user: Node, terms: Terms, source: Origin, batches: Sequence[int], sequence: int, earlier: Kind | None
    ) -> OutsideMask:
        """The documents of a mask by what it is computed from, which is not compared with the mask."""
        rows = math.prod(batches)
        # A row without ids has the padding before its tokens, the tokens, and the padding behind them.
        capacity = capacity_for(0 if terms.ids else min(3, sequence) * rows, rows)
        kind = earlier or terms.kind._replace(documents=capacity, blind=terms.is_blind)
        causal, facts = kind.name == CAUSAL.name, Facts(waits=terms.ids)

        def look(t: torch.Tensor) -> Documents:
            documents = terms.documents(t, batches)
            (fits, number, _), is_now = facts(documents.facts)
            if is_now and not fits:
                raise OtherMask(user, source.name, OTHER)
            if is_now and number > kind.documents:
                raise OtherMask(user, source.name, kind._replace(documents=capacity_for(number, rows)))
            return documents

        way = f"{'x'.join(map(str, batches))}_{sequence}_{causal}_{kind.window_left}"
        return self._documents(terms.rows, source, kind, way, rows * sequence, look)

    def _documents(
        self,
        node: Origin,
        source: Origin,
        kind: Kind,
        way: str,
        tokens: int,
        look: Callable[[torch.Tensor], Documents],
    ) -> OutsideMask:
        """Passes the documents that are found in the tensor of a node. way: how an attention reads it."""
        looked = Latest(look)

        def boundaries(t: torch.Tensor) -> torch.Tensor:
            found = looked(t)
            # Where the host has not waited for the facts, the device looks at the first one.
            return torch.where(found.facts[0] != 0, boundaries_of(found.starts, kind.documents), -1)

        # Attentions with one mask share its feeds, if they read it in the same way.
        documents = self.feed(node, f"documents_{way}", boundaries, (kind.documents + 1,), torch.int32)
        seeing = None
        if kind.blind:
            numbers = lambda t: looked(t).seeing.flatten().float()
            seeing = self.feed(node, f"seeing_{way}", numbers, (tokens,), torch.float32)
        return OutsideMask(kind.name == CAUSAL.name, kind.window_left, documents, seeing)

    def boundaries(self, user: Node, boundaries: Atom) -> build.Value:
        source = self.origin_of(boundaries)
        if source in self.inside or source in self.wanting:
            raise Unsupported(user, "the boundaries of its documents depend on compiled values")
        make = lambda t: t.to(torch.int32).contiguous()
        return self.feed(source, "boundaries", make, dtype=torch.int32)

    # Losses

    def targets(
        self, user: Node, found: CrossEntropy, place: np.ndarray[Any, Any], rows: int, classes: int, by_rows: bool
    ) -> tuple[build.Value, build.Value | None]:
        targets, ignored = found.targets, found.ignore_index
        if found.masks:
            raise Unsupported(user, "a mask selects its rows; use 'ignore_index' to ignore rows")
        if not isinstance(targets, Var) or not self.is_given(targets) or targets.floating:
            raise Unsupported(user, "its targets are not integers that are computed before the compiled part")
        count, origin = len(place), self.origin_of(targets)
        number = lambda t: ((t != ignored) & (t >= 0) & (t < classes)).sum(dtype=torch.float32)
        numbers = f"count_{ignored}_{classes}"
        if by_rows:
            label = lambda t: t.masked_fill(t == ignored, -1).reshape(-1).float()
            labels = self.feed(origin, f"labels_{ignored}", label, (rows,), torch.float32)
            least = lambda t: number(t).clamp(min=1)
            return labels, None if found.summed else self.feed(origin, f"{numbers}_1", least, (), torch.float32)
        if count == rows and (place == np.arange(rows)).all():
            ids = self.ids(targets, "ids", Indices())
        else:
            # The logits are logits[..., :-1, :]: the last row of each sequence has no target.
            length = count // max(rows - count, 1)
            before_last = np.arange(rows).reshape(-1, length + 1)[:, :-1] if rows % (length + 1) == 0 else place[:0]
            if not np.array_equal(before_last.reshape(-1), place):
                raise Unsupported(user, "its logits are a view that is not row-major in memory")

            def shifted(t: torch.Tensor) -> torch.Tensor:
                return Indices()(torch.nn.functional.pad(t.reshape(-1, length), (0, 1), value=ignored))

            ids = self.feed(origin, f"shifted_{length}_{ignored}", shifted, (rows,), torch.int32)
        if not found.summed:
            return ids, None
        return ids, self.feed(origin, numbers, number, (), torch.float32)

    def is_returned(self, var: Var, readers: Sequence[Node]) -> bool:
        return var.origin is not None and any(user not in self.inside for user in var.origin.users)

    # Elementwise

    def is_number(self, atom: Atom, other: Atom) -> bool:
        return super().is_number(atom, other) or (bool(other.shape) and self._is_outside_number(atom))

    def _is_outside_number(self, atom: Atom) -> bool:
        """Whether a value is a rank-0 tensor from outside of the region without a gradient."""
        some = (self.inside, self.parameters, self.wanting)
        return isinstance(atom, Var) and not atom.shape and not any(atom.origin in nodes for nodes in some)

    def number(self, atom: Atom, x: build.Value, user: Node) -> build.Value:
        if not isinstance(atom, Var):
            return super().number(atom, x, user)
        # Elementwise ops need operands of one shape. A feed that depends only on buffers is computed once.
        of: torch.dtype = getattr(torch, x.dtype)
        make = lambda t: t.to(of).expand(x.shape).contiguous()
        return self.feed(atom.origin, f"{x.dtype} {list(x.shape)}", make, x.shape, of)

    def truths(self, atom: Atom, user: Node) -> Value | None:
        source = atom
        while isinstance(source, Var) and source.origin is None:
            if source.node is None or source.node.name != "broadcast_in_dim":
                return None
            source = source.node.inputs[0]
        return self.operand(atom, user) if self.is_given(source) else None

    def operand(self, atom: Atom, user: Node) -> Value:
        repeats = node_of(atom, "broadcast_in_dim") if isinstance(atom, Var) and atom.origin is None else None
        if repeats is not None and not repeats.output.floating and self.is_given(atom):
            inner = self.operand(repeats.inputs[0], user)
            layout = viewed(repeats.output, repeats, inner.layout)
            assert layout is not None, "axes of size 1 are added to a row-major value"
            return Value(inner.matrix, layout)
        if isinstance(atom, Var) and atom.dtype == "bool" and self.is_inside(atom):
            return self._chosen_numbers(atom, Var(atom.shape, user.output.dtype), user)
        if not isinstance(atom, Var) or self.is_inside(atom) or atom.floating:
            return self.value(atom, user)
        # PyTorch converts integers from outside of the region to the type of the result.
        dtype: torch.dtype = fake(user.origin).dtype
        matrix = self.feed(atom.origin, dtype_name(dtype), lambda t: t.to(dtype).contiguous(), dtype=dtype)
        return Value(matrix, row_major(atom.shape))
