"""Models of LitGPT, and its LoRA, in which only the adapters are trained."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("litgpt", reason="litgpt is not installed")

import litgpt.lora
import litgpt.model
from torch import nn
from torch.nn import functional as F
from torch_compare import assert_trains_whole, fresh  # noqa: F401

SIZES = dict(n_layer=1, n_embd=64, n_head=4, head_size=16, intermediate_size=128, padded_vocab_size=64, block_size=32)
GROUPED = dict(SIZES, n_query_groups=2)


class Training(nn.Module):
    """A model and its loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, targets):
        return F.cross_entropy(self.model(ids).flatten(0, 1), targets.flatten())


def batch():
    ids = torch.randint(0, 64, (2, 32))
    return ids, ids.roll(-1, 1)


#: (the name of a configuration, its sizes, the number of layers in FP8)
MODELS = {
    "llama": ("Llama-3.2-1B", GROUPED, 8),
    "qwen3": ("Qwen3-0.6B", GROUPED, 8),
    "pythia": ("pythia-14m", SIZES, 7),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    config, sizes, layers = MODELS[name]
    assert_trains_whole(Training(litgpt.model.GPT.from_name(config, **sizes)), batch(), layers)


QUERIES_AND_VALUES = dict(lora_r=4, lora_alpha=8, lora_query=True, lora_value=True)
EVERYTHING = dict(QUERIES_AND_VALUES, lora_key=True, lora_projection=True, lora_mlp=True, lora_head=True)

#: (the name of a configuration, its sizes, the choice of layers, the numbers of layers in FP8)
ADAPTED = {
    "queries and values": ("Llama-3.2-1B", GROUPED, QUERIES_AND_VALUES, 9),
    "one head of keys for each of queries": ("Llama-2-7b-hf", SIZES, QUERIES_AND_VALUES, 9),
    "all layers, with dropout": ("Llama-3.2-1B", GROUPED, dict(EVERYTHING, lora_dropout=0.1), 20),
}


@pytest.mark.parametrize("name", ADAPTED)
def test_lora(name):
    config, sizes, choice, layers = ADAPTED[name]
    model = litgpt.lora.GPT.from_name(config, **sizes, **choice)
    litgpt.lora.mark_only_lora_as_trainable(model)
    assert_trains_whole(Training(model), batch(), layers)
