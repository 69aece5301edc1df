"""A second implementation of every quantiser, written only from the specification.

Tests require the same bits of this package and of the library's reference backend, and compare this package with arrays that were
recorded from a third implementation. It therefore shares no code or method with `lib/Runtime`: roundings search tables of values,
layouts are index formulas, and arithmetic is numpy's float32 with one rounding for each operation.

Matrices are float32 arrays whose values are exact in the source type (`"bf16"`, `"f16"`, `"f32"`). Axis 1 runs along rows.
"""
