"""timm's vision transformer with LayerScale and DropPath."""

import contextlib
import sys
import types

import pytest

torch = pytest.importorskip("torch")


class _Named(type):
    """The metaclass of a class that has any attribute, as timm reads those of an enumeration."""

    def __getattr__(cls, name):
        return _of_module(name, name)


def _of_module(name, value):
    if name.startswith("__"):
        raise AttributeError(name)
    return value


@contextlib.contextmanager
def without_torchvision():
    """timm imports torchvision for its data sets; PyPI has torchvision only for PyTorch's build for CUDA."""
    parts = ("", ".ops", ".ops.misc", ".transforms", ".transforms.functional", ".datasets")
    parts += (".models", ".models.feature_extraction")
    made = {f"torchvision{part}": types.ModuleType(f"torchvision{part}") for part in parts}
    for name, module in made.items():
        module.__getattr__ = lambda name: _of_module(name, _Named(name, (), {}))
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(made[parent], child, module)
    missing = {name: module for name, module in made.items() if name not in sys.modules}
    sys.modules.update(missing)
    yield
    for name in missing:
        del sys.modules[name]


with without_torchvision():
    timm = pytest.importorskip("timm", reason="timm is not installed")

from timm.models.vision_transformer import VisionTransformer
from torch import nn
from torch.nn import functional as F
from torch_compare import assert_trains_whole, fresh  # noqa: F401

SIZES = dict(img_size=32, patch_size=8, embed_dim=64, depth=1, num_heads=4, num_classes=8)
SCALED = dict(SIZES, init_values=0.3, drop_path_rate=0.5)


class Training(nn.Module):
    """A model and its loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images, classes):
        return F.cross_entropy(self.model(images), classes)


#: (options, the number of layers in FP8, a pattern of gradients that are 0)
MODELS = {
    "layer scale and drop path": (SCALED, 8, None),
    "dropout": (dict(SCALED, drop_rate=0.1, pos_drop_rate=0.1, proj_drop_rate=0.1, attn_drop_rate=0.1), 8, None),
    "registers": (dict(SCALED, reg_tokens=4, no_embed_class=True), 8, None),
    # A number that a bias adds to all scores of a query does not change their softmax.
    "normed queries": (dict(SCALED, qk_norm=True, global_pool="avg", class_token=False), 8, r"k_norm\.bias"),
    "attention as pooling": (dict(SCALED, global_pool="map", class_token=False), 14, None),
}


@pytest.mark.parametrize("name", MODELS)
def test_vision_transformers(name):
    options, layers, zero = MODELS[name]
    inputs = torch.randn(4, 3, 32, 32), torch.tensor([0, 3, 5, 7])
    assert_trains_whole(Training(VisionTransformer(**options)), inputs, layers, zero)
