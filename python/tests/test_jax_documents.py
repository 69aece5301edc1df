"""Attention in JAX functions whose masks are made of segment ids or of lengths."""

import functools

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp
import numpy as np

import te_mlir
import te_mlir.jax

CAUSAL = np.tri(16, dtype=bool)


def segments(*lengths):
    """Ids of segments with these lengths in the first row; the second row is padded after 12 tokens of one segment."""
    first = np.repeat(np.arange(1, len(lengths) + 1), lengths)
    return jnp.asarray(np.stack([first, np.where(np.arange(16) < 12, 1, 0)]), jnp.int32)


def inputs():
    keys = jax.random.split(jax.random.key(2), 3)
    x, wq, wkv = (jax.random.normal(key, shape) for key, shape in zip(keys, ((32, 64), (64, 64), (64, 32))))
    return x, wq / 8, wkv / 8


def parts(x, wq, wkv):
    return (x @ wq).reshape(2, 16, 4, 16), (x @ wkv).reshape(2, 16, 2, 16)


def same(ids):
    return (ids[:, :, None] == ids[:, None, :])[:, None]


def by_jax(x, wq, wkv, ids, mask=same, **options):
    q, kv = parts(x, wq, wkv)
    return jax.nn.dot_product_attention(q, kv, kv, mask=mask(ids), **options)


def by_hand(x, wq, wkv, ids):
    """As MaxText computes it, with a mask that is added."""
    q, kv = parts(x, wq, wkv)
    seen = jnp.logical_and((ids[:, :, None] == ids[:, None, :])[:, None, None], CAUSAL[None, None, None])
    scores = jnp.einsum("btkgd,bskd->bkgts", q.reshape(2, 16, 2, 2, 16), kv)
    scores = scores + jnp.where(seen, 0.0, -0.7 * float(np.finfo(np.float32).max))
    return jnp.einsum("bkgts,bskd->btkgd", jax.nn.softmax(scores, -1), kv)


def by_where(x, wq, wkv, ids, mask=lambda ids: same(ids) & CAUSAL):
    q, kv = parts(x, wq, wkv)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, jnp.repeat(kv, 2, axis=2))
    scores = jnp.where(mask(ids), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), jnp.repeat(kv, 2, axis=2))


#: (the function, what its te.attention has)
FUNCTIONS = {
    "causal": (functools.partial(by_jax, is_causal=True), "causal"),
    "open": (by_jax, "documents"),
    "window": (functools.partial(by_jax, local_window_size=(5, 0)), "window_size = array<i64: 5, 0>"),
    "of one row": (functools.partial(by_jax, mask=lambda ids: same(ids[:1]), is_causal=True), "causal"),
    "added": (by_hand, "causal"),
    "where": (by_where, "causal"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_segments(name):
    function, wanted = FUNCTIONS[name]
    for ids in (segments(16), segments(3, 9, 4)):
        compiled = te_mlir.jax.jit(function)
        check(function, compiled, ids)
        text = compiled.lower(*inputs(), ids).text()
        assert text.count("te.attention") == 1 and wanted in text and " documents " in text
        assert ("causal" in text) == (name != "open")


def check(function, compiled, *integers):
    """Checks results and gradients against JAX's, jitted."""
    args = inputs()
    like = jax.eval_shape(lambda *a: function(*a, *integers), *args)
    cotangent = jnp.cos(jnp.arange(like.size)).reshape(like.shape)

    def both(f, args):
        result, pull = jax.vjp(lambda *a: f(*a, *integers), *args)
        return result, *pull(cotangent)

    found, wanted = (jax.jit(functools.partial(both, f))(args) for f in (compiled, function))
    for mine, theirs in zip(found, wanted):
        error = jnp.linalg.norm((mine - theirs).ravel()) / jnp.linalg.norm(theirs.ravel())
        assert jnp.linalg.norm(theirs) > 0 and error < 1e-5, error


def test_lengths():
    def function(x, wq, wkv, lengths):
        q, kv = parts(x, wq, wkv)
        return jax.nn.dot_product_attention(
            q, kv, kv, is_causal=True, query_seq_lengths=lengths, key_value_seq_lengths=lengths
        )

    compiled = te_mlir.jax.jit(function)
    for lengths in ((16, 9), (1, 16)):
        check(function, compiled, jnp.asarray(lengths, jnp.int32))
    text = compiled.lower(*inputs(), jnp.asarray((16, 9), jnp.int32)).text()
    assert text.count("te.attention") == 1 and " documents " in text and "tensor<5xi32>" in text


def test_padding_at_the_end_of_rows_of_lengths_has_zeros():
    """As in JAX: the results of padding are multiplied by 0."""
    function = lambda x, w, lengths: jax.nn.dot_product_attention(
        *[(x @ w).reshape(2, 16, 4, 16)] * 3, query_seq_lengths=lengths, key_value_seq_lengths=lengths
    )
    x, w, _ = inputs()
    result = te_mlir.jax.jit(function)(x, w, jnp.asarray((16, 9), jnp.int32))
    assert (result[1, 9:] == 0).all() and (result[1, :9] != 0).all()


@pytest.mark.parametrize("of", ["key_value_seq_lengths", "query_seq_lengths"])
def test_lengths_of_one_side_are_products(of):
    """Without lengths of queries, JAX's padding attends to the tokens of its row, which no document does."""

    def function(x, wq, wkv, lengths):
        q, kv = parts(x, wq, wkv)
        return jax.nn.dot_product_attention(q, kv, kv, is_causal=True, **{of: lengths})

    compiled, lengths = te_mlir.jax.jit(function), jnp.asarray((16, 9), jnp.int32)
    check(function, compiled, lengths)
    lowered = compiled.lower(*inputs(), lengths)
    assert lowered.text().count("te.grouped_linear") == 2 and "te.attention" not in lowered.text()
    note = [line for line in lowered.report().splitlines() if "compiled as products and a softmax" in line]
    assert len(note) == 1 and "test_jax_documents.py" in note[0]
    if of == "key_value_seq_lengths":
        assert note[0].endswith("pass query_seq_lengths, too, or pass unused_padding=True to jit")
    else:
        assert note[0].endswith("its mask hides queries that are padding, but no keys")


def combined(used, ids):
    """A mask as flax makes it: of pairs of tokens, of segments and of earlier tokens, as numbers that are combined."""
    tokens = used[:, None, :, None] & used[:, None, None, :]
    masks = [mask.astype(jnp.float32) for mask in (tokens, same(ids), jnp.asarray(CAUSAL)[None, None])]
    return functools.reduce(jnp.logical_and, masks).astype(bool)


def pairs(used, ids):
    """As `flax.linen.make_attention_mask(ids > 0, ids > 0)`, of ids that are 0 for padding."""
    ids = jnp.where(used, ids + 1, 0)
    return combined(ids > 0, ids) & ((ids > 0)[:, None, :, None] & (ids > 0)[:, None, None, :])


def lengths_of(used):
    return used.sum(-1).astype(jnp.int32)


#: Masks of batches with padding as arguments of jax.nn.dot_product_attention, from which tokens are used and their ids;
#: then whether tokens are first in their rows, and the number of boundaries.
PADDED = {
    "lengths of keys": (lambda used, ids: dict(key_value_seq_lengths=lengths_of(used), is_causal=True), True, 5),
    "lengths of keys of a window": (
        lambda used, ids: dict(key_value_seq_lengths=lengths_of(used), local_window_size=(5, 0)),
        True,
        5,
    ),
    "open lengths of keys": (lambda used, ids: dict(key_value_seq_lengths=lengths_of(used)), True, 5),
    "keys": (lambda used, ids: dict(mask=used[:, None, None, :]), False, 7),
    "causal keys": (lambda used, ids: dict(mask=used[:, None, None, :] & CAUSAL), False, 7),
    "queries and keys": (lambda used, ids: dict(mask=used[:, None, :, None] & used[:, None, None, :]), False, 7),
    "integers": (lambda used, ids: dict(mask=used.astype(jnp.int32)[:, None, None, :] != 0, is_causal=True), False, 7),
    "segments and keys": (lambda used, ids: dict(mask=same(ids) & used[:, None, None, :]), False, 33),
    "flax": (lambda used, ids: dict(mask=combined(used, ids)), False, 33),
    "flax, of ids": (lambda used, ids: dict(mask=pairs(used, ids)), False, 33),
    "segments and lengths": (
        lambda used, ids: dict(mask=same(ids), key_value_seq_lengths=lengths_of(used), is_causal=True),
        True,
        33,
    ),
}


@pytest.mark.parametrize("name", PADDED)
def test_padding_of_which_nothing_is_read(name):
    """Results and gradients of tokens are those of JAX."""
    masks, is_right, count = PADDED[name]

    def function(x, wq, wkv, used, ids):
        q, kv = parts(x, wq, wkv)
        return jnp.where(used[..., None, None], jax.nn.dot_product_attention(q, kv, kv, **masks(used, ids)), 0)

    compiled = te_mlir.jax.jit(function, unused_padding=True)
    positions = np.arange(16)
    for first, last in (((0, 0), (16, 9)), ((0, 0), (1, 16))) if is_right else (((0, 5), (16, 16)), ((2, 0), (9, 1))):
        used = jnp.asarray((positions >= np.array(first)[:, None]) & (positions < np.array(last)[:, None]))
        check(function, compiled, used, segments(3, 9, 4))
    args = *inputs(), used, segments(3, 9, 4)
    text = compiled.lower(*args).text()
    assert text.count("te.attention") == 1 and f"tensor<{count}xi32>" in text, text
    # Without the option, results of padding are those of JAX.
    exact = te_mlir.jax.jit(function).lower(*args)
    assert "te.attention" not in exact.text() and "unused_padding=True" in exact.report()


def of_flax(module, variables, masks, x, ids):
    """The module, whose results at padding are zeros. masks: further masks than those of the segments."""
    linen = pytest.importorskip("flax.linen")
    used = ids > 0
    mask = linen.combine_masks(linen.make_attention_mask(ids, ids, jnp.equal), *masks(linen, ids))
    return jnp.where(used[..., None], module.apply(variables, x.reshape(2, 16, 64), mask=mask), 0)


#: Masks as models of flax combine them.
FLAX = {
    "segments": lambda linen, ids: [],
    "causal": lambda linen, ids: [linen.make_causal_mask(ids)],
    "padded": lambda linen, ids: [linen.make_attention_mask(ids > 0, ids > 0), linen.make_causal_mask(ids)],
}


@pytest.mark.parametrize("name", FLAX)
def test_attention_of_flax(name):
    linen = pytest.importorskip("flax.linen")
    module, x = linen.MultiHeadDotProductAttention(4), inputs()[0]
    function = functools.partial(of_flax, module, masks=FLAX[name])
    variables, ids = module.init(jax.random.key(0), x.reshape(2, 16, 64)), segments(3, 9, 4)
    compiled = te_mlir.jax.jit(lambda variables, x, ids: function(variables, x=x, ids=ids), unused_padding=True)
    text = compiled.lower(variables, x, ids).text()
    assert text.count("te.attention") == 1 and " documents " in text and ("causal" in text) == (name != "segments")
    found, wanted = compiled(variables, x, ids), function(variables, x=x, ids=ids)
    assert jnp.linalg.norm(found - wanted) < 1e-5 * jnp.linalg.norm(wanted)


def test_padding_on_the_left_with_positions():
    """As a user writes it: positions count tokens, and padding has none."""

    def function(x, wq, wkv, used):
        cos, sin = (f(angles(jnp.maximum(jnp.cumsum(used, -1) - 1, 0))) for f in (jnp.cos, jnp.sin))
        rotate = lambda a, b: jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
        q, kv = parts(x, wq, wkv)
        q, k = (rotate(*jnp.split(t, 2, -1)) for t in (q, kv))
        mask = used[:, None, None, :] & CAUSAL
        return jnp.where(used[..., None, None], jax.nn.dot_product_attention(q, k, kv, mask=mask), 0)

    compiled = te_mlir.jax.jit(function, unused_padding=True)
    for first in ((0, 5), (15, 1)):
        check(function, compiled, jnp.arange(16) >= jnp.asarray(first)[:, None])
    text = compiled.lower(*inputs(), jnp.ones((2, 16), bool)).text()
    assert text.count("te.rope ") == 2 and text.count("te.attention") == 1 and " documents " in text


def test_decoding_with_a_cache_is_products():
    """One query of each row sees the keys of a cache that are there already."""

    def function(x, wq, wkv, lengths):
        q, kv = parts(x, wq, wkv)
        return jax.nn.dot_product_attention(q[:, :1], kv, kv, key_value_seq_lengths=lengths)

    compiled, lengths = te_mlir.jax.jit(function), jnp.asarray((7, 12), jnp.int32)
    check(function, compiled, lengths)
    lowered = compiled.lower(*inputs(), lengths)
    assert lowered.text().count("te.grouped_linear") == 2 and "te.attention" not in lowered.text()
    assert "compiled as products and a softmax" in lowered.report()


def test_tokens_on_both_sides_of_padding_are_no_document():
    compiled = te_mlir.jax.jit(functools.partial(by_jax, mask=lambda used: used[:, None, None, :]), unused_padding=True)
    used = jnp.asarray(np.isin(np.arange(32).reshape(2, 16), (4, 5), invert=True))
    with pytest.raises(Exception, match=r"expected 'documents\[0\]' to be .* but got -1"):
        jax.block_until_ready(compiled(*inputs(), used))


def angles(positions):
    return positions[:, :, None, None].astype(jnp.float32) * 10000.0 ** (-jnp.arange(8) / 8)


#: Tables of rotations [2, 16, 1, 8] of packed rows, from the ids of segments.
TABLES = {
    "positions": lambda ids: angles(jnp.arange(16) - jnp.argmax(ids[:, :, None] == ids[:, None, :], -1)),
    "one row": lambda ids: angles(jnp.arange(16)[None]),
}


@pytest.mark.parametrize("name", [*TABLES, "arguments"])
def test_rotations_of_packed_rows(name):
    """Positions that start again with each segment, computed from ids or given as tables, or those of a whole row."""

    def rotate(x, cos, sin):
        first, second = jnp.split(x, 2, -1)
        return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)

    def function(x, wq, wkv, ids, *tables):
        if not tables:
            tables = [f(TABLES[name](ids)) for f in (jnp.cos, jnp.sin)]
        q, kv = parts(x, wq, wkv)
        return jax.nn.dot_product_attention(rotate(q, *tables), rotate(kv, *tables), kv, mask=same(ids), is_causal=True)

    ids = segments(3, 9, 4)
    given = [f(TABLES["positions"](ids)) for f in (jnp.cos, jnp.sin)] if name == "arguments" else []
    compiled = te_mlir.jax.jit(function)
    check(function, compiled, ids, *given)
    text = compiled.lower(*inputs(), ids, *given).text()
    assert text.count("te.rope ") == 2 and text.count("te.attention") == 1 and " documents " in text


@pytest.mark.parametrize(
    "ids, options",
    [(np.tile([1, 1, 2, 2], 4), {}), (np.arange(16), {"max_segments_per_seq": 8})],
    ids=["an id again", "too many"],
)
def test_segments_that_are_no_documents(ids, options):
    """They are found when the step runs, because JAX traces a function without values."""
    compiled = te_mlir.jax.jit(functools.partial(by_jax, is_causal=True), **options)
    ids = jnp.asarray(np.stack([ids, ids]), jnp.int32)
    with pytest.raises(Exception, match=r"expected 'documents\[0\]' to be .* but got -1"):
        jax.block_until_ready(compiled(*inputs(), ids))


#: Masks of segment ids that are no documents.
OTHERS = {
    "near ids": lambda ids: (ids[:, :, None] - 1 <= ids[:, None, :])[:, None],
    "later segments": lambda ids: (ids[:, :, None] >= ids[:, None, :])[:, None],
    "a prefix": lambda ids: same(ids) | CAUSAL,
    "keys alone": lambda ids: (np.arange(16)[None] < ids[:, :1] + 3)[:, None, None],
    "twice": lambda ids: same(ids) & same(ids // 2),
    "another constant": lambda ids: same(ids) & CAUSAL.T,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_masks_are_products(name):
    function = functools.partial(by_where, mask=OTHERS[name])
    compiled = te_mlir.jax.jit(function)
    check(function, compiled, segments(3, 9, 4))
    text = compiled.lower(*inputs(), segments(3, 9, 4)).text()
    assert text.count("te.grouped_linear") == 2 and "te.attention" not in text


def by_sum(x, wq, wkv, ids):
    """A mask of 1 where a segment is the same, which is added."""
    q, kv = parts(x, wq, wkv)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, jnp.repeat(kv, 2, axis=2)) + same(ids).astype(jnp.float32)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), jnp.repeat(kv, 2, axis=2))


#: Functions with casts after which other values are equal, or visible.
CAST = {
    "truths": functools.partial(by_where, mask=lambda ids: same(ids.astype(bool))),
    "bytes": functools.partial(by_where, mask=lambda ids: same((ids * 256).astype(jnp.int8))),
    "numbers": by_sum,
}


@pytest.mark.parametrize("name", CAST)
def test_casts_of_masks(name):
    ids = segments(3, 9, 4).at[1].set(1)
    check(CAST[name], te_mlir.jax.jit(CAST[name]), ids)


def test_what_padding_contains_changes_nothing():
    """Rows that a choice sets to zero have no part in scales and gradients."""

    def loss(x, wq, wkv, used):
        x = jnp.where(used[:, None], x, 0)
        y = jax.nn.relu(x @ wq) @ wkv
        return jnp.where(~used[:, None], 0, y).mean()

    compiled = te_mlir.jax.jit(loss, recipe=te_mlir.Float8CurrentScaling())
    x, wq, wkv = inputs()
    used = jnp.arange(32) % 16 < 11
    step = jax.value_and_grad(compiled, argnums=(0, 1, 2))
    wanted = step(x, wq, wkv, used)
    for content in (np.nan, np.inf):
        found = step(jnp.where(used[:, None], x, content), wq, wkv, used)
        assert all((one == two).all() for one, two in zip(jax.tree.leaves(found), jax.tree.leaves(wanted)))
    assert compiled.lower(x, wq, wkv, used).text().count("te.zero_unused") == 2
