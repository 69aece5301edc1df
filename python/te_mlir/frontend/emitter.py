"""From a graph to a function of the dialect.

Emission is on demand, from the results, so that an operation which a pattern takes in
(the mean of a norm, the mask of attention) is never emitted by itself. What a value from
outside becomes is the framework's, which makes a class of `Emitter` with its arguments.
"""

from __future__ import annotations

from te_mlir.frontend.activations import match_activation
from te_mlir.frontend.attention import Attentions
from te_mlir.frontend.base import FLOATS, Unsupported, Value, te_name
from te_mlir.frontend.cross_entropy import Losses
from te_mlir.frontend.embedding import Embeddings
from te_mlir.frontend.graph import Node, Var
from te_mlir.frontend.looking import is_widened
from te_mlir.frontend.losses import match_cross_entropy
from te_mlir.frontend.norms import Norms, match_layer_norm, match_rms_norm
from te_mlir.frontend.rotary import Rotations, match_rope


class Emitter(Embeddings, Norms, Rotations, Attentions, Losses):
    """Emits values of a graph into one function, each as the first that a pattern finds in it, or by itself."""

    def matched(self, var: Var, node: Node) -> Value | None:
        """The value as what a pattern found in it; None where none is found."""
        if is_widened(var):
            # By itself: what is below is rounded first, and is emitted once for all that read it.
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
        rope = match_rope(var)
        if rope is not None:
            return self.rope(var, node, rope)
        activation = match_activation(var)
        return self.activation(var, node, activation) if activation is not None else None


__all__ = ["FLOATS", "Emitter", "Unsupported", "Value", "te_name"]
