"""Prepares `torch.nn.attention.varlen.varlen_attn`, attention of packed documents, to be compiled.

Its queries and keys may have boundaries of their own. te has one for both, so those that are passed as two tensors are
compared in each call, without a wait for the device: where they differ, the boundary is negative, which is an error on a
CPU and makes all results NaN on a GPU. `flash_attn_varlen_func` is the same with the arguments of flash_attn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, NamedTuple

import torch
import torch.nn.attention.varlen
from torch.fx import Graph, GraphModule, Node

_OP = torch.ops.torch_attn._varlen_attn.default


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
) -> torch.Tensor:
    """`varlen_attn` with the arguments of flash_attn's function of this name, for models that are compiled without flash_attn.

    Arguments that `varlen_attn` has no counterpart for may only have their defaults.
    """
    lacking = {
        "dropout_p": dropout_p,
        "softcap": softcap,
        "alibi_slopes": alibi_slopes is not None,
        "deterministic": deterministic,
        "return_attn_probs": return_attn_probs,
        "block_table": block_table is not None,
    }
    given = [name for name, value in lacking.items() if value]
    if given:
        raise ValueError(f"flash_attn_varlen_func: expected no {', '.join(given)}, as they are not implemented")
    made: Any = torch.nn.attention.varlen.varlen_attn(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        scale=softmax_scale,
        window_size=(window_size[0], 0 if causal else window_size[1]),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    result: torch.Tensor = made
    return result


def attention(boundaries: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, ...]:
    """The op with `arguments`, to be compiled. `take_back` replaces those that stay in PyTorch."""
    raise NotImplementedError


class Call(NamedTuple):
    """The arguments of a call. window_left: the number of earlier keys that a query sees; None for all."""

    boundaries: Node
    q: Node
    k: Node
    v: Node
    causal: bool
    scale: float | None
    window_left: int | None
    longest: int


def _named(node: Node) -> dict[str, Any]:
    """The arguments of the op by name, including defaults."""
    arguments = _OP._schema.arguments
    given = node.args[1:] if node.target is attention else node.args
    return {
        **{a.name: a.default_value for a in arguments},
        **dict(zip((a.name for a in arguments), given)),
        **node.kwargs,
    }


def call_of(node: Node) -> Call:
    """The arguments of a call that is compiled."""
    given = _named(node)
    left, right = given["window_size"] or (-1, -1)
    causal = bool(given["is_causal"]) or right == 0
    longest = max(given["max_q"], given["max_k"], 1)
    return Call(
        node.args[0],  # type: ignore[arg-type]
        given["query"],
        given["key"],
        given["value"],
        causal,
        given["scale"],
        left if left >= 0 else None,
        min(longest, given["query"].meta["val"].shape[0]),
    )


def is_call(node: Node) -> bool:
    """Whether a node calls the op."""
    return node.target in (_OP, attention)


def unsupported(node: Node) -> str | None:
    """Why a call stays in PyTorch."""
    given = _named(node)
    left, right = given["window_size"] or (-1, -1)
    if given["seqused_k"] is not None or given["block_table"] is not None:
        return "'seqused_k' and 'block_table' are not implemented"
    shapes = [
        given[name].meta["val"].shape for name in ("query", "key", "cu_seq_q", "cu_seq_k") if given[name] is not None
    ]
    if len(shapes) != 4 or shapes[0][0] != shapes[1][0] or shapes[2] != shapes[3]:
        return "its queries and keys have different lengths"
    if given["query"].meta["val"].shape[2] != given["value"].meta["val"].shape[2]:
        return "its values have another width than its queries"
    causal = given["is_causal"] or right == 0
    if right > 0 or (left >= 0 and not causal):
        return f"expected its window to have no later keys, but got window_size={[left, right]}"
    return None


def give_boundaries(graph: Graph) -> None:
    """Gives the calls of a graph one tensor of boundaries for both queries and keys."""
    joined: dict[tuple[Node, Node], Node] = {}
    for node in [n for n in graph.nodes if n.target is _OP and unsupported(n) is None]:
        given = _named(node)
        boundaries, others = given["cu_seq_q"], given["cu_seq_k"]
        if others is not boundaries:
            key = boundaries, others
            if key not in joined:
                value = boundaries.meta["val"]
                with graph.inserting_before(node):
                    same = graph.call_function(torch.ops.aten.eq.Tensor, key)
                    joined[key] = graph.call_function(torch.ops.aten.where.ScalarOther, (same, boundaries, -1))
                same.meta["val"], joined[key].meta["val"] = value == value, value.clone()
            boundaries = joined[key]
        node.target, node.args = attention, (boundaries, *node.args)


def take_back(graph: Graph, compiled: Set[Node]) -> None:
    """Lets the calls that are not compiled be PyTorch's again."""
    for node in [n for n in graph.nodes if n.target is attention and n not in compiled]:
        node.target, node.args = _OP, node.args[1:]


def _next_power(number: int) -> int:
    return 1 << (max(number, 1) - 1).bit_length()


class Rounded:
    """A graph that takes few sets of sizes, although each call may have another number of documents.

    Boundaries are followed by empty documents up to a power of two, and the length of the longest document is rounded
    to one, if the graph uses them only for attention.
    """

    def __init__(self, module: GraphModule) -> None:
        #: What takes the arguments of the graph.
        self.run: Callable[..., Any] = module
        nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
        self.lengths = [i for i, node in enumerate(nodes) if _is_only(node, ("max_q", "max_k"))]
        #: For each size, the boundaries that have it.
        self.sizes: dict[int, list[int]] = {}
        for index, node in enumerate(nodes):
            value = node.meta.get("example_value")
            if not isinstance(value, torch.SymInt) or node.users:
                continue
            having = [i for i, other in enumerate(nodes) if str(value) in _sizes(other)]
            if having and all(
                _is_only(nodes[i], ("cu_seq_q", "cu_seq_k")) and _sizes(nodes[i]) == [str(value)] for i in having
            ):
                self.sizes[index] = having

    def __call__(self, *arguments: Any) -> Any:
        given = list(arguments)
        for index in self.lengths:
            given[index] = _next_power(int(given[index]))
        for index, having in self.sizes.items():
            size = int(given[index])
            given[index] = _next_power(size - 1) + 1
            for i in having:
                given[i] = torch.nn.functional.pad(given[i], (0, given[index] - size))
                given[i][size:] = given[i][size - 1]
        return self.run(*given)


def _sizes(node: Node) -> list[str]:
    value = node.meta.get("example_value")
    return [str(size) for size in value.shape] if isinstance(value, torch.Tensor) else []


def _is_only(node: Node, names: Sequence[str]) -> bool:
    """Whether a graph of dynamo uses an argument only as one of these arguments of the op."""
    if not node.users or any(user.target not in (_OP, _OP.overloadpacket) for user in node.users):
        return False
    used = {name for user in node.users for name, value in _named(user).items() if value is node}
    return used <= set(names)
