"""A callback for the Trainer of transformers: states in checkpoints, and a line that says what is quantised."""

from __future__ import annotations

import os
from typing import Any

import torch
from transformers import TrainerCallback

from te_mlir.torch.backend import Backend


class Callback(TrainerCallback):
    """Saves and loads the states of recipes with each checkpoint, and prints the backend's `summary`.

    backend: what `compile_in_place` returned for the model. resume_from: the checkpoint that the run continues, if it
    is not one of `output_dir`. Each process saves its own states.
    """

    def __init__(self, backend: Backend, resume_from: str | None = None) -> None:
        self.backend, self.resume_from = backend, resume_from

    def _file(self, args: Any, state: Any, folder: str | None = None) -> str:
        folder = folder or os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        return os.path.join(folder, f"te_states_{args.process_index}.pt")

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step:
            self.backend.load_state_dict(torch.load(self._file(args, state, self.resume_from)))

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        torch.save(self.backend.state_dict(), self._file(args, state))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            self.backend.print_changes()
