"""Ops that compute a whole module of PyTorch are compiled: recurrent cells, and the fast paths of attention in eval()."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch_compare import compare, fresh, precision  # noqa: F401

import te_mlir.torch

WIDTH, HEADS, SEQUENCE = 32, 4, 16


class Cells(nn.Module):
    """A recurrent cell over three tokens, and a layer of its last state."""

    def __init__(self, cell):
        super().__init__()
        self.cell, self.head = cell, nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], WIDTH)
        state = (h, h) if isinstance(self.cell, nn.LSTMCell) else h
        for token in x.unbind(1):
            state = self.cell(token, state)
        return self.head(state[0] if isinstance(state, tuple) else state)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTMCell(WIDTH, WIDTH),
        lambda: nn.GRUCell(WIDTH, WIDTH),
        lambda: nn.RNNCell(WIDTH, WIDTH),
        lambda: nn.RNNCell(WIDTH, WIDTH, bias=False, nonlinearity="relu"),
    ],
    ids=["lstm", "gru", "tanh", "relu"],
)
def test_cells_have_autograds_gradients(make):
    assert compare(Cells(make()), torch.randn(4, 3, WIDTH), strict=True) == []


def encoder(**options):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x, **options):
        return self.inner(x, x, x, need_weights=False, **options)[0]


def later(kind):
    """A mask of later keys, numbers or truths."""
    later = torch.ones(SEQUENCE, SEQUENCE).triu(1).bool()
    return later if kind is bool else torch.zeros(SEQUENCE, SEQUENCE).masked_fill(later, -torch.inf)


#: Keys that are padding, of two rows; each query of a row sees some.
PADDING = torch.arange(SEQUENCE) >= torch.tensor([[16], [7]])

MODELS = {
    "layers": (encoder, {}),
    "norm-first": (lambda: encoder(norm_first=True, activation="gelu"), {}),
    "causal": (encoder, {"mask": later(float), "is_causal": True}),
    "padded": (encoder, {"src_key_padding_mask": PADDING}),
    "both": (encoder, {"mask": later(bool), "is_causal": True, "src_key_padding_mask": PADDING}),
    "attention": (Attention, {}),
    "masked-attention": (Attention, {"attn_mask": later(bool)}),
}


@pytest.mark.parametrize("name", MODELS)
def test_fast_paths_are_compiled(name):
    """In eval() and under no_grad, PyTorch's modules call one op for a whole layer. Its layers are compiled, too."""
    make, options = MODELS[name]
    model, x = make().eval(), torch.randn(2, SEQUENCE, WIDTH)
    used = torch.ones(2, SEQUENCE, dtype=torch.bool) if "padded" not in name else ~PADDING
    with torch.no_grad():
        wanted = model(x, **options)
        found = te_mlir.torch.jit(model, recipe=te_mlir.HighPrecision(), strict=True)(x, **options)
        assert torch.allclose(found[used], wanted[used], atol=1e-5)
        torch._dynamo.reset()
        compiled = te_mlir.torch.jit(model, recipe=te_mlir.Float8CurrentScaling(), strict=True)
        found = compiled(x, **options)
    layers = sum(isinstance(part, nn.Linear) for part in model.modules())
    # The first layer of attention is no nn.Linear.
    layers += sum(isinstance(part, nn.MultiheadAttention) for part in model.modules())
    rows = precision(compiled)
    assert len(rows) >= layers and all("f8E4M3FN" in row for row in rows)
    assert (found - wanted)[used].norm() < 0.2 * wanted[used].norm()


def test_an_encoder_is_evaluated_between_steps():
    """Training and evaluation take other paths of PyTorch's modules, and both are compiled."""
    model = encoder(dropout=0.0)
    compiled = te_mlir.torch.jit(model, recipe=te_mlir.HighPrecision(), strict=True)
    for seed in range(2):
        torch.manual_seed(seed)
        x, target = torch.randn(2, SEQUENCE, WIDTH), torch.randn(2, SEQUENCE, WIDTH)
        model.train()
        leaves = list(model.parameters())
        wanted = torch.autograd.grad((model(x) - target).square().mean(), leaves)
        found = torch.autograd.grad((compiled(x) - target).square().mean(), leaves)
        for mine, theirs in zip(found, wanted):
            assert (mine - theirs).norm() <= 1e-5 * theirs.norm()
        model.eval()
        with torch.no_grad():
            assert torch.allclose(compiled(x), model(x), atol=1e-5)
    assert [len(graph.parts) for graph in compiled.te.graphs] == [1, 1]
