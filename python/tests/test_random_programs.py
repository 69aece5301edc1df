"""Random programs have the results and gradients of PyTorch's and JAX's autograd, within the bound of their rounding.

TE_RANDOM_PROGRAMS (80) is the number of programs of each framework, and TE_RANDOM_SEED (0) the first one. Those of a
batch are compiled as one module. A failure prints the program; it is compiled by itself to find which one it is.
"""

import os

import pytest

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

import jax.numpy as jnp
import numpy as np
import random_programs

import te_mlir
import te_mlir.jax
import te_mlir.torch

# XLA compiles each batch once.
jax.config.update("jax_disable_most_optimizations", True)

COUNT, FIRST = (int(os.environ.get(f"TE_RANDOM_{name}", default)) for name, default in (("PROGRAMS", 80), ("SEED", 0)))
BATCH = 20
OF_JAX = random_programs.jax_functions()


class Batch(torch.nn.Module):
    """Several programs, each of its own inputs, and a linear layer, because code without one is left to PyTorch."""

    def __init__(self, programs):
        super().__init__()
        self.programs, self.layer = programs, torch.nn.Linear(4, 4)

    def forward(self, x, *inputs):
        rest, results = list(inputs), [self.layer(x)]
        for program in self.programs:
            own, rest = rest[: len(program.inputs)], rest[len(program.inputs) :]
            results += program.run(random_programs.OF_TORCH, own)
        return tuple(results)


def parts(values, counts):
    """Consecutive values, as many in each part as `counts` says."""
    rest = iter(values)
    return [[next(rest) for _ in range(count)] for count in counts]


def by_torch(programs):
    """(Results and gradients of each program, what the bound is a multiple of)."""
    torch._dynamo.reset()
    inputs = [t.clone().requires_grad_(t.is_floating_point()) for program in programs for t in program.inputs]
    model = te_mlir.torch.jit(Batch(programs), strict=True, differentiate_outputs="all", recipe=te_mlir.HighPrecision())
    results = model(torch.ones(4, 4), *inputs)[1:]
    of = parts(results, [len(program.results) for program in programs])
    pairs = [
        (own[n], cotangent)
        for program, own in zip(programs, of)
        for n, cotangent in program.cotangents.items()
        if own[n].requires_grad
    ]
    leaves = [t for t in inputs if t.requires_grad]
    wanted, cotangents = zip(*pairs)
    gradients = torch.autograd.grad(wanted, leaves, cotangents, materialize_grads=True)
    counts = [sum(t.is_floating_point() for t in program.inputs) for program in programs]
    found = [[t.detach().numpy() for t in (*a, *b)] for a, b in zip(of, parts(gradients, counts))]
    (graph,) = model.te.graphs
    assert len(graph.parts) == 1 and not graph.reasons
    return found, [[t.numpy() for t in program.bounds[0]] for program in programs]


def by_jax(programs):
    """(Results and gradients of each program, those of JAX)."""
    floats = [[t.numpy() for t in program.inputs if t.is_floating_point()] for program in programs]
    others = [[t.numpy() for t in program.inputs if not t.is_floating_point()] for program in programs]
    others = [[t if t.dtype == bool else t.astype(np.int32) for t in own] for own in others]

    def batch(w, floats, others):
        results = []
        for program, some, more in zip(programs, floats, others):
            given, numbers = iter(more), iter(some)
            inputs = [next(numbers if t.is_floating_point() else given) for t in program.inputs]
            results.append(program.run(OF_JAX, inputs))
        return jnp.tanh(w) @ w, results

    cotangents = [[c.numpy() for c in program.cotangents.values()] for program in programs]

    def both(function):
        def run(w, floats, others):
            (y, results), pull = jax.vjp(lambda w, floats: function(w, floats, others), w, floats)
            return results, pull((y, cotangents))[1]

        results, gradients = jax.jit(run)(np.eye(4, dtype=np.float32), floats, others)
        return [[np.asarray(t) for t in (*a, *b)] for a, b in zip(results, gradients)]

    return both(te_mlir.jax.jit(batch, differentiate_outputs="all")), both(batch)


BY = {"torch": by_torch, "jax": by_jax}


def differences(programs, framework):
    """For each program, what is wrong; None if nothing is."""
    found, theirs = BY[framework](programs)
    said = []
    for program, mine, reference in zip(programs, found, theirs):
        exact, bounds = program.bounds
        assert len(mine) == len(reference) == len(bounds)
        errors = [np.abs(a.astype(np.float64) - b).max() for a, b in zip(mine, reference)]
        if framework == "jax":
            # Float32 of JAX has errors of the same bound. Beyond it, XLA is wrong: it may compute a value twice, with other
            # roundings, and then find no element that equals the maximum.
            to_exact = [
                [np.abs(a - b.double().numpy()).max() for a, b in zip(some, exact)] for some in (mine, reference)
            ]
            errors = [
                one if not other <= bound and one <= bound else error / 2
                for error, bound, one, other in zip(errors, bounds, *to_exact)
            ]
        fits = all(error <= bound for error, bound in zip(errors, bounds))
        said.append(None if fits else f"errors {errors}, bounds {bounds}")
    return said


def check(seeds, framework):
    programs = [random_programs.program(seed) for seed in seeds]
    try:
        said = differences(programs, framework)
    except Exception as error:  # noqa: BLE001 - Finds the program that cannot be compiled.
        if len(seeds) == 1:
            pytest.fail(f"program {seeds[0]}:\n{programs[0]}\n{error}")
        said = [str(error)] * len(seeds)
    wrong = [(seed, text) for seed, text in zip(seeds, said) if text is not None]
    if len(seeds) > 1:
        for seed, _ in wrong:
            check([seed], framework)
    if wrong:
        pytest.fail("\n".join(f"program {seed}:\n{random_programs.program(seed)}\n{text}" for seed, text in wrong))


@pytest.mark.parametrize("framework", BY)
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_programs(first, framework):
    check(list(range(first, min(first + BATCH, FIRST + COUNT))), framework)


def test_bounds():
    """A fourth of the programs is exact, and a relative error of 1e-3 is beyond the bounds of nearly all others."""
    made = [random_programs.program(seed).bounds for seed in range(100)]
    exact = [bounds for _, bounds in made if not any(bounds)]
    sizes = [
        (np.abs(t).max(), bound) for values, bounds in made for t, bound in zip((v.numpy() for v in values), bounds)
    ]
    tight = [bound < 1e-3 * size for size, bound in sizes if size > 1e-6 and bound]
    assert len(exact) > 20 and sum(tight) > 0.97 * len(tight)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("distance", [1.0, 4.0, 8.0, 12.0])
def test_bounds_of_saturated_softmax(name, distance):
    """PyTorch's gradient in float32 is within the bound where it is a difference of almost equal numbers."""
    x = torch.arange(4 * 8).reshape(4, 8) % 7 / 8
    x[:, 0] += distance
    program = random_programs.Program([x], [random_programs.Step(name, (0,), {"axis": 1})], [1])
    single = x.clone().requires_grad_()
    y = program.run(random_programs.OF_TORCH, [single])[0]
    y.backward(program.cotangents[0])
    (_, gradient), (_, bound) = program.bounds
    assert 0 < (single.grad - gradient).abs().max() <= bound < 1e-3
