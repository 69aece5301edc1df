"""Calls of a step: arrays that are passed and returned without copies, states, and errors for invalid arguments."""

import ctypes
import gc
import math

import numpy as np
import pytest
from programs import bf16, count, draw, linear

import te_mlir
from te_mlir import arrays, build, devices


@pytest.fixture
def step(reference):
    return te_mlir.compile(linear(), "linear", context=reference)


def test_result_is_the_product(step):
    x, w = draw((32, 64)), draw((48, 64), 1)
    y = step(x=x, w=w)["y"]
    assert y.dtype == bf16 and y.shape == (32, 48)
    # Products of bf16 are exact in f64, and the error of a sum of 64 of them is at most 2^-45. The step rounds each of
    # the 64 additions to f32, and the result to bf16.
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    bound = 64 * 2.0**-24 * (np.abs(x.astype(np.float64)) @ np.abs(w.astype(np.float64)).T) + 2.0**-8 * np.abs(exact)
    assert (np.abs(y.astype(np.float64) - exact) <= bound).all()


def test_positions_are_names(step):
    x, w = draw((32, 64)), draw((48, 64), 1)
    assert step.inputs == ["x", "w"] and step.results == ["y"]
    assert (step(x, w)["y"].view(np.uint16) == step(w=w, x=x)["y"].view(np.uint16)).all()


def test_torch_and_numpy_give_the_same_bits(step):
    torch = pytest.importorskip("torch")
    x, w = draw((32, 64)), draw((48, 64), 1)
    tensors = [torch.from_numpy(a.view(np.uint16)).view(torch.bfloat16) for a in (x, w)]
    y = step(*tensors)["y"]
    assert isinstance(y, torch.Tensor) and y.dtype is torch.bfloat16
    assert (y.view(torch.uint16).numpy() == step(x, w)["y"].view(np.uint16)).all()


def test_inf_and_nan_pass_through(step):
    x = draw((32, 64))
    x[3, 5], x[4, 6] = np.inf, np.nan
    y = step(x, draw((48, 64), 1))["y"].astype(np.float32)
    assert np.isinf(y[3]).all() and np.isnan(y[4]).all() and np.isfinite(y[5]).all()


def test_out_is_written_in_place(step):
    y = np.zeros((32, 48), bf16)
    result = step(draw((32, 64)), draw((48, 64), 1), out={"y": y})["y"]
    assert result is y and np.any(y != 0)


class OnlyDLPack:
    """An array of an unknown library, which supports only DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack_goes_in_and_out_without_a_copy(reference):
    module = build.Module()
    with module.function("double") as f:
        x = f.argument("x", (3, 5), "float32")
        f.result("y", f.add(x, x))
    step = te_mlir.compile(module, "double", context=reference)
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    view = arrays.view(OnlyDLPack(x))
    assert view.pointer == x.ctypes.data and view.contiguous and view.dtype == "float32"
    y = step(OnlyDLPack(x))["y"]
    assert isinstance(y, te_mlir.Tensor)
    taken = np.from_dlpack(y)
    assert taken.ctypes.data == y.pointer
    assert (taken == 2 * x).all()


def test_exported_memory_lives_as_long_as_its_consumer(reference):
    taken = np.from_dlpack(reference.full((1000,), "float32", 7.0))
    gc.collect()
    other = reference.full((1000,), "float32", 9.0)
    assert (taken == 7).all() and (other.numpy() == 9).all()
    del taken
    gc.collect()
    assert not arrays._exported


def test_capsules_that_nobody_takes_are_freed(reference):
    # Each export looks for capsules that are gone.
    kept = reference.full((4,), "float32", 1.0).__dlpack__()
    for _ in range(3):
        reference.full((4,), "float32", 1.0).__dlpack__()
        assert len(arrays._exported) == 2
    del kept
    last = np.from_dlpack(reference.full((4,), "float32", 1.0))
    assert (last == 1).all() and len(arrays._exported) == 1
    del last
    assert not arrays._exported


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e8m0fnu"])
def test_types_that_numpy_lacks_are_its_own_error(reference, dtype):
    tensor = reference.full((4,), dtype, math.nan)
    with pytest.raises((BufferError, RuntimeError), match="Unsupported dtype"):
        np.from_dlpack(tensor)
    assert np.isnan(tensor.numpy().astype(np.float32)).all()


def test_capsules_are_made_beside_other_users_of_pythonapi():
    theirs = ctypes.pythonapi.PyCapsule_New
    before = theirs.argtypes
    theirs.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.CFUNCTYPE(None, ctypes.py_object)]
    try:
        assert (np.from_dlpack(te_mlir.context((1, 0)).full((4,), "float32", 2.0)) == 2).all()
    finally:
        theirs.argtypes = before


def test_states_are_carried_by_name(reference):
    recipe = te_mlir.DelayedScaling(amax_history_len=4)
    step = te_mlir.compile(linear(recipe), "linear", context=reference)
    assert step.state_names == ["w.x.amax_history", "w.x.scale", "w.w.amax_history", "w.w.scale"]
    assert step.state["w.x.scale"].numpy() == 1
    x, w = draw((32, 64)), draw((48, 64), 1)
    step(x, w)
    assert step.state["w.x.amax_history"].numpy()[-1] == np.abs(x.astype(np.float32)).max()
    scale = step.state["w.x.scale"].numpy()
    assert scale == np.float32(448) / np.float32(np.abs(x.astype(np.float32)).max())

    # An array of the caller that is set as a state is read and written in place.
    mine = {name: np.array(tensor.numpy()) for name, tensor in step.state.items()}
    other = te_mlir.compile(linear(recipe), "linear", context=reference)
    other.set_state(mine)
    first, second = step(x * 4, w)["y"], other(x * 4, w)["y"]
    assert (first.view(np.uint16) == second.view(np.uint16)).all()
    assert mine["w.x.amax_history"][-1] == 4 * np.abs(x.astype(np.float32)).max()


# Invalid arguments


def misuses():
    x, w = draw((32, 64)), draw((48, 64), 1)
    odd = np.empty(32 * 64 + 8, bf16)[1 : 32 * 64 + 1].reshape(32, 64)
    yield {"x": x.astype(np.float32), "w": w}, "argument 'x': expected elements of bfloat16, but got float32"
    yield {"x": x[:16], "w": w}, "argument 'x': expected shape [32, 64], but got [16, 64]"
    yield {"x": x, "w": np.asfortranarray(w)}, "argument 'w': expected a row-major array without gaps"
    yield {"x": odd, "w": w}, "argument 'x': expected memory aligned to 16 bytes"
    yield {"x": x}, "expected a value for 'w', but got none"
    yield {"x": x, "w": w, "z": w}, "expected arguments 'x', 'w', but got 'z'"
    yield {"x": [1.0], "w": w}, "argument 'x': expected an array with DLPack (torch, NumPy, CuPy, te_mlir), but got"
    wrong = {"y": np.empty((32, 64), bf16)}
    yield {"x": x, "w": w, "out": wrong}, "result 'y': expected shape [32, 48], but got [32, 64]"
    yield {"x": x, "w": w, "out": {"v": x}}, "out: expected results 'y', but got 'v'"


@pytest.mark.parametrize("arguments, said", list(misuses()))
def test_misuse_names_the_argument(step, arguments, said):
    with pytest.raises(te_mlir.ArgumentError) as caught:
        step(**arguments)
    assert said in str(caught.value)


def test_too_many_and_twice(step):
    x = draw((32, 64))
    with pytest.raises(te_mlir.ArgumentError, match="at most 2 arguments"):
        step(x, x, x)
    with pytest.raises(te_mlir.ArgumentError, match="argument 'x': expected one value, but got two"):
        step(x, x=x)


def test_freed_tensors_are_told(step):
    torch = pytest.importorskip("torch")
    x = torch.zeros(32, 64, dtype=torch.bfloat16)
    w = torch.zeros(48, 64, dtype=torch.bfloat16)
    w.untyped_storage().resize_(0)
    with pytest.raises(te_mlir.ArgumentError, match="argument 'w': expected a tensor with memory"):
        step(x, w)


def test_tensors_with_the_negative_bit_are_told(step):
    torch = pytest.importorskip("torch")
    x, w = torch.ones(32, 64, dtype=torch.bfloat16), torch.ones(48, 64, dtype=torch.bfloat16)
    said = "expected a tensor whose memory holds its elements, but got one with the negative bit; call .resolve_neg()"
    with pytest.raises(te_mlir.ArgumentError) as caught:
        step(x, torch._neg_view(w))
    assert str(caught.value) == f"argument 'w': {said}"
    with pytest.raises(te_mlir.ArgumentError) as caught:
        step(x, w, out={"y": torch._neg_view(torch.zeros(32, 48, dtype=torch.bfloat16))})
    assert str(caught.value) == f"result 'y': {said}"
    assert torch.equal(step(x, torch._neg_view(w).resolve_neg())["y"], -step(x, w)["y"])


class ElsewhereTensor:
    """An array on another device than the step."""

    def __init__(self, device):
        self.device = device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None):
        buffer = (ctypes.c_char * 4096)()
        address = -(-ctypes.addressof(buffer) // 64) * 64
        return arrays.export(address, arrays.named("bfloat16"), (32, 64), self.device, buffer)


def test_other_devices_are_told(step):
    with pytest.raises(te_mlir.ArgumentError) as caught:
        step(ElsewhereTensor((2, 1)), draw((48, 64)))
    assert str(caught.value) == "argument 'x': expected memory of the CPU, but got CUDA device 1"


def test_streams_of_other_devices_are_told(step):
    class Stream:
        """The attribute of torch.cuda.Stream that te_mlir reads."""

        cuda_stream = 4096

        def __init__(self, device):
            self.device = type("device", (), {"index": device})()

    with pytest.raises(te_mlir.ArgumentError, match="argument 'stream': expected none for the CPU, but got 4096"):
        step(draw((32, 64)), draw((48, 64), 1), stream=4096)
    with pytest.raises(te_mlir.ArgumentError) as caught:
        devices.stream_handle(Stream(1), (arrays.CUDA, 0))
    assert str(caught.value) == "argument 'stream': expected a stream of CUDA device 0, but got one of CUDA device 1"
    assert devices.stream_handle(Stream(1), (arrays.CUDA, 1)) == 4096
    with pytest.raises(te_mlir.ArgumentError, match="expected a CUDA stream or its address, but got 'main'"):
        devices.stream_handle("main", (arrays.CUDA, 0))


def test_a_state_without_a_value_is_told(reference):
    module = build.Module()
    with module.function("count") as f:
        n = f.argument("n", (4,), "float32")
        f.result("n", f.add(n, f.constant(1.0, (4,), "float32")))
    step = te_mlir.compile(module, "count", context=reference)
    with pytest.raises(te_mlir.ArgumentError, match="argument 'n': expected a value, as it is a state"):
        step()
    n = np.zeros(4, np.float32)
    step.set_state({"n": n})
    step()
    step()
    assert (n == 2).all()
    with pytest.raises(te_mlir.ArgumentError, match="expected states of 'n', but got 'm'"):
        step.set_state({"m": n})


class ReadOnlyDLPack(OnlyDLPack):
    """An array that is read-only according to DLPack's flag."""

    def __init__(self, array):
        super().__init__(array)
        array.setflags(write=False)


def read_only():
    frozen = np.zeros(4, np.float32)
    frozen.setflags(write=False)
    yield "numpy", frozen
    yield "dlpack", ReadOnlyDLPack(np.zeros(4, np.float32))


@pytest.mark.parametrize("array", [pytest.param(a, id=i) for i, a in read_only()])
def test_read_only_arrays_are_read_and_not_written(reference, array):
    step = te_mlir.compile(count(), "count", context=reference)
    with pytest.raises(te_mlir.ArgumentError, match="argument 'n': expected an array that can be written, as it is"):
        step.set_state({"n": array})
    with pytest.raises(te_mlir.ArgumentError, match="argument 'n': .* but got a read-only one; give a copy"):
        step(x=np.ones(4, np.float32), n=array)
    n = np.zeros(4, np.float32)
    step.set_state({"n": n})
    step(x=array)
    # The array becomes read-only after the first call.
    n.setflags(write=False)
    with pytest.raises(te_mlir.ArgumentError, match="argument 'n'"):
        step(x=array)
    step = te_mlir.compile(count(("n", "m")), "count", context=reference)
    module = build.Module()
    with module.function("f") as f:
        f.result("y", f.unary("math.exp", f.argument("x", (4,), "float32")))
    step = te_mlir.compile(module, "f", context=reference)
    with pytest.raises(te_mlir.ArgumentError, match="result 'y': expected an array that can be written, but got"):
        step(array, out={"y": array})
    assert (step(array, out={"y": np.empty(4, np.float32)})["y"] == 1).all()


def test_arrays_of_jax_are_not_written(reference):
    jnp = pytest.importorskip("jax.numpy")
    frozen = jnp.zeros(4, jnp.float32)
    step = te_mlir.compile(count(), "count", context=reference)
    with pytest.raises(te_mlir.ArgumentError, match="argument 'n': .*read-only one; give a copy"):
        step.set_state({"n": frozen})
    step.set_state({"n": np.array(frozen)})
    step(x=frozen)
    assert (np.array(frozen) == 0).all()
