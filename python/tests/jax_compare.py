"""Helpers of tests of JAX functions: inputs, and comparisons of results and gradients with those of JAX."""

import functools

import jax
import jax_models as models
import numpy as np

import te_mlir.jax


def batch(sequence=32, vocabulary=64):
    a, b = jax.random.split(jax.random.key(1))
    return jax.random.randint(a, (2, sequence), 0, vocabulary), jax.random.randint(b, (2, sequence), 0, vocabulary)


@functools.cache
def llama_params(kv_heads=2, layers=1):
    return jax.jit(functools.partial(models.llama_params, kv_heads=kv_heads, layers=layers))(jax.random.key(0))


def leaves(tree):
    return [leaf for leaf in jax.tree.leaves(tree) if leaf.dtype != jax.dtypes.float0]


def assert_close(mine, theirs, bound=1e-5):
    mine, theirs = leaves(mine), leaves(theirs)
    assert len(mine) == len(theirs) > 0
    for a, b in zip(mine, theirs):
        assert a.dtype == b.dtype
        # By numpy, because JAX compiles each of these operations for each shape.
        a, b = (np.asarray(each, np.float64) for each in (a, b))
        error = np.linalg.norm(a - b) / np.linalg.norm(b)
        assert np.linalg.norm(b) > 0 and error < bound, error


def compare(function, *args, **options):
    """Checks that te and JAX compute the same results and gradients of all arguments."""
    compiled = te_mlir.jax.jit(function, **options)
    like = jax.eval_shape(function, *args)
    cotangent = jax.tree.map(lambda a: np.cos(np.arange(a.size)).reshape(a.shape).astype(a.dtype), like)

    def both(function, args):
        results, pull = jax.vjp(function, *args)
        return results, pull(cotangent)

    # Jit both, because without jit JAX compiles each operation separately.
    wanted, got = (jax.jit(functools.partial(both, f))(args) for f in (function, compiled))
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    assert_close(got, wanted)
    return compiled.lower(*args)
