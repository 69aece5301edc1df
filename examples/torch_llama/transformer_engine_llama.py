"""The Llama of speed.py built from TransformerEngine's modules, with its fused weights and its fused cross entropy.

Only for comparison: the layers are TransformerLayer (one weight for queries, keys and values, one for gate and up), and
the head is a Linear under the same recipe.
"""

import torch
import transformer_engine.pytorch as te
from torch.nn.functional import pad
from transformer_engine.common import recipe
from transformer_engine.pytorch.attention import RotaryPositionEmbedding

RECIPES = {
    "bf16": None,
    "delayed": recipe.DelayedScaling,
    "current": recipe.Float8CurrentScaling,
    "block": recipe.Float8BlockScaling,
}


class TransformerEngineLlama(torch.nn.Module):
    """The mean loss of token ids [sequences, positions] as their own labels, shifted, under the recipe of that name."""

    def __init__(self, sizes, recipe_name):
        super().__init__()
        hidden = sizes["hidden_size"]
        options = dict(params_dtype=torch.bfloat16, device="cuda")
        self.recipe = RECIPES[recipe_name] and RECIPES[recipe_name]()
        self.embedding = torch.nn.Embedding(sizes["vocab_size"], hidden, dtype=torch.bfloat16, device="cuda")
        self.layers = torch.nn.ModuleList(
            te.TransformerLayer(
                hidden,
                sizes["intermediate_size"],
                sizes["num_attention_heads"],
                num_gqa_groups=sizes["num_key_value_heads"],
                hidden_dropout=0.0,
                attention_dropout=0.0,
                fuse_qkv_params=True,
                bias=False,
                activation="swiglu",
                normalization="RMSNorm",
                attn_input_format="bshd",
                **options,
            )
            for _ in range(sizes["num_hidden_layers"])
        )
        self.norm = te.RMSNorm(hidden, dtype=torch.bfloat16, device="cuda")
        self.head = te.Linear(hidden, sizes["vocab_size"], bias=False, **options)
        self.rotary = RotaryPositionEmbedding(hidden // sizes["num_attention_heads"])

    def forward(self, ids):
        frequencies = self.rotary(ids.shape[1])
        labels = pad(ids[:, 1:], (0, 1), value=-100)
        with te.autocast(enabled=self.recipe is not None, recipe=self.recipe):
            x = self.embedding(ids)
            for layer in self.layers:
                x = layer(x, rotary_pos_emb=frequencies)
            logits = self.head(self.norm(x))
        return te.parallel_cross_entropy(logits, labels, 0.0, True)
