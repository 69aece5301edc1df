"""Compares backward overrides with programs that contain the same casts and GEMMs explicitly.

`explicit` returns a program with every cast and every GEMM of the block's forward and backward, which runs under `high_precision`
without fusions, so that it does not change. The block of te.linear ops, compiled with a recipe and an override, must have the same
bytes, because both run the same kernels on the same values. The test also checks that `y` does not depend on the override, and that
the gradients of the three overrides differ.
"""

import numpy as np
from harness import OVERRIDES, expect, expect_same, finish, run, same_bytes
from models import mlp_arrays, mlp_module

#: The name in the pipeline, and sizes (tokens, columns, hidden) that meet the constraints of its blocks.
RECIPES = {
    "float8_current_scaling": (144, 176, 160),
    "float8_block_scaling": (144, 176, 160),
    "mxfp8_block_scaling": (160, 192, 224),
    # The position of a cast determines its random bits, which other tests check.
    "nvfp4_block_scaling, {stochastic_rounding = false}": (160, 192, 224),
}


def tensor(*shape):
    return f"tensor<{''.join(f'{n}x' for n in shape)}bf16>"


class Program:
    """The lines of a function, with operands that are quantised as `recipe` specifies."""

    def __init__(self, recipe):
        self.kind, self.lines = recipe.split("_")[0] if "current" not in recipe else "current", []
        self.types, self.measured, self.held = {}, {}, {}

    def op(self, name, text, *types):
        self.lines.append(f"    {name} = {text}")
        for i, type in enumerate(types):
            self.types[name.split(", ")[i]] = type
        return name

    def amax(self, value, shape):
        if value not in self.measured:
            self.measured[value] = self.op(f"{value}_amax", f"te.amax {value} : {tensor(*shape)}")
        return self.measured[value]

    def scaled(self, value, shape, axis, weight, gradient):
        """`value` for contraction along `axis`."""
        name = f"{value}_q{axis}"
        if name in self.types:
            return self.held.get(name, name)
        element, source, given = "f8E4M3FN", value, ""
        if self.kind == "current":
            element, scheme = "f8E5M2" if gradient else "f8E4M3FN", "per_tensor"
            scale = f"{value}_s"
            if scale not in self.types:
                self.op(scale, f"te.compute_scale {self.amax(value, shape)} for {element}", "tensor<f32>")
            given = f" scale {scale}"
        elif self.kind == "float8":
            scheme = f"block_{'128x128' if weight else '1x128'}, pow2"
        elif self.kind == "mxfp8":
            scheme = "mx_1x32"
        else:
            element, scheme = "f4E2M1FN", "nv_16x16" if weight else "nv_1x16"
            if axis == 0 and not weight:
                scheme += ", hadamard"
                source = self.op(f"{value}_h", f"te.hadamard {value} : {tensor(*shape)}")
            given = f" amax {self.amax(source, shape)}"
        type = f"!te.scaled<{shape[0]}x{shape[1]}x{element}, {scheme}, contract = {axis}>"
        self.op(name, f"te.quantize {source}{given} : {tensor(*shape)} -> {type}", type)
        return name

    def product(self, name, a, b, axes, shape, quantised, fast=False, bias=""):
        """A GEMM. a, b: (value, shape, is a weight, is a gradient), contracted along `axes`."""
        if quantised:
            left, right = (self.scaled(v, s, axis, w, g) for (v, s, w, g), axis in zip((a, b), axes))
            fast = "true" if fast and self.kind != "float8" else "false"
            types = f"{self.types[left]}, {self.types[right]}"
            self.op(
                name,
                f"te.scaled_matmul {left}, {right} {bias} fast_accumulation = {fast} : {types} -> {tensor(*shape)}",
            )
        else:
            types = f"{tensor(*a[1])}, {tensor(*b[1])}"
            left, right = (self.held.get(v, v) for v in (a[0], b[0]))
            self.op(name, f"te.matmul {left}, {right} contract = [{axes[0]}, {axes[1]}] : {types} -> {tensor(*shape)}")

    def hold(self, value):
        """Saves `value` for the backward. Later uses read the saved value."""
        type = self.types[value]
        self.op(f"{value}_r", f'te.residual {value} "{value[1:]}" : {type}', type)
        self.held[value] = f"{value}_r"

    def decoded(self, operand):
        """The operand that the GEMM of the forward reads."""
        value, shape, weight, gradient = operand
        q = self.scaled(value, shape, 1, weight, gradient)
        name = f"{value}_d"
        self.op(name, f"te.dequantize {q} : {self.types[q]} -> {tensor(*shape)}", tensor(*shape))
        return name, shape, weight, gradient


def results(sizes):
    m, k, h = sizes
    return {
        "y": (m, k),
        "grad.x": (m, k),
        "grad.gamma": (k,),
        "grad.w1": (2 * h, k),
        "grad.b1": (2 * h,),
        "grad.w2": (k, h),
    }


def explicit(recipe, override, sizes):
    p, (M, K, H) = Program(recipe), sizes
    x, gamma, h, half = tensor(M, K), tensor(K), tensor(M, 2 * H), tensor(M, H)
    n, w1, a, w2 = (
        ("%n", (M, K), False, False),
        ("%w1", (2 * H, K), True, False),
        ("%a", (M, H), False, False),
        ("%w2", (K, H), True, False),
    )
    dy, dh = ("%dy", (M, K), False, True), ("%dh", (M, 2 * H), False, True)
    p.lines.append(
        f"    %n, %rsigma = te.rms_norm %x, %gamma {{epsilon = 1.0e-5 : f32}} : {x}, {gamma} rsigma tensor<{M}xf32>"
    )
    p.product("%h", n, w1, (1, 1), (M, 2 * H), True, fast=True, bias=f"bias %b1 : {tensor(2 * H)}")
    p.op("%a", f"te.activation <swiglu> %h : {h} -> {half}")
    p.product("%o", a, w2, (1, 1), (M, K), True, fast=True)
    p.op("%y", f"arith.addf %x, %o : {x}")
    for name, type in (("%n", x), ("%a", half), ("%h", h), ("%rsigma", f"tensor<{M}xf32>")):
        p.types[name] = type
    p.hold("%h")
    p.hold("%rsigma")
    quantised = override == "none"
    if override == "high_precision":
        p.hold("%n")
        p.hold("%a")
    else:
        # Both usages have one scale, so all casts are computed before anything is saved.
        casts = [p.scaled(v, s, 0 if quantised else 1, w, g) for v, s, w, g in (n, w1, a, w2)]
        for cast in casts:
            p.hold(cast)
    if override == "dequantized":
        n, w1, a, w2 = map(p.decoded, (n, w1, a, w2))
    p.product("%da", dy, w2, (1, 0), (M, H), quantised)
    p.product("%dw2", dy, a, (0, 0), (K, H), quantised)
    p.op("%dh", f"te.activation_backward <swiglu> %da, %h_r : {half}, {h}")
    p.op("%db1", f"te.bias_grad %dh : {h} -> {tensor(2 * H)}")
    p.product("%dn", dh, w1, (1, 0), (M, K), quantised)
    p.product("%dw1", dh, n, (0, 0), (2 * H, K), quantised)
    p.op("%dxn, %dgamma", f"te.rms_norm_backward %dn, %x, %gamma, %rsigma_r : {x}, {gamma}, tensor<{M}xf32>")
    p.op("%dx", f"arith.addf %dy, %dxn : {x}")
    arguments = {
        "%x": ("x", x),
        "%gamma": ("gamma", gamma),
        "%w1": ("w1", tensor(*w1[1])),
        "%b1": ("b1", tensor(2 * H)),
        "%w2": ("w2", tensor(*w2[1])),
        "%dy": ("grad.y", x),
    }
    signature = ", ".join(f'{value}: {type} {{te.name = "{name}"}}' for value, (name, type) in arguments.items())
    made = ", ".join(f'{tensor(*shape)} {{te.name = "{name}"}}' for name, shape in results(sizes).items())
    types = ", ".join(tensor(*shape) for shape in results(sizes).values())
    return "\n".join(
        [
            "module attributes {te.recipe = #te.recipe<high_precision>} {",
            f"  func.func @explicit({signature}) -> ({made}) {{",
            *p.lines,
            f"    return %y, %dx, %dgamma, %dw1, %db1, %dw2 : {types}",
            "  }",
            "}",
            "",
        ]
    )


for recipe, sizes in RECIPES.items():
    arrays, names, found = mlp_arrays(np.random.default_rng(5), sizes), list(results(sizes)), {}
    for override in OVERRIDES:
        mode = f"recipe='{recipe}' backward-override={override} target=reference"
        found[override] = run(mlp_module(sizes), "mlp", arrays, mode, vjp=True)
        wanted = run(explicit(recipe, override, sizes), "explicit", arrays, "fuse=false target=reference")
        expect_same(found[override], wanted, names, f"{mode} equals its explicit program")
        expect(set(found[override]) == set(names), f"{mode} has the results {names}")
        expect_same(found[override], found["none"], ["y"], f"{mode} leaves the forward alone")
        for name in names:
            values = found[override][name].astype(np.uint32) << 16
            expect(
                np.isfinite(values.view(np.float32)).all() and values.any(), f"{mode}: '{name}' is finite and not zero"
            )
    for a, b in (("none", "high_precision"), ("none", "dequantized"), ("high_precision", "dequantized")):
        for name in ("grad.x", "grad.w1", "grad.w2"):
            expect(not same_bytes(found[a][name], found[b][name]), f"{recipe}: '{name}' differs between {a} and {b}")
finish("override-identities")
