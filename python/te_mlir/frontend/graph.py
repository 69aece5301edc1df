"""The graph that both frontends import: operations on values and constants.

Operations that are in `jax.lax` have its names and parameters:

* elementwise: add sub mul div rem max min neg abs sign exp exp2 expm1 log log1p sin cos tan sinh cosh tanh sqrt rsqrt square
  integer_pow pow logistic erf erfc floor ceil round select_n
* comparisons, and operations on their truth values: eq ne lt le gt ge and or xor not
* types and views: convert_element_type copy reshape squeeze expand_dims transpose broadcast_in_dim slice split concatenate stack rev
* others: dot_general reduce_sum reduce_max argmax cumsum gather stop_gradient

Some functions are one operation in a framework. They have these names, parameters and operands:

* mean, logsumexp (axes), softmax, log_softmax (axis): of one operand
* log2, log10, trunc: of one operand; round is to even without its parameter `rounding_method`
* relu, silu, gelu (approximate: by tanh if true, else by erf), elu (alpha, scale, inner): of one operand
* rms_norm (epsilon): of x and gamma or None; layer_norm (epsilon): of x, gamma or None, and beta or None
* dropout (probability, stream): of x and the state of a generator, [seed, offset] of int32
* embedding (padding): of a table and indices
* attention (causal, scale): of q, k and v, each [batch, heads, sequence, width], and a mask or None; with dropout also
  the parameters and the state of `dropout`; with `longest` and `window_left` (the number of earlier keys that a query
  sees, or None) also the boundaries of documents, each of which has at most `longest` tokens
* cross_entropy, nll_loss (ignore_index, summed): of logits [rows, classes], or their log_softmax, and targets

A linear layer is a dot_general, followed by an add if it has a bias. A gather has two more parameters, `picks` and `rows`.
Each is (indices, whether indices out of range are clamped) or None: `picks` if the gather takes one element of each row,
`rows` if it takes whole rows of a matrix.

Operations with other names are allowed; they are not imported. The operands of an elementwise operation have the same
rank, where size 1 is broadcast, or rank 0.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np


class Const:
    """A constant: `compact`, broadcast to `shape`.

    dtype: the name of its element type. exact: whether it is a number of the program that was not rounded to a type.
    """

    def __init__(self, compact: Any, shape: Sequence[int], exact: bool = False) -> None:
        # Keys of random numbers are not arrays of NumPy.
        self.opaque = not isinstance(getattr(compact, "dtype", np.dtype(float)), np.dtype)
        self.compact: Any = compact if self.opaque else np.asarray(compact)
        self.shape = tuple(shape)
        self.dtype = str(self.compact.dtype)
        self.exact = exact
        self.node: Node | None = None

    @property
    def scalar(self) -> float | None:
        """The value of every element, where they are equal numbers."""
        if self.opaque or self.compact.size == 0:
            return None
        first = self.compact.reshape(-1)[0]
        if self.compact.size > 1 and not (self.compact == first).all():
            return None
        return float(first)

    def array(self) -> Any:
        return self.compact if self.opaque else np.broadcast_to(self.compact, self.shape)


class Var:
    """A value that a node computes, or one from outside of the graph.

    dtype: the name of its element type in NumPy with ml_dtypes. origin: the framework's object for the value; None for
    a value inside of one operation of the framework. uses: the number of operations and results that read the value.
    make: creates the node when `node` is first read.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: str,
        node: Node | None = None,
        origin: Any = None,
        make: Callable[[Var], Node | None] | None = None,
    ) -> None:
        self.shape, self.dtype, self.origin = tuple(shape), dtype, origin
        self.uses = 0
        self._node, self._make = node, make

    @property
    def node(self) -> Node | None:
        if self._make is not None:
            make, self._make = self._make, None
            self._node = make(self)
        return self._node

    @property
    def floating(self) -> bool:
        return is_floating(self.dtype)


Atom = Var | Const


class Node:
    """An operation.

    origin: the framework's object for the operation, with its place in the program for messages. apart: whether
    patterns must not contain the operation.
    """

    def __init__(
        self, name: str, inputs: Sequence[Any], params: Mapping[str, Any], origin: Any = None, apart: bool = False
    ) -> None:
        self.name, self.inputs, self.params, self.origin = name, list(inputs), dict(params), origin
        self.apart = apart
        self.outputs: list[Var] = []
        #: The position of the operation in the program.
        self.index = 0

    @property
    def output(self) -> Var:
        return self.outputs[0]


def is_floating(dtype: str) -> bool:
    """Whether an element type is a floating-point type."""
    return dtype.startswith(("float", "bfloat"))


def width(dtype: str) -> int:
    """The size of an element in bytes, at least 1."""
    bits = "".join(itertools.takewhile(str.isdigit, dtype.lstrip(string.ascii_lowercase)))
    return max(int(bits or 8) // 8, 1)


def short(dtype: str) -> str:
    """The name of an element type in messages, such as `bf16` for bfloat16."""
    for long, brief in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i")):
        if dtype.startswith(long):
            return brief + dtype[len(long) :]
    return dtype


def order_of(var: Var, known: Iterable[Var] = ()) -> list[Node]:
    """The nodes that compute `var` from known values, in topological order."""
    order: list[Node] = []
    given = set(known)
    seen: set[Node] = set()
    stack: list[tuple[Var, bool]] = [(var, False)]
    while stack:
        current, ready = stack.pop()
        node = current.node
        if current in given or node is None or (node in seen and not ready):
            continue
        if ready:
            order.append(node)
            continue
        seen.add(node)
        stack.append((current, True))
        stack.extend((v, False) for v in node.inputs if isinstance(v, Var))
    return order


def ancestors(var: Var) -> set[Node]:
    """The nodes that `var` depends on."""
    return set(order_of(var))


def readers_of(outputs: Iterable[Atom]) -> dict[Var, list[Node]]:
    """The nodes that read each value, among the nodes that `outputs` depend on."""
    found: dict[Var, list[Node]] = {}
    for node in {node for output in outputs if isinstance(output, Var) for node in ancestors(output)}:
        for value in set(node.inputs):
            if isinstance(value, Var):
                found.setdefault(value, []).append(node)
    return found
