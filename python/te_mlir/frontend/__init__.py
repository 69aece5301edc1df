"""The importer that the PyTorch and JAX frontends share.

`graph` defines the operations that it imports. Each framework converts its own representation, ATen
graphs or jaxprs, to such a graph. Patterns (`linear`, `parts`, `embedding`, `norms`, `activations`,
`rotary`, `softmax`, `attention`, `losses`) match groups of these operations, and `emitter` emits the
matches as operations of the dialect. Each framework defines how values from outside of the graph
(parameters, indices, tables, masks) become arguments.
"""
