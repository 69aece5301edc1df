"""The SFTTrainer of trl, with packing and with padding, and models whose layers are compiled in place."""

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

import datasets
import transformers
from models import hugging_face_llama
from tokenizers import Tokenizer, models, pre_tokenizers
from torch_compare import fresh  # noqa: F401
from trl import SFTConfig, SFTTrainer

import te_mlir
import te_mlir.torch
from te_mlir.torch.trainer import Callback

transformers.logging.set_verbosity_error()
datasets.disable_progress_bars()

WORDS = [f"w{i}" for i in range(60)]


def tokenizer():
    """One word is one token."""
    special = ["<pad>", "<eos>", "<unk>"]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(special + WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def lines(count):
    """Texts of 3 to 30 words."""
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 31, (count,), generator=draw).tolist()
    return datasets.Dataset.from_dict(
        {"text": [" ".join(WORDS[i] for i in torch.randint(0, 60, (n,), generator=draw)) for n in lengths]}
    )


STEPS = 50


def trainer(model, folder, callbacks=(), **options):
    options = {"eval_strategy": "steps", "eval_steps": 25, **options}
    arguments = SFTConfig(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        max_steps=STEPS,
        learning_rate=1e-3,
        logging_steps=1,
        save_steps=25,
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
        max_length=32,
        **options,
    )
    return SFTTrainer(
        model,
        arguments,
        train_dataset=lines(22),
        eval_dataset=lines(4),
        processing_class=tokenizer(),
        callbacks=list(callbacks),
    )


def losses(model, folder, callbacks=(), **options):
    run = trainer(model, folder, callbacks, **options)
    run.train()
    found = [entry[key] for entry in run.state.log_history for key in ("loss", "eval_loss") if key in entry]
    return torch.tensor(found), [p.detach().clone() for p in run.model.parameters()]


@pytest.mark.parametrize("packing", [False, True])
def test_losses_are_those_of_pytorch(tmp_path, capfd, packing):
    mine = hugging_face_llama(1, max_position_embeddings=128)
    theirs = copy.deepcopy(mine)
    backend = te_mlir.torch.compile_in_place(mine.model, recipe=te_mlir.HighPrecision(), strict=True)
    found, parameters = losses(mine, tmp_path / "mine", [Callback(backend)], packing=packing)
    wanted, others = losses(theirs, tmp_path / "theirs", packing=packing)
    assert len(wanted) == STEPS + 2 and backend.graphs and not backend.exact and not backend.calls.left
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)
    for one, two in zip(parameters, others):
        assert (one - two).norm() <= 1e-4 * two.norm()
    # Each batch has another length, up to 32 or 64 tokens; the first is compiled as it is, and evaluation has its own.
    assert len(backend.graphs) <= (4 if packing else 7)


def test_a_resumed_run_has_the_bits_of_one_run(tmp_path):
    """Only the weights and states of the checkpoint are used."""
    start = hugging_face_llama(1, max_position_embeddings=128)
    found = []
    for resumed in (False, True):
        torch._dynamo.reset()
        model = copy.deepcopy(start)
        recipe = te_mlir.DelayedScaling(amax_history_len=4)
        backend = te_mlir.torch.compile_in_place(model.model, recipe=recipe, strict=True)
        if resumed:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.zero_()
        run = trainer(model, tmp_path, [Callback(backend)], packing=True, eval_strategy="no")
        run.train(resume_from_checkpoint=str(tmp_path / "checkpoint-25") if resumed else None)
        found.append({**model.state_dict(), **backend.state_dict()})
        assert backend.state_dict()
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        assert torch.equal(value, found[1][name]), name
