"""A callback for the Trainer of Lightning: a line that says what is quantised."""

from __future__ import annotations

from typing import Any

from lightning import pytorch

from te_mlir.torch.backend import Backend


class Callback(pytorch.Callback):
    """Prints the backend's `summary`, whenever a graph is compiled or left. backend: the handle of `jit`, `compiled.te`.

    States of recipes are in Lightning's checkpoints already, as those of the module that `jit` returned.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.is_global_zero:
            self.backend.print_changes()
