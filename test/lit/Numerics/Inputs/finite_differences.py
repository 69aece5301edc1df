"""Gradients of te-run against central differences; central_differences.py says how, and derives the bounds."""

import math

import numpy as np
from central_differences import H, check, draw, ratios, rng
from harness import expect, finish, from_bf16, run, to_bf16

T = "tensor<5x7xf32>"
a, b = draw(5, 7), draw(5, 7, low=0.5)
# Choices are away from their ties.
a, c = np.where(np.abs(a - b) < 4 * H, b + 1, a).astype(np.float32), draw(5, 7)
for op, forward, roundings in (
    ("addf", lambda v, minus: {"y": v["a"] + v["b"]}, 0),
    ("subf", lambda v, minus: {"y": v["a"] + minus * v["b"]}, 0),
    ("mulf", lambda v, minus: {"y": v["a"] * v["b"]}, 1),
):
    check(op, f"  %y = arith.{op} %a, %b : {T}", {"a": a, "b": b}, {"y": T}, forward, roundings)
# da = dy / b, db = -(dy / b) (a / b): 1 and 3 roundings of one product.
check(
    "divf",
    f"  %y = arith.divf %a, %b : {T}",
    {"a": a, "b": b},
    {"y": T},
    lambda v, minus: {"y": v["a"] / v["b"]},
    slack=lambda v, d: {"a": np.abs(d["y"] / v["b"]), "b": 3 * np.abs(d["y"] * v["a"] / v["b"] ** 2)},
)
check("negf", f"  %y = arith.negf %a : {T}", {"a": a}, {"y": T}, lambda v, minus: {"y": minus * v["a"]}, 0)
# A function of a value, and the error of its derivative: functions are within 4u, log2 within 3u.
for op, x, of, slack in (
    ("exp", a, np.exp, lambda x: 5 * np.exp(x)),
    ("exp2", a, np.exp2, lambda x: 8 * np.exp2(x) * np.log(2)),
    ("log2", np.abs(b), np.log2, lambda x: 4 / (x * np.log(2))),
    # 1 - y * y: y * y within 9; then the difference and the product.
    ("tanh", a, np.tanh, lambda x: 9 * np.tanh(x) ** 2 + 2),
    # 1 / (y + y): sqrt, a sum that is exact, a division.
    ("sqrt", np.abs(b), np.sqrt, lambda x: 1 / np.sqrt(x)),
    ("rsqrt", np.abs(b), lambda x: 1 / np.sqrt(x), lambda x: 2.5 * x**-1.5),
    # exp(-x x) c: the square, exp, and three more roundings.
    ("erf", a, np.vectorize(math.erf), lambda x: (8 + x**2) * 1.13 * np.exp(-(x**2))),
    ("erfc", a, np.vectorize(math.erfc), lambda x: (8 + x**2) * 1.13 * np.exp(-(x**2))),
):
    check(
        op,
        f"  %y = math.{op} %a : {T}",
        {"a": x},
        {"y": T},
        lambda v, minus, of=of: {"y": of(v["a"])},
        slack=lambda v, d, slack=slack: {"a": np.abs(d["y"]) * slack(v["a"])},
    )
# dy * (b a^(b-1)) and dy * (a^b log(a)): the exponent, pow within 1u, log within 2u, and products.
check(
    "powf",
    f"  %y = math.powf %a, %b : {T}",
    {"a": np.abs(b), "b": a},
    {"y": T},
    lambda v, minus: {"y": v["a"] ** v["b"]},
    slack=lambda v, d: {
        "a": np.abs(d["y"] * v["b"] * v["a"] ** (v["b"] - 1)) * (4 + np.abs((v["b"] - 1) * np.log(v["a"]))),
        "b": 6 * np.abs(d["y"] * v["a"] ** v["b"] * np.log(v["a"])),
    },
)
# dy and -dy trunc(a / b), in the middle between multiples.
check(
    "remf",
    f"  %y = arith.remf %a, %b : {T}",
    {"a": ((np.floor(4 * a) + 0.5) * b).astype(np.float32), "b": b},
    {"y": T},
    lambda v, minus: {"y": np.fmod(v["a"], v["b"])},
    slack=lambda v, d: {"a": 0 * v["a"], "b": np.abs(d["y"] * v["a"] / v["b"])},
)

# Copies of dy, 0 or -dy.
CHOICE = f"""  %holds = arith.cmpf ogt, %a, %b : {T}
  %y = arith.select %holds, %a, %c : tensor<5x7xi1>, {T}"""
for title, body, forward in (
    ("absf", f"  %y = math.absf %b : {T}", lambda v, minus: {"y": np.abs(v["b"])}),
    ("maximumf", f"  %y = arith.maximumf %a, %b : {T}", lambda v, minus: {"y": np.maximum(v["a"], v["b"])}),
    ("minimumf", f"  %y = arith.minimumf %a, %b : {T}", lambda v, minus: {"y": np.minimum(v["a"], v["b"])}),
    ("floor", f"  %y = math.floor %a : {T}", lambda v, minus: {"y": np.floor(v["a"])}),
    ("ceil", f"  %y = math.ceil %a : {T}", lambda v, minus: {"y": np.ceil(v["a"])}),
    ("trunc", f"  %y = math.trunc %a : {T}", lambda v, minus: {"y": np.trunc(v["a"])}),
    ("roundeven", f"  %y = math.roundeven %a : {T}", lambda v, minus: {"y": np.rint(v["a"])}),
    ("select", CHOICE, lambda v, minus: {"y": np.where(v["a"] > v["b"], v["a"], v["c"])}),
):
    given = {"a": np.floor(a) + np.float32(0.25) if " math." in body and "absf" not in body else a, "b": b, "c": c}
    zero = lambda v, d: dict.fromkeys(v, np.zeros((5, 7)))
    check(title, body, {name: given[name] for name in given if f"%{name}" in body}, {"y": T}, forward, slack=zero)

check(
    "reshape",
    """  %wide = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
  %y = tensor.collapse_shape %wide [[0], [1, 2]] : tensor<2x3x4xf32> into tensor<2x12xf32>""",
    {"x": draw(6, 4)},
    {"y": "tensor<2x12xf32>"},
    lambda v, minus: {"y": v["x"].reshape(2, 12)},
    0,
)

# At most 2n roundings in a sum of n products, n <= 7 here.
check(
    "linear",
    "  %y = te.linear %x, %w bias %b : tensor<6xf32> : tensor<5x7xf32>, tensor<6x7xf32> -> tensor<5x6xf32>",
    {"x": draw(5, 7), "w": draw(6, 7), "b": draw(6)},
    {"y": "tensor<5x6xf32>"},
    lambda v, minus: {"y": v["x"] @ v["w"].T + v["b"]},
    14,
)

# y is used twice and returned, x three times: up to 4 products and sums.
check(
    "used twice",
    f"""  %y = arith.mulf %x, %x : {T}
  %t = arith.mulf %y, %x : {T}
  %z = arith.subf %t, %y : {T}""",
    {"x": a},
    {"y": T, "z": T},
    lambda v, minus: {"y": v["x"] ** 2, "z": v["x"] ** 3 + minus * v["x"] ** 2},
    8,
)
# Two layers: two forward and backward sums of 2 * 6 roundings, and the sum of w's two gradients.
check(
    "one weight in two layers",
    """  %h = te.linear %x, %w : tensor<5x6xf32>, tensor<6x6xf32> -> tensor<5x6xf32>
  %y = te.linear %h, %w : tensor<5x6xf32>, tensor<6x6xf32> -> tensor<5x6xf32>""",
    {"x": draw(5, 6), "w": draw(6, 6)},
    {"y": "tensor<5x6xf32>"},
    lambda v, minus: {"y": v["x"] @ v["w"].T @ v["w"].T},
    37,
)

# Ids repeat, and two of them are outside the table.
ids = np.array([3, 0, 3, -1, 4, 3, 5, 0], np.int32)


def embedding(v, minus):
    rows = v["table"][np.clip(ids, 0, 4)]
    return {"y": np.where(((ids >= 0) & (ids < 5))[:, None], rows, 0)}


check(
    "embedding",
    "  %y = te.embedding %ids, %table : tensor<8xi32>, tensor<5x3xf32> -> tensor<8x3xf32>",
    {"ids": ids, "table": draw(5, 3)},
    {"y": "tensor<8x3xf32>"},
    embedding,
    7,
)


# Tables that are arguments count as constants; here they are.
COS, SIN = float(np.float32(0.6)), float(np.float32(0.8))


def rope(v, minus):
    a, b, rest = np.split(v["x"].reshape(6, 2, 5), (2, 4), axis=2)
    return {"y": np.concatenate([a * COS + minus * b * SIN, b * COS + a * SIN, rest], axis=2).reshape(6, 10)}


# Two products and a sum.
check(
    "zero_unused",
    """  %used = te.used_rows %cu : tensor<3xi32> -> tensor<6xf32>
  %y = te.zero_unused %x, %used : tensor<6x5xf32>, tensor<6xf32>""",
    {"x": draw(6, 5), "cu": np.array([1, 3, 5], np.int32)},
    {"y": "tensor<6x5xf32>"},
    lambda v, minus: {"y": v["x"] * np.array([0, 1, 1, 1, 1, 0])[:, None]},
    0,
)
check(
    "rope",
    """  %cos = arith.constant dense<0.6> : tensor<3x2xf32>
  %sin = arith.constant dense<0.8> : tensor<3x2xf32>
  %y = te.rope %x, %cos, %sin {heads = 2 : i64} : tensor<6x10xf32>, tensor<3x2xf32>""",
    {"x": draw(6, 10)},
    {"y": "tensor<6x10xf32>"},
    rope,
    3,
)
# The same, with tables of another number of rows, which does not divide that of x.
check(
    "rope of positions",
    """  %cos = arith.constant dense<0.6> : tensor<4x2xf32>
  %sin = arith.constant dense<0.8> : tensor<4x2xf32>
  %p = arith.constant dense<[0, 3, 1, 0, 2, 3]> : tensor<6xi32>
  %y = te.rope %x, %cos, %sin positions %p : tensor<6xi32> {heads = 2 : i64} : tensor<6x10xf32>, tensor<4x2xf32>""",
    {"x": draw(6, 10)},
    {"y": "tensor<6x10xf32>"},
    rope,
    3,
)

# Attention: 2 sequences of 4 tokens, 4 heads of 3 over 2 key-value heads.
B, S, HEADS, GROUP, D = 2, 4, 4, 2, 3
SCALE = float(np.float32(0.7))


def heads_of(matrix, repeat=1):
    """[batch, heads, position, element] of a matrix of tokens."""
    return np.repeat(matrix.reshape(B, S, HEADS // repeat, -1).transpose(0, 2, 1, 3), repeat, axis=1)


def matrix_of(heads, repeat=1):
    """The other way; `repeat` heads are added up."""
    return heads.reshape(B, -1, repeat, S, heads.shape[-1]).sum(axis=2).transpose(0, 2, 1, 3).reshape(B * S, -1)


def attend(v, causal, window, cap):
    """q, k, v and, of every pair of positions, scores, and softmax; k and v once for every head."""
    q, k, w = heads_of(v["q"]), heads_of(v["k"], GROUP), heads_of(v["v"], GROUP)
    scores = SCALE * q @ k.swapaxes(2, 3)
    i, j = np.indices((S, S))
    seen = (j <= i if causal else j < S) & (i - j <= window)
    scores = np.where(seen, cap * np.tanh(scores / cap) if cap else scores, -np.inf)
    sink = v["s"].reshape(1, HEADS, 1, 1) if "s" in v else -np.inf
    top = np.maximum(scores.max(axis=3, keepdims=True), sink)
    lse = np.log(np.exp(scores - top).sum(axis=3, keepdims=True) + np.exp(sink - top)) + top
    return q, k, w, scores, lse


def attention_slack(v, d, causal, window, cap):
    """Scores within sigma = (D + 2) scale sum |q k|; capped, with |x / cap| within the quotient's 1 |x| more, tanh, whose slope is
    at most 1, within 4 and the product within 1, and the slope 1 - t^2 within 2 |t| sigma / cap + 2. A weight exp(s - m) within eta = sigma + 2 max |s| + 4, the sum of S of them
    and the quotient: o within sum p |v| (2 eta + 2 S + 2), lse within eta + S + 4 + |m| + 2 |lse|, so p = exp(s - lse) within
    rho = sigma + that + |s - lse| + 4. Then ds = p (dp - delta) slope with dots of D, and the sums of the gradients. A sink is a term of
    the sum with sigma = 0; its gradient is the sum of B S terms exp(sink - lse) delta, each two operations."""
    q, k, w, scores, lse = attend(v, causal, window, cap)
    sink = v["s"].reshape(1, HEADS, 1, 1) if "s" in v else np.zeros((1, HEADS, 1, 1))
    terms = S + ("s" in v)
    dout = heads_of(d["y"])
    p = np.exp(scores - lse)
    finite = np.where(p > 0, scores, 0.0)
    sigma = (D + 2) * SCALE * np.abs(q) @ np.abs(k).swapaxes(2, 3)
    slope, slope_error = np.ones_like(p), 0.0
    if cap:
        sigma = sigma + SCALE * np.abs(q @ k.swapaxes(2, 3)) + 5 * np.abs(finite)
        slope, slope_error = 1 - (finite / cap) ** 2, 2 * np.abs(finite) / cap * sigma / cap + 2
    sigma = sigma.max(axis=3, keepdims=True)
    top = np.maximum(np.abs(finite).max(axis=3, keepdims=True), np.abs(sink))
    eta = sigma + 2 * top + 4
    o, o_size = p @ w, p @ np.abs(w)
    lse_error = eta + terms + 4 + top + 2 * np.abs(lse)
    rho = sigma + lse_error + np.abs(finite - lse) + 4
    dp, delta = dout @ w.swapaxes(2, 3), np.sum(dout * o, axis=3, keepdims=True)
    values = w.shape[-1]
    dp_error = (values + 1) * np.abs(dout) @ np.abs(w).swapaxes(2, 3)
    delta_error = (values + 1) * np.sum(np.abs(dout * o), axis=3, keepdims=True) + np.sum(
        np.abs(dout) * o_size, axis=3, keepdims=True
    ) * (2 * eta + 2 * terms + 2)
    ds = p * np.abs(dp - delta)
    ds_error = (p * (dp_error + delta_error) + ds * (rho + 2)) * slope + ds * (slope_error + slope)
    ds = ds * slope
    weight = np.exp(sink - lse)
    sink_error = weight * (delta_error + np.abs(delta) * (lse_error + np.abs(sink - lse) + 4 + 2 + B * S))
    return {
        "s": sink_error.sum(axis=(0, 2, 3)),
        "q": SCALE * matrix_of((ds_error + (S + 2) * ds) @ np.abs(k)),
        "k": SCALE * matrix_of((ds_error + (GROUP * S + 2) * ds).swapaxes(2, 3) @ np.abs(q), GROUP),
        "v": matrix_of((p * (rho + GROUP * S + 1)).swapaxes(2, 3) @ np.abs(dout), GROUP),
    }


def attention(v, causal, window, cap):
    q, k, w, scores, lse = attend(v, causal, window, cap)
    return {"y": matrix_of(np.exp(scores - lse) @ w)}


for sinks, seen, *which in (
    ("", "", False, S, None),
    ("", ", causal", True, S, None),
    ("", ", causal, window_size = array<i64: 1, 0>", True, 1, None),
    ("", ", causal, softcap = 1.5 : f32", True, S, 1.5),
    ("sinks %s : tensor<4xf32> ", "", False, S, None),
    ("sinks %s : tensor<4xf32> ", ", causal, window_size = array<i64: 1, 0>, softcap = 1.5 : f32", True, 1, 1.5),
):
    check(
        f"attention {sinks}{seen}",
        f"  %y = te.attention %q, %k, %v {sinks}{{heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, scale = 0.7 : f32{seen}}}"
        " : tensor<8x12xf32>, tensor<8x6xf32>",
        {"q": draw(8, 12), "k": draw(8, 6), "v": draw(8, 6)} | ({"s": draw(HEADS)} if sinks else {}),
        {"y": "tensor<8x12xf32>"},
        lambda v, minus, which=which: attention(v, *which),
        slack=lambda v, d, which=which: attention_slack(v, d, *which),
    )
# Two documents of 4 tokens and an empty one are two sequences.
check(
    "attention of documents",
    "  %cu = arith.constant dense<[0, 4, 4, 8]> : tensor<4xi32>\n"
    "  %y = te.attention %q, %k, %v sinks %s : tensor<4xf32> documents %cu : tensor<4xi32>"
    " {heads = 4 : i64, kv_heads = 2 : i64, sequence = 8 : i64, scale = 0.7 : f32, causal} : tensor<8x12xf32>, tensor<8x6xf32>",
    {"q": draw(8, 12), "k": draw(8, 6), "v": draw(8, 6), "s": draw(HEADS)},
    {"y": "tensor<8x12xf32>"},
    lambda v, minus: attention(v, True, S, None),
    slack=lambda v, d: attention_slack(v, d, True, S, None),
    pipeline="target=reference",
)
check(
    "attention of values of another size",
    "  %y = te.attention %q, %k, %v {heads = 4 : i64, kv_heads = 2 : i64, sequence = 4 : i64, scale = 0.7 : f32, causal}"
    " : tensor<8x12xf32>, tensor<8x6xf32>, tensor<8x10xf32> -> tensor<8x20xf32>",
    {"q": draw(8, 12), "k": draw(8, 6), "v": draw(8, 10)},
    {"y": "tensor<8x20xf32>"},
    lambda v, minus: attention(v, True, S, None),
    slack=lambda v, d: attention_slack(v, d, True, S, None),
)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x * (0.5 + 0.5 * np.tanh(x * (0.79788456 + 0.03567741 * x * x)))


def sigmoid_slopes(z):
    """(slope, slack) of c s with s = sigmoid(z), z = slope c: z s (1 - s) + s. z is within 1u, which moves s by at most |z| s (1 -
    s); s is within that and 6u (exp 4, sum 1, quotient 1), so 1 - s within 6u s + 1u (1 - s)."""
    s = sigmoid(z)
    moved = np.abs(z) * s * (1 - s)
    return moved + s, moved * 11 + np.abs(z) * s * (6 * s + moved) + 8 * s + moved


def gelu_parts(x):
    """(value, derivative, slack of the value, slack of the derivative). The argument of tanh is within 8u (constants of 8 digits
    2, operations 6), which moves tanh by at most 8u * 0.448, plus its own 4u: t within 8u, 1 - t^2 within 18u, its factor within
    6u, three products, the sum."""
    inner = 0.79788456 + 0.10703223 * x * x
    t = np.tanh(x * (0.79788456 + 0.03567741 * x * x))
    return (
        gelu(x),
        0.5 * x * (1 - t * t) * inner + 0.5 * (1 + t),
        6 * np.abs(x),
        0.5 * np.abs(x) * inner * (18 + 11 * (1 - t * t)) + 6,
    )


def gelu_erf_parts(x):
    """x Phi(x). z = x^2 / 2 is within 1u, so the bell b = e^-z is within (z + 2)u and a tail of Phi, its ratio within 5u, within
    (z + 8)u; the other side is a difference. The slope is Phi + x c b, one fused sum."""
    z = x * x / 2
    bell = np.exp(-z)
    cdf = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in x.reshape(-1).tolist()]).reshape(x.shape)
    tail = np.minimum(cdf, 1 - cdf)
    error = tail * (z + 8) + cdf
    density = 0.3989422804014327 * np.abs(x) * bell
    return (
        x * cdf,
        cdf + 0.3989422804014327 * x * bell,
        np.abs(x) * (error + cdf),
        error + density * (z + 5) + cdf + density,
    )


def sigmoid_parts(x, slope=1.0, limit=np.inf):
    c = np.minimum(x, limit)
    z = slope * c
    size, slack = sigmoid_slopes(z)
    s = sigmoid(z)
    return (
        c * s,
        np.where(x > limit, 0, z * s * (1 - s) + s),
        np.abs(c) * (8 * s + np.abs(z) * s * (1 - s)),
        np.where(x > limit, 0, slack + size),
    )


def glu_parts(x):
    s = sigmoid(x)
    return s, s * (1 - s), 6 * s, s * (13 * (1 - s) + 6 * s + 1)


def relu_parts(x):
    return np.maximum(x, 0), (x > 0) * 1.0, 0 * x, 0 * x


def srelu_parts(x):
    return np.maximum(x, 0) ** 2, 2 * np.maximum(x, 0), x * x, 0 * x


def check_activation(kind, parts, gate=None, attributes=""):
    """`parts` as gelu_parts; `gate(b)` is (gate, its derivative) of a gated kind. x is kept off the kinks, which are at 0 and, of
    the clamp, at multiples of 1.25."""

    def kept_off(x):
        return np.where(np.abs(x / 1.25 - np.rint(x / 1.25)) < 0.01, x + 0.05, x).astype(np.float32)

    def forward(v, minus):
        if gate is None:
            return {"y": parts(v["x"])[0]}
        first, second = np.split(v["x"], 2, axis=1)
        return {"y": parts(first)[0] * gate(second)[0]}

    def slack(v, d):
        """Of d_first = (act' dy) gate and d_second = (act dy) gate'; the gate is within 1u."""
        if gate is None:
            _, slope, _, error = parts(v["x"])
            return {"x": np.abs(d["y"]) * (error + np.abs(slope))}
        first, second = np.split(v["x"], 2, axis=1)
        value, slope, value_error, slope_error = parts(first)
        factor, open_ = gate(second)
        return {
            "x": np.concatenate(
                [
                    np.abs(d["y"] * factor) * (slope_error + 3 * np.abs(slope)),
                    np.abs(d["y"]) * open_ * (value_error + np.abs(value)),
                ],
                axis=1,
            )
        }

    x = kept_off(4 * rng.random((5, 8)) * np.sign(draw(5, 8)) + draw(5, 8))
    y = f"tensor<5x{8 if gate is None else 4}xf32>"
    if gate is not None:
        # The same halves, apart.
        first, second = (np.ascontiguousarray(half) for half in np.split(x, 2, axis=1))

        def together(v):
            return {"x": np.concatenate([v["x"], v["g"]], axis=1)}

        def apart_slack(v, d):
            halves = np.split(slack(together(v), d)["x"], 2, axis=1)
            return {"x": halves[0], "g": halves[1]}

        check(
            f"{kind} of two",
            f"  %y = te.activation <{kind}> %x, %g{attributes} : {y}, {y} -> {y}",
            {"x": first, "g": second},
            {"y": y},
            lambda v, minus: forward(together(v), minus),
            slack=apart_slack,
        )
    check(
        kind,
        f"  %y = te.activation <{kind}> %x{attributes} : tensor<5x8xf32> -> {y}",
        {"x": x},
        {"y": y},
        forward,
        slack=slack,
    )


def identity(b):
    return b, np.ones_like(b)


def clamp(b):
    return np.clip(b, -2.5, 2.5) + 0.5, (np.abs(b) <= 2.5) * 1.0


QUICK = float(np.float32(1.702))
for plain, gated, parts in (
    ("gelu", "geglu", gelu_parts),
    ("gelu_erf", "geglu_erf", gelu_erf_parts),
    ("silu", "swiglu", sigmoid_parts),
    ("relu", "reglu", relu_parts),
    ("srelu", "sreglu", srelu_parts),
    (None, "glu", glu_parts),
    ("qgelu", "qgeglu", lambda x: sigmoid_parts(x, QUICK)),
):
    if plain:
        check_activation(plain, parts)
    check_activation(gated, parts, identity)
check_activation(
    "clamped_swiglu", lambda x: sigmoid_parts(x, QUICK, 2.5), clamp, " {limit = 2.5 : f32, offset = 0.5 : f32}"
)

EPSILON = float(np.float32(1e-2))
for centred in (False, True):

    def norm(v, minus, centred=centred):
        r = 1 / np.sqrt(np.mean(v["x"] ** 2, axis=1, keepdims=True) + EPSILON)
        return {"y": (v["gamma"] + centred) * (r * v["x"])}

    def norm_slack(v, d, centred=centred):
        """The sum of K squares within K + 8 (256 lanes and their tree), so rsigma within rho = (K + 10) / 2 + 2; then
        dx = r (g dy - h mean(g dy h)) with h = r x within rho + 1, and dgamma = sum over M rows of dy h."""
        x, g, dy = v["x"], v["gamma"] + centred, d["y"]
        rows, columns = x.shape
        rho = (columns + 10) / 2 + 2
        r = 1 / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + EPSILON)
        mean = np.mean(np.abs(g * dy * r * x), axis=1, keepdims=True)
        return {
            "x": r * np.abs(g * dy) * (rho + 4) + r * np.abs(r * x) * mean * (3 * rho + columns + 17),
            "gamma": (rho + rows + 3) * np.sum(np.abs(dy * r * x), axis=0),
        }

    check(
        f"rms_norm{', zero-centred gamma' * centred}",
        f"  %y = te.rms_norm %x, %gamma {{epsilon = 1.0e-2 : f32, zero_centered_gamma = {str(centred).lower()}}} : {T}, tensor<7xf32>",
        {"x": draw(5, 7), "gamma": draw(7)},
        {"y": T},
        norm,
        slack=norm_slack,
    )

    def layer_norm(v, minus, centred=centred):
        d = v["x"] - np.mean(v["x"], axis=1, keepdims=True)
        r = 1 / np.sqrt(np.mean(d * d, axis=1, keepdims=True) + EPSILON)
        return {"y": (v["gamma"] + centred) * (r * d) + v["beta"]}

    def layer_norm_slack(v, cotangent, centred=centred):
        """The mean within e = (K + 10) mean |x|, which shifts every d = x - mu; so the sum of squares within 2 e sum |d| / sum d^2
        and K + 12, rsigma within half of that and 4: rho. h = r d within rho + 2 and r e. The mean of g dy within K + 12, that of
        g dy h within that and the error of h."""
        x, g, dy = v["x"], v["gamma"] + centred, cotangent["y"]
        rows, columns = x.shape

        def mean(a):
            return np.mean(a, axis=1, keepdims=True)

        shift = (columns + 10) * mean(np.abs(x))
        d = x - mean(x)
        r = 1 / np.sqrt(mean(d * d) + EPSILON)
        rho = (2 * shift * mean(np.abs(d)) / mean(d * d) + columns + 12) / 2 + 4
        h, grad = r * d, np.abs(g * dy)
        h_error = np.abs(h) * (rho + 2) + r * shift
        c1, c2 = mean(g * dy), mean(g * dy * h)
        c1_error = (columns + 12) * mean(grad)
        c2_error = (columns + 12) * mean(grad * np.abs(h)) + mean(grad * h_error)
        inner = g * dy - c1 - h * c2
        error = 3 * grad + np.abs(g * dy - c1) + c1_error + np.abs(h * c2) + h_error * np.abs(c2) + np.abs(h) * c2_error
        return {
            "x": r * error + r * np.abs(inner) * (rho + 2),
            "gamma": np.sum(np.abs(dy) * (h_error + (rows + 3) * np.abs(h)), axis=0),
            "beta": rows * np.sum(np.abs(dy), axis=0),
        }

    check(
        f"layer_norm{', zero-centred gamma' * centred}",
        f"  %y = te.layer_norm %x, %gamma, %beta {{epsilon = 1.0e-2 : f32, zero_centered_gamma = {str(centred).lower()}}} : "
        f"{T}, tensor<7xf32>",
        {"x": draw(5, 7) + np.float32(0.5), "gamma": draw(7), "beta": draw(7)},
        {"y": T},
        layer_norm,
        slack=layer_norm_slack,
    )

for scale in (1.0, 0.75):

    def softmax(v, minus, scale=scale):
        e = np.exp(scale * v["x"] - np.max(scale * v["x"], axis=1, keepdims=True))
        return {"y": e / np.sum(e, axis=1, keepdims=True)}

    def softmax_slack(v, d, scale=scale):
        """s = scale x within |s|, so s - max within 2 max |s| and the largest |s - max|, its exponential within that and 4, the
        sum of K within K + 8 more, the inverse and the product 1 each: y within rho. dy y within rho + 1, their sum within K + 8
        more; then a difference and two products."""
        s, y, dy = scale * v["x"], softmax(v, -1.0)["y"], d["y"]
        columns = s.shape[1]
        spread = np.max(s, axis=1, keepdims=True) - np.min(s, axis=1, keepdims=True)
        rho = 2 * (2 * np.max(np.abs(s), axis=1, keepdims=True) + spread + 4) + columns + 10
        mean, size = (np.sum(a, axis=1, keepdims=True) for a in (dy * y, np.abs(dy * y)))
        return {"x": scale * y * (np.abs(dy - mean) * (rho + 3) + size * (rho + columns + 9))}

    check(
        f"softmax of {scale} x",
        f"  %y = te.softmax %x {{scale = {scale} : f32}} : {T}",
        {"x": 3 * draw(5, 7)},
        {"y": T},
        softmax,
        slack=softmax_slack,
    )

for title, targets, attribute in (
    ("cross_entropy", [2, 0, 6, 3, 3], ""),
    ("cross_entropy, ignored", [2, -100, 6, 3, -100], ""),
    ("cross_entropy, ignore_index", [2, 3, 6, 3, 0], " {ignore_index = 3 : i32}"),
    ("cross_entropy, all ignored", [-100] * 5, ""),
):
    targets = np.array(targets, np.int32)
    counted = targets != (3 if attribute else -100)

    def loss(v, minus, targets=targets, counted=counted):
        x = v["x"].astype(np.float64)
        top = x.max(axis=1)
        lse = top + np.log(np.exp(x - top[:, None]).sum(axis=1))
        each = lse - x[np.arange(5), np.clip(targets, 0, 6)]
        return {"y": np.sum(each * counted) / max(counted.sum(), 1)}

    def loss_slack(v, d, targets=targets, counted=counted):
        """lse = max + log(sum exp(x - max)): the sum within D + 4 + V + 8, D the largest |x - max|; log 2, the sum 1.
        Then exp(x - lse) - [target], times dloss / count."""
        x = v["x"]
        top = x.max(axis=1, keepdims=True)
        log = np.log(np.exp(x - top).sum(axis=1, keepdims=True))
        lse, hot = top + log, np.eye(7)[np.clip(targets, 0, 6)]
        p, spread = np.exp(x - lse), (top - x).max(axis=1, keepdims=True)
        error = p * (spread + 7 + 16 + 2 * log + np.abs(lse) + np.abs(x - lse)) + 3 * np.abs(p - hot)
        return {"x": np.abs(d["y"]) / max(counted.sum(), 1) * error * counted[:, None]}

    check(
        title,
        f"  %y = te.cross_entropy %x, %targets{attribute} : {T}, tensor<5xi32>",
        {"x": 3 * draw(5, 7), "targets": targets},
        {"y": "tensor<f32>"},
        loss,
        slack=loss_slack,
    )

# Differences say nothing of a conversion; its gradient is the conversion of the cotangent, to the bit.
c = draw(5, 7)
cast = run(
    """func.func @f(%x: tensor<5x7xf32> {te.name = "x"}, %h: tensor<5x7xbf16> {te.name = "h"})
    -> (tensor<5x7xbf16> {te.name = "narrow"}, tensor<5x7xf32> {te.name = "wide"}) {
  %narrow = arith.truncf %x : tensor<5x7xf32> to tensor<5x7xbf16>
  %wide = arith.extf %h : tensor<5x7xbf16> to tensor<5x7xf32>
  return %narrow, %wide : tensor<5x7xbf16>, tensor<5x7xf32>
}
""",
    "f",
    {"x": a, "h": to_bf16(b), "grad.narrow": to_bf16(c), "grad.wide": b},
    vjp=True,
)
expect(cast["narrow"].tobytes() == to_bf16(a).tobytes(), "truncf rounds to nearest even")
expect(cast["wide"].tobytes() == from_bf16(to_bf16(b)).tobytes(), "extf is exact")
expect(cast["grad.x"].tobytes() == from_bf16(to_bf16(c)).tobytes(), "the gradient of truncf is extf of the cotangent")
expect(cast["grad.h"].tobytes() == to_bf16(b).tobytes(), "the gradient of extf is truncf of the cotangent")

for title, worst in ratios.items():
    print(f"{title}: largest error / bound {worst:.3f}")
expect(max(ratios.values()) > 0.01, "the bounds are near what is observed")
finish("finite-differences")
