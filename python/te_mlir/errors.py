"""The exceptions of te_mlir; each message says what was given and what is expected."""


class TEError(Exception):
    """Any failure of te_mlir."""


class CompileError(TEError):
    """The program or the options of a compilation are at fault.

    The text is the compiler's: `file:line:column: error: ...`, with the lines it
    speaks of.
    """


class ArgumentError(TEError, ValueError):
    """An array does not fit the argument that it was given for."""


class RuntimeFailure(TEError, RuntimeError):
    """The runtime refused or failed; the text names the kernel and the reason."""


class ImportFailure(TEError):
    """A graph of PyTorch or JAX has operations that the dialect cannot express, listed with reasons."""

    def __init__(self, reasons: "list[str]") -> None:
        self.reasons = list(reasons)
        super().__init__(
            "expected a graph that te can compile whole, but got "
            + str(len(self.reasons))
            + " that it cannot:\n  "
            + "\n  ".join(self.reasons)
        )
