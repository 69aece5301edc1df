"""nanoGPT and models that grew out of it, written out, because they are no packages."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional as F
from torch_compare import assert_trains_whole, fresh  # noqa: F401

WIDTH, HEADS, TOKENS, WORDS = 64, 4, 32, 64


def linear(rows, columns):
    return nn.Linear(rows, columns, bias=False)


def norm(x):
    return F.rms_norm(x, (x.size(-1),))


def attend(q, k, v, window=None, **options):
    """Causal attention of [batch, sequence, heads, width], in which a query may see only the last `window` keys."""
    mask = None
    if window is not None:
        distance = torch.arange(q.size(1))[:, None] - torch.arange(q.size(1))
        mask = (distance >= 0) & (distance < window)
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, **options)
    return y.transpose(1, 2).flatten(2)


class NanoGPT(nn.Module):
    """nanoGPT: layer norms with or without biases, tied embeddings, dropout."""

    def __init__(self, bias):
        super().__init__()
        self.words, self.places, self.drop = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH), nn.Dropout(0.1)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH, bias=bias) for _ in range(3))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=bias), nn.Linear(WIDTH, WIDTH, bias=bias)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=bias), nn.Linear(4 * WIDTH, WIDTH, bias=bias)
        self.head = linear(WIDTH, WORDS)
        self.words.weight = self.head.weight

    def forward(self, ids, targets):
        x = self.drop(self.words(ids) + self.places(torch.arange(ids.size(1))))
        q, k, v = (t.unflatten(2, (HEADS, -1)) for t in self.qkv(self.norms[0](x)).split(WIDTH, dim=2))
        x = x + self.drop(self.out(attend(q, k, v, dropout_p=0.1)))
        x = x + self.drop(self.down(F.gelu(self.up(self.norms[1](x)))))
        logits = self.head(self.norms[2](x))
        return F.cross_entropy(logits.view(-1, WORDS), targets.view(-1), ignore_index=-1)


class Rotation(nn.Module):
    """Rotates [batch, sequence, heads, width]; `kept` of the frequencies are 0."""

    def __init__(self, base, kept=0):
        super().__init__()
        pairs = WIDTH // HEADS // 2
        frequencies = (1 / base) ** torch.linspace(0, 1, pairs - kept)
        angles = torch.outer(torch.arange(TOKENS), torch.cat([frequencies, torch.zeros(kept)]))[:, None]
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * self.cos + b * self.sin, a * (-self.sin) + b * self.cos], 3)


class SpeedRun(nn.Module):
    """modded-nanogpt: relu², normed queries and keys, value embeddings, gates, windows, U-shaped skips, capped logits.

    Weights are banks of matrices, and numbers of layers are parts of one vector.
    """

    def __init__(self, layers=2):
        super().__init__()
        self.words, self.values = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.attention = nn.ParameterList(torch.randn(4, WIDTH, WIDTH) / 8 for _ in range(layers))
        self.gates = nn.ModuleList(linear(12, HEADS) for _ in range(layers))
        self.feeds = nn.ParameterList(torch.randn(2, 4 * WIDTH, WIDTH) / 16 for _ in range(layers))
        self.smear, self.rotate = linear(12, 1), Rotation(1024, kept=4)
        self.numbers = nn.Parameter(torch.rand(layers // 2 + 4 * layers + 1))
        self.head = linear(WIDTH, WORDS)

    def attend(self, layer, x, values, mixed):
        weight = self.attention[layer]
        q, k, v = F.linear(x, weight[:3].flatten(end_dim=1)).unflatten(2, (3 * HEADS, -1)).chunk(3, dim=-2)
        v = mixed[0] * v if values is None else mixed[0] * v + mixed[1] * values.view_as(v)
        window = 8 if layer % 2 else None
        y = attend(self.rotate(norm(q)), self.rotate(norm(k)), v, window, scale=0.12).view_as(v)
        y = y * torch.sigmoid(self.gates[layer](x[..., :12])).unsqueeze(-1)
        return F.linear(y.flatten(2), weight[3])

    def forward(self, ids, targets):
        layers = len(self.feeds)
        skip, numbers, smear = self.numbers.split([layers // 2, 4 * layers, 1])
        values, earlier = self.values(ids), []
        x = self.words(ids)
        smeared = x[:, 1:] + smear * torch.sigmoid(self.smear(x[:, 1:, :12])) * x[:, :-1]
        x = start = norm(torch.cat([x[:, :1], smeared], dim=1))
        for layer, (keep, first, *mixed) in enumerate(numbers.view(-1, 4).unbind()):
            if layer >= layers // 2:
                x = x + skip[layer - layers // 2] * earlier.pop()
            x = keep * x + first * start
            x = x + self.attend(layer, norm(x), values if layer == 0 else None, mixed)
            up, down = self.feeds[layer]
            x = x + F.relu(F.linear(norm(x), up)).square() @ down
            if layer < layers // 2:
                earlier.append(x)
        logits = 30 * torch.sigmoid(self.head(norm(x)).float() / 7.5)
        return F.cross_entropy(logits.view(-1, WORDS), targets.view(-1), reduction="sum") / targets.numel()


class NanoChat(nn.Module):
    """nanochat: grouped heads, queries and keys that are normed after the rotation, logits of more words than there are."""

    def __init__(self):
        super().__init__()
        self.words, self.values = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH // 2)
        self.q, self.k, self.v = (linear(WIDTH, width) for width in (WIDTH, WIDTH // 2, WIDTH // 2))
        self.gate, self.out = linear(32, HEADS // 2), linear(WIDTH, WIDTH)
        self.up, self.down, self.head = linear(WIDTH, 4 * WIDTH), linear(4 * WIDTH, WIDTH), linear(WIDTH, WORDS + 32)
        self.keep, self.first = nn.Parameter(torch.rand(1)), nn.Parameter(torch.rand(1))
        self.rotate = Rotation(10000)

    def forward(self, ids, targets):
        start = norm(self.words(ids))
        x = self.keep[0] * start + self.first[0] * start
        h = norm(x)
        q, k, v = (layer(h).unflatten(2, (-1, WIDTH // HEADS)) for layer in (self.q, self.k, self.v))
        gate = 2 * torch.sigmoid(self.gate(h[..., :32]))
        v = v + gate.unsqueeze(-1) * self.values(ids).view_as(v)
        x = x + self.out(attend(norm(self.rotate(q)), norm(self.rotate(k)), v, enable_gqa=True))
        x = x + self.down(F.relu(self.up(norm(x))).square())
        logits = 15 * torch.tanh(self.head(norm(x))[..., :WORDS].float() / 15)
        return F.cross_entropy(logits.view(-1, WORDS), targets.view(-1), ignore_index=-1)


#: (how a model is made, the number of its layers in FP8)
MODELS = {
    "nanogpt": (lambda: NanoGPT(bias=True), 7),
    "nanogpt without biases": (lambda: NanoGPT(bias=False), 7),
    "modded-nanogpt": (SpeedRun, 12),
    "nanochat": (NanoChat, 8),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_nanogpt(name):
    make, layers = MODELS[name]
    ids = torch.randint(0, WORDS, (2, TOKENS))
    assert_trains_whole(make(), (ids, ids.roll(-1, 1)), layers)
