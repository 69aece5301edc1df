"""Compiles text to machine code, and describes every pointer that the code takes.

`Program` is a compiled program; `te_mlir.step.Step` is a program on a device.
"""

from __future__ import annotations

import contextlib
import ctypes
import html
import os
import signal
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from te_mlir import _capi, progress
from te_mlir.dtypes import DTYPES, DType
from te_mlir.errors import ArgumentError, CompileError
from te_mlir.isolation import Isolation, check
from te_mlir.recipes import OVERRIDES, Recipe
from te_mlir.runtime import Context, Instance

TARGETS = ("sm_90", "sm_100", "reference")

#: The argument of programs with `cache_weights` or `main_grad` that distinguishes the first micro-batch.
FLAG = "skip_weight_update"


class Argument(NamedTuple):
    """One pointer of a step.

    name: `te.name`, with ".data", ".scale" or ".amax" for a part of a scaled value.
    dtype, shape: element type and sizes of the buffer. value_type: the type of the whole
    value, as MLIR writes it. is_result: whether it is written rather than read. is_weight:
    whether it is a parameter (`te.weight`). carried_input: if it is the next state of an
    argument, the index of that argument; else -1. init: the value of the argument's elements
    if it is not given (`te.init`), or None. first_launch, last_launch: -1 if no launch uses it.
    arena_offset: the place in the arena of a result that is there, and whose pointer is not used,
    in bytes; else -1.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    value_type: str
    is_result: bool
    is_weight: bool
    carried_input: int
    init: float | None
    first_launch: int
    last_launch: int
    arena_offset: int

    def __str__(self) -> str:
        return f"{self.dtype.name} {list(self.shape)}"


class Program:
    """A compiled program. `compile` also binds it to a device."""

    def __init__(
        self,
        source: Any,
        entry: str,
        pipeline: str = "",
        backend: str = "",
        vjp: bool = False,
        source_name: str = "<text>",
        isolation: Isolation | None = None,
    ) -> None:
        library = _capi.compiler()
        content, name = _content(source)
        self._request = (content, entry, pipeline, backend, vjp, name or source_name, isolation)
        handle = _compile(content, entry, pipeline, backend, vjp, False, name or source_name, isolation=isolation)
        self.handle = handle
        finalizer = weakref.finalize(self, library.te_program_destroy, handle)
        finalizer.atexit = False
        #: Every pointer of the step, in its order.
        self.arguments: list[Argument] = list(self._read_arguments())
        self.entry, self.pipeline = entry, pipeline
        #: The recipe in force, as MLIR writes it.
        self.recipe: str = library.te_program_recipe(handle).decode()
        #: The text of the reports that the pipeline asked for.
        self.report_text: str = library.te_program_report(handle).decode()
        #: Warnings and remarks.
        self.diagnostics: str = library.te_program_diagnostics(handle).decode()
        #: Warnings and remarks as data.
        self.warnings = _capi.program_diagnostics(handle)
        self.num_launches: int = library.te_program_num_launches(handle)

    def __reduce__(self) -> Any:
        # Loading it compiles it again.
        return Program, self._request

    def __deepcopy__(self, memo: Any) -> Program:
        # It is immutable.
        return self

    def _read_arguments(self) -> Iterator[Argument]:
        library = _capi.compiler()
        first, last = ctypes.c_int32(), ctypes.c_int32()
        for index in range(library.te_program_num_arguments(self.handle)):
            info = library.te_program_argument(self.handle, index).contents
            library.te_program_argument_uses(self.handle, index, ctypes.byref(first), ctypes.byref(last))
            yield Argument(
                info.name.decode(),
                DTYPES[info.dtype],
                tuple(info.shape[: info.rank]),
                info.value_type.decode(),
                info.role == 1,
                bool(info.flags & 1),
                info.carried_input,
                info.init if info.flags & 2 else None,
                first.value,
                last.value,
                info.arena_offset,
            )

    def instance(self, context: Context, arena: bool = True) -> Instance:
        """A new instance of the step, with an arena of its own; without `arena`, Instance.set_arena gives it one."""
        module = _capi.compiler().te_program_module(self.handle)
        # The first load on a GPU tunes the GEMMs.
        with progress.shown(f"loading '{self.entry}'"):
            return Instance(self, context, module, arena)

    @property
    def arena_bytes(self) -> int:
        """The size of the arena."""
        return _capi.compiler().te_program_module(self.handle).contents.arena_bytes

    def refuse_results_in_arena(self) -> None:
        """Raises ArgumentError if a result is in the arena, for callers that give memory for each result."""
        names = [a.name for a in self.arguments if a.arena_offset >= 0]
        if names:
            raise ArgumentError(
                f"expected results with memory of their own, but 'results_in_arena' places {names} in the arena"
            )

    def launches(self) -> list[tuple[str, str, str]]:
        """(kernel, layer and GEMM or buffer, place in the source) of each slot."""
        library, rows = _capi.compiler(), []
        for slot in range(self.num_launches):
            info = _capi.LaunchInfo(struct_size=ctypes.sizeof(_capi.LaunchInfo))
            _capi.check_compiler(library.te_program_launch(self.handle, slot, ctypes.byref(info)))
            rows.append((info.kernel.decode(), info.name.decode(), info.location.decode()))
        return rows


def _content(source: Any) -> tuple[bytes, str | None]:
    """The bytes to compile, and the name of their file."""
    if hasattr(source, "to_mlir"):
        source = source.to_mlir()
    if isinstance(source, os.PathLike):
        name = os.fsdecode(source)
        try:
            with open(source, "rb") as file:
                return file.read(), name
        except OSError as error:
            raise CompileError(f"cannot read '{name}': {error.strerror}") from None
    if not isinstance(source, (str, bytes)):
        raise CompileError(f"expected MLIR text or bytecode, or the path of a file, but got {type(source).__name__}")
    if isinstance(source, str) and source.endswith((".mlir", ".mlirbc")) and "\n" not in source:
        raise CompileError(f"expected MLIR text, but got the name '{source}'; a file is pathlib.Path({source!r})")
    return source.encode() if isinstance(source, str) else source, None


def _compile(
    source: Any,
    entry: str,
    pipeline: str,
    backend: str,
    vjp: bool,
    ir_only: bool,
    source_name: str,
    picture: str | None = None,
    isolation: Isolation | None = None,
) -> int:
    if not isinstance(isolation, (Isolation, type(None))):
        raise ValueError(f"expected 'isolation' to be a te_mlir.Isolation or None, but got {isolation!r}")
    data, name = _content(source)
    source_name = name or source_name
    request = _capi.CompileRequest(
        struct_size=ctypes.sizeof(_capi.CompileRequest),
        source=data,
        source_size=len(data),
        source_name=source_name.encode(),
        entry=entry.encode(),
        pipeline=pipeline.encode(),
        backend=backend.encode(),
        vjp=vjp,
        ir_only=ir_only,
        picture=picture.encode() if picture else None,
    )
    handle = ctypes.c_void_p()
    library = _capi.compiler()
    with progress.shown(f"compiling '{entry}'"):
        if isolation is not None:
            check(isolation, _compile, data, entry, pipeline, backend, vjp, ir_only, source_name, picture)
        with _interruptible(request):
            status = library.te_compile(ctypes.byref(request), ctypes.byref(handle))
    _capi.check_compiled(status)
    return handle.value or 0


@contextlib.contextmanager
def _interruptible(request: _capi.CompileRequest) -> Iterator[None]:
    """In its block, SIGINT ends the compilation of `request` at its next pass, and is then handled as before."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    # Python would drop an exception of a handler that runs in a callback.
    seen: list[bool] = []
    request.is_interrupted = _capi.IS_INTERRUPTED(lambda _: bool(seen))
    signal.signal(signal.SIGINT, lambda *_: seen.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if seen:
        signal.raise_signal(signal.SIGINT)


def pipeline_text(
    recipe: Recipe | str | None = None,
    backward_override: str | None = None,
    target: str | None = None,
    strict: bool = False,
    **options: Any,
) -> str:
    """The option string of the training pipeline.

    Further options are those of `te-opt --te-training-pipeline`, with underscores:
    `transpose_policy="cached"`, `memory_budget=2**30`. Raises ValueError if a value
    is not accepted.
    """
    parts = []
    if not isinstance(recipe, (Recipe, str, type(None))):
        raise ValueError(f"expected 'recipe' to be a recipe, such as te_mlir.Float8BlockScaling(), but got {recipe!r}")
    if recipe is not None:
        parts.append(f"recipe='{recipe.spelling() if isinstance(recipe, Recipe) else recipe}'")
    if backward_override is not None:
        if backward_override not in OVERRIDES + ("none",):
            raise ValueError(
                "expected 'backward_override' to be one of None, 'none', 'high_precision', "
                f"'dequantized', but got {backward_override!r}"
            )
        parts.append(f"backward-override={backward_override}")
    if target is not None:
        if target not in TARGETS:
            raise ValueError(f"expected 'target' to be one of {', '.join(TARGETS)}, but got {target!r}")
        parts.append(f"target={target}")
    if strict:
        parts.append("strict")
    for name, value in options.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        parts.append(f"{name.replace('_', '-')}={text}")
    return " ".join(parts)


def lower(
    source: Any, entry: str, to: str = "lower", vjp: bool = False, isolation: Isolation | None = None, **options: Any
) -> str:
    """The program after the phase `to`, as text; options as of `compile`."""
    pipeline = pipeline_text(**options, compile_to=to)
    handle = _compile(source, entry, pipeline, "", vjp, True, "<text>", isolation=isolation)
    text = _capi.compiler().te_program_ir(handle).decode()
    _capi.compiler().te_program_destroy(handle)
    return text


def report(
    source: Any,
    entry: str,
    what: str = "precision,memory,constraints",
    format: str = "text",
    vjp: bool = False,
    isolation: Isolation | None = None,
    **options: Any,
) -> str:
    """The reports `what` about the decisions of the compiler, as "text" or "json", or all of them on a page, as "html".

    Other options are those of `compile`. Several JSON reports follow each other. The
    page is that of `picture`. Raises CompileError for an unknown report.
    """
    if format == "html":
        # The page has all reports; compiling an empty program reports unknown names.
        lower("func.func @empty() { return }", "empty", "import", report=what)
        return picture(source, entry, "html", vjp, isolation, **options)
    pipeline = pipeline_text(**options, report=what, report_format=format)
    handle = _compile(source, entry, pipeline, "", vjp, True, "<text>", isolation=isolation)
    text = _capi.compiler().te_program_report(handle).decode()
    _capi.compiler().te_program_destroy(handle)
    return text


def picture(
    source: Any,
    entry: str,
    format: str = "html",
    vjp: bool = False,
    isolation: Isolation | None = None,
    **options: Any,
) -> str:
    """A readable page about a step and its compiled form.

    It has the graph as written and as it runs, with types, usages and bytes, the precision
    report, memory over launches, and the launches. "html" is one page without scripts or
    other files, "dot" has the graphs for Graphviz, and "json" has everything. Other options
    are those of `compile`.

        pathlib.Path("step.html").write_text(te_mlir.picture(text, "step", recipe=...))
    """
    if format not in ("html", "dot", "json"):
        raise ValueError(f"expected 'format' to be 'html', 'dot' or 'json', but got {format!r}")
    handle = _compile(source, entry, pipeline_text(**options), "", vjp, True, "<text>", format, isolation)
    text = _capi.compiler().te_program_report(handle).decode()
    _capi.compiler().te_program_destroy(handle)
    return text


def one_page(pages: Mapping[str, str], notes: Sequence[str] = ()) -> str:
    """Joins pages of `picture` to one page: first the notes, then each page under its title."""
    head = next(iter(pages.values())).partition("<h1>")[0]
    listed = "".join(f"<li>{html.escape(note)}\n" for note in notes)
    parts = [head, f"<ul>\n{listed}</ul>\n" if notes else ""]
    for title, page in pages.items():
        body = page.partition("<h1>")[2].rpartition("</html>")[0]
        parts.append(f"<h1>{html.escape(title)}: {body}")
    return "".join([*parts, "</html>\n"])
