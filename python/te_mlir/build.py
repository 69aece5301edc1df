"""A builder of programs: each method adds one op of the dialect and returns its value.

    m = te_mlir.build.Module(recipe=te_mlir.Float8CurrentScaling())
    with m.function("mlp") as f:
        x = f.argument("x", (256, 512), "bfloat16")
        w = f.argument("w", (512, 512), "bfloat16", weight=True)
        f.result("y", f.linear(x, w))
    step = te_mlir.compile(m, "mlp", vjp=True)

Types follow from the operands. The compiler reports shapes that do not fit, and names
the op. `op` adds any op of the dialect that has no method.

A function is a list of records, `Function.ops`, which can be read and changed; `to_mlir`
writes them as text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import NamedTuple

from te_mlir.arrays import named
from te_mlir.dtypes import BY_NAME, constant_text, float_text
from te_mlir.errors import ArgumentError
from te_mlir.recipes import Recipe

GATED = ("swiglu", "geglu", "glu", "qgeglu", "reglu", "sreglu", "clamped_swiglu", "geglu_erf")


class Value(NamedTuple):
    """An SSA value: its name in the text, its sizes, its element type ("bfloat16")."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def type(self) -> str:
        """The type, as MLIR writes it."""
        return type_text(self.shape, self.dtype)


class Routed(NamedTuple):
    """Rows by group, of `Function.permute`: the rows, the rows of each group, the row of each id, the id of each row, and
    how many ids have no row. Without a row or id, these are -1."""

    rows: Value
    sizes: Value
    row_of: Value
    entry_of: Value
    dropped: Value


#: The element type of comparisons, which only a choice reads and which are never stored.
TRUTH = "bool"


def type_text(shape: Sequence[int], dtype: str) -> str:
    """`tensor<256x512xbf16>`."""
    element = "i1" if dtype == TRUTH else named(dtype).mlir
    return "tensor<" + "".join(f"{size}x" for size in shape) + element + ">"


def _string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


#: The attribute of an op whose results count as constants for gradients.
NO_GRADIENT = "te.no_gradient"


def _attributes(attributes: Mapping[str, str]) -> str:
    if not attributes:
        return ""
    return " {" + ", ".join(f"{k} = {v}" if v else k for k, v in attributes.items()) + "}"


@dataclass(frozen=True)
class Op:
    """One operation of a function.

    name: such as "te.linear". syntax: the text between the name and the attributes: the
    operands, and the keywords of this op between them. types: the text after the colon.
    attributes: by name, as MLIR writes them; "" for a unit attribute. layer: the name of its
    place in reports and diagnostics.
    """

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    syntax: str
    types: str
    attributes: Mapping[str, str]
    layer: str | None = None

    def __str__(self) -> str:
        head = ", ".join(value.name for value in self.results)
        return (
            (f"{head} = " if head else "")
            + f"{self.name} {self.syntax}{_attributes(self.attributes)}"
            + (f" : {self.types}" if self.types else "")
            + (f" loc({_string(self.layer)})" if self.layer else "")
        )


class Function:
    """A function of a module, open while in its `with` block."""

    def __init__(self, module: Module, name: str, private: bool = False) -> None:
        self.module, self.name, self.private = module, name, private
        self.arguments: list[tuple[Value, dict[str, str]]] = []
        self.results: list[tuple[Value, dict[str, str]]] = []
        #: Its operations, in order.
        self.ops: list[Op] = []
        self._count = 0

    def __enter__(self) -> Function:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.module.functions.append(self)

    def to_mlir(self) -> str:
        """The function's text."""
        arguments = ", ".join(f"{v.name}: {v.type}{_attributes(a)}" for v, a in self.arguments)
        results = ", ".join(f"{v.type}{_attributes(a)}" for v, a in self.results)
        operands = ", ".join(v.name for v, _ in self.results)
        types = ", ".join(v.type for v, _ in self.results)
        end = f"return {operands} : {types}" if self.results else "return"
        private = "private " if self.private else ""
        body = "".join(f"    {op}\n" for op in self.ops)
        return f"  func.func {private}@{self.name}({arguments}) -> ({results}) {{\n{body}    {end}\n  }}\n"

    def argument(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "bfloat16",
        weight: bool = False,
        init: float | None = None,
    ) -> Value:
        """An argument with this `te.name`. `weight` marks a parameter; `init` is the value that a state starts with."""
        value = Value(f"%arg{len(self.arguments)}", tuple(shape), named(dtype).name)
        attributes = {"te.name": _string(name)}
        if weight:
            attributes["te.weight"] = ""
        if init is not None:
            attributes["te.init"] = f"{float_text(init)} : f32"
        self.arguments.append((value, attributes))
        return value

    def result(self, name: str, value: Value) -> None:
        """Returns `value` as `name`. A result with the name of an argument is its next state."""
        self.results.append((value, {"te.name": _string(name)}))

    def op(
        self, text: str, results: Sequence[tuple[Sequence[int], str]], layer: str | None = None
    ) -> tuple[Value, ...]:
        """Adds an op as MLIR text without its results, which have the types `results`.

        layer: its name in reports. The record of the op has only its name, not its operands
        and attributes.
        """
        name, _, syntax = text.partition(" ")
        return self.append(name, (), results, types="", syntax=syntax, layer=layer)

    def append(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[tuple[Sequence[int], str]],
        types: str,
        syntax: str | None = None,
        attributes: Mapping[str, str] | None = None,
        layer: str | None = None,
    ) -> tuple[Value, ...]:
        """Adds an op with the fields of `Op`, and returns its results, of the sizes and element types `results`.

        syntax: by default the names of the operands.
        """
        values = []
        for shape, dtype in results:
            values.append(Value(f"%{self._count}", tuple(shape), dtype if dtype == TRUTH else named(dtype).name))
            self._count += 1
        if syntax is None:
            syntax = _names(operands)
        self.ops.append(Op(name, tuple(operands), tuple(values), syntax, types, dict(attributes or {}), layer))
        return tuple(values)

    def layers(self) -> list[Op]:
        """Its linear layers, which a recipe quantises."""
        return [op for op in self.ops if op.name == "te.linear"]

    def set_recipe(self, layer: str, recipe: Recipe) -> None:
        """Sets the recipe of the linear layers with this name.

        Raises ValueError for a layer that was added as text (`op`), whose attributes are not known.
        """
        own = {"te.recipe": recipe.to_mlir()}
        for index, op in enumerate(self.ops):
            if op.name == "te.linear" and op.layer == layer:
                if not op.types:
                    raise ValueError(
                        f"expected the layer '{layer}' to be added by 'linear', but it was added as text by 'op'"
                    )
                self.ops[index] = replace(op, attributes={**op.attributes, **own})

    # Layers. x is [rows, columns] unless the method states another shape.

    def linear(
        self,
        x: Value,
        w: Value,
        bias: Value | None = None,
        layer: str | None = None,
        transposed_weight: bool = False,
    ) -> Value:
        """`x w^T + bias`: x [rows, in], w [out, in], bias [out]; returns [rows, out].

        transposed_weight: w is [in, out], and the layer `x w + bias`.
        """
        shape = (x.shape[0], w.shape[1 if transposed_weight else 0])
        return self.append(
            "te.linear",
            [x, w, bias] if bias else [x, w],
            [(shape, x.dtype)],
            f"{x.type}, {w.type} -> {type_text(shape, x.dtype)}",
            f"{_names([x, w])}{_term('bias', bias)}",
            {"transposed_weight": ""} if transposed_weight else {},
            layer,
        )[0]

    def matmul(self, a: Value, b: Value, contract: tuple[int, int] = (1, 1), dtype: str | None = None) -> Value:
        """The product of matrices in high precision, summed over axis `contract[0]` of a and `contract[1]` of b in float32.

        The rows are those of the other axis of a, the columns those of the other axis of b. dtype: of the result; None:
        that of a.
        """
        shape = (a.shape[1 - contract[0]], b.shape[1 - contract[1]])
        dtype = dtype or a.dtype
        types = f"{_types([a, b])} -> {type_text(shape, dtype)}"
        syntax = f"{_names([a, b])} contract = {_sizes(contract)}"
        return self.append("te.matmul", [a, b], [(shape, dtype)], types, syntax)[0]

    def grouped_linear(
        self,
        x: Value,
        w: Value,
        sizes: Value,
        bias: Value | None = None,
        alignment: int = 128,
        layer: str | None = None,
    ) -> Value:
        """A linear layer for each group of rows: x [rows, in], w [groups, out, in], sizes [groups] of int32.

        Groups are consecutive rows; each starts at a multiple of `alignment`.
        """
        shape, given = (x.shape[0], w.shape[1]), [x, w, sizes]
        types = f"{_types(given)} -> {type_text(shape, x.dtype)}"
        syntax, attributes = f"{_names(given)}{_term('bias', bias)}", {"alignment": f"{alignment} : i64"}
        operands = [*given, bias] if bias else given
        return self.append("te.grouped_linear", operands, [(shape, x.dtype)], types, syntax, attributes, layer)[0]

    def router_topk(
        self,
        logits: Value,
        k: int,
        sigmoid: bool = False,
        normalize: bool = False,
        bias: Value | None = None,
        groups: int = 1,
        chosen_groups: int = 1,
    ) -> tuple[Value, Value, Value]:
        """The `k` experts of each token: ids [tokens, k] of int32, their probabilities, and scores [tokens, experts].

        logits: [tokens, experts]. Scores are the softmax of logits, or their sigmoid, and have no gradient. bias: float32
        [experts], added to the scores for the choice only. Experts of `chosen_groups` of `groups` groups can be chosen.
        """
        tokens, experts = logits.shape
        results = [((tokens, k), "int32"), ((tokens, k), "float32"), ((tokens, experts), "float32")]
        types = f"{logits.type} -> {', '.join(type_text(*each) for each in results)}"
        attributes = {name: "" for name, given in (("sigmoid", sigmoid), ("normalize", normalize)) if given}
        if groups > 1:
            attributes |= {"groups": f"{groups} : i64", "chosen_groups": f"{chosen_groups} : i64"}
        operands, syntax = [logits, bias] if bias else [logits], f"{logits.name}{_term('bias', bias)}"
        ids, probs, scores = self.append("te.router_topk", operands, results, types, syntax, attributes)
        return ids, probs, scores

    def permute(self, x: Value, ids: Value, groups: int, alignment: int = 128, used: Value | None = None) -> Routed:
        """The rows of x by group, which is the expert: x [tokens, columns], ids [tokens, k] of int32.

        Each group starts at a multiple of `alignment`, and there are rows for any ids. Ids that are not from 0 to
        `groups - 1`, and those of tokens whose element of `used` (float32 [tokens]) is 0, have no row.
        """
        tokens, k = ids.shape
        rows = -(-(tokens * k + groups * (alignment - 1)) // alignment) * alignment
        results = [((rows, x.shape[1]), x.dtype), ((groups,), "int32"), ((tokens * k,), "int32"), ((rows,), "int32")]
        return Routed(
            *self.append(
                "te.permute",
                [x, ids, used] if used else [x, ids],
                [*results, ((), "int32")],
                f"{_types([x, ids])} -> {', '.join(type_text(*each) for each in results)}",
                f"{_names([x, ids])}{_term('used', used)}",
                {"alignment": f"{alignment} : i64"},
            )
        )

    def unpermute(self, y: Value, routed: Routed, probs: Value | None = None) -> Value:
        """The sum of the rows that each token has in y, times `probs` [tokens, k]: [tokens, columns].

        routed: the result of `permute`, whose rows y has. Without `probs`, each token has one row.
        """
        entries = routed.row_of.shape[0]
        shape = (probs.shape[0] if probs else entries, y.shape[1])
        maps = [routed.row_of, routed.entry_of]
        return self.append(
            "te.unpermute",
            [y, *maps, probs] if probs else [y, *maps],
            [(shape, y.dtype)],
            f"{_types([y, *maps])} -> {type_text(shape, y.dtype)}",
            f"{_names([y, *maps])}{_term('probs', probs)}",
        )[0]

    def grouped_product(self, x: Value, w: Value) -> Value:
        """`x[g] @ w[g].T` for each g, in high precision: x [groups * rows, k], w [groups, n, k], result [groups * rows, n]."""
        groups, rows = w.shape[0], x.shape[0] // w.shape[0]
        (sizes,) = self.append(
            "arith.constant", [], [((groups,), "int32")], type_text((groups,), "int32"), f"dense<{rows}>"
        )
        shape = (x.shape[0], w.shape[1])
        return self.append(
            "te.grouped_linear",
            [x, w, sizes],
            [(shape, x.dtype)],
            f"{x.type}, {w.type}, {sizes.type} -> {type_text(shape, x.dtype)}",
            attributes={"alignment": f"{rows} : i64", "te.recipe": "#te.recipe<high_precision>"},
        )[0]

    def rms_norm(self, x: Value, gamma: Value, epsilon: float = 1e-5, zero_centered_gamma: bool = False) -> Value:
        """`x / rms(x) * gamma` of every row; with zero_centered_gamma, `* (1 + gamma)`."""
        return self._norm("te.rms_norm", [x, gamma], epsilon, zero_centered_gamma)

    def layer_norm(
        self, x: Value, gamma: Value, beta: Value, epsilon: float = 1e-5, zero_centered_gamma: bool = False
    ) -> Value:
        """`(x - mean(x)) / deviation(x) * gamma + beta` of every row."""
        return self._norm("te.layer_norm", [x, gamma, beta], epsilon, zero_centered_gamma)

    def _norm(self, name: str, operands: Sequence[Value], epsilon: float, centered: bool) -> Value:
        attributes = {"epsilon": f"{float_text(epsilon)} : f32"}
        if centered:
            attributes["zero_centered_gamma"] = "true"
        x, gamma = operands[:2]
        return self.append(name, operands, [(x.shape, x.dtype)], f"{x.type}, {gamma.type}", attributes=attributes)[0]

    def activation(self, kind: str, x: Value, gate: Value | None = None) -> Value:
        """gelu, silu, relu, ...; a gated kind takes [rows, 2n], or x and gate of [rows, n], and returns [rows, n]."""
        rows, columns = x.shape
        shape = (rows, columns // 2 if kind in GATED and gate is None else columns)
        operands = [x, gate] if gate else [x]
        types = f"{_types(operands)} -> {type_text(shape, x.dtype)}"
        return self.append("te.activation", operands, [(shape, x.dtype)], types, f"<{kind}> {_names(operands)}")[0]

    def softmax(self, x: Value, scale: float = 1.0) -> Value:
        """Softmax of each row of `scale * x`."""
        attributes = {"scale": f"{float_text(scale)} : f32"} if scale != 1 else {}
        return self.append("te.softmax", [x], [(x.shape, x.dtype)], x.type, attributes=attributes)[0]

    def dropout(self, x: Value, state: Value, probability: float, stream: int = 0) -> Value:
        """x with random elements set to 0, and the others divided by `1 - probability`.

        state: i32 [2], seed and offset of the generator. stream: a number of its own for each dropout with one state.
        """
        attributes = {"probability": f"{float_text(probability)} : f32", "stream": f"{stream} : i32"}
        syntax = f"{x.name} rng {state.name}"
        return self.append("te.dropout", [x, state], [(x.shape, x.dtype)], x.type, syntax, attributes)[0]

    def embedding(self, ids: Value, table: Value) -> Value:
        """Rows of table [vocabulary, n] by ids [rows] of int32."""
        shape = (ids.shape[0], table.shape[1])
        types = f"{_types([ids, table])} -> {type_text(shape, table.dtype)}"
        return self.append("te.embedding", [ids, table], [(shape, table.dtype)], types)[0]

    def rope(
        self, x: Value, cos: Value, sin: Value, heads: int, interleaved: bool = False, positions: Value | None = None
    ) -> Value:
        """Rotary embedding of x [tokens, heads * head_dim]; tables [sequence, rotary_dim / 2] of float32.

        positions: i32 [tokens], the row of the tables for each token; None: token t uses row t mod sequence.
        """
        attributes = {"heads": f"{heads} : i64"}
        if interleaved:
            attributes["style"] = "#te.rope_style<interleaved>"
        operands = [x, cos, sin, positions] if positions else [x, cos, sin]
        syntax = f"{_names([x, cos, sin])}{_term('positions', positions)}"
        return self.append("te.rope", operands, [(x.shape, x.dtype)], _types([x, cos]), syntax, attributes)[0]

    def attention(
        self,
        q: Value,
        k: Value,
        v: Value,
        heads: int,
        kv_heads: int,
        sequence: int,
        causal: bool = True,
        scale: float | None = None,
        deterministic: bool = True,
        window_left: int | None = None,
        softcap: float | None = None,
        sinks: Value | None = None,
        documents: Value | None = None,
        dropout: tuple[Value, float, int] | None = None,
    ) -> Value:
        """Softmax attention, [tokens, heads * e]; q [tokens, heads * d], k [tokens, kv_heads * d], v [tokens, kv_heads * e].

        deterministic: gradients have the same bits every time, which needs more memory on a GPU.
        window_left: the number of earlier positions that a position reads (causal attention); None: all.
        softcap: scores become softcap * tanh(score / softcap) before they are masked; finite, greater than 0.
        sinks: f32 [heads], an extra logit of each head in the softmax denominator, without a value row.
        documents: i32 [n + 1], the first row of each of n documents and the end of the last one, each of which attends
            to itself; `sequence` is then the most tokens that one has. Rows outside are padding.
        dropout: the state of a generator, the probability that a weight is 0, and a stream, as for `dropout`.
        """
        attributes = {"heads": f"{heads} : i64", "kv_heads": f"{kv_heads} : i64", "sequence": f"{sequence} : i64"}
        if causal:
            attributes["causal"] = ""
        if window_left is not None:
            attributes["window_size"] = f"array<i64: {window_left}, 0>"
        if scale is not None:
            attributes["scale"] = f"{float_text(scale)} : f32"
        if softcap is not None:
            attributes["softcap"] = f"{float_text(softcap)} : f32"
        if not deterministic:
            attributes["deterministic"] = "false"
        operands = [q, k, v, *(each for each in (sinks, documents) if each)]
        syntax = f"{_names([q, k, v])}{_term('sinks', sinks)}{_term('documents', documents)}"
        if dropout:
            state, probability, stream = dropout
            attributes |= {"dropout": f"{float_text(probability)} : f32", "stream": f"{stream} : i32"}
            operands.append(state)
            syntax += f" rng {state.name}"
        result = (q.shape[0], heads * v.shape[1] // kv_heads)
        types = _types([q, k]) if v.shape == k.shape else f"{_types([q, k, v])} -> {type_text(result, q.dtype)}"
        return self.append("te.attention", operands, [(result, q.dtype)], types, syntax, attributes)[0]

    def used_rows(self, documents: Value, rows: int) -> Value:
        """1 for the rows of documents, and 0 for padding: float32 [rows].

        documents: i32 [n + 1] as for `attention`; `[0, n]` marks the first n rows.
        """
        types = f"{documents.type} -> {type_text((rows,), 'float32')}"
        return self.append("te.used_rows", [documents], [((rows,), "float32")], types)[0]

    def zero_unused(self, x: Value, used: Value) -> Value:
        """x [rows, n] with zeros in rows that are not used, whatever they contain; used: [rows], 0 for those.

        The rows have no part in amaxes, scales, sums and gradients then. Give it what a function takes and what it returns.
        """
        return self.append("te.zero_unused", [x, used], [(x.shape, x.dtype)], _types([x, used]))[0]

    def cross_entropy(self, logits: Value, targets: Value, ignore_index: int = -100) -> Value:
        """The mean loss, float32 []; logits [rows, vocabulary], targets [rows] of int32."""
        attributes = {"ignore_index": f"{ignore_index} : i32"} if ignore_index != -100 else {}
        operands = [logits, targets]
        return self.append("te.cross_entropy", operands, [((), "float32")], _types(operands), attributes=attributes)[0]

    def sum_of_squares(self, *tensors: Value) -> Value:
        """The sum of the squares of one or more tensors of any shapes, float32 []."""
        return self.append("te.sum_of_squares", tensors, [((), "float32")], ", ".join(x.type for x in tensors))[0]

    # Elementwise ops on operands of one type.

    def _binary(self, op: str, a: Value, b: Value) -> Value:
        return self.append(f"arith.{op}", [a, b], [(a.shape, a.dtype)], a.type)[0]

    def add(self, a: Value, b: Value) -> Value:
        """a + b"""
        return self._binary("addf", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """a - b"""
        return self._binary("subf", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """a * b"""
        return self._binary("mulf", a, b)

    def div(self, a: Value, b: Value) -> Value:
        """a / b"""
        return self._binary("divf", a, b)

    def remainder(self, a: Value, b: Value) -> Value:
        """a - trunc(a / b) b, exactly; C's fmod"""
        return self._binary("remf", a, b)

    def power(self, a: Value, b: Value) -> Value:
        """a to the power b, with the special values of C's pow"""
        return self.append("math.powf", [a, b], [(a.shape, a.dtype)], a.type)[0]

    def maximum(self, a: Value, b: Value) -> Value:
        """The larger one, NaN if one is NaN. The gradient is divided between equal ones."""
        return self._binary("maximumf", a, b)

    def minimum(self, a: Value, b: Value) -> Value:
        """The smaller one, NaN if one is NaN. The gradient is divided between equal ones."""
        return self._binary("minimumf", a, b)

    def choose(self, predicate: str, a: Value, b: Value, yes: Value, no: Value) -> Value:
        """`yes` where a comparison of a and b holds, and `no` elsewhere; all four have one shape.

        predicate: that of arith.cmpf, such as "olt" for a < b. a and b have one type, yes and no another.
        """
        (holds,) = self.append("arith.cmpf", [a, b], [(a.shape, TRUTH)], a.type, f"{predicate}, {_names([a, b])}")
        operands = [holds, yes, no]
        return self.append("arith.select", operands, [(yes.shape, yes.dtype)], f"{holds.type}, {yes.type}")[0]

    def unary(self, op: str, x: Value) -> Value:
        """`op` is arith.negf, or an op of one value that the runtime has of the math dialect, such as math.exp."""
        return self.append(op, [x], [(x.shape, x.dtype)], x.type)[0]

    def constant(self, value: float, shape: Sequence[int], dtype: str = "bfloat16") -> Value:
        """`value`, rounded to `dtype`, in every element."""
        syntax = f"dense<{constant_text(value, named(dtype).name)}>"
        return self.append("arith.constant", [], [(shape, dtype)], type_text(shape, dtype), syntax)[0]

    def cast(self, x: Value, dtype: str) -> Value:
        """x converted to `dtype`, rounded to nearest even."""
        if x.dtype == named(dtype).name:
            return x
        if "int32" in (x.dtype, named(dtype).name):
            raise ArgumentError(f"expected a cast of floats to floats, but got one of {x.dtype} to {dtype}")
        widths = BY_NAME[x.dtype].bytes, named(dtype).bytes
        if widths[0] == widths[1]:
            return self.cast(self.cast(x, "float32"), dtype)
        op = "extf" if widths[0] < widths[1] else "truncf"
        return self.append(f"arith.{op}", [x], [(x.shape, dtype)], f"{x.type} to {type_text(x.shape, dtype)}")[0]

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """x with other sizes, in row-major order. Nothing is copied."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
        flat = (math.prod(x.shape),)
        if x.shape != flat:
            x = self._flat_and("collapse" if x.shape else "expand", x, flat)
        return self._flat_and("expand" if shape else "collapse", x, shape) if shape != flat else x

    def _flat_and(self, how: str, x: Value, shape: tuple[int, ...]) -> Value:
        """x reshaped; x or the result has one dimension."""
        rank = max(len(x.shape), len(shape))
        groups = f"[[{_axes(rank)}]]" if min(len(x.shape), len(shape)) else "[]"
        sizes = f" output_shape [{', '.join(map(str, shape))}]" if how == "expand" else ""
        types = f"{x.type} into {type_text(shape, x.dtype)}"
        return self.append(f"tensor.{how}_shape", [x], [(shape, x.dtype)], types, f"{x.name} {groups}{sizes}")[0]

    def stopped(self, x: Value) -> Value:
        """x, which counts as a constant for gradients."""
        longer = (1, *x.shape)
        how = (
            f"[{', '.join(f'[{group}]' for group in ['0, 1', *map(str, range(2, len(longer)))])}]" if x.shape else "[]"
        )
        groups = f"{x.name} {how} output_shape [{', '.join(map(str, longer))}]"
        types = f"{x.type} into {type_text(longer, x.dtype)}"
        attributes = {NO_GRADIENT: ""}
        made = self.append("tensor.expand_shape", [x], [(longer, x.dtype)], types, groups, attributes)[0]
        return self.append(
            "tensor.collapse_shape", [made], [(x.shape, x.dtype)], f"{made.type} into {x.type}", f"{made.name} {how}"
        )[0]

    def broadcast(self, x: Value, shape: Sequence[int], dimensions: Sequence[int]) -> Value:
        """x repeated along `dimensions` of the result, which has the sizes `shape`; x has the other dimensions, in order."""
        return self._moved("broadcast", x, shape, f"dimensions = {_sizes(dimensions)}")

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """x whose dimension i is dimension `permutation[i]` of `x`."""
        if tuple(permutation) == tuple(range(len(x.shape))):
            return x
        return self._moved(
            "transpose", x, [x.shape[axis] for axis in permutation], f"permutation = {_sizes(permutation)}"
        )

    def _moved(self, op: str, x: Value, shape: Sequence[int], how: str) -> Value:
        kind = type_text(shape, x.dtype)
        (into,) = self.append("tensor.empty", [], [(shape, x.dtype)], kind, "()")
        syntax = f"ins({x.name} : {x.type}) outs({into.name} : {kind}) {how}"
        return self.append(f"linalg.{op}", [x, into], [(shape, x.dtype)], "", syntax)[0]

    def extract_slice(self, x: Value, offsets: Sequence[int], sizes: Sequence[int]) -> Value:
        """`sizes` elements of each dimension of x, from `offsets` on."""
        if tuple(sizes) == x.shape:
            return x
        syntax = f"{x.name}{_sizes(offsets)} {_sizes(sizes)} {_sizes([1] * len(x.shape))}"
        types = f"{x.type} to {type_text(sizes, x.dtype)}"
        return self.append("tensor.extract_slice", [x], [(sizes, x.dtype)], types, syntax)[0]

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """The values joined along a dimension."""
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        syntax = f"dim({axis}) {_names(values)}"
        types = f"({_types(values)}) -> {type_text(shape, values[0].dtype)}"
        return self.append("tensor.concat", values, [(shape, values[0].dtype)], types, syntax)[0]

    def reduce_sum(self, x: Value, dimensions: Sequence[int]) -> Value:
        """The sum over `dimensions` of x, both f32."""
        return self._reduced("arith.addf", 0.0, x, dimensions)

    def reduce_max(self, x: Value, dimensions: Sequence[int], gradient: bool = True) -> Value:
        """The largest elements along `dimensions` of x, both f32. Those that are equal have equal shares of the gradient.

        gradient: if it is False, the maximum counts as a constant, for one that is subtracted and added again.
        """
        return self._reduced("arith.maximumf", -math.inf, x, dimensions, {} if gradient else {NO_GRADIENT: ""})

    def reduce_min(self, x: Value, dimensions: Sequence[int]) -> Value:
        """The smallest elements along `dimensions` of x, as `reduce_max`."""
        return self._reduced("arith.minimumf", math.inf, x, dimensions)

    def _reduced(
        self, op: str, first: float, x: Value, dimensions: Sequence[int], attributes: Mapping[str, str] | None = None
    ) -> Value:
        shape = [size for axis, size in enumerate(x.shape) if axis not in dimensions]
        init = self.constant(first, shape, "float32")
        syntax = f"{{ {op} }} ins({x.name} : {x.type}) outs({init.name} : {init.type})"
        syntax += f" dimensions = {_sizes(dimensions)}"
        return self.append("linalg.reduce", [x, init], [(shape, "float32")], "", syntax, attributes)[0]

    def vjp(
        self, callee: Function, operands: Sequence[Value], cotangents: Sequence[Value], wrt: Sequence[int]
    ) -> tuple[Value, ...]:
        """The results of `callee`, then its gradients with respect to the operands `wrt`."""
        results = [(v.shape, v.dtype) for v, _ in callee.results]
        gradients = [(operands[i].shape, operands[i].dtype) for i in wrt]
        types = ", ".join(type_text(*r) for r in results + gradients)
        return self.append(
            "te.vjp",
            [*operands, *cotangents],
            results + gradients,
            f"({_types(operands)}), ({_types(cotangents)}) -> ({types})",
            f"@{callee.name}({_names(operands)}) cotangents({_names(cotangents)}) wrt [{', '.join(map(str, wrt))}]",
        )

    def call(self, callee: Function, operands: Sequence[Value]) -> tuple[Value, ...]:
        """The results of `callee`."""
        results = [(v.shape, v.dtype) for v, _ in callee.results]
        types = f"({_types(operands)}) -> ({', '.join(type_text(*r) for r in results)})"
        return self.append("func.call", operands, results, types, f"@{callee.name}({_names(operands)})")


def _names(values: Sequence[Value]) -> str:
    return ", ".join(value.name for value in values)


def _types(values: Sequence[Value]) -> str:
    return ", ".join(value.type for value in values)


def _term(word: str, value: Value | None) -> str:
    """The text of an optional operand, after its keyword."""
    return f" {word} {value.name} : {value.type}" if value else ""


def _sizes(sizes: Sequence[int]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _axes(count: int) -> str:
    return ", ".join(map(str, range(count)))


class Module:
    """A program: functions, and the recipe for all layers that have no recipe of their own."""

    def __init__(self, recipe: Recipe | None = None) -> None:
        self.recipe = recipe
        self.functions: list[Function] = []

    def function(self, name: str, private: bool = False) -> Function:
        """A function that is added to the module at the end of its `with` block."""
        return Function(self, name, private)

    def to_mlir(self) -> str:
        """The module's text."""
        attributes = f" attributes {{te.recipe = {self.recipe.to_mlir()}}}" if self.recipe else ""
        return f"module{attributes} {{\n{''.join(f.to_mlir() for f in self.functions)}}}\n"

    def __str__(self) -> str:
        return self.to_mlir()
