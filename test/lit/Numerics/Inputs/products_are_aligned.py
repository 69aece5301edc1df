"""Matmuls of sizes that a GPU multiplies slowly have the same bits after te-align-products, and losses after te-fuse-padding.

Operands include zeros, -0, subnormal numbers, infinity and NaN. The reference backend adds terms one by one, so that terms of 0 at the
end change no sum; on a GPU, other sizes may have other algorithms.
"""

import subprocess

import numpy as np
from harness import FOLDER, expect, expect_same, finish, normal, run

TEXT = """
func.func @linear(%x: tensor<{m}x{k}xbf16> {{te.name = "x"}}, %w: tensor<{n}x{k}xbf16> {{te.name = "w"}}, %b: tensor<{n}xbf16> {{te.name = "b"}},
    %z: tensor<{m}x{k}xbf16> {{te.name = "z"}}, %dy: tensor<{m}x{n}xbf16> {{te.name = "dy"}}, %t: tensor<{m}xi32> {{te.name = "t"}})
    -> (tensor<{m}x{n}xbf16> {{te.name = "y"}}, tensor<{m}x{k}xbf16> {{te.name = "dx"}}, tensor<{n}x{k}xf32> {{te.name = "dw"}},
        tensor<f32> {{te.name = "loss"}}, tensor<{m}x{n}xbf16> {{te.name = "dlogits"}}, tensor<{n}x{k}xbf16> {{te.name = "dhead"}}) {{
  %y = te.matmul %x, %w bias %b : tensor<{n}xbf16> contract = [1, 1] : tensor<{m}x{k}xbf16>, tensor<{n}x{k}xbf16> -> tensor<{m}x{n}xbf16>
  %dx = te.matmul %dy, %w contract = [1, 0] : tensor<{m}x{n}xbf16>, tensor<{n}x{k}xbf16> -> tensor<{m}x{k}xbf16>
  %dw = te.matmul %dy, %x contract = [0, 0] : tensor<{m}x{n}xbf16>, tensor<{m}x{k}xbf16> -> tensor<{n}x{k}xf32>
  %logits = te.matmul %x, %w contract = [1, 1] : tensor<{m}x{k}xbf16>, tensor<{n}x{k}xbf16> -> tensor<{m}x{n}xbf16>
  %loss, %lse = te.cross_entropy %logits, %t : tensor<{m}x{n}xbf16>, tensor<{m}xi32> lse tensor<{m}xf32>
  %saved = te.residual %logits "logits" : tensor<{m}x{n}xbf16>
  %savedlse = te.residual %lse "lse" : tensor<{m}xf32>
  %weight = te.cross_entropy_weight of %t vocabulary {n} : tensor<{m}xi32>
  %dlogits = te.cross_entropy_backward %weight, %saved, %t, %savedlse : tensor<{m}x{n}xbf16>, tensor<{m}xi32>, tensor<{m}xf32>
  %dhead = te.matmul %dlogits, %z contract = [0, 0] : tensor<{m}x{n}xbf16>, tensor<{m}x{k}xbf16> -> tensor<{n}x{k}xbf16>
  return %y, %dx, %dw, %loss, %dlogits, %dhead
    : tensor<{m}x{n}xbf16>, tensor<{m}x{k}xbf16>, tensor<{n}x{k}xf32>, tensor<f32>, tensor<{m}x{n}xbf16>, tensor<{n}x{k}xbf16>
}}
"""
SPECIAL = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x7F80, 0xFF80, 0x7FFF, 0x7F7F], np.uint16)

rng = np.random.default_rng(5)
for m, n, k in ((16, 29, 64), (15, 37, 70), (1, 1, 1), (40, 301, 13)):
    text = TEXT.format(m=m, n=n, k=k)
    given = FOLDER / "given.mlir"
    given.write_text(text)
    passes = ["--te-align-products=least=1", "--te-fuse-padding"]
    aligned = subprocess.run(["te-opt", str(given), *passes], capture_output=True, text=True, check=True).stdout
    expect("tensor.concat" in aligned and (n < 8 or f"vocabulary = {n}" in aligned), f"{m}x{n}x{k} is padded")
    for special in (False, True):
        arrays = {
            name: normal(rng, *shape)
            for name, shape in (("x", (m, k)), ("z", (m, k)), ("w", (n, k)), ("b", (n,)), ("dy", (m, n)))
        }
        if special:
            for array in arrays.values():
                places = rng.integers(0, array.size, max(1, array.size // 300))
                array.reshape(-1)[places] = rng.choice(SPECIAL, len(places))
        targets = rng.integers(0, n, m).astype(np.int32)
        targets[::5] = n  # outside of the vocabulary, but a column of padding
        arrays["t"] = targets
        results = [run(program, "linear", arrays, "fuse=false") for program in (text, aligned)]
        expect_same(results[1], results[0], sorted(results[0]), f"{m}x{n}x{k}, special values {special}")
finish("products-are-aligned")
