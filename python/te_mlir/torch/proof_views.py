"""Rules of the proof for views, for tensors that are joined or cut, and for new tensors."""

from __future__ import annotations

from torch.fx import Node

from te_mlir.torch.adapter import given, name_of
from te_mlir.torch.facts import ANY, COPY, ZERO, Axis, Content, Fact, Factor, aligned, axis_of, reshaped
from te_mlir.torch.proof import Comparison, Unprovable

#: New tensors, and what they are filled with.
FILLED = {"zeros": 0.0, "zeros_like": 0.0, "new_zeros": 0.0, "ones": 1.0, "ones_like": 1.0, "new_ones": 1.0}


def sizes_of(axis: Axis) -> list[tuple[int, ...]]:
    """The used sizes and the sizes of the factors of an axis."""
    return [factor[:2] for factor in axis]


def replaced(axes: tuple[Axis, ...], place: int, axis: Axis) -> tuple[Axis, ...]:
    """The axes with another one at a place."""
    return (*axes[:place], axis, *axes[place + 1 :])


class Views(Comparison):
    """Rules for views, for tensors that are joined or cut, and for new tensors."""

    def _reshaped(self, node: Node, other: Node) -> Fact | None:
        if node.meta["val"].dtype is not node.args[0].meta["val"].dtype:  # type: ignore[union-attr]
            return None
        return reshaped(self.facts[node.args[0]], other.meta["val"].shape, node.meta["val"].shape)  # type: ignore[index]

    def _swapped(self, node: Node, other: Node) -> Fact:
        arguments, fact = given(node), self.facts[node.args[0]]  # type: ignore[index]
        axes = list(fact.axes)
        a, b = [arguments[n] for n in ("dim0", "axis0", "dim1", "axis1") if n in arguments] or (-2, -1)
        if len(axes) > 1:
            axes[a], axes[b] = axes[b], axes[a]
        return fact._replace(axes=tuple(axes))

    def _permuted(self, node: Node, other: Node) -> Fact:
        fact: Fact = self.facts[node.args[0]]  # type: ignore[index]
        return fact._replace(axes=tuple(fact.axes[axis] for axis in given(node)["dims"]))

    def _expanded(self, node: Node, other: Node) -> Fact:
        fact: Fact = self.facts[node.args[0]]  # type: ignore[index]
        value, small = node.meta["val"], other.meta["val"]
        more = value.dim() - len(fact.axes)
        axes = [
            (fact.axes[i - more] if i >= more else ()) or axis_of([Factor(used, size, COPY)])
            for i, (used, size) in enumerate(zip(small.shape, value.shape))
        ]
        return fact._replace(axes=tuple(axes))

    def _sliced(self, node: Node, other: Node) -> Fact:
        arguments, small = given(node), given(other)
        fact: Fact = self.facts[arguments["self"]]
        axis = arguments["dim"] % len(fact.axes)
        sizes = other.meta["val"].shape[axis], node.meta["val"].shape[axis]
        source = arguments["self"].meta["val"].shape[axis]
        if self._literals(node) == self._literals(other) and fact.is_whole(axis):
            return fact._replace(axes=replaced(fact.axes, axis, axis_of([Factor(*sizes)])))
        if sizes[1] == source and arguments["step"] == 1 and not fact.is_whole(axis):
            return fact
        start = arguments["start"] or 0
        if len(fact.axes[axis]) > 1 or arguments["step"] != 1 or start < 0 or start != (small["start"] or 0):
            raise Unprovable(node, "the slice is one of the last elements, or has a step")
        # The other elements of a table without padding are read as padding.
        factor = Factor(*sizes, ANY if fact.is_whole(axis) else fact.axes[axis][0].pad)
        return fact._replace(axes=replaced(fact.axes, axis, axis_of([factor])))

    def _selected(self, node: Node, other: Node) -> Fact:
        arguments = given(node)
        fact: Fact = self.facts[arguments["self"]]
        axis = arguments["dim"] % len(fact.axes)
        self._same_literals(node, other)
        if not fact.is_whole(axis) and arguments["index"] < 0:
            raise Unprovable(node, "it selects one of the last elements")
        return fact._replace(axes=fact.axes[:axis] + fact.axes[axis + 1 :])

    def _split(self, node: Node, other: Node) -> list[Fact]:
        arguments = given(node)
        fact: Fact = self.facts[arguments["self"]]
        axis = arguments["dim"] % len(fact.axes)
        self._same_literals(node, other)
        if not fact.is_whole(axis):
            raise Unprovable(node, "it splits an axis with padding")
        if name_of(node) == "unbind":
            return [fact._replace(axes=fact.axes[:axis] + fact.axes[axis + 1 :]) for _ in node.meta["val"]]
        sizes = [value.shape[axis] for value in node.meta["val"]]
        return [fact._replace(axes=replaced(fact.axes, axis, axis_of([Factor(n, n)]))) for n in sizes]

    def _joined(self, node: Node, other: Node) -> Fact | None:
        arguments = given(node)
        stacks = name_of(node) == "stack"
        # An empty key-value cache is a tensor without elements.
        facts: list[Fact] = [self.facts[n] for n in arguments["tensors"] if n.meta["val"].numel()]
        rank = len(facts[0].axes)
        axis = arguments["dim"] % (rank + stacks)
        if len(facts) == 1 and not stacks:
            return facts[0]
        if not stacks and not all(fact.is_whole(axis) for fact in facts):
            raise Unprovable(node, "it appends to an axis with padding")
        rests = facts if stacks else [f._replace(axes=replaced(f.axes, axis, ())) for f in facts]
        rows = aligned(rests, rank)
        if rows is None:
            return None
        axes = []
        for own, each in rows:
            pads = [[one[i].pad for one in each if one] for i in range(len(own))]
            axes.append(
                tuple(
                    f._replace(pad=p[0] if len(set(p)) == 1 and len(p) == len(facts) else ANY)
                    for f, p in zip(own, pads)
                )
            )
        size = node.meta["val"].shape[axis]
        joined = axis_of([Factor(size, size)])
        axes[axis : axis + (not stacks)] = [joined]
        return Fact(tuple(axes))

    def _appended(self, node: Node, other: Node) -> Fact:
        """A constant that is appended to axes."""
        arguments, small = given(node), given(other)
        fact: Fact = self.facts[node.args[0]]  # type: ignore[index]
        amounts = list(arguments["pad"])
        if amounts != list(small["pad"]) or arguments.get("mode", "constant") != "constant":
            raise Unprovable(node, "the amount depends on the size, or its mode is not 'constant'")
        value = float(arguments["value"] or 0)
        axes = list(fact.axes)
        for index in range(len(amounts) // 2):
            axis = len(axes) - 1 - index
            before, after = amounts[2 * index : 2 * index + 2]
            if before == after == 0:
                continue
            sizes = other.meta["val"].shape[axis], node.meta["val"].shape[axis]
            if fact.is_whole(axis):
                axes[axis] = axis_of([Factor(*sizes)])
                continue
            if before < 0 or len(axes[axis]) > 1:
                raise Unprovable(node, "it cuts the first elements of an axis with padding")
            if after > 0:
                self._with(node, node.args[0], value, [axis])  # type: ignore[arg-type]
            axes[axis] = (Factor(*sizes, Content(value, value) if after > 0 else axes[axis][0].pad),)
        kept = Content(value, value)
        # The new elements are also beside the padding of other axes.
        return Fact(tuple(tuple(f if f.pad == kept else f._replace(pad=ANY) for f in axis) for axis in axes))

    def _prefix(self, node: Node, other: Node) -> Fact:
        self._same_literals(node, other)
        arguments = given(node)
        fact: Fact = self.facts[node.args[0]]  # type: ignore[index]
        axis = arguments["dim"] % len(fact.axes)
        if arguments.get("append") is not None or arguments.get("n", 1) != 1 or len(fact.axes[axis]) > 1:
            raise Unprovable(node, "it appends to an axis with padding")
        factor = Factor(other.meta["val"].shape[axis], node.meta["val"].shape[axis])
        return fact.filled(ANY)._replace(axes=replaced(fact.filled(ANY).axes, axis, axis_of([factor])))

    def _triangle(self, node: Node, other: Node) -> Fact:
        """The elements of matrices below a diagonal (tril) or above it (triu); the others are 0."""
        self._same_literals(node, other)
        fact: Fact = self.facts[node.args[0]]  # type: ignore[index]
        diagonal, lower = given(node)["diagonal"], name_of(node) == "tril"
        *_, rows, columns = fact.axes
        below = right = ANY
        if len(rows) == 1 and rows[0].is_padded and sizes_of(rows) == sizes_of(columns):
            # Padded rows are below the used columns, and padded columns right of the used rows.
            if lower:
                below, right = (rows[0].pad if diagonal >= -1 else ANY), (ZERO if diagonal <= 0 else ANY)
            else:
                below, right = (ZERO if diagonal >= 0 else ANY), (columns[0].pad if diagonal <= 1 else ANY)
        axes = [
            tuple(f._replace(pad=ANY if pad.copies else pad) if f.is_padded else f for f in own)
            for own, pad in ((rows, below), (columns, right))
        ]
        return Fact((*Fact(fact.axes[:-2]).filled(ANY).axes, *axes))

    # New tensors

    def _counted(self, node: Node, other: Node) -> Fact:
        numbers, small = [n for n in node.args if not isinstance(n, Node)], list(other.args)
        if len(numbers) > 1 and numbers[0] != small[0] or len(numbers) > 2:
            raise Unprovable(node, "its start or step depends on the size")
        used, size = other.meta["val"].shape[0], node.meta["val"].shape[0]
        start = float(numbers[0]) if len(numbers) > 1 else 0.0  # type: ignore[arg-type]
        pad = Content(start + used, start + size - 1)
        return Fact((axis_of([Factor(used, size, pad)]),), start, start + used - 1)

    def _filled(self, node: Node, other: Node) -> Fact:
        name = name_of(node)
        value = FILLED.get(name)
        if value is None:
            value = given(node)["fill_value"]
            if isinstance(value, Node) or value != given(other)["fill_value"]:
                raise Unprovable(node, "its value depends on the size")
            value = float(value)
        pad = Content(value, value)
        sizes = zip(other.meta["val"].shape, node.meta["val"].shape)
        return Fact(tuple(axis_of([Factor(used, size, pad)]) for used, size in sizes), value, value)
