"""The Trainer of transformers, and accelerate, with models that are compiled in place."""

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")

from models import hugging_face_llama
from torch_compare import fresh  # noqa: F401

import te_mlir
import te_mlir.torch
from te_mlir.torch.trainer import Callback


class Lines(torch.utils.data.Dataset):
    """Token ids with labels."""

    def __init__(self, count):
        self.ids = torch.randint(0, 64, (count, 32), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.ids[index], "attention_mask": torch.ones(32).long()}


class Texts(Lines):
    """Token ids of another length in each line."""

    def __getitem__(self, index):
        return self.ids[index, : 9 + 2 * index]


def padded(lines):
    """A batch as long as its longest line."""
    pad = lambda tensors, value: torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value)
    masks = [torch.ones_like(line) for line in lines]
    return {"input_ids": pad(lines, 0), "labels": pad(lines, -100), "attention_mask": pad(masks, 0)}


def trainer(model, folder, callbacks=(), lines=Lines, **options):
    """A Trainer of 10 lines in batches of 4, so that the last batch of an epoch has 2."""
    options = {"max_steps": 6, **options}
    collator = padded if lines is Texts else None
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=3,
        save_steps=3,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **options,
    )
    return transformers.Trainer(
        model,
        arguments,
        train_dataset=lines(10),
        eval_dataset=lines(5),
        callbacks=list(callbacks),
        data_collator=collator,
    )


def losses(trainer):
    """The losses, norms of gradients and losses of evaluations of a run, and its parameters."""
    trainer.train()
    numbers = [
        entry[key] for entry in trainer.state.log_history for key in ("loss", "grad_norm", "eval_loss") if key in entry
    ]
    return torch.tensor(numbers), [p.detach().clone() for p in trainer.model.parameters()]


@pytest.mark.parametrize(
    "options", [{}, {"gradient_accumulation_steps": 2}, {"gradient_checkpointing": True, "max_grad_norm": 0.1}]
)
def test_losses_are_those_of_pytorch(tmp_path, capfd, options):
    mine = hugging_face_llama(2)
    theirs = copy.deepcopy(mine)
    backend = te_mlir.torch.compile_in_place(mine, recipe=te_mlir.HighPrecision(), strict=True)
    found, parameters = losses(trainer(mine, tmp_path / "mine", [Callback(backend)], **options))
    wanted, others = losses(trainer(theirs, tmp_path / "theirs", **options))
    assert len(wanted) == 14 and backend.graphs
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)
    for one, two in zip(parameters, others):
        assert (one - two).norm() <= 1e-4 * two.norm()
    assert "quantised GEMMs: 0 of" in capfd.readouterr().out


def test_batches_of_any_size_take_few_programs(tmp_path):
    mine = hugging_face_llama(1)
    theirs = copy.deepcopy(mine)
    backend = te_mlir.torch.compile_in_place(mine, recipe=te_mlir.HighPrecision(), strict=True)
    found, _ = losses(trainer(mine, tmp_path / "mine", lines=Texts, max_steps=9))
    wanted, _ = losses(trainer(theirs, tmp_path / "theirs", lines=Texts, max_steps=9))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)
    # In training, the first shape, and batches of 2 and of 4 with up to 16 or 32 tokens; in evaluation, as many and the
    # last batch of one.
    assert len(backend.graphs) <= 11 and not backend.exact and not backend.calls.left


def test_a_resumed_run_has_the_bits_of_one_run(tmp_path, capfd):
    start = hugging_face_llama(2).bfloat16()
    found = []
    for resumed in (False, True):
        torch._dynamo.reset()
        model = copy.deepcopy(start)
        backend = te_mlir.torch.compile_in_place(model, recipe=te_mlir.DelayedScaling(amax_history_len=4), strict=True)
        run = trainer(model, tmp_path, [Callback(backend)])
        if resumed:
            # Only the weights and states of the checkpoint are used.
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.zero_()
        run.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3") if resumed else None)
        found.append({**model.state_dict(), **backend.state_dict()})
        assert backend.state_dict()
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        assert torch.equal(value, found[1][name]), name
    # A forward and a backward of seven layers in each block, and the head.
    line = next(line for line in capfd.readouterr().out.splitlines() if line.startswith("te: "))
    assert line == "te: graphs: 1; quantised GEMMs: 45 of 45; left to PyTorch: 0; calls in PyTorch: 0"


def test_a_checkpoint_without_states_is_an_error(tmp_path):
    model = hugging_face_llama(1)
    trainer(model, tmp_path, max_steps=3).train()
    backend = te_mlir.torch.compile_in_place(model)
    with pytest.raises(FileNotFoundError, match="te_states_0.pt"):
        trainer(model, tmp_path, [Callback(backend)]).train(resume_from_checkpoint=True)


def test_a_loop_of_accelerate(tmp_path):
    mine = hugging_face_llama(1)
    theirs = copy.deepcopy(mine)
    te_mlir.torch.compile_in_place(mine, recipe=te_mlir.HighPrecision(), strict=True)
    found = []
    for model in (mine, theirs):
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        loader = torch.utils.data.DataLoader(Lines(10), batch_size=4)
        prepared, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        numbers = []
        for batch in loader:
            with accelerator.accumulate(prepared):
                loss = prepared(**batch).loss
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                numbers.append(loss.detach())
        found.append(torch.stack(numbers))
    torch.testing.assert_close(*found, rtol=1e-5, atol=0)
