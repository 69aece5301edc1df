"""Emits a graph as a function of the dialect.

Emission is on demand, from the results, so that an operation that is a part of a pattern (the mean
of a norm, the mask of attention) is never emitted separately. Each framework derives a class from
`Emitter`, which defines how values from outside of the graph become arguments.
"""

from __future__ import annotations

from te_mlir.frontend.activations import match_activation
from te_mlir.frontend.attention import Attentions
from te_mlir.frontend.base import FLOATS, Unsupported, Value, te_name
from te_mlir.frontend.cross_entropy import Losses
from te_mlir.frontend.experts import Experts
from te_mlir.frontend.graph import Node, Var
from te_mlir.frontend.looking import is_widened
from te_mlir.frontend.losses import match_cross_entropy
from te_mlir.frontend.norms import Norms, match_layer_norm, match_rms_norm
from te_mlir.frontend.rotary import Rotations, match_rope
from te_mlir.frontend.softmax import match_softmax


class Emitter(Losses, Norms, Rotations, Attentions, Experts):
    """Emits each value of a graph as the first pattern that matches, or else as its own operation."""

    def matched(self, var: Var, node: Node) -> Value | None:
        if is_widened(var):
            # A pattern would skip the rounding of the operand. Emit the cast, and the operand once for all readers.
            return None
        loss = match_cross_entropy(var)
        if loss is not None:
            return self.cross_entropy(var, node, loss)
        layer_norm = match_layer_norm(var)
        if layer_norm is not None:
            return self.layer_norm(var, node, layer_norm)
        rms_norm = match_rms_norm(var)
        if rms_norm is not None:
            return self.rms_norm(var, node, rms_norm)
        softmax = match_softmax(var)
        if softmax is not None:
            return self.softmax(var, node, softmax)
        rows = self.matched_rows(var, node)
        if rows is not None:
            return rows
        rope = match_rope(var)
        if rope is not None:
            return self.rope(var, node, rope)
        activation = match_activation(var)
        return self.activation(var, node, activation) if activation is not None else None


__all__ = ["FLOATS", "Emitter", "Unsupported", "Value", "te_name"]
