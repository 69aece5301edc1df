"""Copies of steps: by copy.deepcopy, and by pickle in this process and in another."""

import copy
import pickle
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")

import te_mlir  # noqa: E402
from te_mlir import build  # noqa: E402


def linear():
    """A linear layer with the states of delayed scaling, and a state that counts the calls."""
    module = build.Module()
    with module.function("step") as f:
        x = f.argument("x", (32, 64), "float32")
        w = f.argument("w", (48, 64), "float32", weight=True)
        count = f.argument("count", (), "float32", init=1.0)
        f.result("y", f.linear(f.cast(x, "bfloat16"), f.cast(w, "bfloat16")))
        f.result("count", f.add(count, f.constant(1.0, (), "float32")))
    return module


def draw(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


W = draw((48, 64), 9)
RECIPE = te_mlir.DelayedScaling(amax_history_len=3)


def states(step):
    return {name: np.array(np.from_dlpack(value)) for name, value in step.state.items()}


def assert_same(mine, theirs):
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        assert np.array_equal(mine[name], value), name


def call(step, seed):
    return np.array(step(draw((32, 64), seed) * 2.0**seed, W)["y"]).view(np.uint16)


def through_pickle(step):
    return pickle.loads(pickle.dumps(step))


@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle])
@pytest.mark.parametrize("cuda_graph", [False, True])
def test_a_copy_goes_on_alone(copied, cuda_graph):
    step = te_mlir.compile(linear(), "step", recipe=RECIPE, cuda_graph=cuda_graph)
    # States that the caller set are also copied.
    counted = np.full((), 7, np.float32)
    step.set_state({"count": counted})
    call(step, 1)
    call(step, 2)
    before = states(step)
    assert "w.x.scale" in before and before["count"] == 9
    other = copied(step)
    assert (other.program is step.program) == (copied is copy.deepcopy)
    assert (other.cuda_graph, other.inputs, other.results) == (cuda_graph, step.inputs, step.results)
    assert_same(states(other), before)
    wanted = [call(step, seed) for seed in (3, 4)]
    assert_same(states(other), before)
    assert all(np.array_equal(call(other, seed), y) for seed, y in zip((3, 4), wanted))
    assert_same(states(other), states(step))
    call(other, 5)
    assert counted == 11 and states(other)["count"] == 12


def test_a_copy_has_the_casts_of_weights():
    step = te_mlir.compile(linear(), "step", recipe=RECIPE, cache_weights=True)
    fresh = copy.deepcopy(step)
    with pytest.raises(te_mlir.ArgumentError), fresh.microbatch(first=False):
        call(fresh, 1)
    call(step, 1)
    other = copy.deepcopy(step)
    with step.microbatch(first=False), other.microbatch(first=False):
        assert np.array_equal(call(other, 2), call(step, 2))


def test_what_is_shared_is_shared_in_the_copy():
    torch = pytest.importorskip("torch")
    step = te_mlir.compile(linear(), "step", recipe=RECIPE)
    count = torch.nn.Parameter(torch.ones(()), requires_grad=False)
    step.set_state({"count": count})
    other, counted = copy.deepcopy((step, count))
    call(other, 1)
    assert (count.item(), counted.item()) == (1, 2)


def test_another_process_goes_on(tmp_path):
    step = te_mlir.compile(linear(), "step", recipe=RECIPE)
    call(step, 1)
    path = tmp_path / "step.pickle"
    path.write_bytes(pickle.dumps(step))
    x, found = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, draw((32, 64), 2))
    np.save(tmp_path / "w.npy", W)
    script = (
        "import pickle, sys, numpy as np\n"
        "step = pickle.load(open(sys.argv[1], 'rb'))\n"
        "np.save(sys.argv[4], np.array(step(np.load(sys.argv[2]), np.load(sys.argv[3]))['y']).view(np.uint16))\n"
    )
    subprocess.run([sys.executable, "-c", script, path, x, tmp_path / "w.npy", found], check=True)
    assert np.array_equal(np.load(found), np.array(step(draw((32, 64), 2), W)["y"]).view(np.uint16))


def test_two_steps_cannot_have_the_same_states():
    step = te_mlir.compile(linear(), "step", recipe=RECIPE)
    with pytest.raises(TypeError, match="two steps cannot have the same states"):
        copy.copy(step)
