"""Inserts the casts of torch.autocast into a graph.

A graph that is traced before autograd has no casts of autocast, but the results of its nodes
have the types that autocast gives them. PyTorch's dispatcher decides which ops have their
operands cast: those with a kernel for autocast's key. Each of them computes in the type of its
result. So this module has no list of ops, and works with the lists of every device and release.
Nodes that stay in PyTorch run in their torch.autocast blocks, where the inserted casts change
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import Node

#: Autocast's dispatch keys, by type of device.
_KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA", "xpu": "AutocastXPU"}


class Mode(NamedTuple):
    """The effect of autocast on a type of device: casts to `dtype`, or nothing."""

    dtype: torch.dtype | None = None
    cache: bool = False


def enabled(device: str) -> bool:
    """Whether torch.autocast is on for a type of device, which may be unknown to it."""
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def is_mode(node: Any) -> bool:
    """Whether `node` begins or ends a torch.autocast block."""
    target = getattr(node, "target", None)
    return target in (torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast)


def _is_exit(node: Node) -> bool:
    return node.target is torch.amp.autocast_mode._exit_autocast


def _block(
    device: str, dtype: torch.dtype | None = None, on: bool = True, cache: bool | None = None
) -> tuple[str, Mode]:
    """The device and the mode that the arguments of the start of a block set."""
    cache = torch.is_autocast_cache_enabled() if cache is None else cache
    return device, Mode(dtype or torch.get_autocast_dtype(device), cache) if on else Mode()


class _Modes:
    """The mode at the current place of a graph, while its nodes are visited in order."""

    def __init__(self) -> None:
        self._now: dict[str, Mode] = {}
        self._before: dict[Node, tuple[str, Mode]] = {}

    def of(self, device: str) -> Mode:
        if device not in self._now:
            on = enabled(device)
            cache = torch.is_autocast_cache_enabled()
            self._now[device] = Mode(torch.get_autocast_dtype(device), cache) if on else Mode()
        return self._now[device]

    def go_through(self, node: Node) -> bool:
        """Enters or leaves the block that `node` begins or ends. Returns whether that changes anything."""
        if _is_exit(node):
            device, mode = self._before.pop(node.args[0])  # type: ignore[arg-type, index]
        else:
            device, mode = _block(*node.args)  # type: ignore[arg-type]
            self._before[node] = (device, self.of(device))
        changes = mode.dtype is not self.of(device).dtype
        self._now[device] = mode
        return changes

    def keep_nothing(self) -> bool:
        """Whether no block is open, in the graph or around it: there PyTorch clears its cache of casts."""
        return not self._before and not any(map(enabled, _KEYS))


def without_idle_blocks(graph: torch.fx.Graph) -> None:
    """Removes the torch.autocast blocks that change nothing, such as those for another device."""
    devices = {v.device.type for v in (n.meta.get("val") for n in graph.nodes) if isinstance(v, torch.Tensor)}
    modes, idle = _Modes(), []
    for node in graph.nodes:
        if not is_mode(node):
            continue
        begins = not _is_exit(node)
        changes = modes.go_through(node)
        if begins and (not changes or node.args[0] not in devices):
            idle.append(node)
    for node in idle:
        for user in list(node.users):
            graph.erase_node(user)
        graph.erase_node(node)


def blocks_of(graph: torch.fx.Graph, nodes: Sequence[Node]) -> set[Node]:
    """The nodes that begin and end the torch.autocast blocks that contain any of `nodes`."""
    wanted = set(nodes)
    open_blocks: list[Node] = []
    found: set[Node] = set()
    for node in graph.nodes:
        if not is_mode(node):
            if node in wanted:
                found.update(open_blocks)
        elif _is_exit(node):
            open_blocks.remove(node.args[0])  # type: ignore[arg-type]
            if node.args[0] in found:
                found.add(node)
        else:
            open_blocks.append(node)
    return found


def insert_casts(graph: torch.fx.Graph, known: Callable[[Node], bool], leaves: set[Node]) -> None:
    """Casts the operands of the `known` nodes as torch.autocast does.

    leaves: parameters and other nodes whose casts PyTorch caches, so that all users share one.
    """
    modes = _Modes()
    kept: dict[Any, Node] = {}
    grad = torch.is_grad_enabled()
    for node in list(graph.nodes):
        if is_mode(node):
            modes.go_through(node)
            if modes.keep_nothing():
                kept.clear()
        elif node.target is torch._C._set_grad_enabled:
            grad = node.args[0]
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor) or not value.is_floating_point():
            continue
        mode = modes.of(value.device.type)
        if mode.dtype is None or not _has_kernel(node, value.device.type) or not known(node):
            continue

        def cast(operand: Node) -> Node:
            source = operand.meta.get("val")
            if not isinstance(source, torch.Tensor) or not source.is_floating_point():
                return operand
            if source.dtype in (value.dtype, torch.float64) or source.device.type != value.device.type:
                return operand
            keeps = mode.cache and operand in leaves and value.dtype is mode.dtype
            key = (operand, value.dtype, grad) if keeps else None
            if key in kept:
                return kept[key]
            with graph.inserting_before(node):
                made = graph.call_function(torch.ops.aten.to.dtype, (operand, value.dtype))
            made.meta["val"] = source.to(value.dtype)
            if key is not None:
                kept[key] = made
            return made

        node.args = torch.fx.node.map_arg(node.args, cast)
        node.kwargs = torch.fx.node.map_arg(node.kwargs, cast)


def _has_kernel(node: Node, device: str) -> bool:
    """Whether autocast has a kernel for the op of a node."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or device not in _KEYS:
        return False
    return torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), _KEYS[device])


__all__ = ["blocks_of", "enabled", "insert_casts", "is_mode", "without_idle_blocks"]
