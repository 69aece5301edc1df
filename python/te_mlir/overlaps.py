"""Checks that memory which a step writes does not overlap other arguments."""

from __future__ import annotations

import bisect
import ctypes
import itertools
from collections.abc import Sequence

from te_mlir.errors import ArgumentError
from te_mlir.interface import Interface


class Overlaps:
    """Finds memory that a step writes and that another argument uses too. pointers: the pointers of the step."""

    def __init__(self, interface: Interface, pointers: ctypes.Array[ctypes.c_void_p]) -> None:
        self.interface, self._pointers = interface, pointers

    def check(self, watched: Sequence[int]) -> None:
        """Raises ArgumentError if another argument uses memory that the step writes."""
        written = self.interface.written
        spans = sorted((self._pointers[i] or 0, i) for i in watched)
        # The largest end of all earlier pointers, and of those that are written.
        end = written_end = 0
        last = last_written = -1
        for begin, index in spans:
            writes = index in written
            other = last if writes and begin < end else last_written if begin < written_end else -1
            if other >= 0:
                first, second = (index, other) if writes else (other, index)
                raise ArgumentError(
                    f"{self.interface.role(first)}: expected memory of its own, as it is written, but it overlaps "
                    f"{self.interface.role(second)}"
                )
            mine = begin + self.interface.bytes[index]
            if mine > end:
                end, last = mine, index
            if writes and mine > written_end:
                written_end, last_written = mine, index

    def spans(self, places: list[int]) -> tuple[list[int], list[int], list[int]]:
        """The starts of the memory of these pointers, in order, and the largest ends up to each: of all, and of written."""
        sizes, writes = self.interface.bytes, self.interface.written
        spans = sorted((self._pointers[i] or 0, i) for i in places)
        ends = [begin + sizes[i] for begin, i in spans]
        written = [end if i in writes else 0 for end, (_, i) in zip(ends, spans)]
        begins = [begin for begin, _ in spans]
        return begins, list(itertools.accumulate(ends, max)), list(itertools.accumulate(written, max))

    def starts(self, index: int) -> int:
        """The start of the memory of a pointer."""
        return self._pointers[index] or 0


class Watch:
    """Pointers whose memory must not overlap in any call. Most of them do not move between calls."""

    def __init__(self, overlaps: Overlaps, watched: list[int]) -> None:
        self._overlaps, self._watched = overlaps, watched
        #: The pointers that moved since then.
        self._loose: set[int] = set()
        #: The loose pointers among those watched, and the places of the others.
        self._still: tuple[list[int], list[int], list[int], list[int]] | None = None

    def check(self, moved: set[int]) -> None:
        """Does what Overlaps.check does for all pointers, given that those that did not move do not overlap."""
        overlaps = self._overlaps
        sizes, written = overlaps.interface.bytes, overlaps.interface.written
        if moved <= self._loose:
            if self._still is None:
                loose = [i for i in self._watched if i in self._loose]
                self._still = (loose, *overlaps.spans([i for i in self._watched if i not in self._loose]))
            loose, begins, ends, written_ends = self._still
            for index in loose:
                begin = overlaps.starts(index)
                before = bisect.bisect_left(begins, begin + sizes[index])
                if before and (ends if index in written else written_ends)[before - 1] > begin:
                    break
            else:
                return overlaps.check(loose)
        self._loose |= moved
        self._still = None
        overlaps.check(self._watched)
