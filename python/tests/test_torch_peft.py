"""peft's LoRA on models of transformers: only the adapters are trained, and the frozen weights cost nothing."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft", reason="peft is not installed")

from torch import nn
from torch_compare import assert_trains_whole, fresh, trained  # noqa: F401

import te_mlir
import te_mlir.torch
import te_mlir.torch.optim

transformers.logging.set_verbosity_error()


class Training(nn.Module):
    """A model with adapters, and its loss."""

    def __init__(self, model, **options):
        super().__init__()
        self.model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", r=4, **options))

    def forward(self, ids):
        return self.model(input_ids=ids, labels=ids).loss


def llama(**options):
    sizes = dict(vocab_size=64, hidden_size=64, intermediate_size=128, num_attention_heads=4, num_key_value_heads=2)
    config = transformers.LlamaConfig(**sizes, num_hidden_layers=2, use_cache=False)
    return Training(transformers.LlamaForCausalLM(config), **options)


def gpt2(**options):
    """Its weights are stored as [in, out]."""
    config = transformers.GPT2Config(vocab_size=64, n_embd=64, n_layer=1, n_head=4, n_positions=32, use_cache=False)
    return Training(transformers.GPT2LMHeadModel(config), fan_in_fan_out=True, **options)


def tokens():
    return (torch.randint(0, 64, (2, 32)),)


#: (a function that makes a model, its options, the number of layers in FP8)
MODELS = {
    "queries and values": (llama, {}, 23),
    "all layers, with dropout": (llama, dict(target_modules="all-linear", lora_dropout=0.1), 43),
    "a head and embeddings": (llama, dict(target_modules=["q_proj", "embed_tokens"], modules_to_save=["lm_head"]), 20),
    "gpt2": (gpt2, dict(target_modules=["c_attn", "c_proj", "c_fc"]), 13),
}


@pytest.mark.parametrize("name", MODELS)
def test_lora(name):
    make, options, layers = MODELS[name]
    assert_trains_whole(make(**options), tokens(), layers)


def test_checkpoints():
    """transformers lets results of the frozen embedding require gradients for checkpoints, which torch.compile cannot trace."""
    module = llama(target_modules="all-linear")
    module.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    module.model.disable_input_require_grads()
    assert_trains_whole(module.train(), tokens(), 43)


@pytest.mark.parametrize("main_grad", [False, True])
def test_frozen_weights_have_no_gradients(main_grad):
    """Nothing computes gradients of frozen weights, and the optimizer has no moments of them."""
    module = llama().bfloat16()
    adapters = {name for name, _ in module.named_parameters() if "lora_" in name}
    recipe = te_mlir.Float8CurrentScaling()
    compiled = te_mlir.torch.jit(module, strict=True, recipe=recipe, main_grad=main_grad)
    trained(compiled, *tokens())
    frozen = {name: p for name, p in module.named_parameters() if name not in adapters}
    assert len(adapters) == 8 and len(frozen) == 21
    assert all(p.grad is None and not hasattr(p, "main_grad") for p in frozen.values())
    rows = [row.split()[:2] for row in compiled.te.report("precision").splitlines()]
    layers = [row[1] for row in rows if row[:1] == ["wgrad"]]
    assert len(layers) == 8 and all("lora_" in layer for layer in layers), layers
    # The first layer's inputs are embeddings, which are frozen: no gradient goes back to them.
    layers = [row[1] for row in rows if row[:1] == ["dgrad"] and "layers.0.self_attn" in row[1]]
    assert sorted(layer.rpartition("self_attn.")[2] for layer in layers) == sorted(
        ["o_proj", "q_proj.lora_B.default", "v_proj.lora_B.default"]
    )
    if main_grad:
        return
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    optimizer = te_mlir.torch.optim.AdamW(module.parameters(), lr=1e-2)
    optimizer.step()
    changed = {name for name, p in module.named_parameters() if not torch.equal(p, before[name])}
    stateful = {name for name, p in module.named_parameters() if p in optimizer.state}
    assert stateful == adapters and changed and changed <= adapters
