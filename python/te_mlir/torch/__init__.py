"""Runs PyTorch programs through te: `torch.compile(model, backend="te")`, and drop-in modules.

Importing this module loads PyTorch and registers the backend "te". A captured
graph is imported into the dialect, and the compiler derives its backward. One
torch.autograd.Function runs both, on the memory of the tensors. Nodes that cannot
be imported stay in PyTorch and are listed with the reason, or are an error with
`strict=True`.
"""

from te_mlir.torch.backend import Backend, Graph, backend, compile_in_place, jit
from te_mlir.torch.groups import bind_group
from te_mlir.torch.modules import GroupedLinear, LayerNormLinear, LayerNormMLP, Linear, autocast
from te_mlir.torch.varlen import flash_attn_varlen_func

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
    "compile_in_place",
    "flash_attn_varlen_func",
    "jit",
]
