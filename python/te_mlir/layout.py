"""How the elements of a tensor are stored in a row-major matrix.

Programs view, transpose, expand and slice tensors; the dialect has matrices. A
`Layout` is a view of a matrix that does not move elements: every dimension is a
list of (size, stride) atoms, outermost first, where stride 0 repeats. Reshapes
regroup and split atoms. So also tensors that a framework would copy, such as the
repeated heads of grouped-query attention, are views here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Atom = tuple[int, int]
Dim = tuple[Atom, ...]


class Layout(NamedTuple):
    """dims: the atoms of each dimension, none of size 1. offset: the offset of the first element."""

    dims: tuple[Dim, ...]
    offset: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the tensor in the program."""
        return tuple(_size(dim) for dim in self.dims)

    @property
    def atoms(self) -> list[Atom]:
        """All atoms, outermost first. Neighbours that form one run are joined."""
        joined: list[Atom] = []
        for size, stride in (atom for dim in self.dims for atom in dim):
            if joined and joined[-1][1] == size * stride and stride:
                joined[-1] = (joined[-1][0] * size, stride)
            else:
                joined.append((size, stride))
        return joined

    def is_row_major(self, count: int) -> bool:
        """Whether the layout has all `count` elements of the matrix, in order."""
        if count == 0:
            return True
        return self.offset == 0 and (self.atoms == [(count, 1)] or (count == 1 and not self.atoms))

    def is_whole(self, count: int) -> bool:
        """Whether the layout has each of the `count` elements once, in any order."""
        if count == 0:
            return True
        wanted = 1
        for size, stride in sorted((a for d in self.dims for a in d), key=lambda a: a[1]):
            if stride != wanted:
                return False
            wanted *= size
        return self.offset == 0 and wanted == count

    def reshape(self, shape: Sequence[int]) -> Layout | None:
        """The same elements in other dimensions, or None if these split an atom unevenly."""
        sizes = list(shape)
        if -1 in sizes:
            known = 1
            for size in sizes:
                known *= size if size != -1 else 1
            sizes[sizes.index(-1)] = _size(tuple(a for d in self.dims for a in d)) // max(known, 1)
        if 0 in sizes:
            return row_major(sizes) if 0 in self.shape else None
        pending = [atom for dim in self.dims for atom in dim][::-1]
        dims = []
        for wanted in sizes:
            dim = []
            while wanted > 1:
                if not pending:
                    return None
                size, stride = pending.pop()
                if wanted % size == 0:
                    dim.append((size, stride))
                    wanted //= size
                elif size % wanted == 0:
                    dim.append((wanted, stride * (size // wanted)))
                    pending.append((size // wanted, stride))
                    wanted = 1
                else:
                    return None
            dims.append(tuple(dim))
        return None if pending else Layout(tuple(dims), self.offset)

    def permute(self, order: Sequence[int]) -> Layout:
        """The layout whose dimension i is dimension `order[i]` of this one."""
        return Layout(tuple(self.dims[axis] for axis in order), self.offset)

    def expand(self, shape: Sequence[int]) -> Layout | None:
        """The layout with dimensions of size 1 repeated and new ones in front; None if sizes do not fit."""
        new = len(shape) - len(self.dims)
        dims: list[Dim] = []
        for axis, size in enumerate(shape):
            dim = self.dims[axis - new] if axis >= new else ()
            have = _size(dim)
            if size in (-1, have):
                dims.append(dim)
            elif have == 1:
                dims.append(((size, 0),))
            else:
                return None
        return Layout(tuple(dims), self.offset)

    def narrow(self, axis: int, start: int, end: int) -> Layout | None:
        """Elements `start` to `end` - 1 of a dimension; None if that is not one atom."""
        dim = self.dims[axis]
        if start == 0 and end == _size(dim):
            return self
        if len(dim) != 1:
            return None
        size, stride = dim[0]
        narrowed = ((end - start, stride),) if end - start != 1 else ()
        dims = self.dims[:axis] + (narrowed,) + self.dims[axis + 1 :]
        return Layout(dims, self.offset + start * stride)

    def every(self, axis: int, step: int) -> Layout | None:
        """Every `step`-th element of a dimension, from the first on; None if that is not one atom."""
        dim = self.dims[axis]
        if step == 1 or not dim:
            return self
        if len(dim) != 1:
            return None
        size, stride = dim[0]
        count = -(-size // step)
        kept = ((count, stride * step),) if count != 1 else ()
        return self._replace(dims=self.dims[:axis] + (kept,) + self.dims[axis + 1 :])


def _size(dim: Dim) -> int:
    size = 1
    for extent, _ in dim:
        size *= extent
    return size


def row_major(shape: Sequence[int]) -> Layout:
    """The layout of the whole matrix in order, as a tensor of `shape`."""
    dims: list[Dim] = []
    stride = 1
    for size in reversed(shape):
        dims.append(((size, stride),) if size != 1 else ())
        stride *= max(size, 1)
    return Layout(tuple(reversed(dims)))


def heads_first(batch: int, heads: int, sequence: int, width: int, repeat: int = 1) -> Layout:
    """The layout [batch, heads * repeat, sequence, width] of a matrix [batch * sequence, heads * width]."""
    layout = row_major((batch, sequence, heads, width)).permute((0, 2, 1, 3))
    if repeat == 1:
        return layout
    spread = Layout(layout.dims[:2] + ((),) + layout.dims[2:])
    expanded = spread.expand((batch, heads, repeat, sequence, width))
    assert expanded is not None, "the dimension was just inserted with size 1"
    regrouped = expanded.reshape((batch, heads * repeat, sequence, width))
    assert regrouped is not None, "whole dimensions are joined"
    return regrouped


def in_order_of(whole: Layout, other: Layout) -> Layout | None:
    """One dimension: the elements of `other` in the order in which `whole`, of the same shape, is stored.

    None if a dimension of `other` does not split into those of `whole`.
    """
    if 0 in whole.shape:
        return row_major((0,))
    atoms = [atom for dim in whole.dims for atom in dim]
    split = other.reshape([size for size, _ in atoms])
    if split is None:
        return None
    held = sorted(range(len(atoms)), key=lambda place: -atoms[place][1])
    return Layout((tuple(atom for place in held for atom in split.dims[place]),), split.offset)


class Moves(NamedTuple):
    """How the elements of a layout are put in order.

    Of the matrix as a tensor of `extents`, `counts` elements of each dimension from `starts` on are taken. The dimensions
    that remain, of `sizes`, are put in `order`, and dimensions are added so that the result has `shape`: `repeated` ones.
    """

    extents: tuple[int, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]
    repeated: tuple[int, ...]


def moves_of(layout: Layout, count: int) -> Moves | None:
    """How to put the elements of a layout in a matrix of `count` elements in order; None if they overlap."""
    atoms = layout.atoms
    held = sorted((atom for atom in atoms if atom[1]), key=lambda atom: -atom[1])
    extents, starts, counts = [], [], []
    left = count
    for size, stride in [*held, (1, 1)]:
        extent, start = left // stride, layout.offset // stride % max(left // stride, 1)
        if left % stride or start + size > extent:
            return None
        left = stride
        extents.append(extent)
        starts.append(start)
        counts.append(size)
    return Moves(
        tuple(extents),
        tuple(starts),
        tuple(counts),
        tuple(size for size, _ in held),
        tuple(held.index(atom) for atom in atoms if atom[1]),
        tuple(size for size, _ in atoms),
        tuple(place for place, atom in enumerate(atoms) if not atom[1]),
    )


def same(a: Layout, b: Layout) -> bool:
    """Whether both have the same element at every index."""
    if a.shape != b.shape or (a.offset != b.offset and 0 not in a.shape):
        return False
    if 0 in a.shape:
        return True
    return all(Layout((x,)).atoms == Layout((y,)).atoms for x, y in zip(a.dims, b.dims))
