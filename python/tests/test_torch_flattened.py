"""Batches that transformers' DataCollatorWithFlattening packs in one row, with and without boundaries."""

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("torch.nn.attention.varlen")

from test_torch_packed import GROUPED, MODELS, assert_alike, attentions, perturbed, run
from torch.nn.attention import flex_attention
from torch_compare import fresh  # noqa: F401
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask

import te_mlir
import te_mlir.torch
import te_mlir.torch.packed

LENGTHS = (9, 5, 18), (2, 3, 25, 2), (1, 31)


def flattened(lengths, **options):
    collator = transformers.DataCollatorWithFlattening(return_tensors="pt", **options)
    batch = collator([{"input_ids": torch.randint(0, 64, (n,)).tolist()} for n in lengths])
    return {**batch, "use_cache": False}


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3"])
def test_boundaries(name):
    """The reference is PyTorch with the mask that transformers makes of the positions."""
    model, config, options, windows = MODELS[name]
    config = getattr(transformers, config)(**GROUPED, **options)
    model = perturbed(getattr(transformers, model)._from_config(config, attn_implementation="te"))
    reference = copy.deepcopy(model)
    reference.set_attn_implementation("sdpa")
    backend = te_mlir.torch.Backend(strict=True, recipe=te_mlir.HighPrecision())
    compiled = torch.compile(model, backend=backend)
    for lengths in LENGTHS:
        batch = flattened(lengths, return_flash_attn_kwargs=True)
        assert_alike(*run(compiled, batch), *run(reference, batch))
    for graph in backend.graphs:
        lines = attentions(graph)
        assert len(graph.parts) == 1 and len(lines) == 2 and not graph.masks
        assert [" window_size = array<i64: 6, 0>" in line for line in lines] == list(windows)
        # Both layers read one argument with boundaries, and no mask is made.
        assert len({line.split(" documents ")[1].split()[0] for line in lines}) == 1
        assert not any("mask" in feed.key or "documents" in feed.key for part in graph.parts for feed in feeds(part))


def feeds(part):
    return [feed for _, feed, _, _ in part.feeder.made]


@pytest.mark.parametrize("implementation", ["te", "sdpa"])
def test_positions(implementation):
    """Without boundaries, the mask is made of positions that start again."""
    config = transformers.LlamaConfig(**GROUPED)
    model = perturbed(transformers.LlamaForCausalLM._from_config(config, attn_implementation=implementation))
    reference = copy.deepcopy(model)
    reference.set_attn_implementation("sdpa")
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    for lengths in LENGTHS:
        batch = flattened(lengths)
        assert "attention_mask" not in batch
        assert_alike(*run(compiled, batch), *run(reference, batch))
    (graph,) = compiled.te.graphs
    lines = attentions(graph)
    assert len(graph.parts) == 1 and len(lines) == 2 and all(" documents " in line for line in lines)


def test_a_block_mask(monkeypatch):
    """The model gets a block mask, because torch.compile cannot trace how transformers creates one."""
    monkeypatch.setattr(flex_attention, "_validate_device", lambda query, key, value: None)
    config = transformers.LlamaConfig(**GROUPED)
    model = perturbed(transformers.LlamaForCausalLM._from_config(config, attn_implementation="flex_attention"))
    reference = copy.deepcopy(model)
    reference.set_attn_implementation("sdpa")
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    for lengths in LENGTHS:
        batch = flattened(lengths)
        ids = (batch["position_ids"] == 0).cumsum(1)
        seen = lambda b, h, q, k: (q >= k) & (ids[b, q] == ids[b, k])
        mask = flex_attention.create_block_mask(seen, 1, None, 32, 32, device="cpu")
        assert_alike(*run(compiled, {**batch, "attention_mask": mask}), *run(reference, batch))
    (graph,) = compiled.te.graphs
    lines = attentions(graph)
    assert len(graph.parts) == 1 and len(lines) == 2 and all(" documents " in line for line in lines)


def test_boundaries_that_attention_by_a_mask_does_not_read():
    config = transformers.LlamaConfig(**GROUPED)
    model = perturbed(transformers.LlamaForCausalLM(config))
    compiled = te_mlir.torch.jit(model, strict=True, recipe=te_mlir.HighPrecision())
    batch = flattened(LENGTHS[0], return_flash_attn_kwargs=True)
    assert_alike(*run(compiled, batch), *run(model, batch))
    assert all(" documents " in line for line in attentions(compiled.te.graphs[0]))


#: (model, configuration, its options, what its te.attention has)
BY_HAND = {
    "sinks": (
        "GptOssForCausalLM",
        "GptOssConfig",
        dict(head_dim=16, num_local_experts=2, num_experts_per_tok=1, sliding_window=7),
        " sinks %",
    ),
    "cap": ("Gemma2ForCausalLM", "Gemma2Config", dict(head_dim=16, attn_logit_softcapping=0.5), " softcap = "),
}


def masks_of(model, batch):
    """The masks of the documents, which gpt-oss does not make of the positions."""
    embedded = model.get_input_embeddings()(batch["input_ids"])
    options = dict(config=model.config, inputs_embeds=embedded, attention_mask=None, past_key_values=None)
    options["position_ids"] = batch["position_ids"]
    return {
        "full_attention": create_causal_mask(**options),
        "sliding_attention": create_sliding_window_causal_mask(**options),
    }


@pytest.mark.parametrize("with_boundaries", [False, True])
@pytest.mark.parametrize("name", BY_HAND)
def test_attention_by_hand(name, with_boundaries):
    """Neither SDPA nor varlen_attn has sinks and capped scores."""
    model, config, options, wanted = BY_HAND[name]
    config = getattr(transformers, config)(**{**GROUPED, **options, "num_hidden_layers": 1})
    model = perturbed(getattr(transformers, model)._from_config(config, attn_implementation="te"))
    reference = copy.deepcopy(model)
    reference.set_attn_implementation("eager")
    backend = te_mlir.torch.Backend(strict=True, recipe=te_mlir.HighPrecision())
    compiled = torch.compile(model, backend=backend)
    ids = torch.randint(0, 64, (2, 32))
    batches = [{"input_ids": ids, "labels": ids, "use_cache": False}]
    if with_boundaries:
        batches = [flattened(lengths, return_flash_attn_kwargs=True) for lengths in ((9, 5, 18), (3, 25, 4))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in batches:
            masks = {"attention_mask": masks_of(reference, batch)} if with_boundaries else {}
            expected = run(reference, {**batch, **masks})
            for each in (model, compiled):
                assert_alike(*run(each, batch), *expected)
    lines = [line for graph in backend.graphs for line in attentions(graph)]
    assert lines and all(wanted in line and (" documents " in line) == with_boundaries for line in lines)


def test_attention_by_hand_behind_cached_keys():
    """The last tokens of a sequence see all keys before them, also where only they have queries."""
    config = transformers.LlamaConfig(**GROUPED)
    module = transformers.models.llama.modeling_llama.LlamaAttention(config, 0)
    q, k, v = (torch.randn(2, heads, 8, 16) for heads in (4, 2, 2))
    whole, _ = te_mlir.torch.packed.attention(module, q, k, v, None, softcap=0.5)
    last, _ = te_mlir.torch.packed.attention(module, q[:, :, 5:], k, v, None, softcap=0.5)
    torch.testing.assert_close(last, whole[:, 5:])


def test_what_packed_attention_lacks():
    config = transformers.LlamaConfig(**GROUPED, attention_dropout=0.1)
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="te")
    with pytest.raises(ValueError, match="expected attention of packed documents without dropout"):
        model(**flattened(LENGTHS[0], return_flash_attn_kwargs=True))
