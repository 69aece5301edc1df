"""From an ATen graph to a function of the dialect.

Nodes that depend on a parameter, or on a tensor that wants a gradient, are to be
compiled; the others stay in PyTorch and are computed before (positions, tables,
masks, integer targets: the *prologue*). Emission is on demand, from what leaves the
region, so that a node which a pattern takes in (the halves of a rotation, the mean
of a norm) is never emitted by itself. A node that cannot be emitted raises
`Unsupported` with the reason.
"""

from __future__ import annotations

import operator
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch.fx import Node

from te_mlir import build
from te_mlir.torch import patterns, views
from te_mlir.layout import Layout, heads_first, row_major, same
from te_mlir.torch.indices import Indices, clamped
from te_mlir.torch.runner import dense, dtype_name, torch_to_te
from te_mlir.torch.states import Part, layer_of


class Unsupported(Exception):
    """A node that the dialect cannot express; the text says why."""

    def __init__(self, node: Node, reason: str) -> None:
        self.node, self.reason = node, reason
        super().__init__(reason)


class Kind(NamedTuple):
    """What a mask may be that is compared in each call. window_left: of a causal one, how many keys before its own a query sees."""

    name: str
    window_left: Optional[int] = None

    @property
    def text(self) -> str:
        """For messages."""
        return self.name if self.window_left is None else f"{self.name} with {self.window_left} keys before its own"


#: It hides what is ahead, nothing, or others.
CAUSAL, OPEN, OTHER = Kind("causal"), Kind("open"), Kind("other")
#: Keys of feeds that may be other in a call than their graph was compiled for.
COMPARED = ("mask", "halves", "pairs")


class OtherMask(Unsupported):
    """A call's mask is another than its graph was compiled for: the one of the node that `mask` names is a `kind`."""

    def __init__(self, node: Node, mask: str, kind: Kind) -> None:
        super().__init__(node, "its mask is not the causal one" if kind == OTHER else f"its mask is {kind.text}")
        self.mask, self.kind = mask, kind


class OtherTable(OtherMask):
    """A call's table of a rotation is no table of halves, or pairs, that are equal, as its graph was compiled for."""

    def __init__(self, node: Node, table: str, of: str) -> None:
        Unsupported.__init__(self, node, f"the {of} of a table of a rotation differ")
        self.mask, self.kind = table, OTHER


def _seen(mask: torch.Tensor) -> torch.Tensor:
    return mask if mask.dtype is torch.bool else mask == 0


def is_kind(mask: torch.Tensor, sequence: int, kind: Kind) -> bool:
    """Whether a mask hides of keys from queries of one sequence what one of this kind, not OTHER, does."""
    seen = _seen(mask)
    if kind == OPEN:
        return bool(seen.all())
    if mask.shape[-2:] != (sequence, sequence):
        return False
    wanted = torch.ones(mask.shape, dtype=torch.bool, device=mask.device).tril()
    if kind.window_left is not None:
        wanted = wanted.triu(-kind.window_left)
    # Scores are no larger than the number that hides one.
    return torch.equal(seen, wanted) and (mask.dtype is torch.bool or torch.equal(mask <= -1e4, ~wanted))


def kind_of(mask: torch.Tensor, sequence: int) -> Kind:
    """What of `Kind` a mask is."""
    for kind in (CAUSAL, OPEN):
        if is_kind(mask, sequence, kind):
            return kind
    if mask.shape[-2:] == (sequence, sequence):
        last = int(_seen(mask).reshape(-1, sequence)[-1].sum())
        window = Kind("causal", max(last - 1, 0))
        if is_kind(mask, sequence, window):
            return window
    return OTHER


class Value(NamedTuple):
    """A tensor of the graph: the matrix that holds it and how it lies there."""

    matrix: build.Value
    layout: Layout

    @property
    def elements(self) -> int:
        """Elements of the matrix."""
        return _product(self.matrix.shape)


#: The key of a parameter as an argument that has no gradient.
FIXED = "fixed"


class Feed(NamedTuple):
    """An argument of the region: what PyTorch makes of a node before the call.

    node: outside of the region. make: from its tensor to the argument. name, weight:
    of a parameter, which is passed as it is, or of a part of one.
    """

    node: Node
    key: str
    make: Optional[Callable[[torch.Tensor], torch.Tensor]]
    name: str
    weight: bool
    shape: Tuple[int, ...]
    dtype: torch.dtype
    part: Optional[Part] = None


def _product(shape: Sequence[int]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def fake(node: Node) -> torch.Tensor:
    """The tensor without content that tracing left on the node."""
    return node.meta["val"]


def shape_of(node: Node) -> Tuple[int, ...]:
    return tuple(fake(node).shape)


def _sizes(node: Node) -> Tuple[int, ...]:
    """Sizes in four dimensions, as those of fewer are broadcast."""
    return (1,) * (4 - len(shape_of(node))) + shape_of(node)


def describe(node: Node) -> str:
    """`aten.sin(f32 [2, 16])`, for messages."""
    name = str(node.target).removesuffix(".default") if node.op == "call_function" else node.op
    operands = []
    for argument in node.all_input_nodes:
        value = argument.meta.get("val")
        if isinstance(value, torch.Tensor):
            operands.append(f"{dtype_name(value.dtype)} {list(value.shape)}")
    return f"{name}({', '.join(operands)})"


class _Function(build.Function):
    """A function that computes once what is asked for twice.

    Equal results would be one in the compiler, which copies it for the second after the backward.
    """

    def __init__(self, module: build.Module, name: str, private: bool = False) -> None:
        super().__init__(module, name, private)
        self._made: Dict[Any, Tuple[build.Value, ...]] = {}
        self._narrow: Dict[str, build.Value] = {}

    def append(
        self,
        name: str,
        operands: Sequence[build.Value],
        results: Sequence[tuple[Sequence[int], str]],
        types: str,
        syntax: str | None = None,
        attributes: Mapping[str, str] | None = None,
        layer: str | None = None,
    ) -> tuple[build.Value, ...]:
        key = name, tuple(operands), str(results), types, syntax, str(attributes)
        if key not in self._made:
            self._made[key] = super().append(name, operands, results, types, syntax, attributes, layer)
        return self._made[key]

    def cast(self, x: build.Value, dtype: str) -> build.Value:
        narrow = self._narrow.get(x.name)
        if narrow is not None and narrow.dtype == dtype:
            return narrow
        made = super().cast(x, dtype)
        if made.dtype == "float32":
            self._narrow.setdefault(made.name, x)
        return made


class Importer:
    """Emits the nodes of a graph into one function.

    inside: the nodes that are compiled. names: what placeholders are called.
    parameters: those that are parameters. wanting: the nodes that have gradients.
    masks: of what kind those are, by name, that are not causal, and which tables of rotations are OTHER.
    """

    def __init__(
        self,
        inside: Set[Node],
        names: Dict[Node, str],
        parameters: Set[Node],
        wanting: Set[Node],
        masks: Mapping[str, Kind],
    ) -> None:
        self.inside, self.names, self.parameters, self.wanting = inside, names, parameters, wanting
        self.masks = masks
        self.function = _Function(build.Module(), "region", private=True)
        self.feeds: List[Feed] = []
        self._fed: Dict[Tuple[Node, str], Tuple[build.Value, int]] = {}
        self._values: Dict[Node, Value] = {}

    # Arguments

    def feed(
        self,
        node: Node,
        key: str = "",
        make: Optional[Callable[[torch.Tensor], torch.Tensor]] = None,
        shape: Optional[Sequence[int]] = None,
        dtype: Optional[torch.dtype] = None,
        part: Optional[Part] = None,
    ) -> build.Value:
        """The argument that is `make` of what `node`, outside of the region, gives.

        key: what `make` does, with all that it depends on, to share equal ones. shape, dtype: of what it makes.
        part: what it is of a parameter.
        """
        if (node, key) in self._fed:
            return self._fed[node, key][0]
        shape = tuple(shape if shape is not None else shape_of(node))
        dtype = dtype or fake(node).dtype
        name = torch_to_te(dtype)
        if name is None:
            raise Unsupported(node, f"its elements are {dtype_name(dtype)}; te has float32, bfloat16, float16, int32")
        weight = node in self.parameters and key != FIXED
        matrix = shape if len(shape) <= 1 else (_product(shape[:-1]), shape[-1])
        label = self.names.get(node, node.name)
        label = part.name(label) if part is not None else label + (f".{key}" if key else "")
        taken = {feed.name for feed in self.feeds}
        while label in taken:
            label += "_"
        value = self.function.argument(label, matrix, name, weight=weight)
        self.feeds.append(Feed(node, key, make, label, weight, shape, dtype, part))
        self._fed[node, key] = (value, len(self.feeds) - 1)
        return value

    def value(self, node: Any, user: Node) -> Value:
        """The tensor of a node, emitted now where it was not yet."""
        if not isinstance(node, Node):
            raise Unsupported(user, f"{node!r} is no tensor")
        if node not in self._values:
            rows = self._rows(node)
            if rows is not None:
                self._values[node] = Value(rows, row_major(shape_of(node)))
            elif node in self.inside and node.op != "placeholder":
                self._values[node] = self._emit(node)
            else:
                make = None if node in self.parameters else dense
                matrix = self.feed(node, make=make)
                self._values[node] = Value(matrix, row_major(shape_of(node)))
        return self._values[node]

    def _rows(self, node: Node) -> Optional[build.Value]:
        """The argument that is some rows of a parameter, which lie in its memory, where `node` takes these."""
        part = self._row_range(node)
        if part is None:
            return None
        return self.feed(node.args[0], str(part), part.of, shape_of(node), part=part)  # type: ignore[arg-type]

    def _row_range(self, node: Any) -> Optional[Part]:
        if not patterns.is_plain(node, "slice") or node.args[0] not in self.parameters:
            return None
        _, axis, first, _, step = (*node.args, 0, 0, 0, 1)[:5] if len(node.args) < 5 else node.args
        table, shape = fake(node.args[0]), shape_of(node)
        first = first or 0
        first = max(first + table.shape[0], 0) if first < 0 else first
        aligned = first * table.stride(0) * table.element_size() % 16 == 0
        if axis or (len(node.args) > 4 and step != 1) or not aligned or not shape[0]:
            return None
        return Part(0, first, first + shape[0])

    def matrix(self, node: Any, user: Node, columns: Optional[int] = None) -> build.Value:
        """The tensor of `node` as a matrix of `columns` (else its last dimension) in row-major order."""
        value = self.value(node, user)
        if not value.layout.is_row_major(value.elements):
            # PyTorch makes it so; what needs it goes on from there.
            moved = node in self.inside and node.op == "call_function"
            reason = f"{list(value.layout.shape)} is a view that is not row-major in memory"
            raise Unsupported(node if moved else user, reason)
        shape = value.layout.shape
        columns = columns or (shape[-1] if shape else 1)
        if not columns:
            raise Unsupported(user, f"its operand {list(shape)} has no columns")
        return self.function.reshape(value.matrix, (value.elements // columns, columns))

    def vector(self, node: Any, user: Node, dtype: str) -> build.Value:
        """The tensor of `node` as a vector of elements `dtype`."""
        value = self.value(node, user)
        if not value.layout.is_row_major(value.elements):
            raise Unsupported(user, "an operand is a view that is not row-major in memory")
        return self.function.cast(self.function.reshape(value.matrix, (value.elements,)), dtype)

    # Nodes

    def _emit(self, node: Node) -> Value:
        for pattern in (
            patterns.match_rms_norm,
            patterns.match_rope,
            patterns.match_partial_rope,
            patterns.match_activation,
            patterns.match_attention,
        ):
            found = pattern(node)
            if found is not None:
                return getattr(self, f"_emit_{type(found).__name__.lower()}")(node, found)
        if node.op != "call_function":
            raise Unsupported(node, f"'{node.op}' is not imported")
        viewed = views.source_of(node)
        if viewed is not None:
            return self._viewed(node, viewed)
        if node.target is operator.getitem:
            raise Unsupported(node.args[0], f"'{node.args[0].target}' has no counterpart in te")  # type: ignore
        method = getattr(self, f"_op_{_name(node)}", None)
        if method is None:
            raise Unsupported(node, f"'{node.target}' has no counterpart in te")
        if not isinstance(node.meta.get("val"), torch.Tensor):
            raise Unsupported(node, "its result is no tensor")
        return method(node, *node.args, **node.kwargs)

    def _dense(self, node: Node, matrix: build.Value) -> Value:
        return Value(matrix, row_major(shape_of(node)))

    def _op_linear(self, node: Node, x: Node, w: Node, bias: Optional[Node] = None) -> Value:
        a, turned = self.matrix(x, node), self._turned(w, node)
        b = turned or self._given(w) or self.matrix(w, node)
        c = self.vector(bias, node, a.dtype) if bias is not None else None
        if a.dtype != b.dtype:
            raise Unsupported(node, f"its operands have elements of {a.dtype} and {b.dtype}")
        layer = self._layer(node, w)
        return self._dense(node, self.function.linear(a, b, c, layer=layer, transposed_weight=turned is not None))

    def _given(self, w: Any) -> Optional[build.Value]:
        """A matrix from outside of the region that is no parameter, or a cast of one, as the weight of a product.

        It is passed as a vector: for the compiler an argument that is such a matrix is a weight whose mark is
        missing, which it neither keeps casts of nor adds gradients of to 'main_grad'.
        """
        if w in self.inside and w.op != "placeholder":
            dtype = torch_to_te(fake(w).dtype)
            inner = self._given(w.args[0]) if patterns.without_casts(w) is not w else None
            return None if inner is None or dtype is None else self.function.cast(inner, dtype)
        if not isinstance(w, Node) or w in self.parameters or self._row_range(w) is not None or len(shape_of(w)) != 2:
            return None
        vector = self.feed(w, "flat", lambda t: dense(t).view(-1), (fake(w).numel(),))
        return self.function.reshape(vector, shape_of(w))

    def _turned(self, w: Node, user: Node) -> Optional[build.Value]:
        """The matrix [in, out] that `w` is the transpose of, where that is a parameter, or a copy of columns of one."""
        found = self._columns(w)
        if found is None:
            return None
        whole, parameter, part = found
        if part is None:
            return self.matrix(whole, user)
        shape = (shape_of(w)[1], shape_of(w)[0])
        copy = self.feed(parameter, str(part), lambda t: part.of(t).contiguous(), shape, part=part)
        return self.function.cast(copy, dtype_name(fake(w).dtype))

    def _columns(self, w: Node) -> Optional[Tuple[Node, Node, Optional[Part]]]:
        """(matrix, parameter, part) where `w` is the transpose of the matrix, or of columns of it.

        The matrix is the parameter, perhaps cast.
        """
        first, whole = 0, w
        if patterns.is_plain(w, "slice") and len(w.args) == 4 and w.args[1] == 0:
            whole, first = w.args[0], w.args[2] or 0  # type: ignore[assignment]
            first += shape_of(whole)[0] if first < 0 else 0
        matrix = patterns.transposed(whole)
        parameter = patterns.without_casts(matrix)
        if parameter not in self.parameters:
            return None
        is_part = shape_of(w) != shape_of(whole)
        return matrix, parameter, Part(1, first, first + shape_of(w)[0]) if is_part else None

    def _layer(self, node: Node, w: Node) -> str:
        """What reports call a layer: its parameter, also where that is rounded to the type that it computes in."""
        columns = self._columns(w)
        w = patterns.without_casts(w)
        if columns is not None:
            _, w, part = columns
        else:
            part = self._row_range(w)
            w = w if part is None else w.args[0]  # type: ignore[assignment]
        if w not in self.parameters:
            return node.name
        name = self.names.get(w, w.name)
        return layer_of(name if part is None else part.name(name))

    def _matmul(self, node: Node, x: Node, w: Node, bias: Optional[Node] = None) -> Value:
        given = self._given(patterns.transposed(w))
        if given is not None:
            a = self.matrix(x, node, given.shape[1])
            c = self.vector(bias, node, a.dtype) if bias is not None else None
            return self._dense(node, self.function.linear(a, given, c, layer=node.name))
        if len(shape_of(w)) > 2:
            raise Unsupported(node, "products of batches of matrices are imported in attention alone")
        b = self.value(w, node)
        if len(b.layout.dims) != 2 or not b.layout.permute((1, 0)).is_row_major(b.elements):
            raise Unsupported(node, "only products with the transpose of a row-major matrix are linear layers")
        k, n = b.layout.shape
        a = self.matrix(x, node, k)
        w_matrix = self.function.reshape(b.matrix, (n, k))
        c = self.vector(bias, node, a.dtype) if bias is not None else None
        parameter: Any = w
        while parameter not in self.parameters and isinstance(parameter, Node) and views.source_of(parameter):
            parameter = patterns.without_casts(views.source_of(parameter))
        return self._dense(node, self.function.linear(a, w_matrix, c, layer=self._layer(node, parameter)))

    def _op_mm(self, node: Node, x: Node, w: Node) -> Value:
        return self._matmul(node, x, w)

    def _op_matmul(self, node: Node, x: Node, w: Node) -> Value:
        return self._matmul(node, x, w)

    def _op_addmm(self, node: Node, bias: Node, x: Node, w: Node, beta: float = 1, alpha: float = 1) -> Value:
        if beta != 1 or alpha != 1 or len(shape_of(bias)) != 1:
            raise Unsupported(node, "its factors are not 1, or its bias is no vector")
        return self._matmul(node, x, w, bias)

    def _op_embedding(
        self, node: Node, table: Node, ids: Node, padding_idx: int = -1, scale: bool = False, sparse: bool = False
    ) -> Value:
        if scale or sparse:
            raise Unsupported(node, "scale_grad_by_freq and sparse are not implemented")
        rows = self.matrix(table, node)
        if padding_idx < 0:
            return self._dense(node, self.function.embedding(self._ids(ids), rows))
        # Rows of ids outside the table are zeros, and have no gradients: those of padding come from a table without.
        if table not in self.parameters:
            raise Unsupported(node, "its table, which is to have a row without a gradient, is no parameter")
        fixed = self.feed(table, FIXED, torch.Tensor.detach)
        others = self._ids(ids, f"ids_but_{padding_idx}", lambda t: t.masked_fill(t == padding_idx, -1))
        padding = self._ids(ids, f"ids_{padding_idx}", lambda t: t.masked_fill(t != padding_idx, -1))
        parts = self.function.embedding(others, rows), self.function.embedding(padding, fixed)
        return self._dense(node, self.function.add(*parts))

    def _ids(
        self, node: Node, key: str = "ids", mask: Optional[Callable[[torch.Tensor], torch.Tensor]] = None
    ) -> build.Value:
        if node in self.inside:
            raise Unsupported(node, "it makes indices of compiled values")
        count = _product(shape_of(node))
        make = Indices()
        return self.feed(node, key, make if mask is None else lambda t: make(mask(t)), (count,), torch.int32)

    def _op_rms_norm(
        self, node: Node, x: Node, shape: List[int], weight: Optional[Node] = None, epsilon: Optional[float] = None
    ) -> Value:
        if weight is None or len(shape) != 1:
            raise Unsupported(node, "it has no weight, or is over several dimensions")
        if epsilon is None:
            # Of the type that it is computed in, as in PyTorch.
            epsilon = torch.finfo(torch.float32).eps
        a, (gamma,), layout = self._norm_operands(node, x, weight)
        return self._normed(node, self.function.rms_norm(a, gamma, epsilon), layout)

    def _norm_operands(self, node: Node, x: Node, *vectors: Node) -> Tuple[build.Value, List[build.Value], Layout]:
        """The operands of a norm in the widest of their types, as PyTorch computes it; and how its rows lie, in any order."""
        value = self.value(x, node)
        if value.layout.is_whole(value.elements) and Layout(value.layout.dims[-1:]).is_row_major(shape_of(x)[-1]):
            a = self.function.reshape(value.matrix, (value.elements // shape_of(x)[-1], shape_of(x)[-1]))
        else:
            a = self.matrix(x, node)
        types = {torch_to_te(fake(v).dtype) for v in (x, *vectors)}
        dtype = a.dtype if types == {a.dtype} else "float32"
        return self.function.cast(a, dtype), [self.vector(v, node, dtype) for v in vectors], value.layout

    def _normed(self, node: Node, y: build.Value, layout: Layout) -> Value:
        return Value(self.function.cast(y, dtype_name(fake(node).dtype)), layout)

    def _emit_rmsnorm(self, node: Node, found: "patterns.RmsNorm") -> Value:
        x, (gamma,), layout = self._norm_operands(node, found.x, found.weight)
        return self._normed(node, self.function.rms_norm(x, gamma, found.epsilon, found.zero_centered), layout)

    def _op_layer_norm(
        self,
        node: Node,
        x: Node,
        shape: List[int],
        weight: Optional[Node] = None,
        bias: Optional[Node] = None,
        epsilon: float = 1e-5,
        cudnn: bool = True,
    ) -> Value:
        if len(shape) != 1:
            raise Unsupported(node, "it is over several dimensions")
        a, vectors, layout = self._norm_operands(node, x, *(v for v in (weight, bias) if v is not None))
        gamma = vectors[0] if weight is not None else self.function.constant(1.0, (shape[0],), a.dtype)
        beta = vectors[-1] if bias is not None else self.function.constant(0.0, (shape[0],), a.dtype)
        return self._normed(node, self.function.layer_norm(a, gamma, beta, epsilon), layout)

    def _emit_rope(self, node: Node, found: "patterns.Rope", whole: Optional[Node] = None) -> Value:
        x = self.value(whole or found.x, node)
        # As [batch, sequence, heads, width], before heads change places with positions or after.
        orders = [o for o in ((0, 2, 1, 3), (0, 1, 2, 3)) if x.layout.permute(o).is_row_major(x.elements)]
        if not orders:
            raise Unsupported(node, "a rotation is imported of heads that are views of [batch, sequence, heads, width]")
        order = next((o for o in orders if _sizes(found.cos)[o[2]] == 1), orders[0])
        batch, sequence, heads, width = (shape_of(node)[a] for a in order)
        turned = shape_of(found.x)[-1]
        of = "half" if found.half_tables else "pairs" if found.interleaved else "halves"
        tables = [self._table(t, node, order, batch, sequence, turned, of) for t in (found.cos, found.sin)]
        matrix = self.function.reshape(x.matrix, (batch * sequence, heads * width))
        matrix = self.function.cast(matrix, dtype_name(fake(node).dtype))
        return Value(self.function.rope(matrix, tables[0], tables[1], heads, found.interleaved), x.layout)

    def _emit_partialrope(self, node: Node, found: "patterns.PartialRope") -> Value:
        return self._emit_rope(node, found.rope, found.whole)

    def _table(
        self,
        table: Node,
        user: Node,
        order: Sequence[int],
        batch: int,
        sequence: int,
        width: int,
        of: str,
    ) -> build.Value:
        """of: what of `width` columns is alike, its halves or its pairs; or half of them is all that there is."""
        if table in self.inside or table in self.wanting:
            raise Unsupported(user, "the tables of a rotation depend on compiled values")
        b, s, h, columns = (_sizes(table)[a] for a in order)
        if h != 1 or s != sequence or columns != (width // 2 if of == "half" else width) or b not in (1, batch):
            wanted = "[batch or 1, 1, sequence, width]" if order[1] == 2 else "[batch or 1, sequence, 1, width]"
            wanted = wanted.replace("width", "width / 2") if of == "half" else wanted
            raise Unsupported(user, f"its tables are {list(shape_of(table))}; expected {wanted}")

        if of == "half":
            return self.feed(
                table,
                of,
                lambda t: t.reshape(-1, width // 2).to(torch.float32).contiguous(),
                (b * sequence, width // 2),
                torch.float32,
            )
        if self.masks.get(table.name) == OTHER:
            raise OtherTable(user, table.name, of)

        def make(t: torch.Tensor) -> torch.Tensor:
            rows = t.reshape(-1, width).to(torch.float32)
            first, second = (rows[:, ::2], rows[:, 1::2]) if of == "pairs" else rows.chunk(2, -1)
            if not torch.equal(first, second):
                raise OtherTable(user, table.name, of)
            return first.contiguous()

        return self.feed(table, of, make, (b * sequence, width // 2), torch.float32)

    def _op_scaled_dot_product_attention(
        self,
        node: Node,
        q: Node,
        k: Node,
        v: Node,
        mask: Optional[Node] = None,
        dropout: float = 0.0,
        causal: bool = False,
        scale: Optional[float] = None,
        enable_gqa: bool = False,
    ) -> Value:
        if dropout:
            raise Unsupported(node, f"dropout of {dropout} is not implemented")
        if {len(shape_of(operand)) for operand in (node, q, k, v)} != {4}:
            raise Unsupported(node, "q, k and v are not [batch, heads, sequence, width]")
        return self._attention(node, CAUSAL if causal else OPEN, mask, scale, None, q, k, v)

    def _emit_attention(self, node: Node, found: "patterns.Attention") -> Value:
        return self._attention(
            node,
            OPEN,
            found.mask,
            found.scale,
            found.softcap,
            found.q,
            found.keys,
            found.v,
            turned=True,
            sinks=found.sinks,
        )

    def _attention(
        self,
        node: Node,
        kind: Kind,
        mask: Optional[Node],
        scale: Optional[float],
        softcap: Optional[float],
        q: Node,
        k: Node,
        v: Node,
        turned: bool = False,
        sinks: Optional[Node] = None,
    ) -> Value:
        """The attention that `node` is, of tensors [batch, heads, sequence, width]; k with the last two `turned`.

        kind: where there is no mask.
        """
        batch, heads, sequence, width = shape_of(node)
        order = (0, 1, 3, 2) if turned else (0, 1, 2, 3)
        if shape_of(k)[order[2]] != sequence or shape_of(v)[3] != width:
            raise Unsupported(node, "q, k and v are not [batch, heads, sequence, width] of one sequence and width")
        if mask is not None:
            kind = self._kind(node, mask, sequence)
        a = self.value(q, node)
        if not same(a.layout, heads_first(batch, heads, sequence, width)):
            raise Unsupported(node, "its q is no view of a matrix [batch * sequence, heads * width]")
        matrices = [self.function.reshape(a.matrix, (batch * sequence, heads * width))]
        kv_heads = 0
        for operand, axes in ((k, order), (v, (0, 1, 2, 3))):
            b = self.value(operand, node)
            b = Value(b.matrix, b.layout.permute(axes))
            kv_heads = b.elements // (batch * sequence * width)
            repeat = b.layout.shape[1] // max(kv_heads, 1)
            if not kv_heads or not repeat or not same(b.layout, heads_first(batch, kv_heads, sequence, width, repeat)):
                raise Unsupported(node, "its k or v is no view of a matrix [batch * sequence, heads * width]")
            matrices.append(self.function.reshape(b.matrix, (batch * sequence, kv_heads * width)))
        if matrices[1].shape != matrices[2].shape or heads % kv_heads:
            raise Unsupported(node, "its k and v have other numbers of heads")
        if len({m.dtype for m in matrices}) != 1:
            raise Unsupported(node, "its q, k and v have elements of different types")
        # As PyTorch's own attention is.
        deterministic = torch.are_deterministic_algorithms_enabled()
        o = self.function.attention(
            matrices[0],
            matrices[1],
            matrices[2],
            heads,
            kv_heads,
            sequence,
            kind != OPEN,
            scale,
            deterministic,
            kind.window_left,
            softcap,
            None if sinks is None else self._sinks(node, sinks, heads),
        )
        return Value(o, heads_first(batch, heads, sequence, width))

    def _sinks(self, user: Node, sinks: Node, heads: int) -> build.Value:
        """The vector of a number for each head."""
        if any(patterns.is_plain(sinks, name) for name in ("zeros", "new_zeros")):
            # Whatever their shape, all are one.
            return self.feed(sinks, "sinks", lambda t: t.new_zeros(heads).float(), (heads,), torch.float32)
        if _sizes(sinks) != (1, heads, 1, 1):
            raise Unsupported(user, f"its sinks are {list(shape_of(sinks))}, and not one number for each head")
        return self.vector(sinks, user, "float32")

    def _kind(self, user: Node, mask: Node, sequence: int) -> Kind:
        """What attention's mask is taken to be; feeds nothing, but has that compared before each call."""
        if mask in self.inside or mask in self.wanting:
            raise Unsupported(user, "its mask depends on compiled values")
        kind = self.masks.get(mask.name, CAUSAL)
        if kind == OTHER:
            raise Unsupported(user, "its mask is neither causal, with a window or without, nor all ones")

        def check(t: torch.Tensor) -> torch.Tensor:
            if not is_kind(t, sequence, kind):
                raise OtherMask(user, mask.name, kind_of(t, sequence))
            return torch.zeros((), device=t.device)

        # A scalar that the compiler drops: what matters is that it is made.
        self.feed(mask, "mask", check, (), torch.float32)
        return kind

    def _op_cross_entropy_loss(
        self,
        node: Node,
        logits: Node,
        targets: Node,
        weight: Optional[Node] = None,
        reduction: int = 1,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
    ) -> Value:
        if weight is not None or reduction not in (1, 2) or label_smoothing:
            raise Unsupported(node, "only mean and sum without weights and label smoothing are implemented")
        if len(shape_of(logits)) != 2 or targets in self.inside or fake(targets).is_floating_point():
            raise Unsupported(node, "its logits are not [rows, classes], or its targets no integers of the input")
        # The loss is computed in f32 whatever its logits are: a cast to f32 says nothing.
        narrow = patterns.without_widening(logits)
        x = self.value(narrow, node)
        layout = x.layout if narrow is logits else x.layout.reshape(shape_of(logits))
        classes = shape_of(logits)[1]
        rows = x.elements // classes
        matrix = self.function.reshape(x.matrix, (rows, classes))
        count = shape_of(targets)[0]
        if layout is not None and layout.is_row_major(x.elements):
            ids = self._ids(targets)
        else:
            # logits[..., :-1, :]: the last of each sequence has no target.
            atoms = layout.dims[0] if layout is not None and layout.offset == 0 else ()
            if len(atoms) == 1:
                atoms = ((1, rows * classes),) + atoms
            if len(atoms) != 2 or atoms[1][1] != classes or atoms[0][1] != (atoms[1][0] + 1) * classes:
                raise Unsupported(node, "its logits are a view that is not row-major in memory")
            sequences, length = atoms[0][0], atoms[1][0]

            def shifted(t: torch.Tensor) -> torch.Tensor:
                padded = torch.nn.functional.pad(t.reshape(sequences, length), (0, 1), value=ignore_index)
                return Indices()(padded)

            assert count == sequences * length
            ids = self.feed(targets, f"shifted_{length}_{ignore_index}", shifted, (rows,), torch.int32)
        loss = self.function.cross_entropy(matrix, ids, clamped(ignore_index))
        if reduction == 2:
            counted = self.feed(
                targets,
                f"count_{ignore_index}",
                lambda t: (t != ignore_index).sum(dtype=torch.float32),
                (),
                torch.float32,
            )
            loss = self.function.mul(loss, counted)
        # Of the type that PyTorch's has, which what comes after it was traced with.
        return Value(self.function.cast(loss, dtype_name(fake(node).dtype)), row_major(()))

    # Activations

    def _activation(self, node: Node, kind: str, x: Node) -> Value:
        value = self.value(x, node)
        if not value.layout.is_whole(value.elements):
            raise Unsupported(node, "its operand is a part of a tensor, or repeats it")
        matrix = value.matrix
        if len(matrix.shape) != 2:
            matrix = self.function.reshape(matrix, (1, value.elements))
        return Value(self.function.activation(kind, matrix), value.layout)

    def _emit_activation(self, node: Node, found: "patterns.Activation") -> Value:
        # Computed in f32 and rounded once, as PyTorch's own activations are.
        return self._activation(node, found.kind, found.x)

    def _op_silu(self, node: Node, x: Node) -> Value:
        return self._activation(node, "silu", x)

    def _op_relu(self, node: Node, x: Node) -> Value:
        return self._activation(node, "relu", x)

    def _op_gelu(self, node: Node, x: Node, approximate: str = "none") -> Value:
        return self._activation(node, "gelu" if approximate == "tanh" else "gelu_erf", x)

    def _gated(self, node: Node, a: Any, b: Any) -> Optional[Value]:
        """`act(a) * b` as one op, where nothing else needs act(a): rounded once, as TransformerEngine's are."""
        kind = patterns.gated_kind(a)
        if kind is None or a not in self.inside or a in self._values or not isinstance(b, Node):
            return None
        tensors = [fake(n) for n in (a.args[0], b, node)]
        if len({(t.dtype, t.shape) for t in tensors}) != 1 or len(a.users) != 1:
            return None
        x, gate = self.value(a.args[0], node), self.value(b, node)
        if not x.layout.is_whole(x.elements) or not same(x.layout, gate.layout) or x.elements != gate.elements:
            return None
        shape = x.matrix.shape if len(x.matrix.shape) == 2 else (1, x.elements)
        halves = [self.function.reshape(v.matrix, shape) for v in (x, gate)]
        return Value(self.function.activation(kind, *halves), x.layout)

    # Elementwise

    def _unary(self, node: Node, op: str, x: Node) -> Value:
        value = self.value(x, node)
        if not value.layout.is_whole(value.elements):
            raise Unsupported(node, "its operand is a part of a tensor, or repeats it")
        return Value(self.function.unary(op, value.matrix), value.layout)

    def _op_neg(self, node: Node, x: Node) -> Value:
        return self._unary(node, "arith.negf", x)

    def _op_exp(self, node: Node, x: Node) -> Value:
        return self._unary(node, "math.exp", x)

    def _op_tanh(self, node: Node, x: Node) -> Value:
        return self._unary(node, "math.tanh", x)

    def _op_sqrt(self, node: Node, x: Node) -> Value:
        return self._unary(node, "math.sqrt", x)

    def _op_square(self, node: Node, x: Node) -> Value:
        return self._binary(node, "mul", x, x)

    def _op_pow(self, node: Node, x: Node, exponent: Any) -> Value:
        if exponent != 2:
            raise Unsupported(node, f"a power of {exponent!r} has no counterpart in te; 2 has")
        return self._binary(node, "mul", x, x)

    def _binary(self, node: Node, op: str, a: Any, b: Any, swap: bool = False) -> Value:
        dtype = torch_to_te(fake(node).dtype)
        if dtype in (None, "int32"):
            raise Unsupported(node, f"its elements are {dtype_name(fake(node).dtype)}")
        scalar = None
        if not isinstance(a, Node) or not isinstance(b, Node):
            a, b, scalar, swap = (b, None, a, True) if not isinstance(a, Node) else (a, None, b, swap)
        elif self._is_number(a) and shape_of(b):
            a, b, swap = b, a, not swap
        left = self._operand(a, node, fake(node).dtype)
        if not left.layout.is_whole(left.elements):
            raise Unsupported(node, "an operand is a part of a tensor, or repeats it")
        x = self.function.cast(left.matrix, dtype)
        if scalar is not None:
            y = self.function.constant(float(scalar), x.shape, dtype)
        elif self._is_number(b) and shape_of(a):
            # Elementwise ops have operands of one shape; what comes of buffers alone is made once.
            of, key = fake(node).dtype, f"{dtype} {list(x.shape)}"
            y = self.feed(b, key, lambda t: t.to(of).expand(x.shape).contiguous(), x.shape, of)
        else:
            right = self._operand(b, node, fake(node).dtype)
            if not same(left.layout, right.layout) or left.elements != right.elements:
                if not shape_of(a) or not shape_of(b):
                    raise Unsupported(node, "a number in a tensor is taken where it is given and has no gradient")
                raise Unsupported(
                    node,
                    f"its operands {list(left.layout.shape)} and {list(right.layout.shape)} are broadcast, or lie "
                    "differently in memory",
                )
            y = self.function.cast(self.function.reshape(right.matrix, x.shape), dtype)
        return Value(getattr(self.function, op)(*((y, x) if swap else (x, y))), left.layout)

    def _is_number(self, node: Node) -> bool:
        """Whether a tensor without dimensions comes from outside of the region, and has no gradient."""
        return not shape_of(node) and not any(node in some for some in (self.inside, self.parameters, self.wanting))

    def _operand(self, node: Node, user: Node, dtype: torch.dtype) -> Value:
        """The tensor of `node`; integers from outside of the region come as numbers of `dtype`."""
        if node in self.inside or fake(node).is_floating_point():
            return self.value(node, user)
        matrix = self.feed(node, dtype_name(dtype), lambda t: t.to(dtype).contiguous(), dtype=dtype)
        return Value(matrix, row_major(shape_of(node)))

    def _op_add(self, node: Node, a: Any, b: Any, alpha: float = 1) -> Value:
        if alpha != 1:
            raise Unsupported(node, "its 'alpha' is not 1")
        return self._binary(node, "add", a, b)

    def _op_sub(self, node: Node, a: Any, b: Any, alpha: float = 1) -> Value:
        if alpha != 1:
            raise Unsupported(node, "its 'alpha' is not 1")
        return self._binary(node, "sub", a, b)

    def _op_rsub(self, node: Node, a: Any, b: Any, alpha: float = 1) -> Value:
        if alpha != 1:
            raise Unsupported(node, "its 'alpha' is not 1")
        return self._binary(node, "sub", a, b, swap=True)

    def _op_mul(self, node: Node, a: Any, b: Any) -> Value:
        return self._gated(node, a, b) or self._gated(node, b, a) or self._binary(node, "mul", a, b)

    def _op_div(self, node: Node, a: Any, b: Any, rounding_mode: Optional[str] = None) -> Value:
        if rounding_mode is not None:
            raise Unsupported(node, "its 'rounding_mode' has no counterpart in te")
        return self._binary(node, "div", a, b)

    # Casts and views

    def _cast(self, node: Node, x: Node) -> Value:
        rope = patterns.match_rope(x) if x in self.inside and x not in self._values else None
        if rope is not None and fake(rope.x).dtype is fake(node).dtype:
            # It is computed in f32 and rounded once, whichever of the two rounds.
            return self._emit_rope(node, rope)
        value = self.value(x, node)
        dtype = torch_to_te(fake(node).dtype)
        if dtype in (None, "int32"):
            raise Unsupported(node, f"a cast to {dtype_name(fake(node).dtype)} has no counterpart in te")
        return Value(self.function.cast(value.matrix, dtype), value.layout)

    def _op_to(self, node: Node, x: Node, *_: Any, **__: Any) -> Value:
        if fake(node).device != fake(x).device:
            raise Unsupported(node, "it moves a tensor to another device")
        return self._cast(node, x)

    _op__to_copy = _op_to
    _op_type_as = _op_to
    _op_float = _op_to

    def _op_cat(self, node: Node, parts: List[Node], axis: int = 0) -> Value:
        # What a cache that was empty gives.
        filled = [part for part in parts if _product(shape_of(part))]
        if len(filled) != 1 or shape_of(filled[0]) != shape_of(node):
            raise Unsupported(node, "it joins several tensors")
        # Of the widest type of all, also of those without elements.
        return self._cast(node, filled[0]) if fake(node).dtype != fake(filled[0]).dtype else self.value(filled[0], node)

    def _op_dropout(self, node: Node, x: Node, p: float, train: bool) -> Value:
        if p and train:
            raise Unsupported(node, f"dropout of {p} is not implemented")
        return self.value(x, node)

    def _viewed(self, node: Node, source: Node) -> Value:
        value = self.value(source, node)
        layout = views.layout_of(node, value.layout)
        if layout is None:
            raise Unsupported(node, f"a view of {list(value.layout.shape)} as {list(shape_of(node))} is not followed")
        return Value(value.matrix, layout)

    # Output

    def result(self, matrix: build.Value) -> int:
        """Returns `matrix`; gives its place among the results."""
        for index, (value, _) in enumerate(self.function.results):
            if value is matrix:
                return index
        self.function.result(f"result{len(self.function.results)}", matrix)
        return len(self.function.results) - 1


def _name(node: Node) -> str:
    target = str(node.target)
    return target.split(".")[1] if target.startswith("aten.") else target


def imports(node: Node) -> bool:
    """Whether there is an import of the op of a node, of some of its calls at least."""
    return hasattr(Importer, f"_op_{_name(node)}")


__all__ = [
    "COMPARED",
    "FIXED",
    "OTHER",
    "Feed",
    "Importer",
    "Kind",
    "OtherMask",
    "Unsupported",
    "Value",
    "describe",
    "fake",
    "imports",
]
