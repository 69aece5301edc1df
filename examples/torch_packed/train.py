#!/usr/bin/env python3
"""Trains a small Llama on sentences, packed in rows without padding, with transformers' Trainer and te.

    train.py [--recipe R] [--steps N] [--documents D]     losses beside those of the same batches with padding

`DataCollatorWithFlattening` puts the sentences of a batch into one row; positions start again with each, from which
transformers makes the mask that te compiles as documents. Weights are random, and tokens are bytes.

Both runs compute the same loss for each token, and add up losses and gradients in another order. A sum of n numbers of
one sign that are rounded to float32 is off by at most (n - 1) * 2^-24 of itself, so two means over n tokens differ by at
most g = 2 * n * 2^-24 of them. A step of SGD lowers the loss by about rate * |gradient|^2; if the gradient differs by g,
later losses differ by about rate * g * |gradient|^2, which is g times what the step lowered the loss by. So in all steps
losses differ by at most about g times the first loss, `bound`, under `HighPrecision` in float32. Other recipes round
further, with a scale that is that of all rows of a tensor, and have no such bound.
"""

import argparse
import copy
import pathlib
import tempfile

import torch
import transformers

import te_mlir
import te_mlir.torch
from te_mlir.torch.trainer import Callback

TEXT = pathlib.Path(__file__).resolve().parents[1] / "byte_lm" / "text.txt"
RECIPES = {
    "high_precision": te_mlir.HighPrecision(),
    "delayed_scaling": te_mlir.DelayedScaling(amax_history_len=16),
    "float8_current_scaling": te_mlir.Float8CurrentScaling(),
    "float8_block_scaling": te_mlir.Float8BlockScaling(),
}


def sentences(longest):
    """The sentences of the text as bytes, cut to `longest`."""
    found = [sentence.strip() for sentence in TEXT.read_text().replace("\n", " ").split(". ")]
    return [{"input_ids": list(sentence.encode())[:longest]} for sentence in found if len(sentence) > 1]


def padded(documents):
    """A batch with a row for each document. Its first token is predicted from nothing."""
    ids = [torch.tensor(document["input_ids"]) for document in documents]
    labels = [torch.cat([one.new_tensor([-100]), one[1:]]) for one in ids]
    pad = lambda rows, value: torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)  # noqa: E731
    used = [torch.ones_like(one) for one in ids]
    return {"input_ids": pad(ids, 0), "labels": pad(labels, -100), "attention_mask": pad(used, 0)}


class Counted:
    """A collator that counts the rows of its batches, and the labels."""

    def __init__(self, collator):
        self.collator = collator
        self.rows, self.labels = [], []

    def __call__(self, documents):
        batch = self.collator(documents)
        self.rows.append(batch["input_ids"].numel())
        self.labels.append(int((batch["labels"] != -100).sum()))
        return batch


def train(model, recipe, collator, arguments):
    """(The losses, the backend)."""
    backend = te_mlir.torch.compile_in_place(model, recipe=recipe, strict=True)
    with tempfile.TemporaryDirectory() as folder:
        options = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=arguments.documents,
            max_steps=arguments.steps,
            optim="sgd",
            learning_rate=arguments.rate,
            lr_scheduler_type="constant",
            max_grad_norm=0.0,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=not torch.cuda.is_available(),
            disable_tqdm=True,
        )
        trainer = transformers.Trainer(
            model,
            options,
            train_dataset=sentences(arguments.longest),
            data_collator=collator,
            callbacks=[Callback(backend)],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry], backend


def main(given=None):
    """(Losses with packing, losses with padding, the bound of their difference, the backend of packing)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipe", choices=RECIPES, default="high_precision")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--documents", type=int, default=4, help="sentences in a batch")
    parser.add_argument("--longest", type=int, default=256, help="bytes of a sentence")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.05)
    arguments = parser.parse_args(given)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=arguments.width,
        intermediate_size=2 * arguments.width,
        num_hidden_layers=arguments.layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_cache=False,
    )
    start = transformers.LlamaForCausalLM(config)
    start = start if arguments.recipe == "high_precision" else start.bfloat16()
    collators = [Counted(transformers.DataCollatorWithFlattening(return_tensors="pt")), Counted(padded)]
    (packed, backend), (unpacked, _) = (
        train(copy.deepcopy(start), RECIPES[arguments.recipe], collator, arguments) for collator in collators
    )
    for step in {0, arguments.steps // 2, arguments.steps - 1}:
        print(f"step {step + 1}: loss {packed[step]:.6f} packed, {unpacked[step]:.6f} padded")
    rows, others = (sum(collator.rows) for collator in collators)
    bound = 2 * max(collators[0].labels) * 2.0**-24 * packed[0]
    found = max(abs(one - two) for one, two in zip(packed, unpacked))
    print(f"rows: {rows} packed, {others} padded; largest difference of losses: {found:.1e}, bound {bound:.1e}")
    return packed, unpacked, bound, backend


if __name__ == "__main__":
    main()
