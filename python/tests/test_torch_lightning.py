"""The Trainer of Lightning, with a compiled model in a LightningModule."""

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning")

from lightning.pytorch.callbacks import ModelCheckpoint
from models import Llama
from torch_compare import fresh  # noqa: F401

import te_mlir
import te_mlir.torch
from te_mlir.torch.lightning import Callback

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

    def validation_step(self, batch, index):
        self.losses.append(self.model(batch, batch)[0].item())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def train(model, folder, precision, saved=False, resumed=None):
    """The losses of steps with 4 lines and, at the end of each epoch, 2; and of validation.

    saved: whether a checkpoint is written after each epoch. resumed: the number of steps of the one to continue.
    """
    lines = torch.randint(0, 64, (22, 16), generator=torch.Generator().manual_seed(0))
    module = Training(model)
    callbacks = [Callback(model.te)] if hasattr(model, "te") else []
    if saved:
        callbacks.append(ModelCheckpoint(dirpath=folder, filename="{step}", save_top_k=-1))
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=STEPS,
        precision=precision,
        gradient_clip_val=1.0,
        default_root_dir=folder,
        callbacks=callbacks,
        logger=False,
        enable_checkpointing=saved,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="lightning")
        trainer.fit(
            module,
            torch.utils.data.DataLoader(lines, batch_size=4),
            torch.utils.data.DataLoader(lines[:6], batch_size=4),
            ckpt_path=resumed and folder / f"step={resumed}.ckpt",
        )
    return module.losses


def test_losses_are_those_of_pytorch(tmp_path, capfd):
    model = Llama()
    mine = te_mlir.torch.jit(copy.deepcopy(model), recipe=te_mlir.HighPrecision(), strict=True)
    found, wanted = (train(each, tmp_path, "32-true") for each in (mine, model))
    assert len(wanted) > STEPS and mine.te.graphs and not mine.te.calls.left
    torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted), rtol=1e-5, atol=0)
    assert wanted[-1] < wanted[0]
    printed = [line for line in capfd.readouterr().out.splitlines() if line.startswith("te: ")]
    assert printed[-1] == mine.te.summary() and len(printed) == len(set(printed)) <= len(mine.te.graphs)


def test_a_resumed_run_has_the_bits_of_one_run(tmp_path):
    """From a checkpoint at the end of an epoch; Lightning repeats lines after one within an epoch."""
    start = Llama()
    found = []
    for resumed in (None, 24):
        torch._dynamo.reset()
        model = copy.deepcopy(start)
        model = te_mlir.torch.jit(model, recipe=te_mlir.DelayedScaling(amax_history_len=4), strict=True)
        if resumed:
            # Only the weights and states of the checkpoint are used.
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.zero_()
        losses = train(model, tmp_path, "32-true", saved=not resumed, resumed=resumed)
        assert len(losses) < STEPS if resumed else len(losses) > STEPS
        found.append(model.state_dict())
    assert found[0].keys() == found[1].keys() and any("amax_history" in name for name in found[0])
    for name, value in found[0].items():
        assert torch.equal(value, found[1][name]), name


def test_quantised_training_in_bfloat16(tmp_path):
    mine = te_mlir.torch.jit(Llama(), recipe=te_mlir.Float8CurrentScaling(), strict=True)
    losses = train(mine, tmp_path, "bf16-true")
    assert losses[-1] < 0.8 * losses[0] and not mine.te.calls.left
    assert mine.te.report("precision").count("f8E4M3FN") >= 8
