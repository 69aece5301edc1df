"""The lines of a program that the nodes of a graph of dynamo come from."""

from __future__ import annotations

import os
import re

import torch
from torch.fx import Node

_PYTORCH = os.path.dirname(torch.__file__) + os.sep


def place_of(node: Node) -> str:
    """`, at model.py:12`. Nodes that begin or end a block have no line, so that of a node nearby stands for it."""
    if _where(node):
        return f", at {_where(node)}"
    nodes = list(node.graph.nodes)
    index = nodes.index(node)
    found = next(filter(None, map(_where, nodes[index:])), None)
    if found is not None:
        return f", before {found}"
    found = next(filter(None, map(_where, nodes[index::-1])), None)
    return f", after {found}" if found is not None else ""


def _where(node: Node) -> str:
    """The line of the program that a node comes from, such as `model.py:12`; "" if tracing did not record it.

    A line of PyTorch stands for the program only if there is no other.
    """
    lines = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    found = [line for line in lines if not line[0].startswith(_PYTORCH)] or lines
    return f"{os.path.basename(found[-1][0])}:{found[-1][1]}" if found else ""
