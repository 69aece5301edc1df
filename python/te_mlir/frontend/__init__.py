"""What the frontends share: one graph of operations, the patterns that are found in it, and the emission to the dialect.

`graph` is the protocol: an adapter of each framework makes it of ATen graphs and of jaxprs.
Patterns (`linear`, `parts`, `embedding`, `norms`, `activations`, `rotary`, `softmax`, `attention`,
`losses`) look at that graph only, and `emitter` writes what they find as operations of the dialect. What a value
from outside of the graph becomes (a parameter, indices, tables, masks) is the framework's.
"""
