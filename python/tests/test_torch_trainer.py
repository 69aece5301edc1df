"""The Trainer of transformers, and accelerate, with models that are compiled in place."""

import copy
import pathlib
import runpy
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")

from models import hugging_face_llama
from torch_compare import fresh  # noqa: F401

import te_mlir
import te_mlir.torch
from te_mlir.torch.trainer import Callback

STEPS = 50
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "torch_packed" / "train.py"


class Lines(torch.utils.data.Dataset):
    """Token ids with labels."""

    def __init__(self, count):
        self.ids = torch.randint(0, 64, (count, 32), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.ids[index], "attention_mask": torch.ones(32).long()}


class Texts(Lines):
    """Token ids of another length in each line, of 17 to 32."""

    def __getitem__(self, index):
        return {"input_ids": self.ids[index, : 17 + 5 * index % 16]}


def padded(lines):
    """A batch as long as its longest line."""
    pad = lambda tensors, value: torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value)
    lines = [line["input_ids"] for line in lines]
    masks = [torch.ones_like(line) for line in lines]
    return {"input_ids": pad(lines, 0), "labels": pad(lines, -100), "attention_mask": pad(masks, 0)}


class Generating(transformers.TrainerCallback):
    """Generates between steps."""

    def __init__(self):
        self.generated = []

    def on_step_end(self, args, state, control, model, **_):
        if state.global_step % 25 == 10:
            prompt = torch.arange(5)[None] + state.global_step
            options = dict(max_new_tokens=2, do_sample=False, pad_token_id=0)
            self.generated.append(model.generate(prompt, attention_mask=torch.ones_like(prompt), **options))


def trainer(model, folder, callbacks=(), collator=None, **options):
    """A Trainer of 10 lines in batches of 4, so that the last batch of an epoch has 2."""
    lines = Texts if collator else Lines
    options = {"max_steps": STEPS, "logging_steps": 1, "eval_steps": 25, "eval_strategy": "steps", **options}
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        save_steps=25,
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
    "options", [{"gradient_accumulation_steps": 2}, {"gradient_checkpointing": True, "max_grad_norm": 0.1}]
)
def test_losses_are_those_of_pytorch(tmp_path, capfd, options):
    mine = hugging_face_llama(1)
    theirs = copy.deepcopy(mine)
    backend = te_mlir.torch.compile_in_place(mine, recipe=te_mlir.HighPrecision(), strict=True)
    found, parameters = losses(trainer(mine, tmp_path / "mine", [Callback(backend)], **options))
    wanted, others = losses(trainer(theirs, tmp_path / "theirs", **options))
    assert len(wanted) == 2 * STEPS + 2 and backend.graphs
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)
    for one, two in zip(parameters, others):
        assert (one - two).norm() <= 1e-4 * two.norm()
    printed = [line for line in capfd.readouterr().out.splitlines() if line.startswith("te: ")]
    assert "quantised GEMMs: 0 of" in printed[-1] and len(printed) <= len(backend.graphs)


def test_a_model_generates_between_steps(tmp_path):
    """Evaluation and generation have graphs of their own. They and the steps are those of PyTorch."""
    mine = hugging_face_llama(1)
    theirs = copy.deepcopy(mine)
    backend = te_mlir.torch.compile_in_place(mine, recipe=te_mlir.HighPrecision())
    generating = Generating(), Generating()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, _ = losses(trainer(mine, tmp_path / "mine", generating[:1]))
    wanted, _ = losses(trainer(theirs, tmp_path / "theirs", generating[1:]))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)
    one, two = (each.generated for each in generating)
    assert len(one) == 2 and all(torch.equal(a, b) for a, b in zip(one, two)) and not torch.equal(*one)
    assert not backend.calls.left


@pytest.mark.parametrize("collator", ["padded", "flattened"])
def test_batches_of_any_size_take_few_programs(tmp_path, collator):
    collator = padded if collator == "padded" else transformers.DataCollatorWithFlattening(return_tensors="pt")
    mine = hugging_face_llama(1)
    theirs = copy.deepcopy(mine)
    backend = te_mlir.torch.compile_in_place(mine, recipe=te_mlir.HighPrecision(), strict=True)
    options = {"collator": collator, "eval_strategy": "no"}
    found, _ = losses(trainer(mine, tmp_path / "mine", **options))
    wanted, _ = losses(trainer(theirs, tmp_path / "theirs", **options))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)
    # The first shape, then batches of 2 and of 4 with up to 32 tokens, the first of them as it is; or rows of up to 64 and
    # 128 tokens.
    assert len(backend.graphs) <= (4 if collator is padded else 3) and not backend.exact and not backend.calls.left


def test_the_example_of_packed_sentences(capfd):
    """The losses are those of padded sentences within the bound that the example derives."""
    options = ["--layers", "1", "--steps", "20", "--longest", "128"]
    packed, padded, bound, backend = runpy.run_path(str(EXAMPLE))["main"](options)
    assert len(packed) == len(padded) == 20 and bound < 1e-3
    assert all(abs(one - two) <= bound for one, two in zip(packed, padded))
    assert packed[-1] < 0.8 * packed[0]
    lines = [str(op) for graph in backend.graphs for region in graph.regions for op in region.function.ops]
    attentions = [line for line in lines if "te.attention" in line]
    assert attentions and all(" documents " in line for line in attentions)
    assert "rows: " in capfd.readouterr().out


def test_a_resumed_run_has_the_bits_of_one_run(tmp_path, capfd):
    start = hugging_face_llama(1).bfloat16()
    found = []
    for resumed in (False, True):
        torch._dynamo.reset()
        model = copy.deepcopy(start)
        backend = te_mlir.torch.compile_in_place(model, recipe=te_mlir.DelayedScaling(amax_history_len=4), strict=True)
        run = trainer(model, tmp_path, [Callback(backend)])
        if resumed:
            forget(model)
        run.train(resume_from_checkpoint=str(tmp_path / "checkpoint-25") if resumed else None)
        found.append({**model.state_dict(), **backend.state_dict()})
        assert backend.state_dict()
    assert_equal(*found)
    # A forward and a backward of seven layers in each block, and the head.
    line = next(line for line in capfd.readouterr().out.splitlines() if line.startswith("te: "))
    assert line == "te: graphs: 1; quantised GEMMs: 24 of 24; left to PyTorch: 0; calls in PyTorch: 0"


def forget(model):
    """Only the weights and states of the checkpoint are used."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()


def assert_equal(one, two):
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert torch.equal(value, two[name]), name


def test_a_checkpoint_without_states_is_an_error(tmp_path):
    model = hugging_face_llama(1)
    trainer(model, tmp_path, max_steps=3).train()
    backend = te_mlir.torch.compile_in_place(model)
    with pytest.raises(FileNotFoundError, match="te_states_0.pt"):
        trainer(model, tmp_path, [Callback(backend)]).train(resume_from_checkpoint=True)


def accelerated(model, backend=None, save=None, load=None):
    """The losses of a loop with clipping and gradients of two micro-batches; save and load: folders of the state after 24 steps."""
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    lines = torch.utils.data.DataLoader(Lines(2 * STEPS), batch_size=2)
    model, optimizer, lines = accelerator.prepare(model, optimizer, lines)
    if backend is not None:
        accelerator.register_for_checkpointing(backend)
    if load:
        accelerator.load_state(load)
        lines = accelerator.skip_first_batches(lines, 24)
    numbers = []
    for step, batch in enumerate(lines, 25 if load else 1):
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
        numbers.append(loss.detach())
        if backend is not None and accelerator.is_main_process:
            backend.print_changes()
        if save and step == 24:
            accelerator.save_state(save)
    return torch.stack(numbers)


def test_a_loop_of_accelerate(capfd):
    mine = hugging_face_llama(1)
    theirs = copy.deepcopy(mine)
    backend = te_mlir.torch.compile_in_place(mine, recipe=te_mlir.HighPrecision(), strict=True)
    found, wanted = accelerated(mine, backend), accelerated(theirs)
    assert len(wanted) == STEPS
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)
    (line,) = [line for line in capfd.readouterr().out.splitlines() if line.startswith("te: ")]
    assert line == "te: graphs: 1; quantised GEMMs: 0 of 24; left to PyTorch: 0; calls in PyTorch: 0"


def test_a_resumed_loop_of_accelerate_has_the_bits_of_one(tmp_path):
    start = hugging_face_llama(1)
    found = []
    for resumed in (False, True):
        torch._dynamo.reset()
        model = copy.deepcopy(start)
        backend = te_mlir.torch.compile_in_place(model, recipe=te_mlir.DelayedScaling(amax_history_len=4), strict=True)
        if resumed:
            forget(model)
        numbers = accelerated(model, backend, **{"load" if resumed else "save": str(tmp_path / "state")})
        assert len(numbers) == (STEPS - 24 if resumed else STEPS)
        found.append({**model.state_dict(), **backend.state_dict()})
    assert_equal(*found)
