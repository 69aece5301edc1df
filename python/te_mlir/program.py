"""From text to a callable step.

`Program` is what the compiler made: machine code, and a description of every
pointer that it takes. `Step` is a program on a device: it checks arrays against
that description, keeps the states (results named like an argument, which the next
step reads), and runs.
"""

from __future__ import annotations

import bisect
import contextlib
import copy
import ctypes
import html
import itertools
import math
import os
import sys
import threading
import weakref
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

from te_mlir import _capi, arrays, progress
from te_mlir.dtypes import DTYPES, DType, matches
from te_mlir.errors import ArgumentError, CompileError
from te_mlir.recipes import OVERRIDES, Recipe
from te_mlir.runtime import Context, Instance, MicrobatchFlag, Tensor
from te_mlir.runtime import context as context_of

TARGETS = ("sm_90", "sm_100", "reference")


class Argument(NamedTuple):
    """One pointer of a step.

    name: `te.name`, with ".data", ".scale" or ".amax" for a part of a scaled value.
    dtype, shape: of the buffer. value_type: of the whole value, as MLIR writes it.
    is_result: written rather than read. is_weight: a parameter (`te.weight`).
    carried_input: of a result that is an argument's next state, that argument's
    place in the list; else -1. init: what the argument's elements are where nobody
    gives it (`te.init`), or None. first_launch, last_launch: -1 where none has it.
    """

    name: str
    dtype: DType
    shape: Tuple[int, ...]
    value_type: str
    is_result: bool
    is_weight: bool
    carried_input: int
    init: Optional[float]
    first_launch: int
    last_launch: int

    def __str__(self) -> str:
        return f"{self.dtype.name} {list(self.shape)}"


class Program:
    """A compiled program; see `compile`, which also binds it to a device."""

    def __init__(
        self,
        source: Any,
        entry: str,
        pipeline: str = "",
        backend: str = "",
        vjp: bool = False,
        source_name: str = "<text>",
    ) -> None:
        library = _capi.compiler()
        content, name = _content(source)
        self._request = (content, entry, pipeline, backend, vjp, name or source_name)
        handle = _compile(content, entry, pipeline, backend, vjp, False, name or source_name)
        self.handle = handle
        finalizer = weakref.finalize(self, library.te_program_destroy, handle)
        finalizer.atexit = False
        #: Every pointer of the step, in its order.
        self.arguments: List[Argument] = list(self._read_arguments())
        self.entry, self.pipeline = entry, pipeline
        #: The recipe in force, as MLIR writes it.
        self.recipe: str = library.te_program_recipe(handle).decode()
        #: What reports the pipeline asked for.
        self.report_text: str = library.te_program_report(handle).decode()
        #: Warnings and remarks.
        self.diagnostics: str = library.te_program_diagnostics(handle).decode()
        #: The same as data.
        self.warnings = _capi.program_diagnostics(handle)
        self.num_launches: int = library.te_program_num_launches(handle)

    def __reduce__(self) -> Any:
        # Where it is loaded again it is compiled again.
        return Program, self._request

    def __deepcopy__(self, memo: Any) -> "Program":
        # Nothing of it ever changes.
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
            )

    def instance(self, context: Context) -> Instance:
        """A new instance of the step, with an arena of its own."""
        module = _capi.compiler().te_program_module(self.handle)
        return Instance(self, context, module)

    def launches(self) -> "List[Tuple[str, str, str]]":
        """(kernel, layer and product or buffer, place in the source) by slot."""
        library, rows = _capi.compiler(), []
        for slot in range(self.num_launches):
            info = _capi.LaunchInfo(struct_size=ctypes.sizeof(_capi.LaunchInfo))
            _capi.check_compiler(library.te_program_launch(self.handle, slot, ctypes.byref(info)))
            rows.append((info.kernel.decode(), info.name.decode(), info.location.decode()))
        return rows


def _content(source: Any) -> "Tuple[bytes, Optional[str]]":
    """What is compiled, and the name of the file that it is from."""
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
    picture: Optional[str] = None,
) -> int:
    data, name = _content(source)
    request = _capi.CompileRequest(
        struct_size=ctypes.sizeof(_capi.CompileRequest),
        source=data,
        source_size=len(data),
        source_name=(name or source_name).encode(),
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
        status = library.te_compile(ctypes.byref(request), ctypes.byref(handle))
    _capi.check_compiled(status)
    return handle.value or 0


def pipeline_text(
    recipe: Union[Recipe, str, None] = None,
    backward_override: Optional[str] = None,
    target: Optional[str] = None,
    strict: bool = False,
    **options: Any,
) -> str:
    """The option string of the training pipeline.

    Further options are those of `te-opt --te-training-pipeline`, with underscores:
    `transpose_policy="cached"`, `memory_budget=2**30`. Raises ValueError where one
    has a value that is not accepted.
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


def lower(source: Any, entry: str, to: str = "lower", vjp: bool = False, **options: Any) -> str:
    """The program after the phase `to`, as text; options as of `compile`."""
    pipeline = pipeline_text(**options, compile_to=to)
    handle = _compile(source, entry, pipeline, "", vjp, True, "<text>")
    text = _capi.compiler().te_program_ir(handle).decode()
    _capi.compiler().te_program_destroy(handle)
    return text


def report(
    source: Any,
    entry: str,
    what: str = "precision,memory,constraints",
    format: str = "text",
    vjp: bool = False,
    **options: Any,
) -> str:
    """What the compiler decided: reports `what`, as "text" or "json", or all that there is on one page, as "html".

    Other options are those of `compile`. Several JSON reports follow each other. The
    page is that of `picture`. Raises CompileError for a report that there is not.
    """
    if format == "html":
        # The page takes no names of reports; the compiler says of an empty program which it does not know.
        lower("func.func @empty() { return }", "empty", "import", report=what)
        return picture(source, entry, "html", vjp, **options)
    pipeline = pipeline_text(**options, report=what, report_format=format)
    handle = _compile(source, entry, pipeline, "", vjp, True, "<text>")
    text = _capi.compiler().te_program_report(handle).decode()
    _capi.compiler().te_program_destroy(handle)
    return text


def picture(source: Any, entry: str, format: str = "html", vjp: bool = False, **options: Any) -> str:
    """A step and what the compiler made of it, for people.

    The graph as written and as it runs with types, usages and bytes, the precision
    ledger, memory over launches, and the launches. "html" is one page without
    scripts or other files, "dot" the graphs for Graphviz, "json" all of it. Other
    options are those of `compile`.

        pathlib.Path("step.html").write_text(te_mlir.picture(text, "step", recipe=...))
    """
    if format not in ("html", "dot", "json"):
        raise ValueError(f"expected 'format' to be 'html', 'dot' or 'json', but got {format!r}")
    handle = _compile(source, entry, pipeline_text(**options), "", vjp, True, "<text>", format)
    text = _capi.compiler().te_program_report(handle).decode()
    _capi.compiler().te_program_destroy(handle)
    return text


def one_page(pages: Mapping[str, str], notes: Sequence[str] = ()) -> str:
    """Pages of `picture`, one or more, as one page: below the notes each follows under its title."""
    head = next(iter(pages.values())).partition("<h1>")[0]
    listed = "".join(f"<li>{html.escape(note)}\n" for note in notes)
    parts = [head, f"<ul>\n{listed}</ul>\n" if notes else ""]
    for title, page in pages.items():
        body = page.partition("<h1>")[2].rpartition("</html>")[0]
        parts.append(f"<h1>{html.escape(title)}: {body}")
    return "".join([*parts, "</html>\n"])


def current_stream(device: Tuple[int, int]) -> int:
    """The stream that PyTorch or CuPy works on there; 0, the context's own, without them.

    The legacy default stream of CUDA is 1.
    """
    if device[0] != arrays.CUDA:
        return 0
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return arrays.torch_stream(device)()
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        return cupy.cuda.get_current_stream().ptr or 1
    return 0


def stream_handle(stream: Any, device: Tuple[int, int]) -> int:
    """The CUstream of PyTorch's or CuPy's stream, or of a number, for work on `device`; raises ArgumentError.

    A number is taken as it is; the runtime says what is wrong with it.
    """
    if device[0] != arrays.CUDA:
        if stream == 0:
            return 0
        raise ArgumentError(f"argument 'stream': expected none for {_device_text(device)}, but got {stream!r}")
    if isinstance(stream, int):
        return stream
    handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", None))
    if handle is None:
        raise ArgumentError(f"argument 'stream': expected a CUDA stream or its address, but got {stream!r}")
    place = getattr(stream, "device", None)
    index = getattr(stream, "device_id", -1) if place is None else getattr(place, "index", place)
    if index not in (-1, None, device[1]):
        raise ArgumentError(
            f"argument 'stream': expected a stream of {_device_text(device)}, but got one of CUDA device {index}"
        )
    return handle or 1


FLAG = "skip_weight_update"
_COPY = "but got a read-only one; give a copy"


class _Quick:
    """A call that was checked: what to look at in the next one that is like it.

    names, positional: how its tensors were given, `outs` in out. places: for each the
    pointers that are its, bytes: what is read or written there. seen: where they lay; a
    storage that is resized moves. settled: whether the step has pointers to what was seen,
    as it lies; last: those that it has, -1 where nobody knows. watched: what must lie
    apart; loose: what moved since, still: those of watched that did, and where the others lie. fixed: inputs that a
    recorded step is recorded again for; of others that move it copies the content, to
    `own`. made: names of results as a call makes them; results: all, in their order.
    stream: gives the current one. address: PyTorch's own function of a tensor.
    flag: place of the one that no call gives, or -1; later: what it was last.
    """

    def __init__(
        self, step: "Step", args: Tuple[Any, ...], named: Mapping[str, Any], out: Mapping[str, Any], guard: Any
    ) -> None:
        self.guard, self.positional, self.names, self.outs = guard, len(args), tuple(named), tuple(out)
        tensors = (*args, *named.values(), *out.values())
        self.given = [*step.inputs[: len(args)], *named]
        carried = {a.carried_input: i for i, a in enumerate(step.arguments) if a.carried_input >= 0}
        self.places: List[Tuple[int, ...]] = []
        self.fixed: List[bool] = []
        for name in self.given:
            index = step._index[name]
            self.places.append((index, carried[index]) if index in carried else (index,))
            self.fixed.append(index in carried or step.arguments[index].is_weight)
        written = {a.name: i for i, a in enumerate(step.arguments) if a.is_result and a.carried_input < 0}
        self.places.extend((written[name],) for name in out)
        self.bytes = [step._bytes[to[0]] for to in self.places]
        self.address = sys.modules["torch"].Tensor.data_ptr
        self.stream = arrays.torch_stream(step.context.device)
        self.seen = arrays.torch_addresses()(tensors)
        self.last = self.seen
        self.settled = True
        self.own: Dict[int, Any] = {}
        results = [name for name in written if name not in out]
        made = [written[name] for name in results]
        kinds = [(shape, arrays.torch_dtype(dtype), shares) for shape, dtype, shares in map(step._kind_of, results)]
        self.make = arrays.TorchMaker(kinds, tensors[0].device, made)
        self.made = [results[i] for i in self.make.order]
        self.results: Dict[str, Any] = dict.fromkeys(written)
        fresh = set() if step.reuse_results else set(made)
        self.watched = [i for i in step._watched if i not in fresh]
        self.loose: Set[int] = set()
        self.still: Optional[Tuple[List[int], List[int], List[int], List[int]]] = None
        self.flag = -1 if FLAG in self.given else step._flag_place
        self.later = step._later
        # Of the results that are kept.
        storages = [t.untyped_storage() for t in step._kept.values()]
        self.storages = list({storage.data_ptr(): storage for storage in storages}.values())
        self.kept = self.where_kept()

    def where_kept(self) -> List[int]:
        storage = sys.modules["torch"].UntypedStorage
        return [*map(storage.data_ptr, self.storages), *map(storage.nbytes, self.storages)]


class Step:
    """A program on a device, ready to be called.

    Call it with arrays by name, or in the order of `inputs`; the results are a dict
    by name, in arrays of the first argument's library. Nothing is copied. Work is
    enqueued on the caller's current stream (`stream=` names another, by the object of
    PyTorch or CuPy, or by its address); `out=` are arrays for results, by name. States belong
    to the step: they begin as `te.init` or `set_state` says, each call changes them,
    and `state` gives them by name. A state may also be given to a call as an
    argument; then that array is read and changed in place. `copy.deepcopy` and pickle
    copy the states; a copy shares the program, and what is loaded from a file compiles it again.

    With `reuse_results` results are the same arrays in every call, which each call
    overwrites. With `cuda_graph` they are too, and the launches are recorded in the
    first call, on a GPU as a CUDA graph, and replayed. Where an input that is neither a
    weight nor a state lies elsewhere than before, its content is copied to a tensor of
    the step's own (PyTorch on the current stream), else the step is recorded again.
    """

    def __init__(
        self,
        program: Program,
        context: Optional[Context] = None,
        cuda_graph: bool = False,
        reuse_results: bool = False,
    ) -> None:
        self.program = program
        self.context = context or context_of()
        self.cuda_graph = cuda_graph
        self.reuse_results = reuse_results or cuda_graph
        self.arguments = program.arguments
        self._lock = threading.Lock()
        self._instance = program.instance(self.context)
        self._pointers = (ctypes.c_void_p * max(len(self.arguments), 1))()
        carried = {a.carried_input for a in self.arguments}
        self._index = {a.name: i for i, a in enumerate(self.arguments) if not a.is_result}
        self._states = {a.name for i, a in enumerate(self.arguments) if i in carried}
        #: Names of what a call needs, in order.
        self.inputs: List[str] = [
            a.name for i, a in enumerate(self.arguments) if not a.is_result and a.name not in self._states
        ]
        #: Names of what a call returns, in order; states are not among them.
        self._result = {a.name: a for a in self.arguments if a.is_result and a.carried_input < 0}
        self.results: List[str] = list(self._result)
        self._state: Dict[str, Any] = {}
        self._flag_place = self._index.get(FLAG, -1)
        #: Bytes of each argument, and which lie in memory that a caller may have given.
        self._bytes = [a.dtype.bytes * math.prod(a.shape) for a in self.arguments]
        self._watched = [
            i
            for i, a in enumerate(self.arguments)
            if a.carried_input < 0 and i != self._flag_place and self._bytes[i]
        ]
        self._written = {i for i, a in enumerate(self.arguments) if a.is_result or i in carried}
        #: States that hold nothing until a first call makes them (te.init is NaN): casts of weights.
        self._unmade = {n for n in self._states if math.isnan(self.arguments[self._index[n]].init or 0.0)}
        self._flag = MicrobatchFlag(self.context) if self._flag_place >= 0 else None
        self._later = False
        #: With reuse_results: what calls return.
        self._kept: Dict[str, Any] = {}
        self._quick: Optional[_Quick] = None

    # Copies

    def __deepcopy__(self, memo: Any) -> "Step":
        self._wait()
        return _copied(*self._options(), copy.deepcopy(self._own_states(), memo), set(self._unmade))

    def __copy__(self) -> "Step":
        raise TypeError("expected copy.deepcopy of a step, but got copy.copy: two steps cannot have the same states")

    def __reduce__(self) -> Any:
        self._wait()
        return _copied, (*self._options(), self._own_states(), self._unmade)

    def _options(self) -> Tuple[Program, Context, bool, bool]:
        return self.program, self.context, self.cuda_graph, self.reuse_results

    def _own_states(self) -> Dict[str, Any]:
        return {name: self._state[name] for name in self.state_names if name in self._state}

    def _wait(self) -> None:
        """Waits for calls on any stream; copies of the runtime follow its own alone."""
        torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
        if self.context.device[0] == arrays.CUDA and torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize(self.context.device[1])
        elif self.context.device[0] == arrays.CUDA and cupy is not None:
            cupy.cuda.Device(self.context.device[1]).synchronize()
        self.context.synchronize()

    # States

    @property
    def state_names(self) -> List[str]:
        """Names of the states, in the order of the arguments."""
        return [a.name for a in self.arguments if not a.is_result and a.name in self._states]

    @property
    def state(self) -> Dict[str, Any]:
        """The states by name: the arrays themselves, which the next call changes."""
        return {name: self._own_state(name) for name in self.state_names}

    def set_state(self, values: Mapping[str, Any]) -> None:
        """Makes `values` the states of these names, without copying them."""
        for name, value in values.items():
            if name not in self._states:
                raise ArgumentError(f"expected states of {_names(self.state_names)}, but got '{name}'")
            self.check(name, value)
        self._state.update(values)
        self._unmade.difference_update(values)
        self._quick = None

    def _is_untouched(self, name: str) -> bool:
        """Whether a state is still what te.init says; some fill it where it lies."""
        state = self._state.get(name)
        return state is None or (isinstance(state, Tensor) and state.is_full_of(math.nan))

    def _own_state(self, name: str) -> Any:
        if name not in self._state:
            argument = self.arguments[self._index[name]]
            if argument.init is None:
                raise ArgumentError(
                    f"argument '{name}': expected a value, as it is a state without 'te.init'; "
                    "give it once, to the call or to set_state"
                )
            self._state[name] = self.context.full(argument.shape, argument.dtype.name, argument.init)
        return self._state[name]

    @contextlib.contextmanager
    def microbatch(self, first: bool) -> Iterator[None]:
        """Calls in its block are of the first micro-batch of a step of the optimizer, or of a later one.

        Of a program with cache_weights or main_grad. The first casts the weights and
        begins the gradients anew; later ones use these casts and add to the gradients.
        Outside of such a block each call is a first one.
        """
        if self._flag is None:
            raise ArgumentError("expected a step with 'cache_weights' or 'main_grad' for 'microbatch', but got neither")
        before, self._later = self._later, not first
        try:
            yield
        finally:
            self._later = before

    # Calls

    def check(self, name: str, array: Any, stream: Optional[int] = None) -> arrays.View:
        """Where `array` lies, if it can be the argument `name`; else raises ArgumentError."""
        argument = self.arguments[self._index[name]]
        if isinstance(array, Tensor) and array.context is self.context:
            view = arrays.View(array.pointer, array.dtype, array.shape, True, self.context.device, array)
        else:
            try:
                view = arrays.view(array, stream)
            except ArgumentError as error:
                raise ArgumentError(f"argument '{name}': {error}") from None
        check_view(name, argument.dtype, argument.shape, view, self.context.device)
        if view.readonly and name in self._states:
            raise ArgumentError(f"argument '{name}': expected an array that can be written, as it is a state, {_COPY}")
        return view

    def _check_apart(self, watched: List[int]) -> None:
        """Raises ArgumentError where memory that the step writes is another argument's too."""
        spans = sorted((self._pointers[i] or 0, i) for i in watched)
        # Of those before, in order: the furthest, and the furthest that is written.
        end = written_end = 0
        last = last_written = -1
        for begin, index in spans:
            writes = index in self._written
            other = last if writes and begin < end else last_written if begin < written_end else -1
            if other >= 0:
                first, second = (index, other) if writes else (other, index)
                raise ArgumentError(
                    f"{self._role(first)}: expected memory of its own, as it is written, but it overlaps "
                    f"{self._role(second)}"
                )
            mine = begin + self._bytes[index]
            if mine > end:
                end, last = mine, index
            if writes and mine > written_end:
                written_end, last_written = mine, index

    def _role(self, index: int) -> str:
        argument = self.arguments[index]
        kind = "result" if argument.is_result else "state" if argument.name in self._states else "argument"
        return f"{kind} '{argument.name}'"

    def __call__(self, /, *args: Any, **named: Any) -> Dict[str, Any]:
        # Parameters of its own, `stream` and `out`, would be compared with each name: 1 us for 36.
        stream = named.pop("stream", None) if "stream" in named else None
        out = named.pop("out", None) if "out" in named else None
        if stream is not None:
            stream = stream_handle(stream, self.context.device)
        quick = self._quick
        if quick is not None and quick.positional == len(args) and quick.names == tuple(named):
            tensors = tuple(named.values())
            if args or out:
                tensors = (*args, *tensors, *(out or {}).values())
            if quick.outs == (tuple(out) if out else ()) and quick.guard(*tensors):
                if not quick.storages or quick.where_kept() == quick.kept:
                    return self._again(quick, tensors, stream)
        return self._checked(args, named, stream, out)

    def _again(self, quick: _Quick, tensors: Tuple[Any, ...], given: Optional[int]) -> Dict[str, Any]:
        """A call that is like the one before but for addresses, on the stream `given`."""
        stream = quick.stream() if given is None else given
        pointers = self._pointers
        with self._lock:
            addresses = list(map(quick.address, tensors))
            if addresses != quick.seen or not quick.settled:
                self._settle(quick, tensors, addresses, given is None)
            if quick.flag >= 0 and quick.later is not self._later:
                self._point_flag(stream)
                quick.later = self._later
            if self.cuda_graph:
                self._instance.replay(pointers, stream, 0, self.program.num_launches)
                return self._kept.copy()
            if self.reuse_results:
                self._instance.run(pointers, stream)
                return self._kept.copy()
            made = quick.make.unsorted(pointers, stream)
            self._instance.run(pointers, stream)
        results = quick.results.copy()
        results.update(zip(quick.made, made))
        if quick.outs:
            results.update(zip(quick.outs, tensors[len(quick.given) :]))
        return results

    def _settle(self, quick: _Quick, tensors: Tuple[Any, ...], addresses: List[int], current: bool) -> None:
        """Points the step to tensors of which some moved, on the current stream or not; raises ArgumentError."""
        quick.settled = False
        count = len(quick.given)
        moved = arrays.changed(quick.seen, addresses)
        # Tells what has no memory, or too little, or is not aligned.
        for index in moved:
            tensor = tensors[index]
            whole = not tensor.storage_offset() and len(tensor.untyped_storage()) >= quick.bytes[index]
            if whole and addresses[index] % 16 == 0:
                continue
            if index < count:
                self.check(quick.given[index], tensor)
            else:
                self._result_view(self._result[quick.outs[index - count]], tensor)
        if self.cuda_graph and current:
            for index in moved:
                if not quick.fixed[index] and index not in quick.own:
                    quick.own[index] = tensors[index].detach().clone()
        known = quick.last is quick.seen
        quick.seen = addresses
        if quick.own and current:
            addresses = list(addresses)
            for index, own in quick.own.items():
                own.copy_(tensors[index])
                addresses[index] = own.data_ptr()
        if not known or addresses is not quick.seen:
            moved = arrays.changed(quick.last, addresses)
        if moved:
            quick.last = [-1] * len(addresses)
            for index in moved:
                for place in quick.places[index]:
                    self._pointers[place] = addresses[index]
            self._check_moved(quick, {quick.places[index][0] for index in moved})
            quick.last = addresses
        # What is copied is copied in each call.
        quick.settled = not quick.own

    def _check_moved(self, quick: _Quick, moved: Set[int]) -> None:
        """As _check_apart of quick.watched, where those that did not move since lie apart."""
        if moved <= quick.loose:
            if quick.still is None:
                mine = [i for i in quick.watched if i in quick.loose]
                quick.still = (mine, *self._spans([i for i in quick.watched if i not in quick.loose]))
            mine, begins, ends, written_ends = quick.still
            for index in mine:
                begin = self._pointers[index] or 0
                before = bisect.bisect_left(begins, begin + self._bytes[index])
                if before and (ends if index in self._written else written_ends)[before - 1] > begin:
                    break
            else:
                return self._check_apart(mine)
        quick.loose |= moved
        quick.still = None
        self._check_apart(quick.watched)

    def _spans(self, places: List[int]) -> Tuple[List[int], List[int], List[int]]:
        """Where memory of these pointers begins, in order; where that of all so far ends, and of those written."""
        spans = sorted((self._pointers[i] or 0, i) for i in places)
        ends = [begin + self._bytes[i] for begin, i in spans]
        written = [end if i in self._written else 0 for end, (_, i) in zip(ends, spans)]
        begins = [begin for begin, _ in spans]
        return begins, list(itertools.accumulate(ends, max)), list(itertools.accumulate(written, max))

    def _point_flag(self, stream: int) -> None:
        assert self._flag is not None
        flag = self._flag
        self._pointers[self._flag_place] = (
            flag.written(self._later, stream) if self.cuda_graph else flag.constant(self._later)
        )

    def _checked(
        self, args: Tuple[Any, ...], named: Dict[str, Any], stream: Optional[int], out: Optional[Mapping[str, Any]]
    ) -> Dict[str, Any]:
        """A call of which nothing is known."""
        self._quick = None
        if len(args) > len(self.inputs):
            raise ArgumentError(
                f"expected at most {len(self.inputs)} arguments ({_names(self.inputs)}), but got {len(args)}"
            )
        given = dict(zip(self.inputs, args))
        for name, value in named.items():
            if name in given:
                raise ArgumentError(f"argument '{name}': expected one value, but got two")
            if name not in self._index:
                raise ArgumentError(f"expected arguments {_names(list(self._index))}, but got '{name}'")
            given[name] = value
        flagged = self._flag is not None and FLAG not in given
        missing = [name for name in self.inputs if name not in given and not (flagged and name == FLAG)]
        defaults = {name for name in missing if self.arguments[self._index[name]].init is not None}
        missing = [name for name in missing if name not in defaults]
        if missing:
            raise ArgumentError(f"expected a value for {_names(missing)}, but got none")
        unknown = [name for name in out or {} if name not in self.results]
        if unknown:
            raise ArgumentError(f"out: expected results {_names(self.results)}, but got '{unknown[0]}'")

        if stream is None:
            stream = current_stream(self.context.device)
        make = arrays.maker_like(list(given.values()), self.context)
        owners, results = [], {}
        # Arrays of results that are neither given nor kept.
        fresh = [name for name in self.results if name not in self._kept and (out or {}).get(name) is None]
        made: Dict[str, Any] = {}
        unmade = [name for name in self._unmade.difference(given) if self._later and self._is_untouched(name)]
        if unmade:
            raise ArgumentError(
                "argument 'first': expected True in the first call, as there are no casts of weights to use again "
                f"in {_names(sorted(unmade))}, but got False"
            )
        with self._lock:
            for index, argument in enumerate(self.arguments):
                name = argument.name
                if argument.carried_input >= 0:
                    self._pointers[index] = self._pointers[argument.carried_input]
                    continue
                if index == self._flag_place and flagged:
                    self._point_flag(stream)
                    continue
                if argument.is_result:
                    array = (out or {}).get(name)
                    if array is None:
                        array = self._kept.get(name)
                    if array is None:
                        made = made or dict(zip(fresh, make([self._kind_of(n) for n in fresh])))
                        array = made[name]
                    view = self._result_view(argument, array)
                    results[name] = array
                else:
                    array = self._default(name) if name in defaults else given.get(name)
                    if array is None:
                        array = self._own_state(name)
                    view = self.check(name, array, stream)
                owners.append(view.owner)
                self._pointers[index] = view.pointer
            self._check_apart([i for i in self._watched if self.arguments[i].name not in made])
            if self.reuse_results:
                self._kept = dict(results)
            if self.cuda_graph:
                self._instance.replay(self._pointers, stream, 0, self.program.num_launches)
            else:
                self._instance.run(self._pointers, stream)
            self._unmade.clear()
            # Arrays that a call is to write to become those that are kept.
            if not out or not self.reuse_results:
                self._quick = self._quick_of(args, named, out or {})
        return results

    def _quick_of(
        self, args: Tuple[Any, ...], named: Mapping[str, Any], out: Mapping[str, Any]
    ) -> Optional[_Quick]:
        """What makes the next call quick, where it is PyTorch's tensors alone."""
        torch = sys.modules.get("torch")
        tensors = (*args, *named.values(), *out.values())
        empty = any(0 in a.shape for a in self.arguments)
        if torch is None or not tensors or empty or not all(isinstance(t, torch.Tensor) for t in tensors):
            return None
        if self.reuse_results and not all(isinstance(a, torch.Tensor) for a in self._kept.values()):
            return None
        guard = arrays.torch_guard(tensors)
        return _Quick(self, args, named, out, guard) if guard else None

    def _kind_of(self, name: str) -> Tuple[Tuple[int, ...], DType, bool]:
        """What a result is made like; gradients share memory, but others do not, as some are kept for long: losses."""
        argument = self._result[name]
        return argument.shape, argument.dtype, name.startswith("grad.")

    def _result_view(self, argument: Argument, array: Any) -> arrays.View:
        if isinstance(array, Tensor):
            view = arrays.View(array.pointer, array.dtype, array.shape, True, array.context.device, array)
        else:
            try:
                view = arrays.view(array)
            except ArgumentError as error:
                raise ArgumentError(f"result '{argument.name}': {error}") from None
        check_view(argument.name, argument.dtype, argument.shape, view, self.context.device, "result")
        if view.readonly:
            raise ArgumentError(f"result '{argument.name}': expected an array that can be written, {_COPY}")
        return view

    def _default(self, name: str) -> Any:
        """What stands in for an argument with 'te.init' that no call gives."""
        argument = self.arguments[self._index[name]]
        key = f"\0{name}"
        if key not in self._state:
            self._state[key] = self.context.full(argument.shape, argument.dtype.name, argument.init or 0.0)
        return self._state[key]


def _copied(
    program: Program, context: Context, cuda_graph: bool, reuse_results: bool, states: Dict[str, Any], unmade: Set[str]
) -> Step:
    """A step with these states."""
    step = Step(program, context, cuda_graph, reuse_results)
    step.set_state(states)
    step._unmade = unmade
    return step


def _names(names: List[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) if names else "none"


_DEVICES = {arrays.CPU: "the CPU", arrays.CUDA: "CUDA device", arrays.CUDA_HOST: "pinned memory"}


def _device_text(device: Tuple[int, int]) -> str:
    text = _DEVICES.get(device[0], f"device type {device[0]}")
    return f"{text} {device[1]}" if device[0] == arrays.CUDA else text


def check_view(
    name: str,
    dtype: DType,
    shape: Tuple[int, ...],
    view: arrays.View,
    device: Tuple[int, int],
    what: str = "argument",
) -> None:
    """Raises ArgumentError, naming the argument, unless `view` is such an array."""
    if not matches(dtype, view.dtype):
        raise ArgumentError(f"{what} '{name}': expected elements of {dtype.name}, but got {view.dtype}")
    if view.shape != shape:
        raise ArgumentError(f"{what} '{name}': expected shape {list(shape)}, but got {list(view.shape)}")
    if view.device != device:
        # Pinned and managed memory is the host's and the device's.
        host = view.device[0] in (arrays.CUDA_HOST, arrays.CUDA_MANAGED)
        if not host:
            raise ArgumentError(
                f"{what} '{name}': expected memory of {_device_text(device)}, but got {_device_text(view.device)}"
            )
    if not view.contiguous:
        raise ArgumentError(
            f"{what} '{name}': expected a row-major array without gaps, but got strides; "
            "call .contiguous() (torch) or ascontiguousarray (NumPy)"
        )
    if view.pointer % 16:
        raise ArgumentError(f"{what} '{name}': expected memory aligned to 16 bytes, but got address {view.pointer:#x}")


def compile(
    source: Any,
    entry: str,
    *,
    recipe: Union[Recipe, str, None] = None,
    backward_override: Optional[str] = None,
    target: Optional[str] = None,
    strict: bool = False,
    vjp: bool = False,
    main_grad: bool = False,
    cache_weights: bool = False,
    cuda_graph: bool = False,
    reuse_results: bool = False,
    context: Optional[Context] = None,
    source_name: str = "<text>",
    **options: Any,
) -> Step:
    """Compiles the function `entry` of `source` and loads it on a device.

    source: text or bytecode of a module, a pathlib.Path to it, or an object with
    `to_mlir()`, such as te_mlir.build.Module. recipe: replaces the module's. backward_override: None
    leaves the recipe's own, "none", "high_precision" or "dequantized". target:
    "sm_90", "sm_100" or "reference"; without one, of the device. strict: a
    fall-back to higher precision is an error. vjp: differentiate; the step then
    takes cotangents `grad.<result>` and returns gradients `grad.<argument>`.
    main_grad: gradients `grad.<weight>` are float32 states that calls add to.
    cache_weights: casts of weights are states too; `step.microbatch` says when they
    are made. cuda_graph: calls are recorded once and replayed. reuse_results: each call
    overwrites the results of the one before instead of making new arrays.
    context: the device; without one, a GPU where there is one, else the CPU. Further
    options are those of the pipeline, with underscores.

    Raises CompileError with the compiler's messages and their places, RuntimeFailure
    where the device cannot run the step.
    """
    context = context or context_of()
    for name, value in (("main_grad", main_grad), ("cache_weights", cache_weights)):
        if value:
            options[name] = value
    pipeline = pipeline_text(recipe, backward_override, target, strict, **options)
    program = Program(source, entry, pipeline, context.backend, vjp, source_name)
    return Step(program, context, cuda_graph, reuse_results)
