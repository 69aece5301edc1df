"""PyTorch programs through te: `torch.compile(model, backend="te")`, and drop-in modules.

Importing this module loads PyTorch and registers the backend "te". A captured
graph is imported into the dialect; the compiler derives the backward; one
torch.autograd.Function runs both, on the tensors' own memory. What cannot be
imported stays in PyTorch and is listed with the reason, or is an error with
`strict=True`.
"""

from te_mlir.torch.backend import Backend, Graph, backend, jit
from te_mlir.torch.groups import bind_group
from te_mlir.torch.modules import GroupedLinear, LayerNormLinear, LayerNormMLP, Linear, autocast

__all__ = [
    "Backend",
    "Graph",
    "GroupedLinear",
    "LayerNormLinear",
    "LayerNormMLP",
    "Linear",
    "autocast",
    "backend",
    "bind_group",
    "jit",
]
