"""A second implementation of every quantiser, written from the specification and from nothing else.

The library's reference backend is one reading of the rules; this package is another. Tests hold both to the same bits, and
this one to vectors recorded from a third. So it shares no code, table or trick with `lib/Runtime`: roundings search tables
of values, layouts are index formulas, and arithmetic is numpy's float32, one rounding an operation.

Matrices are float32 arrays that hold values of the source type (`"bf16"`, `"f16"`, `"f32"`) exactly. Axis 1 runs along rows.
"""
