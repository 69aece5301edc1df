"""Traces graphs that torch.compile captured to ATen ops.

Tracing uses fake tensors and no decompositions, so that `linear`, `rms_norm`,
`scaled_dot_product_attention` and `cross_entropy_loss` stay single nodes.
"""

from __future__ import annotations

import copy
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

from te_mlir.torch import custom
from te_mlir.torch.replay import Replay, is_traced_first


def flatten(module: torch.fx.GraphModule, examples: Sequence[Any]) -> torch.fx.GraphModule:
    """The ATen graph of `module` on arguments like `examples`, all of them tensors."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        # Each argument gets its own fake tensor, because arguments that are one object would become one input.
        fakes = [
            torch.empty_strided(
                tuple(t.shape), tuple(t.stride()), dtype=t.dtype, device=t.device, requires_grad=t.requires_grad
            )
            for t in examples
        ]
        traced: dict[Any, torch.fx.GraphModule] = {}
        calls = custom.Calls()
        if is_traced_first(module):
            with torch.no_grad():
                Replay(module, traced, calls).run(*fakes)
        # These hooks replace those of a checkpoint around the call, which would count the tensors saved while tracing.
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            flat = make_fx(Replay(module, traced, calls).run, pre_dispatch=True, tracing_mode="real")(*fakes)
    for node in list(flat.graph.nodes):
        # Tracing detaches each constant in place, which would count as a write.
        if str(node.target) == "aten.detach_.default" and str(node.args[0].target).startswith("aten.lift_fresh"):
            node.replace_all_uses_with(node.args[0])
            flat.graph.erase_node(node)
    flat.graph.eliminate_dead_code()
    flat.meta[custom.CALLS] = calls
    return flat


class Tracing:
    """Traces a graph once, although its programs for other masks start with the traced graph, too.

    edit: changes the traced graph first. flat: the traced graph before that, if there is one already.
    """

    def __init__(
        self,
        module: torch.fx.GraphModule,
        edit: Callable[[torch.fx.GraphModule], None] = lambda flat: None,
        flat: torch.fx.GraphModule | None = None,
    ) -> None:
        self.module = module
        self._edit, self._given = edit, flat
        self._flat: torch.fx.GraphModule | None = None

    def __call__(self, examples: Sequence[Any]) -> torch.fx.GraphModule:
        """A copy of the traced graph, for arguments like `examples`. Those of all calls have the same form."""
        if self._flat is None:
            flat = self._given or flatten(self.module, examples)
            self._edit(flat)
            self._flat, self._given = flat, None
        copied = torch.fx.GraphModule(self._flat, copy.deepcopy(self._flat.graph))
        copied.meta.update(self._flat.meta)
        return copied


def writes(graph: torch.fx.Graph) -> bool:
    """Whether a graph writes to a tensor in place, so that equal calls may have different results."""
    called = [n.target for n in graph.nodes if n.op == "call_function"]
    return any(isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable for target in called)


#: Ops that take only the sizes, the type and the device of a tensor, and the op that takes these as arguments.
_LIKE = {
    torch.ops.aten.new_empty.default: torch.ops.aten.empty.memory_format,
    torch.ops.aten.new_zeros.default: torch.ops.aten.zeros.default,
    torch.ops.aten.new_ones.default: torch.ops.aten.ones.default,
    torch.ops.aten.empty_like.default: torch.ops.aten.empty.memory_format,
    torch.ops.aten.zeros_like.default: torch.ops.aten.zeros.default,
    torch.ops.aten.ones_like.default: torch.ops.aten.ones.default,
}


def without_templates(graph: torch.fx.Graph) -> None:
    """Creates tensors that are only like another one without reading that, so that they do not depend on compiled values."""
    for node in list(graph.nodes):
        make = _LIKE.get(node.target)
        value = node.meta.get("val")
        if make is None or value is None or not value.is_contiguous():
            continue
        with graph.inserting_before(node):
            made = graph.call_function(make, (list(value.shape),), {"dtype": value.dtype, "device": value.device})
        made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        graph.erase_node(node)


def without_broadcasts(graph: torch.fx.Graph) -> None:
    """Removes results of `torch.broadcast_tensors` whose operands have their shape, as those of `mse_loss` have."""
    for several in graph.find_nodes(op="call_function", target=torch.ops.aten.broadcast_tensors.default):
        for part in list(several.users):
            tensor = several.args[0][part.args[1]]
            if part.target is operator.getitem and tensor.meta["val"].shape == part.meta["val"].shape:
                part.replace_all_uses_with(tensor)
                graph.erase_node(part)
        if not several.users:
            graph.erase_node(several)


def merge_equal(graph: torch.fx.Graph, except_for: set[Node]) -> None:
    """Merges nodes that compute the same value, such as the views of a table that each layer creates."""
    if writes(graph):
        return
    seen: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or node in except_for or not isinstance(node.target, torch._ops.OpOverload):
            continue
        if torch.Tag.nondeterministic_seeded in node.target.tags:
            continue
        # In a torch.autocast block, the same call may have a result of another type.
        dtype = getattr(node.meta.get("val"), "dtype", None)
        key = (node.target, str(node.args), str(sorted(node.kwargs.items())), dtype)
        if key in seen:
            node.replace_all_uses_with(seen[key])
            graph.erase_node(node)
        else:
            seen[key] = node


def simplify(graph: torch.fx.Graph) -> None:
    """Removes calls without effect, and merges a pad and a slice that shift labels. Each call of PyTorch costs the host some us."""
    if writes(graph):
        return
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        name, source = str(node.target), node.args[0] if node.args else None
        if not isinstance(source, Node) or not all(isinstance(n.meta.get("val"), torch.Tensor) for n in (node, source)):
            continue
        value, before = node.meta["val"], source.meta["val"]
        same = value.dtype == before.dtype and value.device == before.device and not node.kwargs.get("copy")
        if (name == "aten.contiguous.default" and before.is_contiguous()) or (name.startswith("aten.to.d") and same):
            node.replace_all_uses_with(source)
        elif shift := shift_of(node):
            inner, k, fill = shift
            with graph.inserting_after(node):
                shifted = graph.call_function(torch.ops.aten.constant_pad_nd.default, (inner, [-k, k], fill))
            shifted.meta["val"] = value.contiguous()
            node.replace_all_uses_with(shifted)
    graph.eliminate_dead_code()


def shift_of(node: Node) -> tuple[Node, int, Any] | None:
    """(inner, k, fill) if `node` is `inner` shifted left by k along its last dimension, with `fill` at the end; else None."""
    source = node.args[0] if node.args else None
    if str(node.target) != "aten.slice.Tensor" or not isinstance(source, Node):
        return None
    before = source.meta.get("val")
    if str(source.target) != "aten.pad.default" or not isinstance(before, torch.Tensor):
        return None
    arguments: Sequence[Any] = source.args
    inner, amounts, *mode = arguments
    last, k = before.dim() - 1, amounts[-1]
    taken: Sequence[Any] = (*node.args[1:], 0, 0, 0)
    dim, start, end = taken[:3]
    if not (dim == last and start == k > 0 and end >= before.shape[last] >= 2 * k):
        return None
    if list(amounts) != [0, k] or mode[:1] != ["constant"]:
        return None
    return inner, k, mode[1] if len(mode) > 1 and mode[1] is not None else 0


_PARTS = re.compile(r"\['([^']+)'\]|\[(\d+)\]|\.([A-Za-z_]\w*)")


def argument_names(module: torch.fx.GraphModule) -> list[str]:
    """The names of the arguments: `layers.0.q_proj.weight` for a parameter, and the placeholder's name for others."""
    names: list[str] = []
    for node in module.graph.nodes:
        if node.op != "placeholder":
            continue
        argument = node.meta.get("grapharg")
        source = getattr(argument, "source", None)
        name = _pretty(_source_name(source)) if source is not None else node.name
        while name in names:
            name += "_"
        names.append(name)
    return names


def buffers(module: torch.fx.GraphModule) -> list[bool]:
    """For each argument, whether it is a buffer of a module, instead of a parameter or an input of the call."""
    found = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            source = getattr(node.meta.get("grapharg"), "source", None)
            name = _source_name(source) if source is not None else ""
            found.append("_buffers[" in name)
    return found


def _source_name(source: Any) -> str:
    name = source.name
    return name() if callable(name) else name


def _pretty(source: str) -> str:
    """The name in the model of a source: `q.weight` for `L['self']._modules['q']._parameters['weight']`."""
    parts = [next(p for p in found if p) for found in _PARTS.findall(source)]
    dropped = ("__dict__", "__self__", "_modules", "_parameters", "_buffers", "self", "mod", "fn", "kwargs", "args")
    return ".".join(p for p in parts if p not in dropped) or source
