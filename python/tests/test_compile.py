"""te_mlir.compile: arrays in and out without copies, states, and every misuse."""

import ctypes
import gc
import io
import json
import re
import shutil
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import te_mlir
from te_mlir import arrays, build, devices, progress

bf16 = ml_dtypes.bfloat16


def linear(recipe=None):
    module = build.Module(recipe)
    with module.function("linear") as f:
        x = f.argument("x", (32, 64))
        w = f.argument("w", (48, 64), weight=True)
        f.result("y", f.linear(x, w))
    return module


def draw(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(bf16)


@pytest.fixture
def step(reference):
    return te_mlir.compile(linear(), "linear", context=reference)


def test_result_is_the_product(step):
    x, w = draw((32, 64)), draw((48, 64), 1)
    y = step(x=x, w=w)["y"]
    assert y.dtype == bf16 and y.shape == (32, 48)
    # Products of bf16 are exact in f64, and so is a sum of 64 of them up to 2^-45; one rounding to f32 for each
    # of the 64 additions in f32, and one to bf16.
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


def test_out_is_written_in_place(step):
    y = np.zeros((32, 48), bf16)
    result = step(draw((32, 64)), draw((48, 64), 1), out={"y": y})["y"]
    assert result is y and np.any(y != 0)


class OnlyDLPack:
    """An array of a library that te_mlir does not know."""

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
    capsule = reference.full((4,), "float32", 1.0).__dlpack__()
    assert len(arrays._exported) == 1
    del capsule
    assert not arrays._exported


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

    # Its own array as a state is read and written in place, and goes on from there.
    mine = {name: np.array(tensor.numpy()) for name, tensor in step.state.items()}
    other = te_mlir.compile(linear(recipe), "linear", context=reference)
    other.set_state(mine)
    first, second = step(x * 4, w)["y"], other(x * 4, w)["y"]
    assert (first.view(np.uint16) == second.view(np.uint16)).all()
    assert mine["w.x.amax_history"][-1] == 4 * np.abs(x.astype(np.float32)).max()


def test_states_have_the_name_of_a_parameter_that_is_rounded(reference):
    module = build.Module(te_mlir.DelayedScaling(amax_history_len=4))
    with module.function("linear") as f:
        x = f.argument("x", (32, 64))
        w = f.argument("w", (48, 64), "float32", weight=True)
        f.result("y", f.linear(x, f.cast(w, "bfloat16")))
    step = te_mlir.compile(module, "linear", vjp=True, context=reference)
    assert [n for n in step.state_names if n.endswith("scale")] == ["w.x.scale", "w.w.scale", "w.dy.scale"]


def test_vjp_gives_gradients_by_name(reference):
    step = te_mlir.compile(linear(), "linear", vjp=True, context=reference)
    assert step.inputs == ["x", "w", "grad.y"] and step.results == ["y", "grad.x", "grad.w"]
    results = step(draw((32, 64)), draw((48, 64), 1), **{"grad.y": draw((32, 48), 2)})
    assert results["grad.w"].shape == (48, 64)


def test_sources_are_text_bytes_or_builders(reference):
    for source in (linear(), linear().to_mlir(), linear().to_mlir().encode()):
        assert te_mlir.compile(source, "linear", context=reference).inputs == ["x", "w"]
    with pytest.raises(
        te_mlir.CompileError, match="expected MLIR text or bytecode, or the path of a file, but got int"
    ):
        te_mlir.compile(3, "linear", context=reference)


def test_a_file_is_a_path_and_not_a_name(reference, tmp_path):
    path = tmp_path / "a net.mlir"
    path.write_text(linear().to_mlir())
    assert te_mlir.compile(path, "linear", context=reference).inputs == ["x", "w"]
    with pytest.raises(te_mlir.CompileError, match="expected MLIR text, but got the name 'net.mlir'; .*pathlib.Path"):
        te_mlir.compile("net.mlir", "linear", context=reference)
    with pytest.raises(te_mlir.CompileError, match="cannot read '.*none.mlir': No such file"):
        te_mlir.compile(tmp_path / "none.mlir", "linear", context=reference)
    path.write_text("func.func @f() { te.nothing }")
    with pytest.raises(te_mlir.CompileError, match="a net.mlir:1:18: error:"):
        te_mlir.report(path, "f")


def test_compiler_messages_have_places(reference):
    text = """func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = math.cos %x : tensor<8xf32>
  return %y : tensor<8xf32>
}"""
    with pytest.raises(te_mlir.CompileError) as caught:
        te_mlir.compile(text, "f", context=reference, source_name="model.mlir")
    assert "model.mlir:2:8: error: the runtime has no kernel for 'math.cos'" in str(caught.value)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"backward_override": "fp32"}, "expected 'backward_override' to be one of"),
        ({"target": "sm_80"}, "expected 'target' to be one of sm_90"),
        ({"recipe": te_mlir.HighPrecision}, "expected 'recipe' to be a recipe, .* but got <class"),
    ],
)
def test_options_are_checked(reference, options, said):
    with pytest.raises(ValueError, match=said):
        te_mlir.compile(linear(), "linear", context=reference, **options)


def test_unknown_options_and_entries_are_errors(reference):
    with pytest.raises(te_mlir.CompileError, match="but got 'colour'; there are 'backward-override', "):
        te_mlir.compile(linear(), "linear", context=reference, colour="red")
    with pytest.raises(te_mlir.CompileError, match="but got 'main-gard'; the nearest is 'main-grad'"):
        te_mlir.compile(linear(), "linear", context=reference, main_gard=True)
    with pytest.raises(te_mlir.CompileError, match="^error: option 'recipe'"):  # at no place in the program
        te_mlir.compile(linear(), "linear", context=reference, recipe="float7")
    with pytest.raises(te_mlir.CompileError, match="the program has 'linear'"):
        te_mlir.compile(linear(), "bilinear", context=reference)


def test_a_long_compilation_is_shown_on_a_terminal(reference, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(progress, "INTERVAL", 0.001)
    for delay, terminal in ((0.0, Terminal()), (60.0, Terminal()), (0.0, io.StringIO())):
        monkeypatch.setattr(progress, "DELAY", delay)
        monkeypatch.setattr("sys.stderr", terminal)
        te_mlir.compile(linear(), "linear", context=reference)
        shown = terminal.getvalue()
        if delay or not terminal.isatty():
            assert not shown
        else:
            assert re.match("\\rte_mlir: compiling 'linear' \\[[#.]{20}\\] 0 s\\r", shown) and shown.endswith(" \r")


def test_strict_refuses_a_fall_back(reference):
    # No recipe asked for high precision of this product, but delayed scaling's dgrad cannot be overridden.
    with pytest.raises(te_mlir.CompileError, match="delayed"):
        te_mlir.compile(linear(te_mlir.DelayedScaling()), "linear", backward_override="dequantized", context=reference)


def test_pictures_are_pages_graphs_or_json():
    page = te_mlir.picture(linear(te_mlir.Float8CurrentScaling()), "linear", target="reference")
    assert page.startswith("<!DOCTYPE html>") and "te.scaled_matmul 'w fprop'" in page and "<script" not in page
    data = json.loads(te_mlir.picture(linear(), "linear", "json", vjp=True, target="reference"))
    assert {graph["phase"] for graph in data["graphs"]} == {"import", "fuse"} and data["launches"]
    assert te_mlir.picture(linear(), "linear", "dot").startswith("digraph")
    with pytest.raises(ValueError, match="'html', 'dot' or 'json'"):
        te_mlir.picture(linear(), "linear", "png")


def test_pictures_open_in_a_browser_without_a_network(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser")
    page = tmp_path / "step.html"
    page.write_text(te_mlir.picture(linear(te_mlir.Float8CurrentScaling()), "linear", vjp=True, target="reference"))
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--enable-logging=stderr"]
    offline = ["--host-resolver-rules=MAP * ~NOTFOUND"]
    run = subprocess.run(
        [browser, *options, *offline, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120
    )
    headings = re.findall("<h2>(.*?)</h2>", run.stdout)
    assert headings == ["As written", "As it runs", "Precision", "Memory", "Launches"]
    # What the browser made of it: elements of SVG, and no complaint.
    assert run.stdout.count("<rect") > 10 and "CONSOLE" not in run.stderr
    assert not re.findall(r"(?:src|href)=.?https?:", run.stdout)


@pytest.mark.parametrize("format", ["text", "json", "html"])
def test_a_report_that_there_is_not_is_an_error_in_every_format(format):
    with pytest.raises(te_mlir.CompileError, match="expected 'report' to be one of .*, but got 'nonsense'"):
        te_mlir.report(linear(), "linear", "precision,nonsense", format, recipe=te_mlir.Float8BlockScaling())


def test_a_report_as_html_is_the_whole_page():
    page = te_mlir.report(linear(), "linear", format="html", vjp=True, recipe=te_mlir.Float8BlockScaling())
    assert page.startswith("<!DOCTYPE html>") and "te.scaled_matmul 'w fprop'" in page and page.count("<svg") >= 3
    titles = ("As written", "As it runs", "Precision", "Memory", "Launches")
    assert [page.count(f"<h2>{title}</h2>") for title in titles] == [1] * 5


def test_reports_are_text_or_json():
    text = te_mlir.report(linear(te_mlir.Float8CurrentScaling()), "linear", "precision", target="reference")
    assert "fprop" in text and "f8E4M3FN" in text
    data = json.loads(te_mlir.report(linear(), "linear", "memory", "json", target="reference"))
    assert data["memory"]
    assert "te.linear" in te_mlir.lower(linear(), "linear", "import")


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
    """An array on a device that the step is not on."""

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


def test_capsules_are_made_beside_other_users_of_pythonapi():
    theirs = ctypes.pythonapi.PyCapsule_New
    before = theirs.argtypes
    theirs.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.CFUNCTYPE(None, ctypes.py_object)]
    try:
        assert (np.from_dlpack(te_mlir.context((1, 0)).full((4,), "float32", 2.0)) == 2).all()
    finally:
        theirs.argtypes = before


def test_streams_of_other_devices_are_told(step):
    class Stream:
        """What torch.cuda.Stream has."""

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


def test_cuda_without_a_gpu_is_an_error():
    try:
        te_mlir.Context("cuda", 99)
    except te_mlir.RuntimeFailure as failure:
        assert "cuda" in str(failure).lower() or "gpu" in str(failure).lower()
    else:
        pytest.fail("expected no hundredth GPU")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_builder_ops_compile(reference, dtype):
    module = build.Module()
    with module.function("f") as f:
        x = f.argument("x", (32, 64), dtype)
        g = f.argument("g", (64,), dtype)
        y = f.rms_norm(x, g, 1e-6)
        y = f.layer_norm(y, g, g)
        y = f.activation("swiglu", y)
        y = f.mul(f.add(y, y), f.sub(y, f.constant(0.5, y.shape, dtype)))
        y = f.div(y, f.unary("math.exp", y))
        y = f.reshape(f.cast(y, "float32"), (8, 128))
        f.result("y", f.unary("arith.negf", y))
    step = te_mlir.compile(module, "f", context=reference)
    kind = arrays.numpy_dtype(arrays.named(dtype))
    y = step(np.ones((32, 64), kind), np.ones(64, kind))["y"]
    assert y.shape == (8, 128) and np.isfinite(y).all()


def test_inf_and_nan_pass_through(step):
    x = draw((32, 64))
    x[3, 5], x[4, 6] = np.inf, np.nan
    y = step(x, draw((48, 64), 1))["y"].astype(np.float32)
    assert np.isinf(y[3]).all() and np.isnan(y[4]).all() and np.isfinite(y[5]).all()


# Micro-batches and recorded steps


def train_step(reference, **options):
    torch = pytest.importorskip("torch")
    step = te_mlir.compile(
        linear(), "linear", recipe=te_mlir.Float8CurrentScaling(), vjp=True, context=reference, **options
    )
    torch.manual_seed(0)
    tensors = {n: torch.randn(s, dtype=torch.bfloat16) for n, s in (("x", (32, 64)), ("w", (48, 64)))}
    tensors["grad.y"] = torch.randn(32, 48, dtype=torch.bfloat16)
    return torch, step, tensors


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_micro_batches_add_in_main_grad_and_keep_casts(reference, cuda_graph):
    torch, plain, tensors = train_step(reference)
    _, step, _ = train_step(reference, main_grad=True, cache_weights=True, cuda_graph=cuda_graph)
    assert "grad.w" in step.state_names and step.results == ["y", "grad.x"]
    # A later micro-batch casts no weights: those of a changed one do not arrive.
    changed = {**tensors, "w": tensors["w"] * 2, "x": tensors["x"] * 0.5}
    for _ in range(2):
        main = torch.full((48, 64), float("nan"))
        step.set_state({"grad.w": main})
        total = torch.zeros_like(main)
        for given, weights, first in ((tensors, tensors, True), (changed, tensors, False), (changed, changed, True)):
            with step.microbatch(first=first):
                mine = step(**given)
            theirs = plain(**{**given, "w": weights["w"]})
            assert torch.equal(mine["y"], theirs["y"]) and torch.equal(mine["grad.x"], theirs["grad.x"])
            wide = theirs["grad.w"].float()
            total = wide if first else total + wide
            # theirs is rounded to bf16 once, for each micro-batch.
            assert (main - total).abs().max() <= 2 * 2.0**-8 * total.abs().max()
            assert first or (main - wide).abs().max() > 0.1
    with pytest.raises(te_mlir.ArgumentError, match="'cache_weights' or 'main_grad' for 'microbatch'"):
        with plain.microbatch(first=True):
            pass


def test_recorded_steps_run_no_code_again(reference, monkeypatch):
    torch, plain, tensors = train_step(reference)
    _, step, _ = train_step(reference, cuda_graph=True)
    first = step(**tensors)
    kept = {name: result.clone() for name, result in first.items()}
    assert all(torch.equal(kept[name], wanted) for name, wanted in plain(**tensors).items())
    # In place: the same addresses, so the recorded launches.
    tensors["x"].mul_(2)
    again = step(**tensors)
    assert all(again[name] is first[name] for name in first)
    assert torch.equal(again["y"], plain(**tensors)["y"]) and not torch.equal(again["y"], kept["y"])
    # Elsewhere: an input is copied, a weight is pointed to.
    for name in ("x", "w"):
        for _ in range(3):
            moved = {**tensors, name: torch.randn(tensors[name].shape).bfloat16()}
            mine, theirs = step(**moved), plain(**moved)
            assert all(torch.equal(mine[n], theirs[n]) for n in theirs), name
    assert list(step._quick.own) == [0]
    # There with other content, and again.
    for _ in range(3):
        moved["x"].mul_(0.5)
        assert torch.equal(step(**moved)["y"], plain(**moved)["y"])
    # What is recorded again counts: nothing where inputs alone move.
    calls = []
    pointers = step._instance._replay

    def counted(handle, array, *rest):
        calls.append(tuple(array))
        return pointers(handle, array, *rest)

    monkeypatch.setattr(step._instance, "_replay", counted)
    for _ in range(4):
        step(**{**tensors, "x": torch.randn(32, 64).bfloat16()})
    assert len(set(calls)) == 1


def test_results_are_made_anew_reused_or_given(reference):
    torch, plain, tensors = train_step(reference)
    first, second = plain(**tensors), plain(**tensors)
    assert all(first[n].data_ptr() != second[n].data_ptr() for n in plain.results)
    _, step, _ = train_step(reference, reuse_results=True)
    kept = step(**tensors)
    assert all(torch.equal(kept[n], first[n]) for n in first)
    doubled = {**tensors, "grad.y": tensors["grad.y"] * 2}
    again = step(**doubled)
    assert step._quick is not None and all(again[n] is kept[n] for n in kept)
    assert torch.equal(kept["grad.x"], 2 * first["grad.x"])
    # Some, or all, in tensors of the caller's, which may differ from call to call.
    for names in (["grad.w"], list(reversed(plain.results))):
        for _ in range(3):
            out = {name: torch.full_like(first[name], 7) for name in names}
            results = plain(**doubled, out=out)
            assert list(results) == plain.results and all(results[n] is out[n] for n in names)
            assert all(torch.equal(results[n], again[n]) for n in results)
        assert plain._quick.outs == tuple(names)
        short = {**out, names[0]: out[names[0]][:8]}
        odd = {**out, names[0]: torch.empty(8 * 48 * 64, dtype=torch.bfloat16)[1:][: out[names[0]].numel()]}
        odd[names[0]] = odd[names[0]].view(out[names[0]].shape)
        for wrong, said in ((short, "expected shape"), (odd, "aligned to 16 bytes")):
            with pytest.raises(te_mlir.ArgumentError, match=f"result '{names[0]}': .*{said}"):
                plain(**doubled, out=wrong)
            plain(**doubled, out=out)
            plain(**doubled, out=out)
    with pytest.raises(te_mlir.ArgumentError, match="out: expected results"):
        plain(**doubled, out={"z": out["y"]})


def test_new_results_share_memory_and_nothing_else(reference, monkeypatch):
    for limit, blocks in ((arrays.SHARED_BYTES, 2), (4096, 3)):
        # grad.x has 4096 bytes and grad.w 6144; y, which is no gradient, has memory of its own.
        monkeypatch.setattr(arrays, "SHARED_BYTES", limit)
        torch, step, tensors = train_step(reference)
        step(**tensors)
        first, second = step(**tensors), step(**tensors)
        assert step._quick is not None and list(first) == step.results
        assert len({t.untyped_storage().data_ptr() for t in first.values()}) == blocks
        for name, result in first.items():
            assert result.is_contiguous() and not result.requires_grad and not result._is_view()
            assert tuple(result.shape) == step.interface.results[name].shape and result.data_ptr() % 64 == 0
            assert torch.equal(result, second[name]) and result.data_ptr() != second[name].data_ptr()
        # A write to one is none to the others, nor counted as one; each keeps the memory.
        first["grad.x"].fill_(7)
        assert [first[n]._version for n in first] == [n == "grad.x" for n in first]
        assert torch.equal(first["y"], second["y"]) and torch.equal(first["grad.w"], second["grad.w"])
        kept = first["grad.w"]
        del first, result
        step(**tensors)
        assert torch.equal(kept, second["grad.w"])


def test_new_tensors_are_what_empty_makes():
    torch = pytest.importorskip("torch")
    kinds = [
        ((3, 5), torch.float32, True),
        ((), torch.float32, True),
        ((0, 4), torch.bfloat16, True),
        ((7,), torch.bfloat16, True),
        ((4, 64), torch.float32, True),
        ((600, 500), torch.float32, True),
        ((256,), torch.bfloat16, True),
        ((2, 2, 32), torch.float32, True),
        ((6, 64), torch.float32, True),
        ((3, 64), torch.float32, True),
        ((2, 3, 4), torch.int32, True),
        ((9, 1), torch.bfloat16, True),
        ((2, 0), torch.float32, True),
        ((8,), torch.float32, False),
        ((4,), torch.float8_e4m3fn, True),
        *[((rows, 64), torch.float32, True) for rows in (2, 8, 4, 2)],
        *[((256 * count,), torch.float32, True) for count in (1, 2, 1, 1, 3, 1)],
        *[((rows, 3, 128), torch.bfloat16, True) for rows in (2, 4, 2, 6, 2, 2)],
    ]
    # Some follow each other, some do not.
    places = [*reversed(range(10)), *range(11, len(kinds) + 1)]
    Pointers = ctypes.c_void_p * (len(kinds) + 1)
    pointers = Pointers()
    make = arrays.TorchMaker(kinds, torch.device("cpu"), places, 64)
    assert [len(block.groups) for block in make._blocks] == [2, 1]
    # Memory of these is used again, but the pointers are others.
    make(Pointers())
    made = make(pointers)
    assert pointers[10] is None
    addresses = [pointers[place] for place in places]
    assert [(tuple(t.shape), t.dtype) for t in made] == [kind[:2] for kind in kinds]
    for tensor, address in zip(made, addresses):
        plain = torch.empty(tensor.shape, dtype=tensor.dtype)
        assert tensor.stride() == plain.stride() and tensor.device == plain.device
        assert address % 16 == 0 and (not tensor.numel() or tensor.data_ptr() == address)
    # Each has memory of its own: bytes written to one are in no other.
    for number, tensor in enumerate(made):
        tensor.view(torch.uint8).fill_(number + 1) if tensor.dim() else tensor.fill_(2)
    for number, tensor in enumerate(made):
        assert (tensor.view(torch.uint8) == number + 1).all() if tensor.dim() else tensor == 2
    assert [t.untyped_storage().data_ptr() == made[0].untyped_storage().data_ptr() for t in made] == [
        t.dtype is torch.float32 and t.nbytes <= arrays.SHARED_BYTES and shares for t, (*_, shares) in zip(made, kinds)
    ]


def test_pointers_follow_memory_that_comes_and_goes():
    torch = pytest.importorskip("torch")
    kinds = [*[((rows, 256), torch.float32, True) for rows in (8, 2, 4, 2, 8, 2)], ((3, 5), torch.float32, True)]
    places = [4, 5, 6, 0, 1, 2, 8]
    make = arrays.TorchMaker(kinds, torch.device("cpu"), places)
    several = [(ctypes.c_void_p * 9)() for _ in range(2)]
    kept, seen = [], set()
    for number in range(5 * arrays._ADDRESSES):
        pointers = several[number % 3 == 0]
        pointers[3] = 7
        made = make(pointers)
        assert [pointers[place] for place in places] == [t.data_ptr() for t in made]
        assert pointers[3] == 7 and pointers[7] is None
        seen.add(made[0].data_ptr())
        # More addresses than are noted, then few in turn.
        kept = [*kept, made] if number < 2 * arrays._ADDRESSES else [made]
    assert len(seen) > arrays._ADDRESSES and 0 < len(make._blocks[0].written) <= arrays._ADDRESSES


def test_losses_of_several_calls_share_memory_and_nothing_else():
    torch = pytest.importorskip("torch")
    kinds = [((), torch.float32, False), ((32,), torch.bfloat16, False), ((33,), torch.bfloat16, False)]
    make = arrays.TorchMaker(kinds, torch.device("cpu"), [0, 1, 2])
    pointers = (ctypes.c_void_p * 3)()
    kept = []
    for number in range(2 * arrays._SLOTS + 1):
        inference = number in (5, arrays._SLOTS)
        with torch.inference_mode(inference):
            made = make(pointers)
            for tensor in made[:2]:
                tensor.fill_(number)
        assert [t.data_ptr() for t in made] == list(pointers) and all(p % 64 == 0 for p in pointers[:2])
        assert [(tuple(t.shape), t.dtype, t.is_contiguous(), t._is_view()) for t in made] == [
            (*kind[:2], True, False) for kind in kinds
        ]
        assert all(t.is_inference() == inference for t in made)
        kept.append(made)
    for number, made in enumerate(kept):
        assert all((t == number).all() for t in made[:2])
    for place, blocks in ((0, 3), (1, 3), (2, len(kept))):
        storages = {made[place].untyped_storage().data_ptr() for made in kept}
        assert len(storages) == blocks
    # A storage that somebody resized is left alone, as is one of another stream.
    kept[-1][0].untyped_storage().resize_(0)
    number = make(pointers)[0]
    assert number.data_ptr() and number.fill_(3) == 3
    other, again = make(pointers, 7)[0], make(pointers, 7)[0]
    assert (
        other.untyped_storage().data_ptr() == again.untyped_storage().data_ptr() != number.untyped_storage().data_ptr()
    )
    # A CUDA graph that PyTorch records has memory of its own.
    slots = make._alone[0][-1]
    slots._recording = lambda: True
    first, second = slots.take(7), slots.take(7)
    assert first[1] == second[1] == 0 and first[0].nbytes == arrays._SLOT_BYTES
    assert len({t.data_ptr() for t in (first[0], second[0], again)}) == 3


def test_a_quick_call_checks_what_the_first_did(reference):
    for cuda_graph in (False, True):
        torch, step, tensors = train_step(reference, cuda_graph=cuda_graph)
        for _ in range(3):
            step(**tensors)
        assert step._quick is not None
        odd = torch.empty(32 * 64 + 8, dtype=torch.bfloat16)[1 : 32 * 64 + 1].view(32, 64)
        foreign = torch.from_numpy(np.zeros(32 * 64 + 8, np.float32).view(np.int16)[1 : 32 * 64 + 1].reshape(32, 64))
        freed = torch.zeros(32, 64, dtype=torch.bfloat16)
        freed.untyped_storage().resize_(0)
        for wrong, said in (
            (tensors["x"].float(), "expected elements of bfloat16, but got float32"),
            (tensors["x"][:16], r"expected shape \[32, 64\], but got \[16, 64\]"),
            (tensors["x"].t().contiguous().t(), "expected a row-major array"),
            (tensors["x"].to("meta"), "expected a dense tensor in memory"),
            (odd, "expected memory aligned to 16 bytes"),
            (foreign.view(torch.bfloat16), "expected memory aligned to 16 bytes"),
            (freed, "expected a tensor with memory"),
            (torch._neg_view(tensors["x"]), "expected a tensor whose memory holds its elements"),
        ):
            with pytest.raises(te_mlir.ArgumentError, match=f"argument 'x': {said}"):
                step(**{**tensors, "x": wrong})
            step(**tensors)
        # The same object with another size.
        step(**tensors)
        tensors["w"].resize_(24, 64)
        with pytest.raises(te_mlir.ArgumentError, match="argument 'w': expected shape"):
            step(**tensors)


# Memory that a step must not use


def test_storages_that_are_too_small_are_told(reference):
    torch, step, tensors = train_step(reference)
    out = {"y": torch.empty(32, 48, dtype=torch.bfloat16)}
    for name, tensor in {**tensors, **out}.items():
        # In the first call, and in later ones, which look at addresses alone.
        for calls in (0, 3):
            step._quick = None
            short = tensor.clone()
            given, written = {**tensors, name: short}, {**out, name: short}
            given, written = {n: given[n] for n in tensors}, {n: written[n] for n in out}
            for _ in range(calls):
                step(**given, out=written)
            short.untyped_storage().resize_(64)
            with pytest.raises(te_mlir.ArgumentError) as caught:
                step(**given, out=written)
            assert str(caught.value) == (
                f"{'result' if name in out else 'argument'} '{name}': expected memory of {tensor.numel() * 2} bytes, "
                "but its storage was resized to 64"
            )


def test_inputs_that_move_lie_apart_from_what_is_written(reference):
    torch, step, tensors = train_step(reference, main_grad=True)
    grad = torch.zeros(48, 64)
    step.set_state({"grad.w": grad})
    expected = {n: t.clone() for n, t in step(**tensors).items()}
    sums = grad.clone()
    out = {"y": torch.empty(32, 48, dtype=torch.bfloat16)}
    inside = grad.view(torch.bfloat16).view(-1)[1024 : 1024 + 32 * 64].view(32, 64)
    half = tensors["x"].clone()
    here = tensors["x"].clone()
    for number in range(6):
        # After some calls of which each had its x elsewhere, and then the result, too.
        if number > 2:
            out = {"y": torch.empty_like(out["y"])}
        grad.zero_()
        results = step(**{**tensors, "x": tensors["x"].clone()}, out=out)
        assert all(torch.equal(results[n], t) for n, t in expected.items()) and torch.equal(grad, sums)
        for _ in range(2 * (number % 3)):
            # What was refused is nowhere left: these are the addresses of the call before.
            step(**{**tensors, "x": here}, out=out)["y"].zero_()
            with pytest.raises(te_mlir.ArgumentError, match="state 'grad.w'.* overlaps argument 'x'"):
                step(**{**tensors, "x": inside}, out=out)
            with pytest.raises(te_mlir.ArgumentError, match="result 'y'.* overlaps argument 'x'"):
                step(**{**tensors, "x": half}, out={"y": half.view(-1)[: 32 * 48].view(32, 48)})
            assert torch.equal(step(**{**tensors, "x": here}, out=out)["y"], expected["y"])
        assert step._quick is not None


def test_arrays_outlive_the_module_when_python_ends():
    pytest.importorskip("torch")
    # Modules go in the order opposite to that of their imports.
    program = """
import torch
import te_mlir.runtime
context = te_mlir.runtime.context()
torch.kept = torch.from_dlpack(context.full((64, 64), "float32", 1.0)), context.full((8,), "float32", 1.0).__dlpack__()
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_kept_results_share_memory_too(reference):
    torch, step, tensors = train_step(reference, reuse_results=True)
    plain = train_step(reference)[1](**tensors)
    for _ in range(3):
        results = step(**tensors)
    blocks = {n: t.untyped_storage().data_ptr() for n, t in results.items()}
    assert blocks["grad.x"] == blocks["grad.w"] != blocks["y"] and len(step._quick.storages) == 2
    assert all(torch.equal(t, plain[n]) and not t._is_view() for n, t in results.items())
    results.pop("y")
    assert list(step(**tensors)) == step.results


def test_kept_results_that_are_resized_are_told(reference):
    for size in (0, 64):
        torch, step, tensors = train_step(reference, cuda_graph=True)
        for _ in range(3):
            result = step(**tensors)["grad.x"]
        result.untyped_storage().resize_(size)
        with pytest.raises(te_mlir.ArgumentError, match="result 'grad.x': expected .* resized to"):
            step(**tensors)


def count(names=("n",)):
    module = build.Module()
    with module.function("count") as f:
        x = f.argument("x", (4,), "float32")
        for name in names:
            f.result(name, f.add(f.argument(name, (4,), "float32"), x))
    return module


class ReadOnlyDLPack(OnlyDLPack):
    """Says by DLPack's flag that it may not be written."""

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
    # One that was made read-only meanwhile.
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


def test_memory_that_is_written_is_one_arguments(reference):
    torch, step, tensors = train_step(reference)
    y = torch.empty(32, 48, dtype=torch.bfloat16)
    wide = torch.empty(80 * 64, dtype=torch.bfloat16)
    shifted = {**tensors, "x": wide[1024 : 1024 + 32 * 64].view(32, 64)}
    wrong = [
        ({"grad.x": tensors["x"]}, tensors, "result 'grad.x'.* overlaps argument 'x'"),
        ({"grad.w": tensors["w"], "y": y}, tensors, "result 'grad.w'.* overlaps argument 'w'"),
        ({"y": wide[: 32 * 48].view(32, 48)}, shifted, "result 'y'.* overlaps argument 'x'"),
        ({"grad.x": wide[2048 : 2048 + 32 * 64].view(32, 64)}, shifted, "result 'grad.x'.* overlaps argument 'x'"),
        ({"y": y.view(-1).view(32, 48), "grad.y": y}, tensors, "out: expected results"),
    ]
    for out, given, said in wrong:
        with pytest.raises(te_mlir.ArgumentError, match=said):
            step(**given, out=out)
        # In a call that is like the one before, too.
        fine = {name: torch.empty_like(t) for name, t in out.items() if name in step.results}
        for _ in range(3):
            step(**tensors, out=fine)
        if len(fine) == len(out):
            for _ in range(2):
                with pytest.raises(te_mlir.ArgumentError, match=said):
                    step(**given, out=out)
    with pytest.raises(te_mlir.ArgumentError, match="result 'grad.x': .* overlaps result 'y'|'y': .* overlaps result"):
        both = torch.empty(32 * 64, dtype=torch.bfloat16)
        step(**tensors, out={"y": both[: 32 * 48].view(32, 48), "grad.x": both.view(32, 64)})
    # Side by side is fine, and one array read twice.
    beside = torch.empty(32 * 48 + 32 * 64, dtype=torch.bfloat16)
    out = {"y": beside[: 32 * 48].view(32, 48), "grad.x": beside[32 * 48 :].view(32, 64)}
    assert all(torch.equal(a, b) for a, b in zip(step(**tensors, out=out).values(), step(**tensors).values()))


def test_states_lie_apart_and_are_changed_in_place(reference):
    step = te_mlir.compile(count(("n", "m")), "count", context=reference)
    x, n = np.ones(4, np.float32), np.zeros(4, np.float32)
    step.set_state({"n": n, "m": n})
    with pytest.raises(te_mlir.ArgumentError, match="state '[nm]': .* overlaps state '[nm]'"):
        step(x=x)
    step.set_state({"m": x})
    with pytest.raises(te_mlir.ArgumentError, match="state 'm': expected memory of its own, .* overlaps argument 'x'"):
        step(x=x)
    m = np.zeros(4, np.float32)
    step.set_state({"m": m})
    step(x=x)
    step(x=x, n=n)
    assert (n == 2).all() and (m == 2).all()


def test_a_result_that_is_used_again_is_no_input(reference):
    module = build.Module()
    with module.function("f") as f:
        f.result("y", f.unary("math.exp", f.argument("x", (4,), "float32")))
    step = te_mlir.compile(module, "f", context=reference, reuse_results=True)
    y = step(np.zeros(4, np.float32))["y"]
    with pytest.raises(te_mlir.ArgumentError, match="result 'y': expected memory of its own"):
        step(y)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_a_later_micro_batch_comes_after_a_first(reference, cuda_graph):
    torch, step, tensors = train_step(reference, main_grad=True, cache_weights=True, cuda_graph=cuda_graph)
    with pytest.raises(te_mlir.ArgumentError, match="argument 'first': expected True in the first call.*'w.row.data'"):
        with step.microbatch(first=False):
            step(**tensors)
    with step.microbatch(first=True):
        first = {name: t.clone() for name, t in step(**tensors).items()}
    with step.microbatch(first=False):
        assert all(torch.equal(t, first[name]) for name, t in step(**tensors).items())
    # Casts that were made elsewhere are casts, also where they are written to the states; without cache_weights there are none to miss.
    _, other, _ = train_step(reference, main_grad=True, cache_weights=True, cuda_graph=cuda_graph)
    other.set_state({n: s for n, s in step.state.items() if n != "grad.w"})
    _, filled, _ = train_step(reference, main_grad=True, cache_weights=True, cuda_graph=cuda_graph)
    for name, state in filled.state.items():
        state.copy_bytes(step.state[name].tobytes())
    _, plain, _ = train_step(reference, main_grad=True, cuda_graph=cuda_graph)
    for one in (other, filled, plain):
        one.set_state({"grad.w": torch.zeros(48, 64)})
        with one.microbatch(first=False):
            assert all(torch.equal(t, first[name]) for name, t in one(**tensors).items())
