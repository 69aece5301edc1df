"""Models as people write them by hand are one compiled part, with autograd's gradients."""

import contextlib
import math

import pytest

torch = pytest.importorskip("torch")

from dropouts import same_dropouts
from torch import nn
from torch.nn import functional as F

import te_mlir
import te_mlir.torch

WIDTH, HEADS, TOKENS = 64, 4, 16


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def norm(x):
    return F.rms_norm(x, (x.size(-1),))


def heads_of(x):
    return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)


class Base(nn.Module):
    """A language model with one layer, of which models override `attend`, `feed` and `loss`."""

    def __init__(self):
        super().__init__()
        self.embed, self.qkv = nn.Embedding(32, WIDTH), nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out, self.head = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, 32, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 128, bias=False), nn.Linear(128, WIDTH, bias=False)

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def feed(self, h):
        return self.down(F.gelu(self.up(h)))

    def loss(self, logits, ids):
        return F.cross_entropy(logits.view(-1, 32), ids.roll(-1, 1).view(-1))

    def forward(self, ids):
        x = self.embed(ids)
        y = self.attend(*map(heads_of, self.qkv(norm(x)).split(WIDTH, 2)))
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return self.loss(self.head(norm(x + self.feed(norm(x)))), ids)


class ByHand(Base):
    """Attention with a mask that is filled in, as nanoGPT writes it without flash attention."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(TOKENS, TOKENS).tril().view(1, 1, TOKENS, TOKENS))

    def attend(self, q, k, v):
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :TOKENS, :TOKENS] == 0, float("-inf"))
        return F.softmax(scores, dim=-1) @ v


class Biased(Base):
    """Attention with a trained bias of relative positions, which is masked, and a dropout of its weights."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(TOKENS, HEADS)

    def attend(self, q, k, v):
        places = torch.arange(TOKENS)
        bias = self.bias((places[:, None] - places).clamp(min=0)).permute(2, 0, 1)[None]
        bias = bias.masked_fill(places > places[:, None], float("-inf"))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=0.1)


class Clamped(Base):
    """The gated activation of gpt-oss, of clamped values, and a loss of tokens that are chosen by a mask."""

    def feed(self, h):
        gate, up = self.up(h).chunk(2, -1)
        gate, up = gate.clamp(max=0.3), up.clamp(min=-0.3, max=0.3)
        return F.linear((up + 1) * gate * torch.sigmoid(gate * 1.702), self.down.weight[:, :64])

    def loss(self, logits, ids):
        return super().loss(torch.where(ids[..., None] > 3, logits, 0.0), ids)


class Vision(nn.Module):
    """A ViT with patches, layer scale and stochastic depth, as timm writes it."""

    def __init__(self):
        super().__init__()
        self.patches, self.position = nn.Conv2d(3, WIDTH, 8, 8), nn.Parameter(torch.randn(1, 17, WIDTH))
        self.token, self.norms = (
            nn.Parameter(torch.randn(1, 1, WIDTH)),
            nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3)),
        )
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down, self.head = nn.Linear(WIDTH, 128), nn.Linear(128, WIDTH), nn.Linear(WIDTH, 8)
        self.scales = nn.ParameterList(torch.rand(WIDTH) for _ in range(2))

    @staticmethod
    def path(x, drop=0.5):
        keep = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(1 - drop)
        return x * keep.div_(1 - drop)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        q, k, v = self.qkv(self.norms[0](x)).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + self.path(self.out(y) * self.scales[0])
        x = x + self.path(self.down(F.gelu(self.up(self.norms[1](x)))) * self.scales[1])
        return self.head(self.norms[2](x)[:, 0]).square().mean()


def modulated(x, shift, scale):
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class Diffusion(nn.Module):
    """A DiT: norms and residuals that the time of an image moves, and patches that become an image again."""

    def __init__(self):
        super().__init__()
        self.patches, self.time = nn.Conv2d(4, WIDTH, 2, 2), nn.Linear(WIDTH, WIDTH)
        self.modulation, self.last = nn.Linear(WIDTH, 6 * WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down, self.pixels = nn.Linear(WIDTH, 128), nn.Linear(128, WIDTH), nn.Linear(WIDTH, 16)

    def forward(self, image):
        angles = 100 * image[:, 0, 0, :1] * torch.exp(-torch.arange(WIDTH // 2) / 4)
        c = F.silu(self.time(torch.cat([angles.cos(), angles.sin()], -1)))
        x = self.patches(image).flatten(2).transpose(1, 2)
        moved, scaled, gate, moved2, scaled2, gate2 = self.modulation(c).chunk(6, dim=1)
        q, k, v = map(heads_of, self.qkv(modulated(x, moved, scaled)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + gate.unsqueeze(1) * self.out(y)
        y = self.down(F.gelu(self.up(modulated(x, moved2, scaled2)), approximate="tanh"))
        x = x + gate2.unsqueeze(1) * y
        x = self.pixels(modulated(x, *self.last(c).chunk(2, dim=1)))
        x = torch.einsum("nhwpqc->nchpwq", x.reshape(len(x), 4, 4, 2, 2, 4)).reshape(image.shape)
        return F.mse_loss(x, image)


class Joint(nn.Module):
    """Two streams with weights of their own that attend to one another, as in SD3 and Flux, rotated by matrices of two rows."""

    def __init__(self):
        super().__init__()
        self.image, self.text = (nn.ModuleDict(self.stream()) for _ in range(2))
        self.norms = nn.ParameterList(1 + torch.rand(WIDTH // HEADS) for _ in range(4))
        angles = torch.outer(torch.arange(TOKENS + 4), 100.0 ** -torch.linspace(0, 1, WIDTH // HEADS // 2))
        turned = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], -1)
        self.register_buffer("turned", turned.view(1, 1, TOKENS + 4, -1, 2, 2))

    @staticmethod
    def stream():
        sizes = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 128), "down": (128, WIDTH)}
        return {name: nn.Linear(*size) for name, size in sizes.items()}

    def rotate(self, x):
        pairs = x.float().reshape(*x.shape[:-1], -1, 1, 2)
        return (self.turned[..., 0] * pairs[..., 0] + self.turned[..., 1] * pairs[..., 1]).reshape(x.shape)

    def forward(self, x):
        streams = (self.text, x[:, :4], self.norms[:2]), (self.image, x, self.norms[2:])
        parts = []
        for layers, y, (of_q, of_k) in streams:
            q, k, v = layers["qkv"](norm(y)).view(*y.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            parts.append((F.rms_norm(q, q.shape[-1:], of_q), F.rms_norm(k, k.shape[-1:], of_k), v))
        q, k, v = (torch.cat(pair, 2) for pair in zip(*parts))
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v).transpose(1, 2).flatten(2)
        loss = 0
        for (layers, x, _), own in zip(streams, (y[:, :4], y[:, 4:])):
            x = x + layers["out"](own)
            x = x + layers["down"](F.gelu(layers["up"](norm(x)), approximate="tanh"))
            loss = loss + x.square().mean()
        return loss


INPUTS = {Vision: (4, 3, 32, 32), Diffusion: (2, 4, 8, 8), Joint: (2, TOKENS, WIDTH)}


@pytest.mark.parametrize("make", [ByHand, Biased, Clamped, *INPUTS])
def test_models_by_hand(make):
    model = make()
    inputs = torch.randn(INPUTS[make]) if make in INPUTS else torch.randint(0, 32, (2, TOKENS))
    compiled = te_mlir.torch.jit(model, strict=True)
    for seed in (1, 2):
        found = []
        for run in (model, compiled):
            torch.manual_seed(seed)
            with same_dropouts() if run is model else contextlib.nullcontext():
                loss = run(inputs)
            found.append([loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))])
        for one, other in zip(*found):
            assert one.norm() > 0 and (other - one).norm() < 1e-5 * one.norm()
    (graph,) = compiled.te.graphs
    assert len(graph.parts) == 1 and not graph.reasons


@pytest.mark.parametrize("main_grad", [False, True])
def test_patches_are_a_layer_of_the_recipe(main_grad):
    model = Vision().bfloat16()
    compiled = te_mlir.torch.jit(model, recipe=te_mlir.Float8CurrentScaling(), strict=True, main_grad=main_grad)
    compiled(torch.randn(4, 3, 32, 32, dtype=torch.bfloat16)).backward()
    rows = [row for row in compiled.te.report("precision").splitlines() if "patches" in row]
    assert sum(row.split()[:1] == ["fprop"] and "f8E4M3FN" in row for row in rows) == 1
    weight = model.patches.weight
    gradients = [g for g in (weight.grad, getattr(weight, "main_grad", None)) if g is not None]
    assert sum(float(g.float().norm()) for g in gradients) > 0


def test_products_of_attention_are_not_quantised():
    model = Biased().bfloat16()
    compiled = te_mlir.torch.jit(model, recipe=te_mlir.Float8CurrentScaling(), strict=True)
    compiled(torch.randint(0, 32, (2, TOKENS))).backward()
    rows = [row for row in compiled.te.report("precision").splitlines() if row.split()[:1] == ["fprop"]]
    assert sum("f8E4M3FN" in row for row in rows) == 7 and len(rows) == 9


@pytest.mark.parametrize("options", [dict(stride=4), dict(padding=1), dict(groups=17), dict(dilation=2)])
def test_other_convolutions_stay_in_pytorch(options):
    model = nn.Sequential(nn.Conv2d(17, 34, 8, **{"stride": 8, **options}), nn.Flatten(2), nn.LazyLinear(8))
    x = torch.randn(2, 17, 32, 32)
    model(x)
    what = "at most 16 groups" if "groups" in options else "patches that do not overlap, without padding,"
    with pytest.raises(Exception, match=f"only convolutions of {what} are imported"):
        te_mlir.torch.jit(model, strict=True)(x)
