"""te.dropout and its gradient have the bits of its definition, and te.attention its zeros, with Philox of test/model.

Each case is run alone and with arithmetic around it, with one launch for each op and fused, over several steps that
advance the state.
"""

import itertools

import numpy as np
from harness import BACKEND, expect, finish, forget_last_run, from_bf16, run, to_bf16
from te_model import philox

TARGET = "target=sm_90" if BACKEND == "cuda" else "target=reference"
SHAPES = [(1,), (3, 5), (16, 64), (4099,), (2, 3, 129), (0, 8), (33, 1000)]
PROBABILITIES = [0.0, 0.1, 0.5, 0.999, 1.0]
STATES = [(0, 0), (7, 3), (-5, -2)]


def factors(count, state, stream, probability, kind=3):
    """What each of `count` elements is multiplied with."""
    group = np.arange((count + 3) // 4, dtype=np.uint64)
    seed, offset = (np.uint64(word & 0xFFFFFFFF) for word in state)
    words = philox.philox(
        (group & philox.MASK, group >> np.uint64(32), offset, np.uint64(kind)), (seed, np.uint64(stream))
    )
    words = np.stack([np.asarray(word, dtype=np.uint64) for word in words], axis=-1).reshape(-1)[:count]
    probability = float(np.float32(probability))
    kept = np.float32(1 / (1 - probability)) if probability < 1 else np.float32(0)
    return np.where(words < np.uint64(int(probability * 2**32)), np.float32(0), kept)


def in_file(x, dtype):
    return to_bf16(x) if dtype == "bf16" else x.astype(np.float16 if dtype == "f16" else np.float32)


def widened(stored, dtype):
    return from_bf16(stored) if dtype == "bf16" else stored.astype(np.float32)


def same(found, wanted):
    nan = np.isnan(wanted.astype(np.float32)) if wanted.dtype != np.uint16 else np.isnan(from_bf16(wanted))
    found_nan = np.isnan(found.astype(np.float32)) if found.dtype != np.uint16 else np.isnan(from_bf16(found))
    bits = {2: np.uint16, 4: np.uint32}[wanted.dtype.itemsize]
    return np.array_equal(nan, found_nan) and np.array_equal(found.view(bits)[~nan], wanted.view(bits)[~nan])


def drawn(rng, shape, dtype):
    x = rng.standard_normal(shape).astype(np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-41, 3e38], dtype=np.float32)
    with np.errstate(over="ignore"):
        return in_file(np.where(rng.random(shape) < 0.1, rng.choice(special, shape), x), dtype)


def forward(shape, dtype, probability, state, fuse, rng):
    """Two dropouts of one step, the second with the state of the next step, and arithmetic between."""
    kind = f"tensor<{''.join(f'{size}x' for size in shape)}{dtype}>"
    text = f"""func.func @f(%x: {kind} {{te.name = "x"}}, %s: tensor<2xi32> {{te.name = "s"}})
    -> ({kind} {{te.name = "y"}}, {kind} {{te.name = "z"}}) {{
  %y = te.dropout %x rng %s {{probability = {probability} : f32}} : {kind}
  %twice = arith.addf %y, %y : {kind}
  %next = te.rng_advance %s {{count = 3 : i32}}
  %z = te.dropout %twice rng %next {{probability = {probability} : f32, stream = 5 : i32}} : {kind}
  return %y, %z : {kind}, {kind}
}}"""
    x = drawn(rng, shape, dtype)
    found = run(text, "f", {"x": x, "s": np.array(state, dtype=np.int32)}, f"fuse={fuse} {TARGET}")
    count = int(np.prod(shape))
    first = factors(count, state, 0, probability).reshape(shape)
    second = factors(count, (state[0], state[1] + 3), 5, probability).reshape(shape)
    with np.errstate(all="ignore"):
        y = in_file(widened(x, dtype) * first, dtype)
        twice = in_file(widened(y, dtype) + widened(y, dtype), dtype)
        z = in_file(widened(twice, dtype) * second, dtype)
    name = f"{kind}, probability {probability}, state {state}, fuse={fuse}"
    expect(same(found["y"], y), f"y of {name}")
    expect(same(found["z"], z), f"z of {name}")
    forget_last_run()


def gradient(shape, dtype, probability, state, rng):
    kind = f"tensor<{''.join(f'{size}x' for size in shape)}{dtype}>"
    text = f"""func.func @f(%x: {kind} {{te.name = "x"}}, %s: tensor<2xi32> {{te.name = "s"}}) -> ({kind} {{te.name = "y"}}) {{
  %y = te.dropout %x rng %s {{probability = {probability} : f32, stream = 1 : i32}} : {kind}
  return %y : {kind}
}}"""
    x, dy = drawn(rng, shape, dtype), drawn(rng, shape, dtype)
    arrays = {"x": x, "s": np.array(state, dtype=np.int32), "grad.y": dy}
    found = run(text, "f", arrays, TARGET, vjp=True)
    with np.errstate(all="ignore"):
        wanted = widened(dy, dtype) * factors(int(np.prod(shape)), state, 1, probability).reshape(shape)
        wanted = in_file(wanted, dtype)
    expect(same(found["grad.x"], wanted), f"gradient of {kind}, probability {probability}, state {state}")
    forget_last_run()


def attention(shape, causal, rng, packed):
    """Attention of `shape` (batch, sequence, heads, kv_heads, width) in f64 with the same zeros, and its gradients.

    packed: the sequences are documents.
    """
    batch, length, heads, kv_heads, width = shape
    tokens, group, probability, state = batch * length, heads // kv_heads, 0.3, (11, -4)
    of = lambda heads: f"tensor<{tokens}x{heads * width}xf32>"
    attributes = f"heads = {heads} : i64, kv_heads = {kv_heads} : i64, sequence = {length} : i64{', causal' * causal}"
    documents = f" documents %d : tensor<{batch + 1}xi32>" * packed
    text = f"""func.func @f(%q: {of(heads)} {{te.name = "q"}}, %k: {of(kv_heads)} {{te.name = "k"}}, %v: {of(kv_heads)} {{te.name = "v"}},
    %s: tensor<2xi32> {{te.name = "s"}}, %d: tensor<{batch + 1}xi32> {{te.name = "d"}}) -> ({of(heads)} {{te.name = "y"}}) {{
  %y = te.attention %q, %k, %v{documents} rng %s {{{attributes}, dropout = {probability} : f32, stream = 9 : i32}} : {of(heads)}, {of(kv_heads)}
  return %y : {of(heads)}
}}"""
    q, dy = (rng.standard_normal((tokens, heads * width)).astype(np.float32) for _ in range(2))
    k, v = (rng.standard_normal((tokens, kv_heads * width)).astype(np.float32) for _ in range(2))
    ends = np.arange(batch + 1, dtype=np.int32) * length
    inputs = {"q": q, "k": k, "v": v, "s": np.array(state, np.int32), "d": ends, "grad.y": dy}
    found = run(text, "f", inputs, TARGET, vjp=True)
    # [batch, heads, sequence, width]
    heads_of = lambda x: x.astype(np.float64).reshape(batch, length, -1, width).transpose(0, 2, 1, 3)
    rows_of = lambda x: x.transpose(0, 2, 1, 3).reshape(tokens, -1)
    q, k, v, dy = heads_of(q), heads_of(k).repeat(group, 1), heads_of(v).repeat(group, 1), heads_of(dy)
    m = factors(tokens * heads * length, state, 9, probability, 4).reshape(batch, length, heads, length)
    m = m.transpose(0, 2, 1, 3).astype(np.float64)
    scores = q @ k.swapaxes(2, 3) / width**0.5
    if causal:
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    y = (m * p) @ v
    dp = m * (dy @ v.swapaxes(2, 3))
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / width**0.5
    summed = lambda x: x.reshape(batch, kv_heads, group, length, width).sum(2)
    wanted = {
        "y": y,
        "grad.q": ds @ k,
        "grad.k": summed(ds.swapaxes(2, 3) @ q),
        "grad.v": summed((m * p).swapaxes(2, 3) @ dy),
    }
    for name, value in wanted.items():
        # At most three sums of up to 37 products in f32: off by about 3 * 37 * 2^-24 < 1e-5 of the largest.
        error = np.abs(found[name] - rows_of(value)).max() / np.abs(value).max()
        expect(error < 1e-5, f"{name} of attention {shape}{' causal' * causal}{' packed' * packed}: {error}")
    forget_last_run()


rng = np.random.default_rng(0)
for (i, shape), dtype in itertools.product(enumerate(SHAPES), ("f32", "bf16", "f16")):
    for j, probability in enumerate(PROBABILITIES):
        state = STATES[(i + j) % len(STATES)]
        forward(shape, dtype, probability, state, ("true", "false")[(i + j) % 2], rng)
    gradient(shape, dtype, PROBABILITIES[i % 4], STATES[i % 3], rng)

# On a GPU, cuDNN chooses the zeros of attention.
if BACKEND == "reference":
    for shape in ((2, 16, 4, 4, 8), (1, 37, 4, 2, 16), (3, 5, 2, 1, 4)):
        for causal, packed in itertools.product((False, True), repeat=2):
            attention(shape, causal, rng, packed)

# The share of zeros is the probability, and streams, offsets and seeds are independent.
count = 1 << 20
for probability in (0.1, 0.5):
    masks = [
        factors(count, state, stream, probability) == 0
        for state, stream in (((1, 0), 0), ((1, 1), 0), ((2, 0), 0), ((1, 0), 1))
    ]
    spread = 5 * (probability * (1 - probability) / count) ** 0.5
    for mask in masks:
        expect(abs(mask.mean() - probability) < spread, f"share of zeros {mask.mean()} for {probability}")
    for a, b in itertools.combinations(masks, 2):
        both = (a & b).mean()
        expect(abs(both - probability**2) < spread, f"share of common zeros {both} for {probability}")
finish("dropout-is-exact")
