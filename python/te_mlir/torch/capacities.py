"""The sizes that a graph is compiled for: capacities, to which the sizes of a call are rounded up."""

from __future__ import annotations

from collections.abc import Iterable


class Capacities:
    """The capacities of sizes. given: all of them; by default, they are the powers of two."""

    def __init__(self, given: Iterable[int] | None = None) -> None:
        self.given = None if given is None else sorted(given)
        if self.given and (not all(isinstance(size, int) for size in self.given) or self.given[0] < 1):
            raise ValueError(f"expected 'capacities' to be sizes of at least 1, but got {self.given}")

    def of(self, size: int) -> int:
        """The smallest capacity for a size; the size itself if no capacity is as large."""
        if self.given is None:
            return 1 << (max(size, 1) - 1).bit_length()
        return next((capacity for capacity in self.given if capacity >= size), size)
