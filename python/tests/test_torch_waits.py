"""The documents of masks that a model computes are known from what it computes them from, and calls of padded batches do not
wait for a GPU."""

import contextlib
import random
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from test_torch_packed import (
    GROUPED,
    MODELS,
    SIZES,
    assert_alike,
    attentions,
    flattened,
    padded,
    perturbed,
    run,
)
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch_compare import fresh  # noqa: F401

import te_mlir
import te_mlir.torch
from te_mlir.torch import capture, documents, eager, mask_terms
from te_mlir.torch.backend import Graph

#: Functions of tensors for which the host waits. On a CPU some of them call no op.
WAITING = ("item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__", "nonzero")
OPS = ("_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "unique")


class Waits(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func).split(".")[1]
        assert name not in OPS, f"{func} waits for the device"
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def without_waits():
    """Lets functions fail for which the host would wait, if the tensors were those of a GPU."""

    def fail(*_, **__):
        raise AssertionError("a call waits for the device")

    def call(graph, *tensors):
        with pytest.MonkeyPatch.context() as patch, Waits():
            for name in WAITING:
                patch.setattr(torch.Tensor, name, fail)
            patch.setattr(torch, "equal", fail)
            return plain(graph, *tensors)

    plain = Graph.__call__
    with pytest.MonkeyPatch.context() as patch:
        # torch.compile itself may wait for its guards, which read no tensor of a GPU.
        patch.setattr(Graph, "__call__", call)
        yield


@pytest.fixture(autouse=True)
def as_on_gpu(monkeypatch):
    """Masks are treated as those of a GPU, whose numbers the host may not read."""
    monkeypatch.setattr(documents, "is_on_host", lambda tensor: False)
    monkeypatch.setattr(eager, "is_on_host", lambda tensor: False)


def test_the_check_can_fail(monkeypatch):
    waits = (
        lambda t: t.item(),
        lambda t: bool(t),
        lambda t: t.tolist(),
        lambda t: torch.equal(t, t),
        lambda t: torch.ops.aten.equal(t, t),
    )
    for wait in waits:
        monkeypatch.setattr(Graph, "__call__", lambda graph, tensor, wait=wait: wait(tensor))
        Graph.__call__(None, torch.ones(()))
        with pytest.raises(AssertionError), without_waits():
            Graph.__call__(None, torch.ones(()))


def batch_of(name):
    """Two batches of a kind with other boundaries."""
    if name == "packed":
        return [flattened(9, 5, 18), flattened(2, 3, 27)]
    return [padded(counts, left=name == "left") for counts in ((20, 29), (32, 3))]


@pytest.mark.sampled
@pytest.mark.parametrize("batch", ["packed", "right", "left"])
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "bert"])
def test_models(name, batch):
    """The masks are known from what they are computed from, and gradients are those of PyTorch."""
    if name == "bert":
        if batch == "packed":
            pytest.skip("its documents are causal")
        config = transformers.BertConfig(**SIZES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        model = perturbed(transformers.BertForMaskedLM(config))
        options = {}
    else:
        model, config, own, _ = MODELS[name]
        model = perturbed(getattr(transformers, model)(getattr(transformers, config)(**GROUPED, **own)))
        options = {"use_cache": False}
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    batches = [{**inputs, **options} for inputs in batch_of(batch)]
    for inputs in batches:
        if batch == "left":
            inputs["labels"][:, 1:][inputs["attention_mask"][:, :-1] == 0] = -100
    run(compiled, batches[0])
    for inputs in batches[::-1]:
        # Documents are counted.
        with contextlib.nullcontext() if batch == "packed" else without_waits():
            found = run(compiled, inputs)
        assert_alike(*found, *run(model, inputs))
    (graph,) = compiled.te.graphs
    lines = attentions(graph)
    assert len(lines) == 2 and all(" documents " in line for line in lines)
    keys = [feed.key for part in graph.parts for _, feed, _, _ in part.feeder.made if feed.key.startswith("documents")]
    nodes = [
        feed.node for part in graph.parts for _, feed, _, _ in part.feeder.made if feed.key.startswith("documents")
    ]
    assert keys and all(node.target is mask_terms.rows_of_terms for node in nodes)


class Rotated(nn.Module):
    """A rotation with a table that is an argument."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x, cos, sin):
        q = self.layer(x).view(2, 16, 2, 16).transpose(1, 2)
        a, b = q.chunk(2, -1)
        q = q * cos + torch.cat([-b, a], -1) * sin
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)


def test_tables_that_are_arguments():
    model = Rotated()
    compiled = te_mlir.torch.jit(model, strict=True)
    x, angles = torch.randn(2, 16, 32), torch.randn(1, 1, 16, 8).repeat(1, 1, 1, 2)
    compiled(x, angles.cos(), angles.sin())
    with without_waits():
        found = compiled(x, angles.sin(), angles.cos())
    torch.testing.assert_close(found, model(x, angles.sin(), angles.cos()))
    assert compiled(x, torch.randn(1, 1, 16, 16), angles.sin()).isnan().any()
    with pytest.raises(te_mlir.ArgumentError, match="were not equal in an earlier call"):
        compiled(x, angles.cos(), angles.sin())


class ByIds(nn.Module):
    """Masks that a model computes of ids of documents and of tokens, in several ways."""

    def __init__(self, way):
        super().__init__()
        self.qkv, self.way = nn.Linear(32, 96), way

    def mask(self, ids, used):
        place = torch.arange(16)
        seen = ids[:, None, :, None] == ids[:, None, None, :]
        if self.way == "ids":
            return seen & (place[:, None] >= place)
        if self.way == "open":
            return seen
        if self.way == "tokens":
            return used[:, None, None, :]
        if self.way == "compared":
            return used[:, None, None, :].int() != 0
        if self.way == "both":
            return seen & used[:, None, None, :].bool() & torch.ones(16, 16, dtype=torch.bool).tril()
        if self.way == "added":
            return torch.zeros(2, 1, 16, 16).masked_fill(~(seen & (place[:, None] >= place)), float("-inf"))
        window = (place[:, None] >= place) & (place[:, None] - place < 4)
        return torch.where(seen & window, 0.0, -1e9)

    def forward(self, x, ids, used):
        q, k, v = (t.view(2, 16, 2, 16).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask(ids, used))
        return y.transpose(1, 2).masked_fill(~used[..., None, None], 0.0)


def random_ids(draw):
    """Ids of documents, in any order, and which tokens are no padding: some behind each other of each document."""
    ids, used = torch.zeros(2, 16, dtype=torch.long), torch.ones(2, 16, dtype=torch.bool)
    for row in range(2):
        begin, names = 0, draw.sample(range(50), 16)
        while begin < 16:
            end = draw.randint(begin + 1, 16)
            ids[row, begin:end] = names.pop()
            used[row, draw.randint(begin + 1, end) : end] = False
            begin = end
    return ids, used


@pytest.mark.parametrize("way", ["ids", "open", "tokens", "compared", "both", "added", "window"])
def test_masks_of_ids(way):
    draw = random.Random(0)
    model = ByIds(way)
    compiled = te_mlir.torch.jit(model, strict=True)
    x = torch.randn(2, 16, 32)
    for step in range(5):
        ids, used = random_ids(draw)
        if way in ("tokens", "compared"):
            used = torch.arange(16) < torch.tensor([draw.randint(1, 16) for _ in range(2)])[:, None]
        elif way != "both":
            used = torch.ones_like(used)
        guard = without_waits() if step > 0 and way in ("tokens", "compared") else contextlib.nullcontext()
        with guard:
            found = torch.autograd.grad(compiled(x, ids, used).square().sum(), list(model.parameters()))
        wanted = torch.autograd.grad(model(x, ids, used).square().sum(), list(model.parameters()))
        for one, two in zip(found, wanted):
            assert (one - two).norm() < 1e-5 * two.norm()
    (graph,) = compiled.te.graphs
    assert len(attentions(graph)) == 1 and " documents " in attentions(graph)[0]


def test_ids_that_come_again():
    """They are no documents: such a call is PyTorch's."""
    again = torch.tensor([[1] * 6 + [2] * 5 + [1] * 5, [3] * 16])
    x, used = torch.randn(2, 16, 32), torch.ones(2, 16, dtype=torch.bool)
    model = ByIds("ids")
    compiled = te_mlir.torch.jit(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ids in (torch.tensor([[1] * 6 + [2] * 10, [3] * 16]), again):
            torch.testing.assert_close(compiled(x, ids, used), model(x, ids, used))


def alike(ids):
    """Whether a query and a key have the same id."""
    return ids[:, None, :, None] == ids[:, None, None, :]


#: Masks that look like those of documents, but show other keys. Of ids of documents, numbers and places, [2, 300].
OTHERS = {
    "numbers as truths": lambda ids, some, place: torch.where(alike(ids), 0.0, -1e9).bool(),
    "integers as truths": lambda ids, some, place: torch.logical_and(torch.ones(300, 300).triu(1).long(), alike(ids)),
    "integers added": lambda ids, some, place: torch.where(alike(ids), some[:, None, None], -1e9),
    "bits of integers": lambda ids, some, place: torch.zeros(2, 1, 300, 300).masked_fill(
        (~(some - 2))[:, None, None].bool(), -1e9
    ),
    "values of places": lambda ids, some, place: torch.zeros(2, 1, 300, 300).masked_fill(
        ids[:, None, None] == torch.arange(300), -1e9
    ),
    "nan": lambda ids, some, place: alike(torch.where(ids == 1, torch.nan, ids)),
    "numbers that wrap": lambda ids, some, place: alike(
        (place.diff(prepend=place[:, :1]) != 0).cumsum(-1, dtype=torch.int8)
    ),
}


class Masked(nn.Module):
    """Attention with a mask, without the tokens that may be padding."""

    def __init__(self, mask):
        super().__init__()
        self.qkv, self.mask = nn.Linear(8, 24), mask

    def forward(self, x, *arguments):
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask(*arguments))[:, :, 1:270]


@pytest.mark.parametrize("name", OTHERS)
def test_other_masks(name):
    place = torch.arange(300).repeat(2, 1)
    model, inputs = Masked(OTHERS[name]), (torch.randn(2, 300, 8), place // 100, (place < 270).long(), place)
    compiled = te_mlir.torch.jit(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(compiled(*inputs), model(*inputs))


def test_masks_of_classes(monkeypatch):
    """A mask of a vocabulary is not read as one of so many queries, whose size is the square of the vocabulary."""

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            made = func(*args, **(kwargs or {}))
            assert not isinstance(made, torch.Tensor) or made.numel() <= 4 * 2000, func
            return made

    find = capture.find_terms

    def watched(*arguments):
        with Sizes():
            find(*arguments)
        found.append(arguments)

    found = []
    monkeypatch.setattr(capture, "find_terms", watched)
    layer, banned = nn.Linear(8, 2000), torch.arange(2000) % 7 == 0
    compiled = te_mlir.torch.jit(lambda x, banned: layer(x).masked_fill(banned[None], -1e9).log_softmax(-1))
    x = torch.randn(4, 8)
    torch.testing.assert_close(compiled(x, banned), layer(x).masked_fill(banned, -1e9).log_softmax(-1))
    assert found


def test_padding_between_tokens():
    """The device finds it in a later call: on a CPU, negative boundaries are an error of the call."""
    x, ids, used = torch.randn(2, 16, 32), torch.zeros(2, 16, dtype=torch.long), torch.ones(2, 16, dtype=torch.bool)
    compiled = te_mlir.torch.jit(ByIds("tokens"), strict=True)
    compiled(x, ids, used)
    used[0, 5] = False
    with pytest.raises(
        te_mlir.errors.RuntimeFailure, match=r"'documents\[0\]' to be from 0 to the 32 rows, but got -1"
    ):
        compiled(x, ids, used)
