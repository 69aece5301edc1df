"""Counts the saved values and the casts of a compiled step for each backward override.

The program has a norm and two linear layers with SwiGLU in between, which other libraries fuse into a module that does not support
overrides. It is compiled with every recipe and override, and with separate overrides for each layer and for the function. Under an
override, no gradient is quantised.
"""

import re

from harness import FOLDER, compile_to, expect, finish

M, K, H = 128, 256, 128
RECIPES = ("float8_current_scaling", "float8_block_scaling", "mxfp8_block_scaling", "nvfp4_block_scaling")
OVERRIDES = ("none", "high_precision", "dequantized")


def module(function="", first="", second=""):
    """The step, with the overrides of the function and of both layers."""

    def own(mode, before=""):
        return f' {before}{{te.backward_override = "{mode}"}}' if mode else ""

    text = f"""
!x = tensor<{M}x{K}xbf16>
func.func @mlp(%x: !x {{te.name = "x"}}, %g: tensor<{K}xbf16> {{te.name = "gamma"}}, %w1: tensor<{2 * H}x{K}xbf16> {{te.name = "w1", te.weight}},
    %w2: tensor<{K}x{H}xbf16> {{te.name = "w2", te.weight}}) -> (!x {{te.name = "y"}}){own(function, "attributes ")} {{
  %n = te.rms_norm %x, %g : !x, tensor<{K}xbf16>
  %h = te.linear %n, %w1{own(first)} : !x, tensor<{2 * H}x{K}xbf16> -> tensor<{M}x{2 * H}xbf16>
  %a = te.activation <swiglu> %h : tensor<{M}x{2 * H}xbf16> -> tensor<{M}x{H}xbf16>
  %y = te.linear %a, %w2{own(second)} : tensor<{M}x{H}xbf16>, tensor<{K}x{H}xbf16> -> !x
  return %y : !x
}}
"""
    path = FOLDER / f"{function or 'no'}-{first or 'no'}-{second or 'no'}.mlir"
    path.write_text(text)
    return path


def form(type):
    """ "row", "col" or "bf16"."""
    axis = re.search(r"contract = (\d)", type)
    return {None: "hp", "0": "col", "1": "row"}[axis and axis[1]]


def held(layer, mode):
    """Forms of the input and the weight that a layer saves. The columns of a weight may be computed from its saved rows."""
    weight = {"none": {"row", "col"}, "high_precision": set(), "dequantized": {"row"}}[mode]
    return {"none": "col", "high_precision": "hp", "dequantized": "row"}[mode], weight


def check(path, options, modes):
    """Checks a step. modes: the overrides that apply to the two layers."""
    claim = f"{path.stem}, {options}"
    step = compile_to(path, "quantize", f"vjp=mlp target=reference {options}").rsplit("func.func", 1)[1]
    residuals = dict(re.findall(r'te\.residual \S+ "([^"]+)" : (.*)', step))
    # Casts of the forward are computed before they are saved.
    forward, backward = step[: step.rindex("te.residual")], step[step.rindex("te.residual") :]
    expected = {"activation0.x", "rms_norm0.rsigma"}
    for layer, mode in enumerate(modes):
        x, w = held(layer, mode)
        expected.add(f"linear{layer}.x")
        expect(form(residuals[f"linear{layer}.x"]) == x, f"{claim}: the input of layer {layer} is held as '{x}'")
        weight = f"w{layer + 1}"
        if w:
            expected.add(weight)
            expect(form(residuals[weight]) in w, f"{claim}: '{weight}' is held as one of {sorted(w)}")
    expect(set(residuals) == expected, f"{claim}: {sorted(residuals)} are held, not {sorted(expected)}")
    casts = re.findall(r"te\.quantize .*-> (.*)", backward)
    # Only a backward without an override casts its gradient, for two GEMMs.
    expect(
        sum(cast.count("contract =") for cast in casts) == 2 * modes.count("none"),
        f"{claim}: {len(casts)} casts in the backward",
    )
    expect(
        len(re.findall(r"te\.dequantize", backward)) == 2 * modes.count("dequantized"), f"{claim}: what is dequantised"
    )
    expect(
        len(re.findall(r"te\.scaled_matmul", backward)) == 2 * modes.count("none"),
        f"{claim}: quantised products in the backward",
    )
    expect(len(re.findall(r"te\.scaled_matmul", forward)) == 2, f"{claim}: quantised products in the forward")
    rows = sum(types.count("contract = 1") for types in re.findall(r"te\.quantize .*-> (.*)", forward))
    expect(rows == 4, f"{claim}: {rows} row casts in the forward")


plain = module()
for recipe in RECIPES:
    for override in OVERRIDES:
        check(plain, f"recipe={recipe} backward-override={override}", [override] * 2)
        check(module(function=override), f"recipe={recipe}", [override] * 2)
        for second in OVERRIDES:
            check(module(first=override, second=second), f"recipe={recipe}", [override, second])
    # The override of a layer precedes that of its function, and the option precedes both.
    check(module("high_precision", second="none"), f"recipe={recipe}", ["high_precision", "none"])
    check(
        module("high_precision", second="none"), f"recipe={recipe} backward-override=dequantized", ["dequantized"] * 2
    )
check(plain, "recipe=delayed_scaling", ["none"] * 2)
finish("override-residuals")
