"""The exceptions of te_mlir. Each message gives the expected and the actual value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class TEError(Exception):
    """Any failure of te_mlir."""


@dataclass(frozen=True)
class Diagnostic:
    """One diagnostic of the compiler, as data.

    * severity: "error", "warning", "remark" or "note"; a note belongs to the diagnostic before it.
    * code: its kind, a name that does not change between releases; te_compiler.h lists them:
      "group-sizes", "no-kernel", "fallback", "remat-unknown",
      "memory-budget", "not-differentiable", "entry", "pipeline", "request" or "internal", and in
      Python "isolation"; "" for every other kind.
    * message: the text for people, which may change.
    * location: the place in the source, "file:line:column", or "".
    * layer: the layer, or another name of the place in the program, or "".
    """

    severity: str
    code: str
    message: str
    location: str = ""
    layer: str = ""

    def __str__(self) -> str:
        """The text of an error message, without the line of the source."""
        place = self.location or self.layer
        return f"{place}: {self.severity}: {self.message}" if place else f"{self.severity}: {self.message}"


class CompileError(TEError):
    """The program or the options of a compilation are wrong.

    The text is the compiler's: `file:line:column: error: ...`, with the lines of the
    source. `diagnostics` has the same as data, for programs that act on it; it is
    empty if the compiler was not reached, for example for a file that cannot be read.

        except te_mlir.CompileError as error:
            refused = [d.layer for d in error.diagnostics if d.code == "no-kernel"]
    """

    def __init__(self, message: str, diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)


class ArgumentError(TEError, ValueError):
    """An array does not fit the argument that it was passed for."""


class RuntimeFailure(TEError, RuntimeError):
    """The runtime refused or failed; the text names the kernel and the reason."""


class ImportFailure(TEError):
    """A graph of PyTorch or JAX has operations that the dialect cannot express, listed with reasons."""

    def __init__(self, reasons: list[str]) -> None:
        self.reasons = list(reasons)
        super().__init__(
            "expected a graph that te can compile as a whole, but got "
            + str(len(self.reasons))
            + " that it cannot:\n  "
            + "\n  ".join(self.reasons)
        )
