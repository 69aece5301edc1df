"""Counts the calls of a model that te runs and those that PyTorch runs, and keeps torch.compile from giving up te."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch

from te_mlir.errors import ImportFailure

#: A warning follows when a function was captured this many times.
_MANY = 32
#: Methods that transformers adds to all loggers when it is imported.
_OF_TRANSFORMERS = ("info_once", "warning_once", "warning_advice")
_WITHOUT_TE = "torch.compile ran it without te"


class Calls:
    """The calls of a model. all: those of captured graphs. left: those that run only in PyTorch, but do have layers."""

    def __init__(self) -> None:
        self.all = self.left = 0

    def leave(self, reason: str) -> None:
        """Counts a call that runs only in PyTorch. Each one that may be a step of training gives a warning."""
        self.left += 1
        if torch.is_grad_enabled():
            warnings.warn(f"te: call {self.left} that runs only in PyTorch: {reason}", stacklevel=3)

    def watch(self, strict: bool, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Calls a compiled model. If that calls no graph, it is counted, and with strict, it is an error in training."""
        before = self.all
        result = call(*arguments, **options)
        if self.all == before and not _is_eager():
            if strict and torch.is_grad_enabled():
                raise ImportFailure([_WITHOUT_TE])
            self.leave(_WITHOUT_TE)
        return result

    def watched(self, strict: bool, call: Any) -> Callable[..., Any]:
        """`call` of a compiled model as a function that watches it."""
        return functools.wraps(call)(functools.partial(self.watch, strict, call))


def _is_eager() -> bool:
    """Whether `torch.compiler.set_stance("force_eager")` is in force, or another compiler traces the call."""
    return torch._dynamo.eval_frame._stance.stance == "force_eager" or torch.compiler.is_compiling()


def ignore_logs() -> None:
    """Makes torch._dynamo leave out messages to loggers, each of which would split a graph or, with `strict`, be an error.

    transformers' models log while they run: GPT-2 says in each process which loss it takes.
    """
    config: Any = torch._dynamo.config
    # Versions of PyTorch have one name or both, which are then one set.
    options = ("ignore_logging_functions", "ignore_logger_methods")
    ignored: set[Any] = next(getattr(config, option) for option in options if hasattr(config, option))
    names = ("debug", "info", "warning", "error", "critical", "exception", "log", *_OF_TRANSFORMERS)
    ignored.update(getattr(logging.Logger, name) for name in names if hasattr(logging.Logger, name))
    utils: Any = torch._dynamo.utils
    try:
        utils._get_dynamo_config_for_logging()
    except (AttributeError, TypeError):
        # PyTorch 2.11 sorts this set of functions for its metrics, and logs an error with each graph instead.
        utils._get_dynamo_config_for_logging = lambda: None


def raise_limits() -> None:
    """Raises torch._dynamo's limits of graphs if the function that is being captured has as many.

    torch.compile runs new calls of a function without its backend once it has `recompile_limit` graphs. A limit that
    was given to torch.compile itself stays in force.
    """
    current, config = torch._guards.CompileContext.current_compile_id(), torch._dynamo.config
    if current is None:
        return
    count = (current.frame_compile_id or 0) + 1
    for name in ("recompile_limit", "accumulated_recompile_limit"):
        if count >= getattr(config, name):
            setattr(config, name, count + 1)
    if count == _MANY:
        warnings.warn(
            f"te: a function was captured {count} times; numbers, strings and objects that change in each call make a graph "
            "each, so pass tensors instead",
            stacklevel=2,
        )
