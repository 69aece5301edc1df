"""Packed and padded batches: attention masks that divide each row into documents."""

import itertools
import random
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from dropouts import same_dropouts
from torch import nn
from torch.nn import functional as F
from torch_compare import fresh  # noqa: F401

import te_mlir
import te_mlir.torch
from te_mlir.torch import graph as graphs
from te_mlir.torch.documents import Latest, boundaries_of, documents_in, rows_of
from te_mlir.torch.masks import CAUSAL, OPEN, OTHER, Kind, kind_for

transformers.logging.set_verbosity_error()

#: Steps with new shapes.
STEPS = 16

# The recogniser


def random_mask(draw, rows, sequence, causal, left):
    """Documents and padding in each row, bool [rows, 1, sequence, sequence]."""
    seen = torch.zeros(rows, 1, sequence, sequence, dtype=torch.bool)
    own = torch.ones(sequence, sequence, dtype=torch.bool)
    own = own.tril() if causal else own
    own = own if left is None else own.triu(-left)
    for row in range(rows):
        real, begin = torch.zeros(sequence, dtype=torch.bool), 0
        pads = draw.random() < 0.5
        while begin < sequence:
            end = draw.randint(begin + 1, sequence)
            if not pads or draw.random() < 0.6:
                seen[row, 0, begin:end, begin:end] = own[begin:end, begin:end]
                real[begin:end] = True
            begin = end
        first = int(real.int().argmax())
        style = draw.choice(("hidden", "real", "every"))
        for query in torch.nonzero(~real).flatten().tolist():
            if style == "every" and causal and real.any():
                # As transformers does for padding on the left. Other padding sees no key.
                seen[row, 0, query] = query < first
            elif style == "real":
                seen[row, 0, query] = real & own[query]
    return seen


def additive(seen):
    return torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)


def assert_meant(seen, boundaries, causal, left):
    """Checks, one query and key at a time, that documents with these boundaries have a mask [rows, s, s] where used."""
    sequence = seen.shape[-1]
    assert boundaries[0] == 0 and boundaries[-1] == seen.shape[0] * sequence and boundaries == sorted(boundaries)
    document = [sum(begin <= row for begin in boundaries) for row in range(seen.shape[0] * sequence)]
    for row, mask in enumerate(seen.tolist()):
        unmasked = [causal and all(keys) and any(mask[0][1:]) and not all(mask[-1]) for keys in mask]
        used = [mask[i][i] and not unmasked[i] for i in range(sequence)]
        for i, j in itertools.product(range(sequence), repeat=2):
            alike = document[row * sequence + i] == document[row * sequence + j]
            meant = alike and (not causal or j <= i) and (left is None or i - left <= j)
            if used[i]:
                assert mask[i][j] == meant, (row, i, j)
            elif not unmasked[j]:
                # No query sees padding.
                assert not mask[j][i], (row, j, i)


def found_in(mask, sequence):
    """The kind of a mask [rows, 1, s, s]; if it is one of documents, they are checked."""
    batches = (mask.shape[0], 1)
    kind = kind_for(mask, batches, sequence, None)
    if kind.documents:
        found = documents_in(rows_of(mask, batches, sequence), True, kind.name == "causal", kind.window_left)
        assert found.facts.tolist() == [1, int(found.starts.sum()), int(kind.blind)]
        boundaries = boundaries_of(found.starts, kind.documents).tolist()
        assert len(boundaries) == kind.documents + 1 and kind.documents & (kind.documents - 1) == 0
        seen = (mask if mask.dtype is torch.bool else mask == 0)[:, 0]
        assert_meant(seen, boundaries, kind.name == "causal", kind.window_left)
        assert kind.blind == bool((~found.seeing).any())
    return kind


@pytest.mark.parametrize("causal, left", [(True, None), (True, 0), (True, 2), (False, None)])
def test_documents_are_found_in_masks(causal, left):
    draw = random.Random(0)
    for _ in range(80):
        rows, sequence = draw.randint(1, 3), draw.randint(1, 9)
        seen = random_mask(draw, rows, sequence, causal, left)
        mask = draw.choice((seen, additive(seen)))
        assert found_in(mask, sequence) != OTHER, seen.int()
        # One other bit is another mask of documents, or none.
        row, query, key = (draw.randrange(n) for n in (rows, sequence, sequence))
        seen[row, 0, query, key] ^= True
        found_in(seen, sequence)


def test_every_small_mask():
    """The masks that are accepted are exactly what documents mean; most masks of 3 tokens are none."""
    kinds = [
        found_in(torch.tensor(bits, dtype=torch.bool).view(1, 1, 3, 3), 3)
        for bits in itertools.product((0, 1), repeat=9)
    ]
    assert 300 < kinds.count(OTHER) < 490


def test_one_bit_makes_another_mask():
    """A bit in a query that is used, where no other documents have the mask."""
    seen = torch.block_diag(*(torch.ones(n, n) for n in (6, 4, 6))).bool()
    for whole in (seen.tril(), seen, seen.tril().triu(-3)):
        assert found_in(whole[None, None], 16).documents == 4
        for query, key in itertools.product(range(16), repeat=2):
            last = query == key and query in (5, 9, 15)
            near = whole.clone()
            near[query, key] ^= True
            # The last query of a causal document may be padding on the right.
            accepted = last and not torch.equal(whole, seen)
            assert (found_in(near[None, None], 16) != OTHER) == accepted, (query, key)


def test_as_many_keys_but_others():
    """A query that sees a key of an earlier document instead of one of its own."""
    seen = torch.block_diag(torch.ones(2, 2), torch.ones(6, 6)).bool().tril()[None, None].clone()
    seen[0, 0, 7, [1, 3]] = torch.tensor([True, False])
    assert found_in(seen, 8) == OTHER


def test_one_look_at_a_mask():
    """Several arguments that need the documents of a mask share them, until the mask changes."""
    looks = []
    looked = Latest(lambda mask: looks.append(mask) or documents_in(rows_of(mask, (2, 1), 16), True, True, None))
    mask = packed(6, 10)
    assert looked(mask) is looked(mask) and looked(mask).starts.sum() == 4 and len(looks) == 1
    mask[0] = packed(16)[0]
    assert looked(mask).starts.sum() == 3 and len(looks) == 2
    assert looked(packed(16)).starts.sum() == 2 and len(looks) == 3


def test_rows_that_see_everything_are_no_padding():
    seen = torch.block_diag(torch.ones(3, 3), torch.ones(5, 5)).bool().tril().expand(2, 1, 8, 8).clone()
    kind = kind_for(seen, (2, 1), 8, None)
    assert kind == CAUSAL._replace(documents=4)
    seen[0] = True
    for before in (None, kind, kind._replace(blind=True)):
        assert kind_for(seen, (2, 1), 8, before) == OTHER
        assert kind_for(torch.ones_like(seen), (2, 1), 8, before) == (OPEN if before is None else OTHER)


def test_numbers_that_do_not_hide_are_no_mask():
    seen = torch.block_diag(torch.ones(3, 3), torch.ones(5, 5)).bool().tril()[None, None]
    for number, wanted in ((-1e3, OTHER), (float("nan"), OTHER), (-1e4, CAUSAL), (float("-inf"), CAUSAL)):
        mask = torch.zeros(seen.shape).masked_fill(~seen, number)
        assert kind_for(mask, (1, 1), 8, None).name == wanted.name
    biased = additive(seen)
    biased[0, 0, 7, 7] = 0.5
    assert kind_for(biased, (1, 1), 8, None) == OTHER
    of_heads = seen.expand(1, 2, 8, 8)
    assert kind_for(of_heads, (1, 1), 8, None) == OTHER and kind_for(of_heads, (1, 2), 8, None).documents == 4


def test_padding_needs_a_mask_of_its_own():
    """In a mask that all rows of the batch share, queries that do not see their own key may be used."""
    seen = (torch.arange(8) < 5).expand(8, 8)
    for mask in (seen, seen[None, None]):
        assert kind_for(mask, (2, 1), 8, None) == OTHER
    assert kind_for(seen.expand(2, 1, 8, 8), (2, 1), 8, None) == OPEN._replace(documents=4)
    packed = torch.block_diag(torch.ones(3, 3), torch.ones(5, 5)).bool()
    assert kind_for(packed, (2, 1), 8, None) == OPEN._replace(documents=4)


# Calls with several masks


class Masked(nn.Module):
    """Two attentions with one mask argument; heads_first: q, k and v are stored as [batch, heads, sequence, width]."""

    def __init__(self, heads_first=False):
        super().__init__()
        self.qkv, self.out, self.heads_first = nn.Linear(32, 96), nn.Linear(32, 32), heads_first

    def forward(self, x, mask):
        turn = (lambda t: t) if self.heads_first else (lambda t: t.transpose(1, 2))
        shape = (2, 2, 16, 16) if self.heads_first else (2, 16, 2, 16)
        for _ in range(2):
            q, k, v = (turn(t.reshape(shape)) for t in self.qkv(x).chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = self.out(turn(y).reshape(x.shape))
        return x


def packed(*lengths, left=None):
    """The causal mask of documents, bool [2, 1, 16, 16]; both rows of the batch have these lengths."""
    seen = torch.block_diag(*(torch.ones(n, n) for n in lengths)).bool().tril()
    return (seen if left is None else seen.triu(-left)).expand(2, 1, 16, 16).clone()


def check(model, compiled, mask):
    """Compares gradients with PyTorch's; returns the graph, of which there is one."""
    x = torch.randn(2, 16, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, wanted = (
            torch.autograd.grad(one(x, mask).square().sum(), list(model.parameters())) for one in (compiled, model)
        )
    for one, two in zip(found, wanted):
        assert (one - two).norm() < 1e-5 * two.norm()
    (graph,) = compiled.te.graphs
    return graph


def attentions(graph):
    lines = [str(op) for region in graph.regions for op in region.function.ops]
    return [line for line in lines if "te.attention" in line]


def test_more_documents_are_compiled_once_for_each_power_of_two():
    model = Masked()
    compiled = te_mlir.torch.jit(model, strict=True)
    built = []
    calls = (
        ((16,), 0),
        ((9, 7), 4),
        ((16,), 4),
        ((5, 5, 6), 8),
        ((4, 4, 4, 4), 8),
        ((16,), 8),
        ((1,) * 16, 32),
        ((3, 13), 32),
    )
    for lengths, capacity in calls:
        graph = check(model, compiled, packed(*lengths))
        (kind,) = graph.masks.values() or (CAUSAL,)
        assert kind == Kind("causal", None, capacity)
        assert len(attentions(graph)) == 2 and not graph.reasons
        assert all((f"tensor<{capacity + 1}xi32>" in line) == (capacity > 0) for line in attentions(graph))
        if graph.built not in built:
            built.append(graph.built)
    assert len(built) == 4


def test_masks_of_rows_are_masks_of_documents():
    """A window, and queries that see no key, are each one more compilation; other masks are PyTorch's from then on."""
    model = Masked()
    compiled = te_mlir.torch.jit(model)
    left = packed(16)
    left[1, :, :, :5] = False
    wanted = Kind("causal", None, 4)
    assert list(check(model, compiled, packed(8, 8)).masks.values()) == [wanted]
    assert list(check(model, compiled, left).masks.values()) == [wanted._replace(blind=True)]
    graph = check(model, compiled, packed(6, 10, left=3))
    assert list(graph.masks.values()) == [Kind("causal", 3, 4, True)] and len(attentions(graph)) == 2
    built = graph.built
    for mask in (packed(3, 13, left=3), packed(16, left=3), packed(4, 12, left=3)):
        assert check(model, compiled, mask).built is built
    graph = check(model, compiled, packed(16))
    assert list(graph.masks.values()) == [OTHER] and not attentions(graph)

    torch._dynamo.reset()
    compiled = te_mlir.torch.jit(model, strict=True)
    both = torch.block_diag(torch.ones(6, 6), torch.ones(10, 10)).bool().expand(2, 1, 16, 16).clone()
    for mask, kind in ((torch.ones_like(both), OPEN), (both, OPEN._replace(documents=4))):
        graph = check(model, compiled, mask)
        assert list(graph.masks.values()) == [kind] and not any("causal" in line for line in attentions(graph))
    assert check(model, compiled, torch.ones_like(both)).built is graph.built


def test_other_masks_are_products_and_a_softmax():
    """On the CPU; a GPU, whose PyTorch has kernels that do not store the scores, keeps them in PyTorch."""
    prefix = packed(8, 8)
    prefix[:, :, 8:, :2] = True
    for mask in (prefix, torch.rand(2, 1, 16, 16) < 0.5 + torch.eye(16)):
        torch._dynamo.reset()
        model = Masked()
        graph = check(model, te_mlir.torch.jit(model, strict=True), mask)
        assert list(graph.masks.values()) == [OTHER] and not attentions(graph) and not graph.reasons


def test_heads_may_be_batches():
    """Queries stored as [batch, heads, sequence, width] have the boundaries of each row once for each head."""
    model = Masked(heads_first=True)
    graph = check(model, te_mlir.torch.jit(model, strict=True), packed(6, 10))
    assert all("sequence = 16" in line and "documents" in line for line in attentions(graph))


class Crossed(Masked):
    """Attention of tokens to those of an encoder."""

    def __init__(self):
        super().__init__()
        self.kv = nn.Linear(32, 64)

    def forward(self, x, mask):
        heads = lambda t: t.view(2, 16, 2, 16).transpose(1, 2)
        k, v = (heads(t) for t in self.kv(self.out(x)).chunk(2, -1))
        y = F.scaled_dot_product_attention(heads(self.qkv(x)[..., :32]), k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(x.shape))


def test_keys_of_an_encoder_are_not_those_of_the_queries():
    """Queries are not padding where keys are, whether the mask is causal or not."""
    keys = (torch.arange(16) < torch.tensor([12, 16])[:, None])[:, None, None]
    for mask in (keys, keys & torch.ones(16, 16, dtype=torch.bool).tril()):
        torch._dynamo.reset()
        model = Crossed()
        graph = check(model, te_mlir.torch.jit(model), mask)
        assert list(graph.masks.values()) == [OTHER] and not attentions(graph)


class Turned(Masked):
    """The second attention has the axes of heads and batches exchanged."""

    def forward(self, x, mask):
        for order in ((0, 2, 1, 3), (2, 0, 1, 3)):
            q, k, v = (t.reshape(2, 16, 2, 16).permute(order) for t in self.qkv(x).chunk(3, -1))
            y = ((q @ k.transpose(2, 3) * 0.25 + mask).softmax(-1) @ v).permute(
                (0, 2, 1, 3) if order[0] == 0 else (1, 2, 0, 3)
            )
            x = self.out(y.reshape(x.shape))
        return x


def test_attentions_that_read_a_mask_in_two_ways():
    """The rows of the mask are those of the batch for one attention, and those of the heads for another."""
    mask = torch.stack([packed(6, 10)[0], packed(3, 13)[0]])
    check(model := Turned(), te_mlir.torch.jit(model), torch.zeros(2, 1, 16, 16).masked_fill(~mask, -1e9))


def test_bart_with_padding():
    """Attention of the decoder to the encoder, which has padding, is products and a softmax (on a GPU in PyTorch)."""
    sizes = {f"{part}_{name}": n for part in ("encoder", "decoder") for name, n in LAYERS.items()}
    config = transformers.BartConfig(vocab_size=64, d_model=64, dropout=0.0, **sizes)
    model = perturbed(transformers.BartForConditionalGeneration(config))
    compiled = te_mlir.torch.jit(model, strict=True)
    for counts in ((20, 29), (3, 32)):
        inputs = {**padded(counts), "labels": torch.randint(0, 64, (2, 32))}
        _, wanted = run(model, inputs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, gradients = run(compiled, inputs)
        largest = max(gradient.abs().max() for gradient in wanted.values())
        assert all((gradients[n] - g).abs().max() < 1e-5 * largest for n, g in wanted.items())
    (graph,) = compiled.te.graphs
    lines = attentions(graph)
    assert sum(" documents " in line for line in lines) == 1 and len(lines) == 2


# Models

#: The sizes of an encoder or a decoder of BART.
LAYERS = {"layers": 1, "attention_heads": 4, "ffn_dim": 128}
SIZES = dict(vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
GROUPED = dict(SIZES, num_key_value_heads=2)

#: (model, configuration, its options, whether each layer has a window)
MODELS = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", {}, (False, False)),
    "mistral": ("MistralForCausalLM", "MistralConfig", dict(sliding_window=7), (True, True)),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", dict(head_dim=16, sliding_window=7), (True, False)),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", dict(head_dim=16), (False, False)),
}


def perturbed(model):
    """The model, with attention that depends on the tokens."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def padded(counts, left=False):
    """A batch of as many tokens as `counts` in each row."""
    ids = torch.randint(0, 64, (2, 32))
    mask = (torch.arange(32) < torch.tensor(counts)[:, None]).long()
    mask = mask.flip(1) if left else mask
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def flattened(*lengths):
    """Documents that transformers packs in one row."""
    collator = transformers.DataCollatorWithFlattening(return_tensors="pt")
    return collator([{"input_ids": torch.randint(0, 64, (n,)).tolist()} for n in lengths])


BATCHES = {
    "packed": (lambda: flattened(9, 5, 18), lambda: flattened(2, 3, 25, 2)),
    "right": (lambda: padded((20, 29)), lambda: padded((32, 3))),
    "left": (lambda: padded((20, 29), left=True), lambda: padded((32, 3), left=True)),
}


def run(model, inputs):
    """(The loss, the gradients by name)."""
    model.zero_grad()
    loss = model(**inputs).loss
    loss.backward()
    gradients = {n.removeprefix("_orig_mod."): p.grad for n, p in model.named_parameters() if p.grad is not None}
    return loss.detach(), {name: gradient.clone() for name, gradient in gradients.items()}


def assert_alike(loss, gradients, wanted_loss, wanted):
    """Checks a loss and gradients within 1e-5 of the loss and of the largest gradient."""
    assert abs(loss - wanted_loss) < 1e-5 * wanted_loss
    largest = max(gradient.abs().max() for gradient in wanted.values())
    for name, gradient in wanted.items():
        assert (gradients[name] - gradient).abs().max() < 1e-5 * largest, name


def assert_as_pytorch(model, batches):
    """Checks loss and gradients of some calls, and that the model is one compiled part; returns its attentions."""
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    for inputs in batches:
        wanted_loss, wanted = run(model, inputs)
        loss, gradients = run(compiled, inputs)
        assert_alike(loss, gradients, wanted_loss, wanted)
    (graph,) = compiled.te.graphs
    assert not graph.reasons and len(graph.parts) == 1
    return attentions(graph)


@pytest.mark.sampled
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", MODELS)
def test_models_with_packed_and_padded_batches(name, batch):
    model, config, options, windows = MODELS[name]
    model = perturbed(getattr(transformers, model)(getattr(transformers, config)(**GROUPED, **options)))
    batches = [{**make(), "use_cache": False} for make in BATCHES[batch]]
    if (name, batch) == ("gemma2", "left"):
        # Attention as formulas gives padding, which predicts the first token, the mean of all values.
        for inputs in batches:
            inputs["labels"][:, 1:][inputs["attention_mask"][:, :-1] == 0] = -100
    lines = assert_as_pytorch(model, batches)
    assert [" window_size = array<i64: 6, 0>" in line for line in lines] == list(windows)
    boundaries = [line.split(" documents ")[1].split()[0] for line in lines]
    assert len(set(boundaries)) == len(set(windows))


class Used(nn.Module):
    """A model of embeddings that are 0 for tokens that are padding."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, used, **inputs):
        return self.model(inputs_embeds=torch.where(used[..., None], x, 0.0), use_cache=False, **inputs)


@pytest.mark.parametrize("batch", BATCHES)
def test_what_padding_contains_changes_nothing(batch):
    """Under a recipe whose scales span all tokens; GPT-NeoX has biases and layer norms."""
    for name, config, options in (
        ("LlamaForCausalLM", "LlamaConfig", GROUPED),
        ("GPTNeoXForCausalLM", "GPTNeoXConfig", SIZES),
    ):
        model = perturbed(Used(getattr(transformers, name)(getattr(transformers, config)(**options))))
        compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.Float8CurrentScaling())
        inputs = BATCHES[batch][0]()
        if batch == "packed":  # The last document is padding.
            used = torch.arange(32)[None] < 14
            inputs["labels"][~used] = -100
            inputs["labels"][:, 14] = -100
        else:
            used = inputs["attention_mask"].bool()
            inputs["labels"][:, 1:][~used[:, :-1]] = -100
        ids = inputs.pop("input_ids")
        found = []
        for content in (0.0, float("nan"), float("inf")):
            x = model.model.get_input_embeddings()(ids).detach()
            x[~used] = content
            x.requires_grad_()
            loss, gradients = run(compiled, {**inputs, "x": x, "used": used})
            assert torch.isfinite(loss)
            found.append({**gradients, "loss": loss, "x": x.grad})
        for other in found[1:]:
            assert [n for n, value in found[0].items() if not torch.equal(value, other[n])] == []
        assert not found[0]["x"][~used].any() and found[0]["x"][used].any()
        (graph,) = compiled.te.graphs
        assert any("te.zero_unused" in str(op) for region in graph.regions for op in region.function.ops)


def padded_text(shape):
    """A batch whose rows have any lengths; the first has the longest."""
    ids, ends = torch.randint(0, 64, shape), torch.randint(1, shape[1], (shape[0], 1))
    ends[0] = shape[1]
    used = torch.arange(shape[1]) < ends
    return {"input_ids": ids, "attention_mask": used.long(), "labels": ids.where(used, -100), "use_cache": False}


def flattened_text(draw, tokens):
    """Documents of up to 20 tokens in one row of so many."""
    lengths = []
    while sum(lengths) < tokens:
        lengths.append(min(draw.randint(1, 20), tokens - sum(lengths)))
    return {**flattened(*lengths), "use_cache": False}


@pytest.mark.sampled
@pytest.mark.parametrize("batch", ["flattened", "padded"])
@pytest.mark.parametrize("name", ["llama", "qwen3", "mistral", "gemma2"])
def test_steps_with_new_shapes(name, batch):
    """Each step has another shape; the first is compiled as it is, others for powers of two."""
    draw = random.Random(0)
    model, config, options, _ = MODELS[name]
    model = perturbed(
        getattr(transformers, model)(getattr(transformers, config)(**{**GROUPED, **options, "num_hidden_layers": 1}))
    )
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    if batch == "padded":
        shapes = draw.sample(list(itertools.product(range(3, 5), range(17, 65))), STEPS)
    else:
        shapes = draw.sample(range(33, 129), STEPS)
    for step, shape in enumerate(shapes):
        inputs = padded_text(shape) if batch == "padded" else flattened_text(draw, shape)
        loss = compiled(**inputs).loss
        loss.backward()
        if step % 5 == 0:
            wanted = model(**inputs).loss
            assert abs(loss - wanted) < 1e-5 * wanted, shape
    # Batches of up to 4, and lengths of 32 and 64; or lengths of 64 and 128. A size counts as changing once it changed, so
    # one more program has the first batch.
    programs = [len(region.compilation._programs) for graph in compiled.te.graphs for region in graph.regions]
    assert len(programs) <= (4 if batch == "padded" else 3) and set(programs) == {1}
    assert not compiled.te.calls.left and not compiled.te.exact


def test_bert_with_padding():
    config = transformers.BertConfig(**SIZES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = perturbed(transformers.BertForMaskedLM(config))
    for left in (False, True):
        torch._dynamo.reset()
        lines = assert_as_pytorch(model, [padded((32, 32)), padded((20, 29), left), padded((32, 1), left)])
        assert len(lines) == 2 and all(" documents " in line and "causal" not in line for line in lines)


def test_bert_with_padding_and_dropout(monkeypatch):
    """The zeros are those of a padded batch: a document begins with its row, and has its positions."""
    traced, flatten = [], graphs.flatten
    monkeypatch.setattr(graphs, "flatten", lambda *args: traced.append(args) or flatten(*args))
    model = perturbed(transformers.BertForMaskedLM(transformers.BertConfig(**SIZES)))
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    inputs = padded((20, 29))
    # The call compiles for another kind of mask and begins again. The graph is traced once, and the state is drawn once.
    torch.manual_seed(3)
    loss, gradients = run(compiled, inputs)
    assert len(traced) == 1 and compiled.te.graphs[0].masks
    torch.manual_seed(3)
    with same_dropouts():
        wanted_loss, wanted = run(model, inputs)
    assert_alike(loss, gradients, wanted_loss, wanted)
    (graph,) = compiled.te.graphs
    assert all(" documents " in line and " dropout = " in line for line in attentions(graph))


def test_a_document_does_not_depend_on_another():
    """Checks that the comparisons above can fail: a token changes the logits of its document alone."""
    config = transformers.LlamaConfig(**GROUPED)
    compiled = te_mlir.torch.jit(perturbed(transformers.LlamaForCausalLM(config)), strict=True)
    inputs = {**flattened(9, 5, 18), "use_cache": False}
    one = compiled(**inputs).logits.detach().clone()
    inputs["input_ids"][0, 10] += 1 - 2 * (inputs["input_ids"][0, 10] > 30).long()
    two = compiled(**inputs).logits.detach()
    assert torch.equal(one[0, :10], two[0, :10]) and torch.equal(one[0, 14:], two[0, 14:])
    assert all((one[0, n] - two[0, n]).norm() > 0 for n in range(10, 14))
