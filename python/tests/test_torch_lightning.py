"""The Trainer of Lightning, with a compiled model in a LightningModule."""

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning")

from models import Llama
from torch_compare import fresh  # noqa: F401

import te_mlir
import te_mlir.torch

STEPS = 50


class Training(lightning.LightningModule):
    """Trains a model that returns its loss first."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.losses = []

    def training_step(self, batch, index):
        loss = self.model(batch, batch)[0]
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def train(model, folder, precision):
    """The losses of steps with 4 lines and, at the end of each epoch, 2."""
    lines = torch.randint(0, 64, (22, 16), generator=torch.Generator().manual_seed(0))
    module = Training(model)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=STEPS,
        precision=precision,
        gradient_clip_val=1.0,
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="lightning")
        trainer.fit(module, torch.utils.data.DataLoader(lines, batch_size=4))
    return module.losses


def test_losses_are_those_of_pytorch(tmp_path):
    model = Llama()
    mine = te_mlir.torch.jit(copy.deepcopy(model), recipe=te_mlir.HighPrecision(), strict=True)
    found, wanted = (train(each, tmp_path, "32-true") for each in (mine, model))
    assert len(wanted) == STEPS and mine.te.graphs and not mine.te.calls.left
    torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted), rtol=1e-5, atol=0)
    assert wanted[-1] < wanted[0]


def test_quantised_training_in_bfloat16(tmp_path):
    mine = te_mlir.torch.jit(Llama(), recipe=te_mlir.Float8CurrentScaling(), strict=True)
    losses = train(mine, tmp_path, "bf16-true")
    assert losses[-1] < 0.8 * losses[0] and not mine.te.calls.left
    assert mine.te.report("precision").count("f8E4M3FN") >= 8
