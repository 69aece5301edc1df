"""A builder of programs: each method adds one op of the dialect and gives its value.

    m = te_mlir.build.Module(recipe=te_mlir.Float8CurrentScaling())
    with m.function("mlp") as f:
        x = f.argument("x", (256, 512), "bfloat16")
        w = f.argument("w", (512, 512), "bfloat16", weight=True)
        f.result("y", f.linear(x, w))
    step = te_mlir.compile(m, "mlp", vjp=True)

Types follow from the operands; shapes that do not fit are told by the compiler,
with the op they are at. `op` adds any op of the dialect that has no method.
"""

from __future__ import annotations

from types import TracebackType
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple, Type

from te_mlir.arrays import named
from te_mlir.dtypes import BY_NAME, constant_text, float_text
from te_mlir.recipes import Recipe

GATED = ("swiglu", "geglu", "glu", "qgeglu", "reglu", "sreglu", "clamped_swiglu", "geglu_erf")


class Value(NamedTuple):
    """An SSA value: its name in the text, its sizes, its element type ("bfloat16")."""

    name: str
    shape: Tuple[int, ...]
    dtype: str

    @property
    def type(self) -> str:
        """The type, as MLIR writes it."""
        return type_text(self.shape, self.dtype)


def type_text(shape: Sequence[int], dtype: str) -> str:
    """`tensor<256x512xbf16>`."""
    return "tensor<" + "".join(f"{size}x" for size in shape) + named(dtype).mlir + ">"


def _string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _attributes(attributes: Dict[str, str]) -> str:
    if not attributes:
        return ""
    return " {" + ", ".join(f"{k} = {v}" if v else k for k, v in attributes.items()) + "}"


class Function:
    """A function of a module, open while in its `with` block."""

    def __init__(self, module: "Module", name: str, private: bool = False) -> None:
        self.module, self.name, self.private = module, name, private
        self.arguments: List[Tuple[Value, Dict[str, str]]] = []
        self.results: List[Tuple[Value, Dict[str, str]]] = []
        self._lines: List[str] = []
        self._count = 0

    def __enter__(self) -> "Function":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
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
        body = "".join(f"    {line}\n" for line in self._lines)
        return f"  func.func {private}@{self.name}({arguments}) -> ({results}) {{\n{body}    {end}\n  }}\n"

    def argument(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "bfloat16",
        weight: bool = False,
        init: Optional[float] = None,
    ) -> Value:
        """An argument `te.name`d so; `weight` makes it a parameter, `init` a state's start."""
        value = Value(f"%arg{len(self.arguments)}", tuple(shape), named(dtype).name)
        attributes = {"te.name": _string(name)}
        if weight:
            attributes["te.weight"] = ""
        if init is not None:
            attributes["te.init"] = f"{float_text(init)} : f32"
        self.arguments.append((value, attributes))
        return value

    def result(self, name: str, value: Value) -> None:
        """Returns `value` as `name`; named like an argument, it is that one's next state."""
        self.results.append((value, {"te.name": _string(name)}))

    def op(
        self,
        text: str,
        results: "Sequence[Tuple[Sequence[int], str]]",
        layer: Optional[str] = None,
    ) -> Tuple[Value, ...]:
        """Adds the op that `text` writes, without its results, whose types are `results`.

        layer: what reports call its place.
        """
        values = []
        for shape, dtype in results:
            values.append(Value(f"%{self._count}", tuple(shape), named(dtype).name))
            self._count += 1
        head = ", ".join(v.name for v in values)
        place = f" loc({_string(layer)})" if layer else ""
        self._lines.append((f"{head} = " if head else "") + text + place)
        return tuple(values)

    # Layers. x is [rows, columns] unless said otherwise.

    def linear(
        self,
        x: Value,
        w: Value,
        bias: Optional[Value] = None,
        layer: Optional[str] = None,
        transposed_weight: bool = False,
    ) -> Value:
        """`x w^T + bias`: x [rows, in], w [out, in], bias [out]; gives [rows, out].

        transposed_weight: w is [in, out], and the layer `x w + bias`.
        """
        shape = (x.shape[0], w.shape[1 if transposed_weight else 0])
        term = f" bias {bias.name} : {bias.type}" if bias else ""
        attributes = _attributes({"transposed_weight": ""} if transposed_weight else {})
        text = f"te.linear {x.name}, {w.name}{term}{attributes} : {x.type}, {w.type} -> {type_text(shape, x.dtype)}"
        return self.op(text, [(shape, x.dtype)], layer)[0]

    def grouped_linear(
        self, x: Value, w: Value, sizes: Value, bias: Optional[Value] = None, alignment: int = 128
    ) -> Value:
        """A linear layer for each group of rows: x [rows, in], w [groups, out, in], sizes [groups] of int32.

        Groups lie one after another, each from a multiple of `alignment` on.
        """
        shape = (x.shape[0], w.shape[1])
        term = f" bias {bias.name} : {bias.type}" if bias else ""
        attributes = _attributes({"alignment": f"{alignment} : i64"})
        types = f"{x.type}, {w.type}, {sizes.type} -> {type_text(shape, x.dtype)}"
        text = f"te.grouped_linear {x.name}, {w.name}, {sizes.name}{term}{attributes} : {types}"
        return self.op(text, [(shape, x.dtype)])[0]

    def rms_norm(self, x: Value, gamma: Value, epsilon: float = 1e-5, zero_centered_gamma: bool = False) -> Value:
        """`x / rms(x) * gamma` of every row; with zero_centered_gamma, `* (1 + gamma)`."""
        return self._norm("rms_norm", f"{x.name}, {gamma.name}", x, gamma, epsilon, zero_centered_gamma)

    def layer_norm(
        self, x: Value, gamma: Value, beta: Value, epsilon: float = 1e-5, zero_centered_gamma: bool = False
    ) -> Value:
        """`(x - mean(x)) / deviation(x) * gamma + beta` of every row."""
        operands = f"{x.name}, {gamma.name}, {beta.name}"
        return self._norm("layer_norm", operands, x, gamma, epsilon, zero_centered_gamma)

    def _norm(self, op: str, operands: str, x: Value, gamma: Value, epsilon: float, centered: bool) -> Value:
        attributes = {"epsilon": f"{float_text(epsilon)} : f32"}
        if centered:
            attributes["zero_centered_gamma"] = "true"
        text = f"te.{op} {operands}{_attributes(attributes)} : {x.type}, {gamma.type}"
        return self.op(text, [(x.shape, x.dtype)])[0]

    def activation(self, kind: str, x: Value, gate: Optional[Value] = None) -> Value:
        """gelu, silu, relu, ..., or gated: of [rows, 2n], or of x and gate [rows, n], gives [rows, n]."""
        rows, columns = x.shape
        shape = (rows, columns // 2 if kind in GATED and gate is None else columns)
        operands, types = (f"{x.name}, {gate.name}", f"{x.type}, {gate.type}") if gate else (x.name, x.type)
        text = f"te.activation <{kind}> {operands} : {types} -> {type_text(shape, x.dtype)}"
        return self.op(text, [(shape, x.dtype)])[0]

    def embedding(self, ids: Value, table: Value) -> Value:
        """Rows of table [vocabulary, n] by ids [rows] of int32."""
        shape = (ids.shape[0], table.shape[1])
        text = f"te.embedding {ids.name}, {table.name} : {ids.type}, {table.type} -> {type_text(shape, table.dtype)}"
        return self.op(text, [(shape, table.dtype)])[0]

    def rope(self, x: Value, cos: Value, sin: Value, heads: int, interleaved: bool = False) -> Value:
        """Rotary embedding of x [tokens, heads * head_dim]; tables [sequence, rotary_dim / 2] of float32."""
        attributes = {"heads": f"{heads} : i64"}
        if interleaved:
            attributes["style"] = "#te.rope_style<interleaved>"
        text = f"te.rope {x.name}, {cos.name}, {sin.name}{_attributes(attributes)} : {x.type}, {cos.type}"
        return self.op(text, [(x.shape, x.dtype)])[0]

    def attention(
        self,
        q: Value,
        k: Value,
        v: Value,
        heads: int,
        kv_heads: int,
        sequence: int,
        causal: bool = True,
        scale: Optional[float] = None,
        deterministic: bool = True,
        window_left: Optional[int] = None,
        softcap: Optional[float] = None,
        sinks: Optional[Value] = None,
    ) -> Value:
        """Softmax attention; q [tokens, heads * d], k and v [tokens, kv_heads * d].

        deterministic: gradients of the same bits every time, which costs memory on a GPU.
        window_left: of causal attention, how many positions before itself one sees; None: all of them.
        softcap: scores become softcap * tanh(score / softcap) before they are masked; finite, greater than 0.
        sinks: f32 [heads], a score of each head beside those of keys, which weighs no value; zeros: a softmax off by one.
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
        beside = f" sinks {sinks.name} : {sinks.type}" if sinks is not None else ""
        text = f"te.attention {q.name}, {k.name}, {v.name}{beside}{_attributes(attributes)} : {q.type}, {k.type}"
        return self.op(text, [(q.shape, q.dtype)])[0]

    def cross_entropy(self, logits: Value, targets: Value, ignore_index: int = -100) -> Value:
        """The mean loss, float32 []; logits [rows, vocabulary], targets [rows] of int32."""
        attributes = {"ignore_index": f"{ignore_index} : i32"} if ignore_index != -100 else {}
        operands = f"{logits.name}, {targets.name}{_attributes(attributes)}"
        text = f"te.cross_entropy {operands} : {logits.type}, {targets.type}"
        return self.op(text, [((), "float32")])[0]

    # Elementwise, of operands of one type.

    def _binary(self, op: str, a: Value, b: Value) -> Value:
        return self.op(f"arith.{op} {a.name}, {b.name} : {a.type}", [(a.shape, a.dtype)])[0]

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

    def unary(self, op: str, x: Value) -> Value:
        """`op` is arith.negf, math.exp, math.tanh or math.sqrt."""
        return self.op(f"{op} {x.name} : {x.type}", [(x.shape, x.dtype)])[0]

    def constant(self, value: float, shape: Sequence[int], dtype: str = "bfloat16") -> Value:
        """`value`, rounded to `dtype`, in every element."""
        text = f"arith.constant dense<{constant_text(value, named(dtype).name)}> : {type_text(shape, dtype)}"
        return self.op(text, [(shape, dtype)])[0]

    def cast(self, x: Value, dtype: str) -> Value:
        """x in elements of `dtype`, rounded to nearest even."""
        if x.dtype == named(dtype).name:
            return x
        widths = BY_NAME[x.dtype].bytes, named(dtype).bytes
        if widths[0] == widths[1]:
            return self.cast(self.cast(x, "float32"), dtype)
        op = "extf" if widths[0] < widths[1] else "truncf"
        text = f"arith.{op} {x.name} : {x.type} to {type_text(x.shape, dtype)}"
        return self.op(text, [(x.shape, dtype)])[0]

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """x with other sizes, row-major; of no cost."""
        shape = tuple(shape)
        if shape == x.shape:
            return x
        if len(x.shape) > 1:
            flat = (_product(x.shape),)
            axes = _axes(len(x.shape))
            text = f"tensor.collapse_shape {x.name} [[{axes}]] : {x.type} into {type_text(flat, x.dtype)}"
            x = self.op(text, [(flat, x.dtype)])[0]
        if len(shape) > 1:
            sizes = ", ".join(map(str, shape))
            text = (
                f"tensor.expand_shape {x.name} [[{_axes(len(shape))}]] output_shape [{sizes}] "
                f": {x.type} into {type_text(shape, x.dtype)}"
            )
            x = self.op(text, [(shape, x.dtype)])[0]
        return x

    def vjp(
        self, callee: "Function", operands: Sequence[Value], cotangents: Sequence[Value], wrt: Sequence[int]
    ) -> Tuple[Value, ...]:
        """The results of `callee`, then its gradients with respect to the operands `wrt`."""
        results = [(v.shape, v.dtype) for v, _ in callee.results]
        gradients = [(operands[i].shape, operands[i].dtype) for i in wrt]
        types = ", ".join(type_text(*r) for r in results + gradients)
        text = (
            f"te.vjp @{callee.name}({', '.join(v.name for v in operands)}) "
            f"cotangents({', '.join(v.name for v in cotangents)}) wrt [{', '.join(map(str, wrt))}] "
            f": ({', '.join(v.type for v in operands)}), ({', '.join(v.type for v in cotangents)}) -> ({types})"
        )
        return self.op(text, results + gradients)


def _product(shape: Sequence[int]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def _axes(count: int) -> str:
    return ", ".join(map(str, range(count)))


class Module:
    """A program: functions, and the recipe in force where none is nearer."""

    def __init__(self, recipe: Optional[Recipe] = None) -> None:
        self.recipe = recipe
        self.functions: List[Function] = []

    def function(self, name: str, private: bool = False) -> Function:
        """A function that joins the module at the end of its `with` block."""
        return Function(self, name, private)

    def to_mlir(self) -> str:
        """The module's text."""
        attributes = f" attributes {{te.recipe = {self.recipe.to_mlir()}}}" if self.recipe else ""
        return f"module{attributes} {{\n{''.join(f.to_mlir() for f in self.functions)}}}\n"

    def __str__(self) -> str:
        return self.to_mlir()
