"""The objects of the runtime: a context on a device, its memory, and instances of a step.

A `Context` is a device with its library handles; `context()` keeps one for each
device of the process. An `Instance` is a loaded step with its own arena. A
`Tensor` is memory of a context, which every library with DLPack can use without a copy.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from te_mlir import _capi, arrays
from te_mlir.dtypes import DType
from te_mlir.errors import ArgumentError

#: Moves bytes between processes: see Context.bind_exchange.
Exchange = Callable[[Sequence[memoryview], Sequence[memoryview], float], None]

_DEVICE_ERROR, _TIMED_OUT = 4, 6

#: By te_rt_gemm_choice, and by te_rt_gemm_origin.
_CHOICES = ("tuned", "first", "file")
_ORIGINS = ("none", "small", "first", "measured", "file")


class GemmChoice(NamedTuple):
    """A launch that is a GEMM of cuBLASLt, and how its algorithm was chosen.

    launch: layer and GEMM ("w1 fprop"). gemm: sizes and types. chosen: "file", "measured",
    "first" (the library's first suggestion) or "small" (the same, as for every GEMM of fewer
    than 2^27 multiplications). algorithm: on one machine, equal texts mean equal bits.
    """

    launch: str
    gemm: str
    chosen: str
    algorithm: str


def group_unique_id() -> bytes:
    """The id of a new group, for Context.bind_group. One rank creates it and sends it to the others. Needs NCCL."""
    buffer = ctypes.create_string_buffer(_capi.GROUP_ID_BYTES)
    _capi.check(_capi.runtime().te_rt_group_unique_id(buffer))
    return buffer.raw


class Context:
    """A device: backend "reference" (CPU), or "cuda" and the number of the GPU.

    Raises RuntimeFailure if the machine does not have that device.
    """

    def __init__(self, backend: str = "auto", device: int = 0) -> None:
        library = _capi.runtime()
        handle = ctypes.c_void_p()
        if backend == "auto":
            _capi.check(library.te_rt_context_create(b"auto", ctypes.byref(handle)))
        else:
            _capi.check(library.te_rt_context_create_on_device(backend.encode(), device, ctypes.byref(handle)))
        self.handle = handle.value
        #: "reference" or "cuda".
        self.backend: str = library.te_rt_context_backend(handle).decode()
        #: DLPack's (type, index) of its memory.
        self.device: tuple[int, int] = (arrays.CPU, 0) if self.backend == "reference" else (arrays.CUDA, device)
        self._exchanges: list[Any] = []
        # At exit Python may have unloaded what a finalizer needs; the process's
        # end frees the memory anyway.
        finalizer = weakref.finalize(self, library.te_rt_context_destroy, handle)
        finalizer.atexit = False

    def __reduce__(self) -> Any:
        # The context of this process for the device; its groups have to be bound again.
        return context, (self.device,)

    def __deepcopy__(self, memo: Any) -> Context:
        return self

    # Groups of ranks are bound before a step is compiled on this context, and for its lifetime.

    def bind_group(self, group_id: int, unique_id: bytes | None, size: int, rank: int) -> None:
        """Binds the group `group_id` of programs to `size` processes, with a new NCCL communicator; this one is `rank`.

        unique_id: from `group_unique_id`, the same on every rank; None for a single rank.
        Every rank calls this, and the call returns when all have called it.
        """
        library = _capi.runtime()
        _capi.check(library.te_rt_context_bind_group(self.handle, group_id, unique_id, size, rank))

    def bind_nccl(self, group_id: int, comm: int, size: int, rank: int) -> None:
        """Like bind_group, with the ncclComm_t at address `comm`. The caller owns it; it must outlive the context."""
        _capi.check(_capi.runtime().te_rt_context_bind_nccl(self.handle, group_id, comm, size, rank))

    def bind_exchange(self, group_id: int, exchange: Exchange, size: int, rank: int) -> None:
        """Like bind_group, for the reference backend, with a function that moves bytes between processes.

        exchange(send, receive, seconds): sends the bytes `send[r]` to rank r and receives
        those of rank r in `receive[r]`. All have one size, also those of this rank. It
        returns when that is done, or raises; after that many seconds it raises TimeoutError.
        """

        def call(_: Any, send: int, stride: int, receive: int, count: int, timeout: int, message: int) -> int:
            def view(address: int) -> memoryview:
                return memoryview((ctypes.c_char * count).from_address(address)).cast("B")

            try:
                exchange(
                    [view(send + r * stride) for r in range(size)],
                    [view(receive + r * count) for r in range(size)],
                    timeout / 1000,
                )
            except Exception as error:
                text = (str(error) or type(error).__name__).encode()[: _capi.MESSAGE_BYTES - 1]
                ctypes.memmove(message, text + b"\0", len(text) + 1)
                return _TIMED_OUT if isinstance(error, TimeoutError) else _DEVICE_ERROR
            return 0

        communicator = _capi.Communicator(size, rank, None, _capi.EXCHANGE(call))
        # The runtime keeps the pointer.
        self._exchanges.append(communicator)
        _capi.check(_capi.runtime().te_rt_context_bind_communicator(self.handle, group_id, ctypes.byref(communicator)))

    def set_group_timeout(self, seconds: float) -> None:
        """Limits waits for other ranks (ten minutes by default); a call that waits longer raises RuntimeFailure."""
        milliseconds = int(seconds * 1000)
        _capi.check(_capi.runtime().te_rt_context_set_group_timeout(self.handle, milliseconds))

    def set_gemm_choice(
        self, choice: str = "tuned", file: str | os.PathLike[str] | None = None, seconds: float | None = None
    ) -> None:
        """Sets how steps that are compiled from now on choose the algorithms of GEMMs on a GPU.

        choice: "tuned", the fastest, which is read from the tuning file, or measured and added
        to it; "first", the library's first suggestion; "file", that of the tuning file, where a
        GEMM that it does not have is an error. Processes have the same bits if all choose
        "first", or "file" with one file. file: the tuning file; by default one in the user's
        cache folder. seconds: with "tuned", a limit of the time to measure; GEMMs that are left
        take the first suggestion, which the file does not get.
        """
        if choice not in _CHOICES:
            raise ArgumentError(f"expected choice to be one of {_CHOICES}, but got {choice!r}")
        if seconds is not None and seconds <= 0:
            raise ArgumentError(f"expected seconds to be positive, but got {seconds}")
        options = _capi.GemmOptions(
            choice=_CHOICES.index(choice),
            file=None if file is None else os.fsencode(file),
            budget_ms=0 if seconds is None else max(1, int(seconds * 1000)),
        )
        _capi.check(_capi.runtime().te_rt_context_set_gemm_options(self.handle, ctypes.byref(options)))

    @property
    def description(self) -> str:
        """Device, driver and library versions."""
        return _capi.runtime().te_rt_context_description(self.handle).decode()

    def synchronize(self) -> None:
        """Waits for all work on the context's own stream, and raises its errors."""
        _capi.check(_capi.runtime().te_rt_synchronize(self.handle))

    def empty(self, shape: Sequence[int], dtype: str = "float32") -> Tensor:
        """A tensor of `shape` and `dtype` with undefined content."""
        return Tensor(self, tuple(shape), arrays.named(dtype))

    def full(self, shape: Sequence[int], dtype: str, value: float) -> Tensor:
        """A tensor of `shape` and `dtype` in which every element is `value`, or NaN if the type cannot represent it."""
        tensor = self.empty(shape, dtype)
        tensor.copy_bytes(_splat(tensor.dtype_info, value) * tensor.size)
        return tensor


def _splat(dtype: DType, value: float) -> bytes:
    """The bytes of one element of `value`, which every supported type represents exactly."""
    import struct

    if dtype.name == "float32":
        return struct.pack("<f", value)
    if dtype.name == "bfloat16":
        return struct.pack("<f", value)[2:]
    if dtype.name == "float16":
        return struct.pack("<e", value)
    if dtype.name == "int32":
        return struct.pack("<i", int(value))
    if value != value:
        return b"\xff"
    if value == 0:
        return b"\x00"
    raise ArgumentError(f"expected 0 or NaN to fill elements of {dtype.name}, but got {value}")


class Tensor:
    """Memory of a context: row-major elements of one type.

    shape: sizes. dtype: name of the element type ("bfloat16"). Libraries with DLPack can
    use it: `torch.from_dlpack(t)`, `numpy.from_dlpack(t)`. `t.numpy()` copies to the host
    and needs only NumPy.
    """

    def __init__(self, context: Context, shape: tuple[int, ...], dtype: DType) -> None:
        self.context = context
        self.shape = shape
        self.dtype_info = dtype
        size = 1
        for extent in shape:
            size *= extent
        #: The number of elements.
        self.size = size
        self.nbytes = size * dtype.bytes
        library = _capi.runtime()
        pointer = ctypes.c_void_p()
        _capi.check(library.te_rt_alloc(context.handle, self.nbytes, ctypes.byref(pointer)))
        self.pointer: int = pointer.value or 0
        # The context is an argument, so that it outlives its memory.
        finalizer = weakref.finalize(
            self, lambda context, pointer: library.te_rt_free(context.handle, pointer), context, self.pointer
        )
        finalizer.atexit = False

    @property
    def dtype(self) -> str:
        return self.dtype_info.name

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.context.device

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        self.context.synchronize()
        return arrays.export(self.pointer, self.dtype_info, self.shape, self.context.device, self)

    def copy_bytes(self, data: bytes) -> None:
        """Copies `data`, which must have `nbytes` bytes, into the tensor."""
        if len(data) != self.nbytes:
            raise ArgumentError(f"expected {self.nbytes} bytes, but got {len(data)}")
        _capi.check(_capi.runtime().te_rt_copy_to_device(self.context.handle, self.pointer, data, self.nbytes))

    def tobytes(self) -> bytes:
        """A copy of the content, after all work on the context's own stream."""
        buffer = ctypes.create_string_buffer(self.nbytes)
        _capi.check(_capi.runtime().te_rt_copy_to_host(self.context.handle, buffer, self.pointer, self.nbytes))
        return buffer.raw

    def __reduce__(self) -> Any:
        return _tensor_of, (self.context, self.shape, self.dtype, self.tobytes())

    def is_full_of(self, value: float) -> bool:
        """Whether each element is `value`, as in the result of Context.full."""
        return self.tobytes() == _splat(self.dtype_info, value) * self.size

    def numpy(self) -> Any:
        """A NumPy array with a copy of the content."""
        import numpy

        return numpy.frombuffer(self.tobytes(), arrays.numpy_dtype(self.dtype_info)).reshape(self.shape)

    def __repr__(self) -> str:
        return f"te_mlir.Tensor({self.dtype} {list(self.shape)} on {self.context.backend})"


def _tensor_of(context: Context, shape: tuple[int, ...], dtype: str, data: bytes) -> Tensor:
    tensor = context.empty(shape, dtype)
    tensor.copy_bytes(data)
    return tensor


_contexts: dict[tuple[int, int], Context] = {}
_lock = threading.Lock()


def context(device: tuple[int, int] | None = None) -> Context:
    """The context of this process for a DLPack device; by default for a GPU if there is one, else for the CPU."""
    with _lock:
        if device is None:
            # Use a GPU if a context finds one.
            made = next((c for c in _contexts.values() if c.backend == "cuda"), None) or Context()
            return _contexts.setdefault(made.device, made)
        if device not in _contexts:
            if device[0] == arrays.CPU:
                _contexts[device] = Context("reference")
            elif device[0] == arrays.CUDA:
                _contexts[device] = Context("cuda", device[1])
            else:
                raise ArgumentError(f"expected an array on a CPU or a CUDA device, but got device {device}")
        return _contexts[device]


class Instance:
    """A loaded step: its plans and its arena. It runs one call at a time."""

    def __init__(self, owner: Any, context: Context, module: Any, arena: bool = True) -> None:
        library = _capi.runtime()
        handle = ctypes.c_void_p()
        create = library.te_rt_instance_create if arena else library.te_rt_instance_create_without_arena
        _capi.check(create(context.handle, module, ctypes.byref(handle)))
        self.handle = handle.value
        self._set_arena = library.te_rt_instance_set_arena
        self._run = library.te_rt_instance_run
        self._run_part = library.te_rt_instance_run_part
        self._replay = library.te_rt_instance_run_part_graph
        # `owner` has the code and the context, so it must outlive the instance.
        finalizer = weakref.finalize(
            self, lambda owner, context, handle: library.te_rt_instance_destroy(handle), owner, context, self.handle
        )
        finalizer.atexit = False

    def set_arena(self, address: int, size: int) -> None:
        """Lets the following runs use `size` bytes of the caller's memory as arena."""
        status = self._set_arena(self.handle, address, size)
        if status:
            _capi.check(status)

    def gemms(self, launches: Sequence[str]) -> list[GemmChoice]:
        """The GEMMs of cuBLASLt among the launches with these names, one for each slot."""
        found, info = [], _capi.GemmInfo()
        for slot, name in enumerate(launches):
            _capi.check(_capi.runtime().te_rt_instance_gemm(self.handle, slot, ctypes.byref(info)))
            if info.origin:
                found.append(GemmChoice(name, info.gemm.decode(), _ORIGINS[info.origin], info.algorithm.decode()))
        return found

    def run(self, pointers: Any, stream: int = 0) -> None:
        """Enqueues the step on a CUDA stream; 0 is the context's own."""
        status = self._run(self.handle, pointers, stream)
        if status:
            _capi.check(status)

    def run_part(self, pointers: Any, stream: int, begin: int, end: int) -> None:
        """Enqueues the launches `begin` to `end` - 1."""
        status = self._run_part(self.handle, pointers, stream, begin, end)
        if status:
            _capi.check(status)

    def replay(self, pointers: Any, stream: int, begin: int, end: int) -> None:
        """Like run_part, but recorded at the first call (on a GPU as a CUDA graph) and whenever a pointer changed."""
        status = self._replay(self.handle, pointers, stream, begin, end)
        if status:
            _capi.check(status)


class MicrobatchFlag:
    """The number that a step reads on its device: 0 in the first micro-batch and 1 in later ones.

    In later micro-batches, the casts of weights are reused and gradients are accumulated.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._constants = [context.full((), "float32", value) for value in (0.0, 1.0)]
        self._written = context.full((), "float32", 0.0)
        self._value = False
        self._torch: Any = None

    def constant(self, later: bool) -> int:
        """A pointer to 0 or 1."""
        return self._constants[later].pointer

    def written(self, later: bool, stream: int) -> int:
        """A pointer that does not change, for recorded steps, to the 0 or 1 that the next work on `stream` reads."""
        torch: Any = sys.modules.get("torch")
        if self.context.device[0] != arrays.CPU and stream and torch is None:
            # Without a way to write on that stream, the step is recorded again.
            return self.constant(later)
        if later is not self._value:
            if self.context.device[0] == arrays.CPU or not stream:
                self._written.copy_bytes(_splat(self._written.dtype_info, float(later)))
            else:
                if self._torch is None:
                    self._torch = torch.from_dlpack(self._written)
                device = self.context.device[1]
                default = torch.cuda.default_stream(device)
                on = default if stream == 1 else torch.cuda.ExternalStream(stream, device)
                with torch.cuda.stream(on):
                    self._torch.fill_(float(later))
            self._value = later
        return self._written.pointer
