"""A module with a function that calls several example layers, so that one process runs all of them.

The names of arguments and results have the name of the layer as a prefix: "gpt.wq". With `taps`, arguments that are zero are added
to the input and the result of every linear layer. Their gradients are the layer's dx and dy, even if other ops read these tensors.
The input is then also a result.
"""

import re
from dataclasses import dataclass, field

import numpy as np
from harness import INPUTS, normal

EXAMPLES = INPUTS.parents[3] / "docs" / "examples"
_FUNCTION = re.compile(r"func\.func @(\w+)\((.*?)\)\s*->\s*\((.*?)\)\s*\{\n(.*?)\n\s*return (.*?) :", re.S)
_ARGUMENT = re.compile(r'%(\w+): (tensor<[^>]*>) \{te\.name = "([\w.]+)"(, te\.weight)?\}')
_RESULT = re.compile(r'(tensor<[^>]*>) \{te\.name = "([\w.]+)"\}')
_LINEAR = re.compile(
    r"%(\w+) = te\.(grouped_)?linear %(\w+), %(\w+)(?:, %(\w+))?(?: bias %(\w+) : tensor<[^>]*>)?(.*?)"
    r": (tensor<[^>]*>),(.*?)-> (tensor<[^>]*>)",
    re.S,
)


def shape_of(type):
    return tuple(int(n) for n in re.findall(r"(\d+)x", type))


@dataclass
class Linear:
    """A linear layer, whose arrays have the name of its weight as a prefix: "<weight>.in" is its input. `sizes` of groups is None
    if they are not an argument."""

    weight: str
    bias: str | None
    is_grouped: bool
    sizes: str | None
    high_precision: bool


@dataclass
class Graph:
    """One layer with its own name."""

    name: str
    arguments: list  # (name, type, is a weight)
    results: list  # (name, type)
    body: str = ""
    linears: list = field(default_factory=list)

    def signature(self):
        arguments = ", ".join(f"%{variable}: {type}" for variable, type, _, _ in self.arguments)
        return f"({arguments}) -> ({', '.join(type for _, type, _ in self.results)})"


def read(name, path, shrink=1, taps=False):
    """The function of a file. `shrink` divides every size by a number."""
    text = path.read_text()
    if shrink > 1:
        text = re.sub(r"(?<=[<x])(\d+)(?=x)", lambda n: str(int(n[0]) // shrink), text)
        text = re.sub(r"(?<=sequence = )\d+", lambda n: str(int(n[0]) // shrink), text)
    _, arguments, results, body, returned = _FUNCTION.search(text).groups()
    arguments = [
        (variable, type, f"{name}.{label}", bool(weight))
        for variable, type, label, weight in _ARGUMENT.findall(arguments)
    ]
    results = [
        (variable, type, f"{name}.{label}")
        for variable, (type, label) in zip(re.findall(r"%(\w+)", returned), _RESULT.findall(results))
    ]
    graph, label = Graph(name, arguments, results), {variable: label for variable, _, label, _ in arguments}

    def tap(match):
        result, grouped, x, w, sizes, bias, _, x_type, _, type = match.groups()
        linear = Linear(label[w], label.get(bias), bool(grouped), label.get(sizes), "high_precision" in match[0])
        graph.linears.append(linear)
        if not taps:
            return match[0]
        for suffix, tapped in (("in", x_type), ("out", type)):
            graph.arguments.append((f"{result}_{suffix}", tapped, f"{linear.weight}.zero.{suffix}", False))
        graph.results.append((f"{result}_x", x_type, f"{linear.weight}.in"))
        own = match[0].replace(f"%{result} =", f"%{result}_y =", 1).replace(f"linear %{x}", f"linear %{result}_x", 1)
        return (
            f"%{result}_x = arith.addf %{x}, %{result}_in : {x_type}\n    {own}\n"
            f"    %{result} = arith.addf %{result}_y, %{result}_out : {type}"
        )

    graph.body = _LINEAR.sub(tap, body)
    return graph


def module(graphs):
    """A module whose only public function is @layers."""
    lines = []
    for graph in graphs:
        returned = ", ".join(f"%{variable}" for variable, _, _ in graph.results)
        types = ", ".join(type for _, type, _ in graph.results)
        lines += [
            f"func.func private @{graph.name}{graph.signature()} {{",
            graph.body,
            f"  return {returned} : {types}",
            "}",
        ]
    arguments, results, calls, returned = [], [], [], []
    for graph in graphs:
        given = []
        for variable, type, label, weight in graph.arguments:
            arguments.append(f'%{graph.name}_{variable}: {type} {{te.name = "{label}"{", te.weight" * weight}}}')
            given.append(f"%{graph.name}_{variable}")
        types = [type for _, type, _ in graph.results]
        results += [f'{type} {{te.name = "{label}"}}' for _, type, label in graph.results]
        calls.append(
            f"  %{graph.name}:{len(types)} = func.call @{graph.name}({', '.join(given)}) : "
            f"({', '.join(type for _, type, _, _ in graph.arguments)}) -> ({', '.join(types)})"
        )
        returned += [(f"%{graph.name}#{i}", type) for i, type in enumerate(types)]
    values, types = (", ".join(column) for column in zip(*returned))
    return "\n".join(
        [
            *lines,
            f"func.func @layers({', '.join(arguments)})",
            f"    -> ({', '.join(results)}) {{",
            *calls,
            f"  return {values} : {types}",
            "}",
            "",
        ]
    )


def arrays(graph, seed):
    """Arguments and cotangents, including zeros, negative zeros, a row of zeros and subnormals. Taps are zeros."""
    rng, made = np.random.default_rng(seed), {}
    for _, type, label, weight in graph.arguments:
        shape, leaf = shape_of(type), label.split(".", 1)[1]
        if ".zero." in label:
            made[label] = np.zeros(shape, np.uint16)
        elif leaf == "sizes":
            made[label] = np.array([100, 0, 128, 7], np.int32)
        elif leaf == "targets":
            made[label] = rng.integers(0, 64, shape).astype(np.int32)
            made[label][::7] = -100
        elif "f32" in type:
            made[label] = rng.normal(size=shape).astype(np.float32)
        else:
            made[label] = normal(rng, *shape, scale=0.1 if weight or len(shape) == 1 else 1.0)
        if leaf == "x":
            made[label][:, 5], made[label][0, :8], made[label][3], made[label][4, 9:20] = 0, 0x8000, 0, 1
    for _, type, label in graph.results:
        tapped = label.endswith(".in")
        made[f"grad.{label}"] = (
            np.zeros(shape_of(type), np.uint16)
            if tapped
            else np.float32(1)
            if type == "tensor<f32>"
            else normal(rng, *shape_of(type), scale=0.05)
        )
        if not tapped and made[f"grad.{label}"].ndim == 2:
            made[f"grad.{label}"][7], made[f"grad.{label}"][:, 2] = 0x8001, 0x8000
    return made
