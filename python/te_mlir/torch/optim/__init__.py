"""Optimizers with the interfaces of torch.optim, each as one compiled program for all parameters.

A step updates each parameter in a few launches, and with `max_norm` sums the squares of all gradients first. Clipping does
not wait for the host, and needs no pass that rewrites the gradients.
"""

from te_mlir.torch.optim.adamw import AdamW
from te_mlir.torch.optim.muon import Muon
from te_mlir.torch.optim.sgd import SGD

__all__ = ["AdamW", "Muon", "SGD"]
