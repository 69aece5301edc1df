"""Passes the weights of linear layers, the tables of embeddings and their indices to a region."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch.fx import Node as Origin

from te_mlir import build
from te_mlir.frontend.base import Unsupported, te_name
from te_mlir.frontend.embedding import Embedding
from te_mlir.frontend.graph import Atom, Node, Var
from te_mlir.frontend.linear import Linear, Operand
from te_mlir.frontend.looking import node_of, uncast
from te_mlir.frontend.losses import Picked
from te_mlir.frontend.parts import Columns
from te_mlir.torch.arguments import FIXED, Arguments
from te_mlir.torch.indices import Indices
from te_mlir.torch.states import layer_of
from te_mlir.torch.tensors import dense


class Weights(Arguments):
    """Emits weights, tables and indices."""

    def layers(self, nodes: Iterable[Origin]) -> set[Origin]:
        """The nodes that compute a linear layer whose weight is a parameter: the GEMM, or the sum with a bias."""
        found = {node: self.linear_of(self.adapter.var(node)) for node in nodes}
        summed = {layer.node for layer in found.values() if layer is not None and layer.bias is not None}
        return {
            node
            for node, layer in found.items()
            if layer is not None
            and self.is_weight(layer.w.atom)
            and (layer.bias is not None or layer.node not in summed)
        }

    def is_weight(self, atom: Atom) -> bool:
        return self.stored(atom) is not None

    def layer_name(self, w: Atom, part: Columns | None, user: Node) -> str | None:
        # The layer has the name of its parameter, also if the parameter is cast to the type of the layer.
        found = self.stored(w)
        while found is None and (by := node_of(uncast(w), "transpose", "reshape")) is not None:
            w = by.inputs[0]
            found = self.stored(w)
        if found is None:
            return str(user.origin.name)
        parameter = found.parameter.origin
        name = self.names.get(parameter, parameter.name)
        return layer_of(name if found.part is None else found.part.name(name))

    def linear(self, var: Var, found: Linear, part: Columns | None = None) -> build.Value:
        w = found.w
        if w.free > w.summed and not self.is_weight(w.atom):
            # Raise for the GEMM before its operands are emitted: otherwise, the views that it reads would be reported.
            self.weight(w, part, found.node)
        return super().linear(var, found, part)

    def weight(self, w: Operand, part: Columns | None, user: Node) -> tuple[build.Value, bool]:
        assert part is None, "layers are cut into parts before the graph is divided"
        below = _transpose_of(w.atom)
        if below is not None and (w.free > w.summed or self.is_weight(below)):
            w = Operand(below, w.summed, w.free)
        fixed = self._fixed(w.atom) if w.free < w.summed else None
        if fixed is not None:
            return fixed, False
        other = Unsupported(user, "only GEMMs with the transpose of a row-major matrix are imported as linear layers")
        if len(w.atom.shape) != 2:
            raise other
        matrix, transposed = super().weight(w, part, user)
        if not transposed or self.is_weight(w.atom):
            return matrix, transposed
        if not self._is_of_parameters(w.atom):
            raise other
        return self.matrix(w.atom, user, w.free, w.summed), False

    def _is_of_parameters(self, w: Atom) -> bool:
        """Whether a weight is computed from nothing but parameters, such as a sum of two of them."""
        pending, visited = [w], set()
        while pending:
            atom = pending.pop()
            if not isinstance(atom, Var) or atom in visited or self.stored(atom) is not None:
                continue
            visited.add(atom)
            if atom.node is None or not self.is_inside(atom):
                return False
            pending += [operand for operand in atom.node.inputs if operand is not None]
        return True

    def _fixed(self, w: Atom | None) -> build.Value | None:
        """A matrix from outside the region that is not a parameter, or a cast of such a matrix, as a weight.

        It is passed as a vector. The compiler treats a matrix that is an argument as a weight, even if it is not marked
        as a parameter, but then neither caches its casts nor adds its gradient to 'main_grad'.
        """
        if not isinstance(w, Var) or w.origin is None:
            return None
        if self.is_inside(w):
            dtype, cast = te_name(w.dtype), node_of(w, "convert_element_type")
            inner = self._fixed(cast.inputs[0]) if cast is not None and uncast(w) is not w else None
            return None if inner is None or dtype is None else self.function.cast(inner, dtype)
        if self.stored(w) is not None or len(w.shape) != 2:
            return None
        vector = self.feed(w.origin, "flat", lambda t: dense(t).view(-1), (math.prod(w.shape),))
        return self.function.reshape(vector, w.shape)

    # Rows of tables

    def constant_vocabulary(self, table: Atom, user: Node) -> build.Value:
        if not isinstance(table, Var) or not self.is_parameter(table):
            raise Unsupported(user, "expected its table, which has a padding row, to be a parameter")
        return self.feed(table.origin, FIXED, torch.Tensor.detach)

    def indices(self, found: Embedding, user: Node, only: int | None = None, but: int | None = None) -> build.Value:
        make = Indices()
        if but is not None:
            return self.ids(found.indices, f"ids_but_{but}", lambda t: make(t.masked_fill(t == but, -1)))
        if only is not None:
            return self.ids(found.indices, f"ids_{only}", lambda t: make(t.masked_fill(t != only, -1)))
        return self.ids(found.indices, "ids", make)

    def places(self, gather: Node) -> build.Value:
        x, index = gather.inputs
        sizes, axis = x.shape, gather.params["axis"]

        def make(t: torch.Tensor) -> torch.Tensor:
            along = [
                torch.arange(n, device=t.device).reshape(-1, *[1] * (t.dim() - a - 1)) for a, n in enumerate(t.shape)
            ]
            along[axis] = t
            places = sum(place * math.prod(sizes[a + 1 :]) for a, place in enumerate(along))
            return places.to(torch.int32).reshape(-1)

        if not self.is_given(index):
            raise Unsupported(gather, "its indices are computed from compiled values")
        return self.ids(index, f"places_{axis}_{'x'.join(map(str, sizes))}", make)

    def picks(self, picked: Picked, user: Node) -> build.Value:
        # PyTorch has checked that every index is in range.
        if not self.is_given(picked.targets):
            raise Unsupported(user, "its indices are computed from compiled values")
        count = math.prod(picked.targets.shape)
        return self.feed(
            self.origin_of(picked.targets), "labels", lambda t: t.reshape(-1).float(), (count,), torch.float32
        )

    def classes(self, targets: Atom, count: int, user: Node) -> build.Value:
        every = lambda t: torch.arange(count, dtype=torch.float32, device=t.device)
        return self.feed(self.origin_of(targets), f"classes_{count}", every, (count,), torch.float32)

    # Experts

    def given_ids(self, ids: Atom, user: Node) -> build.Value:
        origin, make = self.origin_of(ids), Indices()
        if origin in self.inside:
            raise Unsupported(self.adapter.var(origin), "it chooses experts by compiled values")
        return self.feed(origin, "experts", lambda t: make(t).view(ids.shape), ids.shape, torch.int32)

    def given_used(self, used: Atom, user: Node) -> build.Value:
        numbers = lambda t: t.reshape(-1).float()
        return self.feed(self.origin_of(used), "used", numbers, used.shape, torch.float32)

    def stack(self, w: Atom, user: Node) -> build.Value:
        return self.function.reshape(self.in_order(self.value(w, user), user), w.shape)

    def stack_name(self, w: Atom) -> str | None:
        while (node := node_of(uncast(w), "transpose")) is not None:
            w = node.inputs[0]
        parameter = uncast(w)
        is_named = isinstance(parameter, Var) and parameter.origin in self.names
        return self.names[parameter.origin] if is_named else None  # type: ignore[union-attr]

    def ids(self, ids: Atom, key: str, make: Callable[[torch.Tensor], torch.Tensor]) -> build.Value:
        """Indices that `make` computes from integers before the call; key: identifies what `make` does."""
        origin = self.origin_of(ids)
        if origin in self.inside:
            raise Unsupported(self.adapter.var(origin), "it computes indices from compiled values")
        return self.feed(origin, key, make, (math.prod(ids.shape),), torch.int32)


def _transpose_of(value: Atom) -> Atom | None:
    """The operand of a value that is the transpose of a matrix; None for other values."""
    node = node_of(value, "transpose")
    is_matrix = node is not None and tuple(node.params["permutation"]) == (1, 0)
    return node.inputs[0] if node is not None and is_matrix else None
