"""Gradients of each supported operation, compared with autograd, in float32 and `high_precision`.

The operands of each function are results of linear layers, so that the gradients of their weights
show the gradients of the operands. No node may stay in PyTorch.
"""

import math
import warnings

import pytest

torch = pytest.importorskip("torch")

from models import RMSNorm, repeat_kv, rotate_half
from torch import nn
from torch.nn import functional as F

import te_mlir.torch
from te_mlir.errors import ImportFailure

BATCH, SEQUENCE, WIDTH, HEADS = 2, 8, 32, 4


class Op(nn.Module):
    """`function` of `count` linear layers of x, and of the members that `make` adds."""

    def __init__(self, function, count=1, **make):
        super().__init__()
        # With several layers there are no biases, because the bias of keys has no gradient.
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=count == 1) for _ in range(count))
        self.function = function
        for name, made in make.items():
            if isinstance(made(), (nn.Parameter, nn.Module)):
                setattr(self, name, made())
            else:
                self.register_buffer(name, made())

    def forward(self, x):
        return self.function(self, *(layer(x) for layer in self.layers))


def op(name, function, count=1, **make):
    return pytest.param(lambda: Op(function, count, **make), id=name)


def heads(x, count=HEADS):
    return x.view(BATCH, SEQUENCE, count, -1).transpose(1, 2)


def attend(q, k, v, **options):
    return F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2).reshape(BATCH, SEQUENCE, -1)


def tables(place, width=WIDTH // HEADS):
    angles = torch.arange(SEQUENCE)[:, None] / 10.0 ** (torch.arange(0, width, 2) / 4)
    return getattr(torch.cat([angles, angles], -1)[None, None], place)()


def pairs(place, width=WIDTH // HEADS):
    return tables(place, width)[..., : width // 2].repeat_interleave(2, -1)


def rotate_pairs(x):
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


def turn_a_part(x, cos, sin, rotate=rotate_half):
    turned, passed = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    return torch.cat([turned * cos + rotate(turned) * sin, passed], -1)


def half_tables(place):
    return tables(place)[..., : WIDTH // HEADS // 2].contiguous()


def turn_halves(h, cos, sin):
    """A rotary embedding as in gpt-oss of transformers, with tables of half the width."""
    first, second = h.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def turn_numbers(h, numbers):
    """A rotary embedding as in Llama's own code, of [batch, sequence, heads, width]."""
    turned = torch.view_as_complex(h.float().reshape(*h.shape[:-1], -1, 2)) * numbers
    return torch.view_as_real(turned).flatten(3).type_as(h)


def complex_numbers():
    """Numbers of length 1, [sequence, 1, width / 2]."""
    return torch.complex(half_tables("cos"), half_tables("sin"))[0, 0].unsqueeze(1)


def turn_slices(h, cos, sin):
    middle = h.shape[-1] // 2
    one = cos * h[..., :middle] - sin * h[..., middle:]
    return torch.cat((one, h[..., :middle] * sin + h[..., middle:] * cos), -1)


def layer():
    return nn.Linear(WIDTH, WIDTH)


def normed(dim):
    return lambda: nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH), dim=dim)


def weight(*shape):
    return lambda: nn.Parameter(torch.randn(*shape) / 4 + 1)


def ids():
    return torch.arange(BATCH * SEQUENCE).view(BATCH, SEQUENCE) * 5 % 16


OPS = [
    op("linear-of-linear", lambda m, x: m.last(x), last=lambda: nn.Linear(WIDTH, 24)),
    op("linear-no-bias", lambda m, x: m.last(x), last=lambda: nn.Linear(WIDTH, 24, bias=False)),
    op("matmul", lambda m, x: x @ m.w.t(), w=weight(24, WIDTH)),
    op("matmul-in-out", lambda m, x: x @ m.w, w=weight(WIDTH, 24)),
    op("matmul-of-a-sum-in-out", lambda m, x: x @ (m.a + m.b * 2), a=weight(WIDTH, 24), b=weight(WIDTH, 24)),
    op(
        "addmm-of-a-product",
        lambda m, x: torch.addmm(m.c, x[0], m.a @ m.b),
        a=weight(WIDTH, 4),
        b=weight(4, 24),
        c=weight(24),
    ),
    op("matmul-numpy-T", lambda m, x: x @ m.a.T @ m.b.T * 2 + x, a=weight(16, WIDTH), b=weight(WIDTH, 16)),
    op("matmul-mT", lambda m, x: x @ m.a.mT @ m.b.mT * 2 + x, a=weight(16, WIDTH), b=weight(WIDTH, 16)),
    op("addmm-in-out", lambda m, x: torch.addmm(m.b, x.view(-1, WIDTH), m.w), w=weight(WIDTH, 24), b=weight(24)),
    op(
        "qkv-in-out",
        lambda m, x: attend(
            *map(heads, torch.addmm(m.b, x.view(-1, WIDTH), m.w).view(BATCH, SEQUENCE, -1).split(WIDTH, 2))
        ),
        w=weight(WIDTH, 3 * WIDTH),
        b=lambda: nn.Parameter(torch.cat([torch.randn(WIDTH), torch.full((WIDTH,), 0.5), torch.randn(WIDTH)])),
    ),
    op("addmm", lambda m, x: torch.addmm(m.b, x.view(-1, WIDTH), m.w.t()), w=weight(24, WIDTH), b=weight(24)),
    op("embedding", lambda m, x: x + m.table(m.ids), table=lambda: nn.Embedding(16, WIDTH), ids=ids),
    op("rms_norm", lambda m, x: F.rms_norm(x, (WIDTH,), m.w, 1e-5), w=weight(WIDTH)),
    op("rms_norm-by-hand", lambda m, x: m.norm(x), norm=lambda: RMSNorm(WIDTH)),
    op("rms_norm-centred", lambda m, x: m.norm(x), norm=lambda: RMSNorm(WIDTH, centered=True)),
    op("layer_norm", lambda m, x: F.layer_norm(x, (WIDTH,), m.w, m.b, 1e-5), w=weight(WIDTH), b=weight(WIDTH)),
    op("layer_norm-no-bias", lambda m, x: F.layer_norm(x, (WIDTH,), m.w, None, 1e-5), w=weight(WIDTH)),
    op("layer_norm-no-weight", lambda m, x: F.layer_norm(x, (WIDTH,))),
    op("softmax", lambda m, x: F.softmax(x, -1)),
    op("softmax-of-a-product", lambda m, x: F.softmax(x * 3, dim=2)),
    op("softmax-by-hand", lambda m, x: (lambda e: e / e.sum(-1, keepdim=True))((x - x.amax(-1, keepdim=True)).exp())),
    op("softmax-of-heads", lambda m, x: F.softmax(heads(x), -1).transpose(1, 2).reshape(x.shape)),
    op(
        "vmap",
        lambda m, x: torch.vmap(torch.vmap(lambda row: F.silu(m.last(row)) * m.g))(x),
        last=layer,
        g=weight(WIDTH),
    ),
    op("softplus", lambda m, x: F.softplus(x * 8) + F.softplus(x, 2.0)),
    op("logarithms", lambda m, x: torch.log(x.abs() + 1) + torch.log1p(x * x) + F.logsigmoid(x) + F.mish(x)),
    op("sines", lambda m, x: torch.sin(x * 40) * torch.cos(x) + torch.expm1(x / 100)),
    op("elu", lambda m, x: F.elu(x) + F.elu(x * 200, 0.5) + F.selu(x) + F.celu(x, 0.7)),
    op("glu", lambda m, x: F.glu(x)),
    op("mse_loss", lambda m, x, y: F.mse_loss(x, y) + F.mse_loss(x, y, reduction="none") * F.l1_loss(x, y), 2),
    op("l1_loss", lambda m, x, y: F.l1_loss(x, y, reduction="sum"), 2),
    op("interpolation", lambda m, x, y: torch.lerp(x, y, 0.3) + torch.addcmul(x, y, y, value=0.5), 2),
    # Equal elements, of which the first has the gradient.
    op(
        "maxima-of-equals",
        lambda m, x: F.relu(x).max(1, keepdim=True).values * x.min(-1, keepdim=True).values + x.max(),
    ),
    op("cumsum", lambda m, x: x.cumsum(1) + x.cumsum(-1)),
    op("flip-and-roll", lambda m, x: x.flip(1, -1) * x.roll((2, -3), (1, 2)) + x.roll(0, 1)),
    op("relus", lambda m, x: F.hardswish(x * 5) + F.hardsigmoid(x * 5) + F.relu6(x * 8) + F.threshold(x, 0.1, 0.2)),
    op("shrinks", lambda m, x: F.hardshrink(x) * x + F.softshrink(x) + F.softsign(x) + F.tanhshrink(x)),
    op("prelu", lambda m, x: F.prelu(x, m.one) + F.prelu(x, m.each), one=weight(1), each=weight(SEQUENCE)),
    op(
        "in-place",
        lambda m, x: (
            F.hardswish(x * 5, inplace=True)
            + F.leaky_relu(x * 1, 0.2, inplace=True)
            + (x * 1).clamp_(-0.5, 0.5)
            + (x * 1).masked_fill_(m.ids.unsqueeze(-1) > 3, 0.0)
        ),
        ids=ids,
    ),
    op(
        "group_norm",
        lambda m, x: F.group_norm(x, 4, m.w, m.b) + F.group_norm(x.view(BATCH, SEQUENCE, 4, -1), 2).view_as(x),
        w=weight(SEQUENCE),
        b=weight(SEQUENCE),
    ),
    op("instance_norm", lambda m, x: F.instance_norm(x, weight=m.w, bias=m.w), w=weight(SEQUENCE)),
    op(
        "batch_norm",
        lambda m, x: F.batch_norm(x, m.mean, m.mean.exp(), m.w, m.w),
        w=weight(SEQUENCE),
        mean=lambda: torch.linspace(-1, 1, SEQUENCE),
    ),
    op(
        "norms-of-several-dimensions",
        lambda m, x: F.layer_norm(x, x.shape[1:], m.w, m.w) + F.rms_norm(x, x.shape[1:], m.w),
        w=weight(SEQUENCE, WIDTH),
    ),
    op(
        "deviation-and-mean",
        lambda m, x: math.prod(torch.var_mean(x, 1, keepdim=True)) + sum(torch.std_mean(x, -1, keepdim=True)) + x,
    ),
    op(
        "orders-of-norms",
        lambda m, x: (
            x / x.norm(1, -1, True) + x / x.norm(math.inf, 1, True) + x * torch.linalg.matrix_norm(x)[:, None, None]
        ),
    ),
    op(
        "binary-cross-entropy",
        lambda m, x, y: (
            F.binary_cross_entropy_with_logits(x, m.t, pos_weight=m.t[0, 0] + 1)
            + F.binary_cross_entropy_with_logits(x, y.sigmoid(), m.t, reduction="none")
        ),
        2,
        t=lambda: torch.linspace(0, 1, 512).view(2, 8, 32),
    ),
    op(
        "huber",
        lambda m, x, y: (
            F.huber_loss(x, y, delta=0.3) * F.smooth_l1_loss(x, y) + F.smooth_l1_loss(x, y, reduction="none", beta=2)
        ),
        2,
    ),
    op(
        "divergence",
        lambda m, x, y: (
            F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean")
            + F.kl_div(x, m.t, reduction="none")
            + F.kl_div(x, y, log_target=True)
        ),
        2,
        t=lambda: torch.arange(512).view(2, 8, 32) % 3 / 2,
    ),
    op("cosine_similarity", lambda m, x, y: F.cosine_similarity(x[:, None], y[:, :, None], -1), 2),
    op(
        "cross_entropy-of-each-row",
        lambda m, x: F.cross_entropy(x.view(-1, WIDTH), m.ids.view(-1), ignore_index=5, reduction="none"),
        ids=ids,
    ),
    op(
        "cross_entropy-of-channels",
        lambda m, x, y: F.cross_entropy(x * y, m.ids[:, :1].expand(-1, WIDTH) % SEQUENCE, ignore_index=0),
        2,
        ids=lambda: ids() + 3,
    ),
    op(
        "cross_entropy-smoothed",
        lambda m, x: F.cross_entropy(x.view(-1, WIDTH), m.ids.view(-1), m.classes, ignore_index=5, label_smoothing=0.1),
        ids=ids,
        classes=lambda: torch.linspace(0.5, 2, WIDTH),
    ),
    op("cross_entropy-of-probabilities", lambda m, x, y: F.cross_entropy(x.flatten(0, 1), y.flatten(0, 1)), 2),
    op(
        "products",
        lambda m, x, y: (
            torch.baddbmm(x[..., :8], x, y.mT, beta=0.5, alpha=2)
            + torch.addmm(x[0, :, :8], x[0], y[1].T, alpha=2)
            + torch.outer(x[0, :, 0], y[0, 0, :8])
            + torch.dot(x[0, 0], y[0, 1])
            + torch.vdot(x[1, 0], y[0, 2])
            + x[1].mv(y[1, 1])
        ),
        2,
    ),
    op(
        "products-of-repeated-batches",
        lambda m, x, y: torch.matmul(x[:, None], y[None].mT) + x[None] @ y[:1, None].mT,
        2,
    ),
    op("einsum-of-elements", lambda m, x, y: torch.einsum("bsd,bsd,bd->sbd", x, y, x[:, 0]), 2),
    op("einsum-with-dots", lambda m, x, y: torch.einsum("...sd,...td", x, y), 2),
    op("triangles", lambda m, x: x.tril() * x.triu(-3) + x.triu(2)),
    op(
        "rows-at-indices",
        lambda m, x: (
            x.index_select(1, m.at) * x.index_select(0, m.at % 2)[:1, :3] + x[..., m.at].sum(-1, keepdim=True)[:, :3]
        ),
        at=lambda: torch.tensor([3, 1, 1]),
    ),
    op(
        "convolutions-of-one-place",
        lambda m, x: (
            F.conv1d(x.mT, m.w, groups=2).mT
            + F.conv1d(x.mT, m.w[:, :, None, 0], m.b, groups=2).mT
            + F.conv2d(x[..., None].transpose(1, 2), m.v[..., None], groups=4)[..., 0].mT
        ),
        w=weight(24, WIDTH // 2, 1),
        v=weight(24, WIDTH // 4, 1),
        b=weight(24),
    ),
    op(
        "convolutions-of-channels",
        lambda m, x: F.conv1d(F.conv1d(x.mT, m.w, m.b, groups=WIDTH, padding=3)[..., :-3], m.v, groups=WIDTH).mT,
        w=weight(WIDTH, 1, 4),
        b=weight(WIDTH),
        v=weight(WIDTH, 1, 3),
    ),
    op(
        "masked-scatter",
        lambda m, x, y: x.masked_scatter(m.rows, y) + x.masked_scatter(m.some, y[:, :, 1:] * 2),
        2,
        rows=lambda: torch.arange(BATCH * SEQUENCE).view(BATCH, SEQUENCE, 1) % 3 == 1,
        some=lambda: torch.arange(SEQUENCE * WIDTH).view(SEQUENCE, WIDTH) % 5 == 1,
    ),
    op(
        "pooled-and-resized",
        lambda m, x: (
            F.adaptive_avg_pool1d(x, 1)
            + F.adaptive_avg_pool2d(x[:, None], (4, 16)).mean((1, 2))[:, None, :1]
            + F.interpolate((x * x)[:, None], (SEQUENCE, WIDTH), mode="bilinear")[:, 0]
        ),
    ),
    op("weight-norm", lambda m, x: m.by_rows(x) + m.whole(x), by_rows=normed(0), whole=normed(None)),
    op(
        "patches-of-groups", lambda m, x: F.conv1d(x, m.w, m.b, 4, groups=2), w=weight(6, SEQUENCE // 2, 4), b=weight(6)
    ),
    op(
        "copied-at-indices",
        lambda m, x: (
            x.new_zeros(BATCH, SEQUENCE, 2 * WIDTH).index_copy_(-1, m.at[:WIDTH], x).square()
            + torch.cat([x, x], -1).index_copy(1, m.at[:3] % SEQUENCE, torch.cat([x, 2 * x], -1)[:, :3])
            + torch.cat([x, x], -1).index_copy(0, m.at[:1] % BATCH, torch.cat([x, x.exp()], -1)[1:])
        ),
        at=lambda: torch.arange(2 * WIDTH) * 7 % (2 * WIDTH),
    ),
    op("taken-along", lambda m, x: torch.take_along_dim(x, m.ids.unsqueeze(-1) % SEQUENCE, 1), ids=ids),
    op("windows", lambda m, x: x.unfold(1, 4, 2) * x.unfold(-1, 4, 9).mean()),
    op("scattered-slices", lambda m, x: x.slice_scatter(x[:, :2] * 2, 1, 3, 5) + x.select_scatter(x[:, 0] * 2, 1, -1)),
    op(
        "scaled-terms",
        lambda m, x, y: (
            torch.add(x, y, alpha=2) * torch.sub(x, y, alpha=3) + torch.addcdiv(torch.rsub(x, y, alpha=2), y, x.exp())
        ),
        2,
    ),
    op("whole-powers", lambda m, x: x**5 + (x + 3) ** -2 + x**1 + x**9 + x**0),
    op("any-powers", lambda m, x: (x * x + 0.5) ** 0.3 + (x + 3) ** -1.7 + 2**x + 0.3 ** (x * 2) + x.abs() ** 1.5),
    op("powers-of-elements", lambda m, x, y: x.exp() ** y + (x * x + 1).pow(y[:, :1]), 2),
    op("exponentials", lambda m, x: torch.exp2(x * 9) + (x * x + 0.01).log2() + (x * x + 0.01).log10() + x.expm1()),
    op("error-functions", lambda m, x: torch.erf(x * 3) + torch.erfc(x * 2) * x + torch.special.ndtr(x)),
    op("hyperbolics", lambda m, x: torch.sinh(x * 8) * 0.01 + torch.cosh(x * 8) + torch.sinh(x * x) + torch.tan(x)),
    op("whole-numbers", lambda m, x: x * (x * 9).floor() + x.ceil() * x + x * (x * 7).round() + x * (x * 5).trunc()),
    op("fractions", lambda m, x: (x * 9).frac() + (x * 9).remainder(0.7) + (x * 9).fmod(-0.7) * x + x.remainder(-0.6)),
    op(
        "remainders-of-elements",
        lambda m, x, y: (
            torch.remainder(x * 9, y + 2)
            + torch.fmod(x * 9, y - 2)
            + torch.div(x * 9, y + 2, rounding_mode="floor") * x
            + torch.div(x * 9, y - 2, rounding_mode="trunc") * x
        ),
        2,
    ),
    op("products-of-few", lambda m, x: x.prod(1, keepdim=True) * 1e4 + (x[:, :3] + 2).prod(1).sum(-1)[:, None, None]),
    op(
        "exclusive-conditions",
        lambda m, x, y: (
            torch.where((x > 0) ^ (y > 0), x, 2 * y)
            + torch.where((x > 0) != (y < 0.1), x, 3.0)
            + x * ((x > y) == (y > 0)).float()
        ),
        2,
    ),
    op("logaddexp", lambda m, x, y: torch.logaddexp(x, y) + torch.xlogy(x.exp(), y.exp()), 2),
    op("narrow", lambda m, x: x.narrow(1, 2, 3) + x.narrow(-2, -4, 3)),
    op(
        "shuffles",
        lambda m, x: (lambda y: F.pixel_shuffle(y, 2).flatten(1) * F.pixel_unshuffle(y, 2).flatten(1))(
            F.channel_shuffle(x.view(BATCH, 8, -1, 4), 2)
        ),
    ),
    op("log-softmax", lambda m, x: F.log_softmax(x, -1) + x.log_softmax(1)),
    op("logsumexp", lambda m, x: x.logsumexp(1) @ m.w, w=weight(WIDTH, WIDTH)),
    op("maxima", lambda m, x: x.amax(-1, keepdim=True) * x.amin(1, keepdim=True) + F.relu(x).amax((1, 2), True)),
    op("softmax-of-tokens", lambda m, x: x.softmax(1) * x),
    op("variance", lambda m, x: x * x.var(-1, keepdim=True) + x.std(1, keepdim=True) * x.norm(dim=-1, keepdim=True)),
    op("powers", lambda m, x: x**3 + x**4 + (x * x + 1) ** -0.5 + (x * x + 1).reciprocal() + (x * x + 1).pow(0.5)),
    op("padded", lambda m, x: F.pad(x, (1, 2, -1, 3), value=0.5).square()),
    op("einsum", lambda m, x, y: torch.einsum("bsd,btd->tsb", x, y), 2),
    op("einsum-of-one", lambda m, x: torch.einsum("bsd->db", x)),
    op("gather-of-columns", lambda m, x: x.gather(2, m.ids.unsqueeze(-1).expand(-1, -1, 5)), ids=ids),
    op("conditions-as-numbers", lambda m, x: x * (x > 0.25).float() + torch.where((x > 0)[:, :1], x, 2 * x)),
    op("products-with-conditions", lambda m, x: x * (x > 0.25) + (x[:, :1] > 0) * x.exp() * ((x > 0) & (x < 1))),
    op(
        "any-and-all",
        lambda m, x: (
            torch.where((x > 1.5).any(-1, keepdim=True), x, 2 * x)
            + torch.where((x > -1.2).all(1), x[:, 0], 3.0)[:, None]
            + x.masked_fill((x > 0).any() & ~(x > 0).all(), 4.0)
        ),
    ),
    op("steps-that-do-not-divide", lambda m, x: x[:, ::3, 1:30:4].square()),
    op("tile", lambda m, x: torch.tile(x, (2, 1)) * 0.5),
    op("equal-results", lambda m, x: (x * 2, torch.where(x > 0, x * 2, x * 2))[1]),
    op(
        "attention-to-other-tokens",
        lambda m, x, y, z: F.scaled_dot_product_attention(heads(x)[:, :, :5], heads(y), heads(z), attn_mask=m.mask),
        3,
        mask=lambda: (torch.arange(SEQUENCE) < 6)[None],
    ),
    op("silu", lambda m, x: F.silu(x)),
    op("relu", lambda m, x: F.relu(x)),
    op("gelu-tanh", lambda m, x: F.gelu(x, approximate="tanh")),
    op("gelu-erf", lambda m, x: F.gelu(x)),
    op(
        "gelu-by-hand",
        lambda m, x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))),
    ),
    op("quick-gelu", lambda m, x: x * torch.sigmoid(1.702 * x)),
    op("silu-gate", lambda m, x, y: F.silu(x) * y, 2),
    op("gate-silu", lambda m, x, y: y * F.silu(x), 2),
    op("gelu-tanh-gate", lambda m, x, y: F.gelu(x, approximate="tanh") * y, 2),
    op("gelu-erf-gate", lambda m, x, y: F.gelu(x) * y, 2),
    op("relu-gate", lambda m, x, y: F.relu(x) * y, 2),
    op("silu-used-twice", lambda m, x, y: F.silu(x) * y + F.silu(x), 2),
    op("silu-squared", lambda m, x: F.silu(x) * F.silu(x)),
    op(
        "rope",
        lambda m, q: (lambda h: (h * m.cos + rotate_half(h) * m.sin).transpose(1, 2).reshape(q.shape))(heads(q)),
        cos=lambda: tables("cos"),
        sin=lambda: tables("sin"),
    ),
    op(
        "rope-of-a-part",
        lambda m, q: turn_a_part(heads(q), m.cos, m.sin).transpose(1, 2).reshape(q.shape),
        cos=lambda: tables("cos", 4),
        sin=lambda: tables("sin", 4),
    ),
    *(
        op(
            f"rope-of-{turn.__name__}",
            lambda m, q, turn=turn: turn(heads(q), m.cos, m.sin).transpose(1, 2).reshape(q.shape),
            cos=lambda: half_tables("cos"),
            sin=lambda: half_tables("sin"),
        )
        for turn in (turn_halves, turn_slices)
    ),
    op(
        "rope-before-heads-move",
        lambda m, q: (lambda h: (h * m.cos + rotate_half(h) * m.sin).view(q.shape))(q.view(BATCH, SEQUENCE, HEADS, -1)),
        cos=lambda: tables("cos").transpose(1, 2).contiguous(),
        sin=lambda: tables("sin").transpose(1, 2).contiguous(),
    ),
    op(
        "rope-of-pairs-of-a-part-before-heads-move",
        lambda m, q: turn_a_part(q.view(BATCH, SEQUENCE, HEADS, -1), m.cos, m.sin, rotate_pairs).view(q.shape),
        cos=lambda: pairs("cos", 4).transpose(1, 2).contiguous(),
        sin=lambda: pairs("sin", 4).transpose(1, 2).contiguous(),
    ),
    *(
        op(
            f"rope-of-one-head-{name}",
            lambda m, q, axis=axis: (lambda h: (h * m.cos + rotate_half(h) * m.sin).view(q.shape))(q.unsqueeze(axis)),
            cos=lambda axis=axis: tables("cos", WIDTH)[0, 0].unsqueeze(axis - 1),
            sin=lambda axis=axis: tables("sin", WIDTH)[0, 0].unsqueeze(axis - 1),
        )
        for name, axis in (("first", 1), ("behind", 2))
    ),
    op(
        "rope-of-complex-numbers",
        lambda m, q: turn_numbers(q.view(BATCH, SEQUENCE, HEADS, -1), m.numbers).view(q.shape),
        numbers=complex_numbers,
    ),
    op(
        "rope-of-complex-numbers-of-half-a-layer",
        lambda m, q, k: turn_numbers(
            torch.stack([q, k], -1).view(BATCH, SEQUENCE, HEADS, 2, -1)[:, :, :, 1], m.numbers
        ).view(q.shape),
        2,
        numbers=complex_numbers,
    ),
    op(
        "rope-of-pairs",
        lambda m, q: (lambda h: (h * m.cos + rotate_pairs(h) * m.sin).transpose(1, 2).reshape(q.shape))(heads(q)),
        cos=lambda: pairs("cos"),
        sin=lambda: pairs("sin"),
    ),
    op(
        "rope-of-pairs-of-a-part",
        lambda m, q: turn_a_part(heads(q), m.cos, m.sin, rotate_pairs).transpose(1, 2).reshape(q.shape),
        cos=lambda: pairs("cos", 4),
        sin=lambda: pairs("sin", 4),
    ),
    op("attention", lambda m, *qkv: attend(*map(heads, qkv)), 3),
    op(
        "attention-narrow-values",
        lambda m, q, k, v: attend(heads(q), heads(k), heads(m.narrow(v)), is_causal=True),
        3,
        narrow=lambda: nn.Linear(WIDTH, WIDTH // 2, bias=False),
    ),
    op(
        "attention-wide-shared-values",
        lambda m, q, k, v: attend(heads(q), heads(m.narrow(k), 2), heads(v, 2), enable_gqa=True),
        3,
        narrow=lambda: nn.Linear(WIDTH, WIDTH // 2, bias=False),
    ),
    op("attention-causal", lambda m, *qkv: attend(*map(heads, qkv), is_causal=True, scale=0.5), 3),
    op(
        "attention-groups",
        lambda m, q, x: attend(
            heads(q), repeat_kv(heads(m.k(x), 2), 2), repeat_kv(heads(m.v(x), 2), 2), is_causal=True
        ),
        2,
        k=lambda: nn.Linear(WIDTH, WIDTH // 2, bias=False),
        v=lambda: nn.Linear(WIDTH, WIDTH // 2, bias=False),
    ),
    op("cross_entropy", lambda m, x: F.cross_entropy(x.view(-1, WIDTH), m.ids.view(-1)), ids=ids),
    op(
        "cross_entropy-shifted",
        lambda m, x: F.cross_entropy(x[:, :-1].reshape(-1, WIDTH), m.ids[:, 1:].reshape(-1)),
        ids=ids,
    ),
    op("add", lambda m, x, y: x + y, 2),
    op("sub", lambda m, x, y: x - y, 2),
    op("mul", lambda m, x, y: x * y, 2),
    op("div", lambda m, x, y: x / (y * y + 1), 2),
    op("numbers", lambda m, x: (2 - x * 3) / 4 + 1),
    op("neg", lambda m, x: -x),
    op("exp", lambda m, x: torch.exp(x)),
    op("tanh", lambda m, x: torch.tanh(x)),
    op("sqrt", lambda m, x: torch.sqrt(x * x + 1)),
    op("pow", lambda m, x: x.pow(2)),
    op("square", lambda m, x: x.square()),
    op("view", lambda m, x: m.last(x.view(-1, 2 * WIDTH)), last=lambda: nn.Linear(2 * WIDTH, 8)),
    op("transpose", lambda m, x: x.transpose(0, 1).tanh()),
    op("slice", lambda m, x: m.last(x)[:, :-1], last=lambda: nn.Linear(WIDTH, 16)),
    op("casts", lambda m, x: x.float().tanh().to(torch.float32)),
]


@pytest.mark.parametrize("make", OPS)
def test_gradients_are_autograds(make):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = make()
    x = torch.randn(BATCH, SEQUENCE, WIDTH, requires_grad=True)
    theirs = model(x)
    cotangent = torch.randn_like(theirs)
    leaves = [x, *model.parameters()]
    wanted = torch.autograd.grad(theirs, leaves, cotangent)
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    mine = compiled(x)
    found = torch.autograd.grad(mine, leaves, cotangent)
    assert (mine - theirs).norm() <= 1e-5 * theirs.norm()
    graph = compiled.te.graphs[0]
    assert not graph.reasons and not [
        n for n in graph.built.rest.__self__.graph.nodes if "aten.linear" in str(n.target)
    ]
    for name, one, other in zip(["x", *dict(model.named_parameters())], found, wanted):
        assert other.norm() > 0 and (one - other).norm() <= 1e-5 * other.norm(), name


#: Formulas that are nearly a rotation of x1 and x2 by c and s.
NEAR_HALVES = {
    "the other way": lambda a, b, c, s: (a * c + b * s, b * c - a * s),
    "sums": lambda a, b, c, s: (a * c + b * s, b * c + a * s),
    "halves swapped": lambda a, b, c, s: (b * c - a * s, a * c + b * s),
    "tables swapped": lambda a, b, c, s: (a * c - b * s, b * s + a * c),
    "one half twice": lambda a, b, c, s: (a * c - a * s, b * c + a * s),
    "scaled": lambda a, b, c, s: (torch.sub(a * c, b * s, alpha=2), b * c + a * s),
}


@pytest.mark.parametrize("name", NEAR_HALVES)
def test_what_is_nearly_a_rotation_of_halves_is_pytorchs(name):
    torch._dynamo.reset()
    torch.manual_seed(0)

    def turn(m, q):
        return torch.cat(NEAR_HALVES[name](*heads(q).chunk(2, -1), m.cos, m.sin), -1).transpose(1, 2).reshape(q.shape)

    model = Op(turn, cos=lambda: half_tables("cos"), sin=lambda: half_tables("sin"))
    x = torch.randn(BATCH, SEQUENCE, WIDTH)
    compiled = te_mlir.torch.jit(model, recipe=te_mlir.HighPrecision())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [torch.autograd.grad(one(x).square().sum(), list(model.parameters())) for one in (compiled, model)]
    for one, other in zip(*found):
        assert (one - other).norm() <= 1e-5 * other.norm()
    text = compiled.te.graphs[0].region.compilation.text(True)
    assert "te.linear" in text and "te.rope" not in text


def test_the_middle_of_a_split_is_no_half():
    torch._dynamo.reset()
    torch.manual_seed(0)

    def turn(m, q):
        h = heads(q)
        half = h.shape[-1] // 2
        a, b = h[..., :half], h.split([half // 2, half, half // 2], -1)[1]
        return torch.cat([a * m.cos - b * m.sin, b * m.cos + a * m.sin], -1).transpose(1, 2).reshape(q.shape)

    model = Op(turn, cos=lambda: half_tables("cos"), sin=lambda: half_tables("sin"))
    x = torch.randn(BATCH, SEQUENCE, WIDTH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = te_mlir.torch.jit(model, recipe=te_mlir.HighPrecision())(x)
    assert torch.allclose(found, model(x), atol=1e-5)


def test_a_rotation_of_every_other_column_is_none_of_the_first():
    torch._dynamo.reset()
    torch.manual_seed(0)

    def turn(m, q):
        h = heads(q)
        some = h[..., ::2]
        turned = some * m.cos + rotate_half(some) * m.sin
        return torch.cat([turned, h[..., 4:]], -1).transpose(1, 2).reshape(q.shape)

    model = Op(turn, cos=lambda: tables("cos", 4), sin=lambda: tables("sin", 4))
    x = torch.randn(BATCH, SEQUENCE, WIDTH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = te_mlir.torch.jit(model, recipe=te_mlir.HighPrecision())(x)
    assert torch.allclose(found, model(x), atol=1e-5)


def test_gates_are_one_operation():
    torch._dynamo.reset()
    compiled = te_mlir.torch.jit(Op(lambda m, x, y: F.silu(x) * y, 2), strict=True)
    compiled(torch.randn(BATCH, SEQUENCE, WIDTH))
    text = compiled.te.graphs[0].region.compilation.text(True)
    assert "te.activation <swiglu>" in text and "silu" not in text and "arith.mulf" not in text


def test_a_gated_activation_is_rounded_once():
    """In bf16, te rounds silu(x) * gate once, as TransformerEngine's swiglu. PyTorch also rounds silu(x)."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Op(lambda m, x, y: F.silu(x) * y, 2).bfloat16()
    x = torch.randn(BATCH, SEQUENCE, WIDTH, dtype=torch.bfloat16)
    mine = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())(x)
    a, b = (te_mlir.torch.jit(layer, recipe=te_mlir.HighPrecision())(x).double() for layer in model.layers)
    once = (a * torch.sigmoid(a) * b).to(torch.bfloat16)
    twice = (a * torch.sigmoid(a)).to(torch.bfloat16) * b.to(torch.bfloat16)
    assert torch.equal(mine, once) and not torch.equal(mine, twice)


class Turned(nn.Module):
    """A rotary embedding between two layers. With `counts`, the buffer `steps` counts calls."""

    def __init__(self, rotate, counts=False):
        super().__init__()
        self.q, self.o, self.rotate, self.counts = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), rotate, counts
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x, cos, sin):
        if self.counts:
            self.steps.add_(1)
        h = heads(self.q(x))
        return self.o((h * cos + self.rotate(h) * sin).transpose(1, 2).reshape(x.shape))


@pytest.mark.parametrize("rotate, equal, other", [(rotate_half, tables, pairs), (rotate_pairs, pairs, tables)])
@pytest.mark.parametrize("place", ["cos", "sin"])
def test_a_rotation_whose_tables_differ_runs_in_pytorch(rotate, equal, other, place):
    """This starts with the first call that has such a table.

    It is an error with strict, or if the model writes to buffers.
    """
    torch._dynamo.reset()
    torch.manual_seed(0)
    good = {"cos": equal("cos"), "sin": equal("sin")}
    wrong = {**good, place: other(place)}
    model, x = Turned(rotate), torch.randn(BATCH, SEQUENCE, WIDTH)
    compiled, parts = te_mlir.torch.jit(model), []
    for given in (good, wrong, good):
        found = []
        for module in (model, compiled):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore" if given is wrong else "error")
                y = module(x, **given)
            found.append((y, *torch.autograd.grad(y.square().sum(), list(model.parameters()))))
        for mine, theirs in zip(*found):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        parts.append(len(compiled.te.graphs[0].parts))
    of = "halves" if rotate is rotate_half else "pairs"
    assert parts == [1, 2, 2] and any(
        f"the {of} of a rotary table are not equal" in r for r in compiled.te.graphs[0].reasons
    )

    for counts, error in ((False, ImportFailure), (True, te_mlir.ArgumentError)):
        torch._dynamo.reset()
        strict = te_mlir.torch.jit(Turned(rotate, counts), strict=not counts)
        strict(x, **good)
        with pytest.raises(error, match=rf"aten.add.*the {of} of a rotary table are not equal"):
            strict(x, **wrong)
