"""te_mlir.compile: sources, names, options, messages, reports and pictures."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import threading

import numpy as np
import pytest
from programs import draw, linear

import te_mlir
from te_mlir import _capi, arrays, build, progress


def test_states_have_the_name_of_a_parameter_that_is_rounded(reference):
    module = build.Module(te_mlir.DelayedScaling(amax_history_len=4))
    with module.function("linear") as f:
        x = f.argument("x", (32, 64))
        w = f.argument("w", (48, 64), "float32", weight=True)
        f.result("y", f.linear(x, f.cast(w, "bfloat16")))
    step = te_mlir.compile(module, "linear", vjp=True, context=reference)
    assert [n for n in step.state_names if n.endswith("scale")] == ["w.x.scale", "w.w.scale", "w.dy.scale"]


def test_integers_are_not_cast():
    with build.Module().function("f") as f:
        x, n = f.argument("x", (4,), "float32"), f.argument("n", (4,), "int32")
        for value, dtype in ((x, "int32"), (n, "float32")):
            with pytest.raises(
                te_mlir.ArgumentError, match=f"of floats to floats, but got one of {value.dtype} to {dtype}"
            ):
                f.cast(value, dtype)
        f.result("y", x)


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


def test_strangers_text_is_an_error_and_bytecode_has_a_name(reference):
    transpose = "linalg.transpose ins(%x : tensor<2xf32>) outs(%x : tensor<2xf32>) permutation = [0"
    for text in (
        "module attributes {a = array<index: 1>} {}",
        "[" * 10000,
        "module {" * 10000,
        f"func.func @f(%x: tensor<2xf32>) {{ {transpose} return }}",
        "#a0 = [1] " + "".join(f"#a{i} = [#a{i - 1}] " for i in range(1, 20000)),
        "!a0 = i32 " + "".join(f"!a{i} = tuple<!a{i - 1}, !a{i - 1}> " for i in range(1, 60)),
    ):
        said = "expected (elements|at most (256|1048576)|'permutation')"
        with pytest.raises(te_mlir.CompileError, match=f"<text>:1:[0-9]+: error: {said}"):
            te_mlir.compile(text, "f", context=reference)
    with pytest.raises(te_mlir.CompileError, match="expected text, but got bytecode; .* ends with '.mlirbc'"):
        te_mlir.compile(b"ML\xefR damaged", "f", context=reference)
    with pytest.raises(te_mlir.CompileError, match="<text>:1:1: error: "):
        te_mlir.compile(b"\xff is no UTF-8", "f", context=reference)
    with pytest.raises(te_mlir.CompileError, match="f.mlirbc"):
        te_mlir.compile(b"ML\xefR damaged", "f", context=reference, source_name="f.mlirbc")


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
  %y = math.atan %x : tensor<8xf32>
  return %y : tensor<8xf32>
}"""
    with pytest.raises(te_mlir.CompileError) as caught:
        te_mlir.compile(text, "f", context=reference, source_name="model.mlir")
    assert "model.mlir:2:8: error: the runtime has no kernel for 'math.atan'" in str(caught.value)


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
    with pytest.raises(te_mlir.CompileError, match="^error: option 'recipe'"):  # the message has no location
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


def test_sigint_ends_a_compilation(reference, monkeypatch, capfd):
    library, statuses = _capi.compiler(), []

    class Interrupted:
        def __getattr__(self, name):
            return getattr(library, name)

        def te_compile(self, *arguments):
            os.kill(os.getpid(), signal.SIGINT)
            statuses.append(library.te_compile(*arguments))
            return statuses[-1]

    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        patch.setattr(_capi, "compiler", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            te_mlir.compile(linear(), "linear", context=reference)
        # A handler that does not raise.
        came = []
        signal.signal(signal.SIGINT, lambda *_: came.append(True))
        try:
            with pytest.raises(te_mlir.CompileError, match="the compilation was interrupted"):
                te_mlir.compile(linear(), "linear", context=reference)
        finally:
            signal.signal(signal.SIGINT, before)
        assert came == [True] and statuses == [4, 4]
    assert signal.getsignal(signal.SIGINT) is before and not capfd.readouterr().err
    # Other threads have no handlers, and a program still compiles.
    thread = threading.Thread(target=lambda: came.append(te_mlir.compile(linear(), "linear", context=reference)))
    thread.start()
    thread.join()
    assert isinstance(came[-1], te_mlir.Step)


def test_strict_refuses_a_fall_back(reference):
    # The recipe does not request high precision for this GEMM, but the dgrad of delayed scaling cannot be overridden.
    with pytest.raises(te_mlir.CompileError, match="delayed"):
        te_mlir.compile(linear(te_mlir.DelayedScaling()), "linear", backward_override="dequantized", context=reference)


def test_cuda_without_a_gpu_is_an_error():
    try:
        te_mlir.Context("cuda", 99)
    except te_mlir.RuntimeFailure as failure:
        assert "cuda" in str(failure).lower() or "gpu" in str(failure).lower()
    else:
        pytest.fail("expected no hundredth GPU")


def test_documents_and_positions_of_the_builder(reference):
    def step_of(rows, count):
        module = build.Module()
        with module.function("f") as f:
            q, k = (f.argument(name, (rows, 16), "float32") for name in "qk")
            cos, sin = (f.argument(name, (8, 4), "float32") for name in ("cos", "sin"))
            positions = f.argument("positions", (rows,), "int32")
            documents = f.argument("documents", (count,), "int32") if count else None
            q, k = (f.rope(x, cos, sin, 2, positions=positions) for x in (q, k))
            f.result("y", f.attention(q, k, k, 2, 2, rows, causal=True, documents=documents))
        return te_mlir.compile(module, "f", context=reference, target="reference")

    random = np.random.default_rng(1)
    q, k = (random.standard_normal((9, 16)).astype(np.float32) for _ in range(2))
    q[7:] = k[7:] = np.nan
    angles = [random.standard_normal((8, 4)).astype(np.float32) for _ in range(2)]
    positions = np.array([0, 1, 2, 3, 0, 1, 2, 0, 0], np.int32)
    documents = np.array([0, 4, 4, 7], np.int32)
    y = step_of(9, 4)(q, k, *angles, positions, documents)["y"]
    for begin, end in ((0, 4), (4, 7)):
        rows = np.arange(end - begin, dtype=np.int32)
        alone = step_of(end - begin, 0)(q[begin:end], k[begin:end], *angles, rows)["y"]
        np.testing.assert_array_equal(y[begin:end], alone)
    assert (y[7:] == 0).all()


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


# Reports and pictures


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
    # The browser rendered SVG elements and reported no errors.
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
