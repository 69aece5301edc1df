"""Attention of packed documents with the boundaries as tensors: `torch.nn.attention.varlen.varlen_attn`."""

import pytest

torch = pytest.importorskip("torch")
varlen = pytest.importorskip("torch.nn.attention.varlen")

from torch import nn
from torch.nn import functional as F
from torch_compare import assert_close, fresh, gradients, strict_error  # noqa: F401

import te_mlir
import te_mlir.torch

TOKENS = 48


class Packed(nn.Module):
    """Attention of packed tokens with 4 heads of queries and 2 of keys. options: those of the op."""

    def __init__(self, **options):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 64), nn.Linear(32, 32)
        self.options = {"window_size": (-1, 0), **options}

    def parts(self, x):
        return (t.view(len(x), -1, 8) for t in self.qkv(x).split((32, 16, 16), -1))

    def forward(self, x, boundaries, others=None, longest=TOKENS):
        others = boundaries if others is None else others
        q, k, v = self.parts(x)
        y = varlen.varlen_attn(q, k, v, boundaries, others, longest, longest, enable_gqa=True, **self.options)
        return self.out(y.reshape(x.shape))


class Separate(Packed):
    """The same as attention of one document at a time, since PyTorch has no varlen_attn for a CPU."""

    def forward(self, x, boundaries):
        left, right = self.options["window_size"]
        results = []
        begin = 0
        for end in (*boundaries.tolist()[1:], len(x)):
            q, k, v = (t[begin:end].transpose(0, 1) for t in self.parts(x))
            seen = torch.ones(end - begin, end - begin, dtype=torch.bool)
            seen = seen.tril() if right == 0 else seen
            seen = seen.triu(-left) if left >= 0 else seen
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=seen, scale=self.options.get("scale"), enable_gqa=True
            )
            is_last = end == len(x) and begin == boundaries[-1]
            results.append(y.transpose(0, 1).reshape(-1, 32) * (not is_last))
            begin = end
        return self.out(torch.cat(results))


def cu(*boundaries):
    return torch.tensor(boundaries, dtype=torch.int32)


def assert_as_separate(compiled, model, boundaries, *others, **options):
    separate = Separate(**model.options)
    separate.load_state_dict(model.state_dict())
    x = torch.randn(TOKENS, 32)
    loss, mine = gradients(compiled, x, boundaries, *others, **options)
    wanted, theirs = gradients(separate, x, boundaries)
    assert abs(loss - wanted) < 1e-5 * wanted
    assert_close({name.removeprefix("_orig_mod."): g for name, g in mine.items()}, theirs)


def attentions(backend):
    return [
        str(op)
        for graph in backend.graphs
        for region in graph.regions
        for op in region.function.ops
        if "te.attention" in str(op)
    ]


#: (options of the op, what its te.attention has)
KINDS = {
    "causal": ({}, "causal"),
    "window": ({"window_size": (5, 0)}, "window_size = array<i64: 5, 0>"),
    "open": ({"window_size": (-1, -1)}, "documents"),
    "scale": ({"scale": 0.5}, "scale = 0.5"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_packed_documents(kind):
    options, wanted = KINDS[kind]
    model = Packed(**options)
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    # The boundaries of a later call are others, also with documents without tokens, and with tokens in no document.
    for boundaries in (cu(0, 10, 31, 48), cu(0, 1, 1, 48), cu(0, 16, 20, 40)):
        assert_as_separate(compiled, model, boundaries)
    (line,) = attentions(compiled.te)
    assert wanted in line and " documents " in line and ("causal" in line) == (kind != "open")
    assert len(compiled.te.graphs[0].parts) == 1


class Flash(Packed):
    """The same, with the arguments of flash_attn."""

    def forward(self, x, boundaries, longest=TOKENS):
        q, k, v = self.parts(x)
        left, right = self.options["window_size"]
        options = {"window_size": (left, -1), "causal": right == 0, "softmax_scale": self.options.get("scale")}
        y = te_mlir.torch.flash_attn_varlen_func(q, k, v, boundaries, boundaries, longest, longest, **options)
        return self.out(y.reshape(x.shape))


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_of_flash_attn(kind):
    options, wanted = KINDS[kind]
    model = Flash(**options)
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    assert_as_separate(compiled, model, cu(0, 10, 31, 48))
    (line,) = attentions(compiled.te)
    assert wanted in line and " documents " in line and ("causal" in line) == (kind != "open")


def test_arguments_of_flash_attn_that_are_not_implemented():
    q = torch.randn(TOKENS, 4, 8)
    with pytest.raises(ValueError, match="expected no dropout_p, softcap, as they are not implemented"):
        te_mlir.torch.flash_attn_varlen_func(q, q, q, cu(0, 48), cu(0, 48), 48, 48, dropout_p=0.1, softcap=30.0)


def test_boundaries_of_queries_and_of_keys():
    """Two tensors of boundaries have to be equal."""
    model = Packed()
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    assert_as_separate(compiled, model, cu(0, 10, 31, 48), cu(0, 10, 31, 48))
    assert " documents " in attentions(compiled.te)[0]
    with pytest.raises(te_mlir.RuntimeFailure, match="but got -1"):
        compiled(torch.randn(TOKENS, 32), cu(0, 10, 31, 48), cu(0, 10, 32, 48))


def test_calls_with_other_numbers_of_documents():
    """After the first call, a program takes a power of two of documents, and a power of two as the longest length."""
    model, backend = Packed(), te_mlir.torch.Backend(strict=True, recipe=te_mlir.HighPrecision())
    compiled = torch.compile(model, backend=backend)
    for count, (boundaries, longest) in enumerate(
        ((cu(0, 48), 48), (cu(0, 10, 30, 40, 48), 20), (cu(0, 28, 29, 48), 28), (cu(0, 1, 20, 40, 44, 48), 20)), 1
    ):
        assert_as_separate(compiled, model, boundaries, None, longest)
        lines = attentions(backend)
        assert len(lines) == (1, 2, 2, 3)[count - 1]
    assert [line.split(": tensor<")[1].split(">")[0] for line in lines] == ["2xi32", "5xi32", "9xi32"]
    assert [line.split("sequence = ")[1].split()[0] for line in lines] == ["48", "32", "32"]


def test_numbers_that_a_graph_also_uses_itself():
    class Using(Packed):
        def forward(self, x, boundaries, longest):
            return super().forward(x, boundaries, None, longest) * boundaries[-2] / longest

    model = Using()
    compiled = torch.compile(model, backend=te_mlir.torch.Backend(strict=True, recipe=te_mlir.HighPrecision()))
    for boundaries, longest in ((cu(0, 48), 48), (cu(0, 10, 30, 40, 48), 20), (cu(0, 28, 29, 48), 28)):
        scaled = compiled(x := torch.randn(TOKENS, 32), boundaries, longest)
        separate = Separate()
        separate.load_state_dict(model.state_dict())
        assert torch.allclose(scaled, separate(x, boundaries) * boundaries[-2] / longest, rtol=1e-5, atol=1e-5)


#: (options of the op, arguments of the call, the reason)
OTHERS = {
    "later keys": (
        {"window_size": (4, 4)},
        (),
        "expected its window to have no later keys, but got window_size=[4, 4]",
    ),
    "other keys": ({}, (cu(0, 48),), "its queries and keys have different lengths"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_stays_in_pytorch(name):
    options, others, reason = OTHERS[name]
    assert reason in strict_error(Packed(**options), torch.randn(TOKENS, 32), cu(0, 10, 48), *others)
