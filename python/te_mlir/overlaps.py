"""Whether memory that a step writes is nobody else's."""

from __future__ import annotations

import bisect
import ctypes
import itertools
from collections.abc import Sequence

from te_mlir.errors import ArgumentError
from te_mlir.interface import Interface


class Overlaps:
    """Looks for memory that a step writes and that is another argument's too. pointers: those of the step."""

    def __init__(self, interface: Interface, pointers: ctypes.Array[ctypes.c_void_p]) -> None:
        self.interface, self._pointers = interface, pointers

    def check(self, watched: Sequence[int]) -> None:
        """Raises ArgumentError where memory that the step writes is another argument's too."""
        written = self.interface.written
        spans = sorted((self._pointers[i] or 0, i) for i in watched)
        # Of those before, in order: the furthest, and the furthest that is written.
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
        """Where memory of these pointers begins, in order; where that of all so far ends, and of those written."""
        sizes, writes = self.interface.bytes, self.interface.written
        spans = sorted((self._pointers[i] or 0, i) for i in places)
        ends = [begin + sizes[i] for begin, i in spans]
        written = [end if i in writes else 0 for end, (_, i) in zip(ends, spans)]
        begins = [begin for begin, _ in spans]
        return begins, list(itertools.accumulate(ends, max)), list(itertools.accumulate(written, max))

    def starts(self, index: int) -> int:
        """Where the memory of a pointer begins."""
        return self._pointers[index] or 0


class Watch:
    """Pointers whose memory must be apart in each call, of which most do not move between calls."""

    def __init__(self, overlaps: Overlaps, watched: list[int]) -> None:
        self._overlaps, self._watched = overlaps, watched
        #: Those that moved since.
        self._loose: set[int] = set()
        #: Of those watched, the loose ones, and where the others are.
        self._still: tuple[list[int], list[int], list[int], list[int]] | None = None

    def check(self, moved: set[int]) -> None:
        """As Overlaps.check of all, where those that did not move since are apart; raises ArgumentError."""
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
