"""Transformers of diffusers: DiT, Stable Diffusion 3 and Flux, whole and as single blocks."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="diffusers is not installed")

from diffusers.models.attention import JointTransformerBlock
from diffusers.models.transformers import dit_transformer_2d, transformer_flux, transformer_sd3
from torch import nn
from torch.nn import functional as F
from torch_compare import assert_trains_whole, fresh  # noqa: F401

HEADS = dict(num_attention_heads=4, attention_head_dim=16)
LATENTS, TEXT, TIME = (2, 4, 8, 8), (2, 8, 32), torch.tensor([3, 500])


class Training(nn.Module):
    """A model and its loss; the last input is what it should predict."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return F.mse_loss(self.model(*inputs[:-1], return_dict=False)[0], inputs[-1])


class Block(nn.Module):
    """A block, and the sum of the squares of its results as a loss."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *inputs):
        return sum(y.square().mean() for y in self.block(*inputs) if y is not None)


def places(text, side):
    """The axes (0, row, column) of tokens of a text and a square image, as Flux numbers them."""
    image = torch.cartesian_prod(torch.zeros(1, dtype=torch.int64), torch.arange(side), torch.arange(side))
    return torch.zeros(text, 3), image.float()


def dit():
    model = dit_transformer_2d.DiTTransformer2DModel(
        **HEADS, in_channels=4, num_layers=1, sample_size=8, patch_size=2, num_embeds_ada_norm=10
    )
    return Training(model), (torch.randn(LATENTS), TIME, torch.tensor([1, 7]), torch.randn(LATENTS))


def sd3(**options):
    model = transformer_sd3.SD3Transformer2DModel(
        **HEADS,
        **dict(sample_size=8, patch_size=2, in_channels=4, out_channels=4, num_layers=2, pos_embed_max_size=8),
        **dict(joint_attention_dim=32, caption_projection_dim=64, pooled_projection_dim=32),
        **options,
    )
    return Training(model), (torch.randn(LATENTS), torch.randn(TEXT), torch.randn(2, 32), TIME, torch.randn(LATENTS))


class FluxTraining(Training):
    def forward(self, x, text, pooled, time, text_ids, image_ids, guidance, target):
        return super().forward(x, text, pooled, time, image_ids, text_ids, guidance, target)


def flux():
    model = transformer_flux.FluxTransformer2DModel(
        **HEADS,
        **dict(patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, axes_dims_rope=(4, 6, 6)),
        **dict(joint_attention_dim=32, pooled_projection_dim=32, guidance_embeds=True),
    )
    x, text, pooled, time = torch.randn(2, 16, 16), torch.randn(TEXT), torch.randn(2, 32), torch.tensor([0.3, 0.9])
    guidance = torch.tensor([3.5, 4.0])
    return FluxTraining(model), (x, text, pooled, time, *places(8, 4), guidance, torch.randn(2, 16, 16))


def joint_block(**options):
    block = JointTransformerBlock(64, *HEADS.values(), context_pre_only=False, **options)
    return Block(block), (torch.randn(2, 16, 64), torch.randn(2, 8, 64), torch.randn(2, 64))


def flux_block(name):
    block = getattr(transformer_flux, name)(64, *HEADS.values())
    rotation = transformer_flux.FluxPosEmbed(10000, [4, 6, 6])(torch.cat(places(8, 4)))
    return Block(block), (torch.randn(2, 16, 64), torch.randn(2, 8, 64), torch.randn(2, 64), rotation)


#: The last block of Stable Diffusion 3 computes queries of the text that nothing reads.
UNREAD = r"blocks\.1\.attn\.(add_q_proj|norm_added_q)"

#: (a function that makes a model and its inputs, its arguments, the number of layers in FP8, a pattern of gradients that are 0)
MODELS = {
    # A number that a bias adds to all scores of a query does not change their softmax.
    "dit": (dit, {}, 18, r"to_k\.bias"),
    "sd3": (sd3, {}, 50, UNREAD),
    "sd3.5": (sd3, dict(dual_attention_layers=(0,), qk_norm="rms_norm"), 57, UNREAD),
    "flux": (flux, {}, 43, None),
    "a block of sd3": (joint_block, {}, 24, None),
    "a block of sd3.5": (joint_block, dict(qk_norm="rms_norm", use_dual_attention=True), 31, None),
    "a block of flux": (flux_block, dict(name="FluxTransformerBlock"), 24, None),
    "a block of flux for one stream": (flux_block, dict(name="FluxSingleTransformerBlock"), 8, None),
}


@pytest.mark.parametrize("name", MODELS)
def test_diffusion_transformers(name):
    make, options, layers, zero = MODELS[name]
    assert_trains_whole(*make(**options), layers, zero)
