"""Programs of the dialect as functions of JAX arrays: the bits of te_mlir.compile, and JAX's transformations."""

import gc
import os
import pathlib
import subprocess
import sys

import pytest

# Create two CPU devices. JAX reads the variable when it creates its first array.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
jax = pytest.importorskip("jax")

import jax.numpy as jnp
import numpy as np

import te_mlir
import te_mlir.jax
from te_mlir.errors import ArgumentError, CompileError, RuntimeFailure

TEXT = """
func.func @mlp(%x: tensor<64x64xbf16> {te.name = "x"}, %up: tensor<128x64xbf16> {te.name = "up", te.weight},
               %down: tensor<64x128xbf16> {te.name = "down", te.weight}) -> (tensor<64x64xbf16> {te.name = "y"}) {
  %h = te.linear %x, %up : tensor<64x64xbf16>, tensor<128x64xbf16> -> tensor<64x128xbf16>
  %a = te.activation <gelu> %h : tensor<64x128xbf16> -> tensor<64x128xbf16>
  %y = te.linear %a, %down : tensor<64x128xbf16>, tensor<64x128xbf16> -> tensor<64x64xbf16>
  return %y : tensor<64x64xbf16>
}
"""
COUNTER = """
func.func @count(%x: tensor<256xf32> {te.name = "x"}, %n: tensor<256xf32> {te.name = "n", te.init = 2.0 : f32})
    -> (tensor<256xf32> {te.name = "y"}, tensor<256xf32> {te.name = "n"}) {
  %y = arith.mulf %x, %n : tensor<256xf32>
  %next = arith.addf %n, %n : tensor<256xf32>
  return %y, %next : tensor<256xf32>, tensor<256xf32>
}
"""


@pytest.fixture(scope="module")
def arrays():
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = {"x": (64, 64), "up": (128, 64), "down": (64, 128), "dy": (64, 64)}
    made = {n: jax.random.normal(k, s, jnp.bfloat16) for k, (n, s) in zip(keys, shapes.items())}
    # Values that are hard to quantise, and subnormals, which XLA's threads could flush.
    made["x"] = made["x"].at[0, :4].set(jnp.array([0.0, -0.0, 1e-40, 3e4], jnp.bfloat16)).at[1].multiply(1e-38)
    return made


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def operands(arrays):
    return [arrays[name] for name in ("x", "up", "down")]


def load(**options):
    return te_mlir.jax.load(TEXT, "mlp", **options)


def test_bits_are_those_of_compile(recipe, reference, arrays):
    """Results, gradients and states of two steps, with and without jax.jit."""
    step = te_mlir.compile(TEXT, "mlp", recipe=recipe, vjp=True, context=reference)
    host = {name: np.asarray(arrays[name]) for name in ("x", "up", "down")}
    function = load(recipe=recipe)
    state = function.init_state(wrt=["x", "up", "down"])
    assert list(state) == step.state_names
    both = jax.jit(lambda state, *a: function.value_and_grad(*a, cotangents={"y": arrays["dy"]}, state=state))
    for _ in range(2):
        wanted = step(**host, **{"grad.y": np.asarray(arrays["dy"])})
        results, gradients, *after = both(state, *operands(arrays))
        assert same(results["y"], wanted["y"])
        for name, gradient in gradients.items():
            assert same(gradient, wanted[f"grad.{name}"]), name
        state = after[0] if after else {}
        assert all(same(state[name], step.state[name].numpy()) for name in step.state_names)
    if step.state_names:
        with pytest.raises(ArgumentError, match="use value_and_grad"):
            jax.grad(lambda x: total(function, x, arrays))(arrays["x"])
        return
    for apply in (lambda f: f, jax.jit):
        y, pull = apply(lambda *a: jax.vjp(lambda *b: function(*b)["y"], *a))(*operands(arrays))
        assert same(y, wanted["y"])
        for name, gradient in zip(("x", "up", "down"), pull(arrays["dy"])):
            assert same(gradient, wanted[f"grad.{name}"]), name


def total(function, x, arrays):
    state = function.init_state()
    results = function(x, arrays["up"], arrays["down"], state=state) if state else None
    results = results[0] if results else function(x, arrays["up"], arrays["down"])
    return results["y"].astype(jnp.float32).sum()


def test_forward_and_its_states(recipe, reference, arrays):
    step = te_mlir.compile(TEXT, "mlp", recipe=recipe, context=reference)
    wanted = step(*(np.asarray(a) for a in operands(arrays)))
    function = load(recipe=recipe)
    state = function.init_state()
    assert list(state) == step.state_names
    if not state:
        assert same(function(*operands(arrays))["y"], wanted["y"])
        return
    results, after = jax.jit(lambda state, *a: function(*a, state=state))(state, *operands(arrays))
    assert same(results["y"], wanted["y"])
    assert all(same(after[name], step.state[name].numpy()) for name in step.state_names)
    # The state that was passed has not changed.
    assert all(same(state[name], function.init_state()[name]) for name in state)


def test_a_pullback_runs_twice(arrays):
    """The values that the forward saves are arrays, so a backward can run again."""
    function = load(recipe=te_mlir.Float8CurrentScaling())
    _, pull = jax.vjp(lambda *a: function(*a)["y"], *operands(arrays))
    first, other, again = pull(arrays["dy"]), pull(-arrays["dy"]), pull(arrays["dy"])
    assert all(map(same, first, again)) and not any(map(same, first, other))

    @jax.jit
    def twice(x, up, down, dy):
        _, pull = jax.vjp(lambda *a: function(*a)["y"], x, up, down)
        return pull(dy), pull(-dy), pull(dy)

    for a, b in zip(twice(*operands(arrays), arrays["dy"]), (first, other, first)):
        assert all(map(same, a, b))


def test_gradients_of_what_is_asked_for(arrays):
    function = load()
    x, up, down = operands(arrays)
    alone = jax.grad(lambda up: function(x, up, down)["y"].astype(jnp.float32).sum())(up)
    _, all_of_them = jax.value_and_grad(lambda *a: function(*a)["y"].astype(jnp.float32).sum(), argnums=(0, 1, 2))(
        x, up, down
    )
    assert same(alone, all_of_them[1])
    _, gradients = function.value_and_grad(x, up, down, wrt=["up"], cotangents={"y": jnp.ones_like(x)})
    assert list(gradients) == ["up"] and same(gradients["up"], alone)


def test_nothing_is_copied(arrays):
    """XLA's program for a forward and a backward has two custom calls and no copy."""
    function = load(recipe=te_mlir.Float8CurrentScaling())

    def gradients(x, up, down, dy):
        y, pull = jax.vjp(lambda *a: function(*a)["y"], x, up, down)
        return y, pull(dy)

    text = jax.jit(gradients).lower(*operands(arrays), arrays["dy"]).compile().as_text()
    assert text.count('custom_call_target="te_mlir_step"') == 2
    assert " copy(" not in text and " copy-start(" not in text, text


def test_donated_states_are_changed_in_place():
    function = te_mlir.jax.load(COUNTER, "count")
    x = jnp.ones(256)
    # The state is the first result, because JAX gives donated memory to the first result of the same type.
    step = jax.jit(lambda state, x: function(x, state=state)[::-1], donate_argnums=0)
    state = function.init_state()
    address = state["n"].unsafe_buffer_pointer()
    for n in (2, 4, 8):
        before = state
        state, results = step(state, x)
        assert (results["y"] == n).all() and (state["n"] == 2 * n).all()
        assert before["n"].is_deleted() and state["n"].unsafe_buffer_pointer() == address
    # Without donation, the old value is kept.
    _, after = function(x, state=state)
    assert (state["n"] == 16).all() and (after["n"] == 32).all()


def test_jit_twice_makes_one_program(arrays):
    function = load()
    for _ in range(2):
        jax.jit(lambda *a: function(*a)["y"])(*operands(arrays)).block_until_ready()
    runs, instances = function._forward().loaded.counts()
    assert runs == 2 and instances == 1


def test_two_devices(arrays):
    devices = jax.devices("cpu")
    assert len(devices) == 2, "XLA_FLAGS came too late"
    function = load(recipe=te_mlir.Float8CurrentScaling())
    here = function(*operands(arrays))["y"]
    there = function(*jax.device_put(operands(arrays), devices[1]))["y"]
    assert there.devices() == {devices[1]} and same(here, there)
    # Run on both devices at once, each with its own rows.
    mesh = jax.sharding.Mesh(np.array(devices), ("data",))
    rows, whole = jax.sharding.PartitionSpec("data"), jax.sharding.PartitionSpec()
    sharded = jax.shard_map(
        lambda *a: function(*a)["y"], mesh=mesh, in_specs=(rows, whole, whole), out_specs=rows, check_vma=False
    )
    x, up, down = operands(arrays)
    y = jax.jit(sharded)(jnp.concatenate([x, -x]), up, down)
    assert same(y[:64], here) and same(y[64:], function(-x, up, down)["y"])


@pytest.mark.parametrize("check", [True, False])
def test_gradients_of_what_two_devices_share(arrays, check):
    """As in JAX: gradients are summed over the devices if JAX tracks which values vary between them."""
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")), ("data",))
    rows, whole = jax.sharding.PartitionSpec("data"), jax.sharding.PartitionSpec()
    x, up, down = (a.astype(jnp.float32) for a in operands(arrays))
    x = jnp.concatenate([x, x[::-1]])
    text = TEXT.replace("xbf16", "xf32")
    program = te_mlir.jax.load(text, "mlp")
    plain = lambda x, up, down: jax.nn.gelu(x @ up.T) @ down.T  # noqa: E731
    loss = lambda up, down, x: jnp.dot(plain(x[0], up, down), x[1])  # noqa: E731

    def sharded(function, specs):
        return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=specs[0], out_specs=specs[1], check_vma=check))

    def outside(function):
        apply = sharded(function, ((rows, whole, whole), rows))
        return jax.grad(lambda up, down: jnp.sum(apply(x, up, down) * x), argnums=(0, 1))(up, down)

    def inside(make):
        specs = (whole, whole, rows), (rows, (whole, whole) if check else (rows, rows))
        return sharded(lambda *args: (lambda v, g: (v[None], g))(*make(*args)), specs)(up, down, x)

    wanted = outside(plain)
    for function in (te_mlir.jax.jit(plain), lambda *args: program(*args)["y"]):
        for a, b in zip(outside(function), wanted):
            assert jnp.linalg.norm(a - b) < 1e-5 * jnp.linalg.norm(b)
    wanted = inside(jax.value_and_grad(loss, argnums=(0, 1)))
    for make in (te_mlir.jax.value_and_grad(loss, (0, 1)), jax.value_and_grad(te_mlir.jax.jit(loss), (0, 1))):
        for a, b in zip(jax.tree.leaves(inside(make)), jax.tree.leaves(wanted)):
            assert jnp.linalg.norm(a - b) < 1e-5 * jnp.linalg.norm(b)
    if check:
        with pytest.raises(ValueError, match="out_specs"):
            sharded(lambda *args: program(*args)["y"], ((rows, whole, whole), whole))(x, up, down)


def picked(log_probs, labels):
    return -jnp.take_along_axis(log_probs, labels[:, None], axis=-1).mean()


def masked(log_probs, labels):
    return -jnp.where(labels >= 8, log_probs[jnp.arange(len(labels)), labels], 0).sum() / (labels >= 8).sum()


@pytest.mark.parametrize("nll", [picked, masked])
@pytest.mark.parametrize("check", [True, False])
def test_losses_over_labels_in_shard_map(nll, check):
    """Labels vary from device to device, and the constants that a loss computes with them do not."""
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")), ("data",))
    rows, whole = jax.sharding.PartitionSpec("data"), jax.sharding.PartitionSpec()
    keys = [jax.random.key(i) for i in range(3)]
    w, x = (jax.random.normal(key, (64, 32)) for key in keys[:2])
    labels = jax.random.randint(keys[2], (64,), 0, 64)

    def loss(w, x, labels):
        return nll(jax.nn.log_softmax(x @ w.T), labels)

    def sharded(step):
        both = lambda *args: jax.tree.map(lambda v: v[None], step(*args))  # noqa: E731
        if check:
            both = lambda *args: (lambda v, g: (v[None], g))(*step(*args))  # noqa: E731
        specs = {"in_specs": (whole, rows, rows), "out_specs": (rows, whole if check else rows)}
        return jax.jit(jax.shard_map(both, mesh=mesh, check_vma=check, **specs))(w, x, labels)

    wanted = sharded(jax.value_and_grad(loss))
    for step in (te_mlir.jax.value_and_grad(loss), jax.value_and_grad(te_mlir.jax.jit(loss))):
        for a, b in zip(sharded(step), wanted):
            assert jnp.linalg.norm(a - b) < 1e-5 * jnp.linalg.norm(b)


def test_below_scan_and_map(arrays):
    function = load()
    x, up, down = operands(arrays)
    mapped = jax.lax.map(lambda x: function(x, up, down)["y"], jnp.stack([x, -x]))
    assert same(mapped[0], function(x, up, down)["y"]) and same(mapped[1], function(-x, up, down)["y"])


def test_vmap_and_forward_mode_are_refused(arrays):
    function = load()
    x, up, down = operands(arrays)
    with pytest.raises(ArgumentError, match="'mlp': .* jax.vmap would add a dimension; .* use jax.lax.map"):
        jax.vmap(lambda x: function(x, up, down)["y"])(jnp.stack([x, x]))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda x: function(x, up, down)["y"], (x,), (x,))


@pytest.mark.parametrize("transform", [jax.hessian, lambda f: jax.grad(lambda x: jax.grad(f)(x).sum())])
def test_second_derivatives_are_refused(arrays, transform):
    function = load()
    x, up, down = operands(arrays)

    def loss(x):
        return jnp.square(function(x, up, down)["y"].astype(jnp.float32)).sum()

    for run in (transform(loss), jax.jit(transform(loss))):
        with pytest.raises(ArgumentError, match="'mlp': .*of a gradient .*te has no second derivatives"):
            run(x)


def test_a_function_that_is_gone_is_an_error(arrays):
    function = load()
    call = function._forward() and function._run_forward((), operands(arrays)) and function._call
    jitted = jax.jit(lambda *a: call(*a)[0])
    jitted(*operands(arrays))
    call.loaded = None
    del function
    gc.collect()
    with pytest.raises(Exception, match="expected a compiled function that is alive, .* keep the object"):
        jax.block_until_ready(jitted(*operands(arrays)))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"up": None}, r"expected a value for 'up', but got none"),
        ({"x": "float32"}, r"argument 'x': expected elements of bfloat16, but got float32"),
        ({"down": (128, 64)}, r"argument 'down': expected shape \[64, 128\], but got \[128, 64\]"),
        ({"x": "text"}, r"argument 'x': expected an array, but got str"),
        ({"z": (2, 2)}, r"expected arguments 'x', 'up', 'down', but got 'z'"),
    ],
)
def test_what_does_not_fit_is_named(arrays, change, message):
    given = {name: arrays[name] for name in ("x", "up", "down")}
    for name, value in change.items():
        if value is None:
            del given[name]
        elif value == "text":
            given[name] = "text"
        elif isinstance(value, str):
            given[name] = given[name].astype(value)
        else:
            given[name] = jnp.zeros(value, jnp.bfloat16)
    function = load()
    with pytest.raises(ArgumentError, match=message):
        function(**given)
    if "text" not in change.values():
        with pytest.raises(ArgumentError, match=message):
            jax.jit(lambda given: function(**given))(given)


def test_states_are_asked_for():
    function = te_mlir.jax.load(COUNTER, "count")
    with pytest.raises(ArgumentError, match=r"state: expected a value for 'n', but got none; init_state\(\) makes"):
        function(jnp.ones(256))
    with pytest.raises(ArgumentError, match=r"state 'n': expected shape \[256\], but got \[2\]"):
        function(jnp.ones(256), state={"n": jnp.ones(2)})


def test_programs_and_platforms_that_are_refused():
    with pytest.raises(CompileError, match="mlp.mlir:.*error:"):
        te_mlir.jax.load(TEXT.replace("64x128xbf16>\n  %y", "64x127xbf16>\n  %y"), "mlp", source_name="mlp.mlir")
    with pytest.raises(CompileError, match="but it did not end in time"):
        load(isolation=te_mlir.Isolation(seconds=0.01))
    with pytest.raises(ArgumentError, match="expected 'platform' to be 'cpu' or 'cuda', but got 'tpu'"):
        load(platform="tpu")
    if jax.default_backend() == "cpu":
        with pytest.raises((RuntimeFailure, CompileError)):
            load(platform="cuda")


def test_importing_te_mlir_does_not_load_jax():
    program = "import sys, te_mlir; print('jax' in sys.modules); import te_mlir.jax; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("options", ["--check", "--steps=2 --layers=1 --width=32 --heads=2 --rows=2 --sequence=16"])
def test_example_runs(options):
    script = pathlib.Path(__file__).parents[2] / "examples" / "jax_llama" / "train.py"
    command = [sys.executable, str(script), "--platform=cpu", *options.split()]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert ("2 calls of te, 0 copies" if options == "--check" else "float8_current_scaling") in run.stdout
