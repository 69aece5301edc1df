"""Every layer under every recipe, override, transpose policy and remat policy: what may change, and what may not.

Layers are the examples Linear (twice: once with infinities and NaN), LayerNormLinear, LayerNormMLP, GroupedLinear, a Llama layer,
a GPT layer and a mixture of experts. No claim has a tolerance:

* results of the forward are the same bits under every override of a recipe;
* gradients are the same bits under every transpose policy and every remat policy, and together;
* in a copy of the program that shows the input, dx and dy of each linear layer, its y, dx, dw and db are what `linear_oracle` makes
  of the input, the weight and dy: products of what the override says is read, added in the documented order. On a GPU, whose
  products add in another order, dx and dw of overrides are those of a program that has these products alone, on operands that
  te_model decoded.

    layer_matrix.py FOLDER [--backend=cuda]     needs te-run in PATH, and numpy
"""

import numpy as np
from harness import ALL_MODES, BACKEND, expect, expect_same, finish, forget_last_run, from_bf16, run, same_bytes, to_bf16
from layer_graphs import EXAMPLES, arrays, module, read
from linear_oracle import Recipe, linear

CUDA = BACKEND == "cuda"
SHRINK = {"llama_layer": 2}
LAYERS = {"linear": "linear", "awkward": "linear", "ln_linear": "layernorm_linear", "ln_mlp": "layernorm_mlp",
          "grouped": "grouped_linear", "llama": "llama_layer", "gpt": "gpt_layer", "moe": "moe"}
#: Beside the default, which transposes on demand and recomputes nothing. Budgets are bytes of some, not all, that is held.
POLICIES = ["transpose-policy=cached", "transpose-policy=eager", "transpose-policy=budget transpose-budget=100000000",
            "remat=everything", "remat=ops:activation,layer_norm,rms_norm,attention", "remat=budget:1000000",
            "transpose-policy=eager remat=everything", "transpose-policy=cached remat=ops:linear",
            "transpose-policy=budget transpose-budget=1000000"]
MODES = [mode.replace("target=reference", "emulate=true") for mode in ALL_MODES] if CUDA else ALL_MODES


def layers(taps):
    return [read(name, EXAMPLES / f"{file}.mlir", SHRINK.get(file, 1), taps) for name, file in LAYERS.items()]


def given(graphs):
    made = {}
    for graph in graphs:
        # The seed is the layer's, so that overrides see the same arrays.
        made |= arrays(graph, seed=list(LAYERS).index(graph.name))
    if "awkward.x" in made:
        for row, column, bits in ((5, 3, 0x7F80), (9, 40, 0xFF80), (17, 60, 0x7FC0), (30, 3, 0x7F7F)):
            made["awkward.x"][row, column] = bits
        made["awkward.w"][11, 90], made["grad.awkward.y"][21, 14], made["grad.awkward.y"][22, 15] = 0xFF80, 0x7FC0, 0x7F80
    return made


def compare_policies(mode, forwards):
    """The examples as they are."""
    graphs = layers(False)
    text, values = module(graphs), given(graphs)
    base, said = run(text, "layers", values, mode, vjp=True, summary=True)
    forget_last_run()
    arena = {"": said["arena_bytes"]}
    for name in base:
        is_finite = base[name].dtype != np.uint16 or np.isfinite(from_bf16(base[name])).all()
        expect(is_finite or name.startswith(("awkward", "grad.awkward")), f"{mode}: '{name}' is finite")
    forward = sorted(label for graph in graphs for _, _, label in graph.results)
    first = forwards.setdefault(mode.split()[0], base)
    expect_same(base, first, [name for name in forward if name in first], f"{mode}: the override leaves the forward alone")
    for policy in POLICIES:
        found, said = run(text, "layers", values, f"{mode} {policy}", vjp=True, summary=True)
        forget_last_run()
        arena[policy] = said["arena_bytes"]
        expect(set(found) == set(base), f"{mode} {policy}: the results are those without")
        expect_same(found, base, sorted(base), f"{mode} {policy}")
    # Or programs would be compared with themselves.
    for policy in POLICIES:
        if policy.startswith("remat"):
            expect(arena[policy] < arena[""], f"{mode} {policy}: {arena[policy]} bytes are fewer than {arena['']}")
    if "override" not in mode or "override=none" in mode and not "mxfp8" in mode:
        eager = arena["transpose-policy=eager"]
        # Where the peak is in the backward of a layer without transposes, what is held early need not raise it.
        expect(mode == "recipe=high_precision" or eager != arena[""], f"{mode}: eager transposes take {eager} bytes, and others {arena['']}")


def without_sign_of_zero(bits):
    """A tap adds zero, which makes -0 to 0."""
    return np.where(bits == 0x8000, np.uint16(0), bits)


def parts(layer, found, values):
    """(x, w, bias, dy) in f32 and (y, dx, dw, db) in bits for each product of a layer: one, or one for each group."""
    x, dy = found[f"{layer.weight}.in"], found[f"grad.{layer.weight}.zero.out"]
    y, dx = found.get(f"{layer.weight}.y"), found[f"grad.{layer.weight}.zero.in"]
    w, dw = values[layer.weight], found[f"grad.{layer.weight}"]
    b, db = (values[layer.bias], found[f"grad.{layer.bias}"]) if layer.bias else (None, None)
    if not layer.sizes:
        yield (*(None if v is None else from_bf16(v) for v in (x, w, b, dy)), (y, dx, dw, db), slice(None))
        return
    start = 0
    for group, size in enumerate(values[layer.sizes]):
        # Of a group that ends inside a block the rest is zeros, not what is there.
        rows, height = slice(start, start + size), -(-size // 128) * 128
        start += height

        def padded(bits):
            full = np.zeros((height, bits.shape[1]), np.float32)
            full[:size] = from_bf16(bits[rows])
            return full

        yield (padded(x), from_bf16(w[group]), None if b is None else from_bf16(b[group]), padded(dy),
               (None if y is None else y[rows], dx[rows], dw[group], None if db is None else db[group]), slice(size))


def explicit_products(mode, override, recipe, graphs, found, values):
    """dx and dw of every layer by a program of these products alone, on the same backend."""
    arguments, results, lines, operands, wanted = [], [], [], {}, []
    for graph in graphs:
        for i, layer in enumerate(graph.linears):
            (x, w, _, dy, made, _), = parts(layer, found, values)
            if override == "dequantized" and not layer.high_precision:
                x, w = recipe.decode(x, "x"), recipe.decode(w, "w")
            own = f"{graph.name}{i}"
            types = {}
            for name, array in (("x", x), ("w", w), ("dy", dy)):
                types[name] = f"tensor<{array.shape[0]}x{array.shape[1]}xbf16>"
                operands[f"{own}{name}"] = to_bf16(array)
                arguments.append(f'%{own}{name}: {types[name]} {{te.name = "{own}{name}"}}')
            for name, a, b, axes, type, bits in (("dx", "dy", "w", "1, 0", types["x"], made[1]), ("dw", "dy", "x", "0, 0", types["w"], made[2])):
                lines.append(f"  %{own}{name} = te.matmul %{own}{a}, %{own}{b} contract = [{axes}] : {types[a]}, {types[b]} -> {type}")
                results.append((f"{own}{name}", type))
                wanted.append((f"{own}{name}", f"{layer.weight}, {name}", bits))
    named = ", ".join(f'{type} {{te.name = "{name}"}}' for name, type in results)
    text = "\n".join([f"func.func @products({', '.join(arguments)}) -> ({named}) {{", *lines,
                      f"  return {', '.join(f'%{name}' for name, _ in results)} : {', '.join(type for _, type in results)}", "}", ""])
    products = run(text, "products", operands, "recipe=high_precision fuse=false")
    for name, claim, bits in wanted:
        expect(same_bytes(without_sign_of_zero(products[name]), without_sign_of_zero(bits)), f"{mode}: {claim}")


def check_identities(mode):
    """The copy that shows what each linear layer reads."""
    name = mode.split()[0].split("=")[1]
    override = mode.split("override=")[1].split()[0] if "override=" in mode else "none"
    # Where a cast stands decides its random bits; they are tested with the cast.
    if name.startswith("nvfp4"):
        mode = mode.replace(f"recipe={name}", f"recipe='{name}, {{stochastic_rounding = false}}'")
    graphs = layers(True)
    text, values = module(graphs), given(graphs)
    found = run(text, "layers", values, mode, vjp=True)
    forget_last_run()
    scales = {}
    if name == "delayed_scaling":
        rng = np.random.default_rng(3)
        scales = {key: np.exp2(rng.uniform(-2, 5, np.shape(found[key]))).astype(np.float32) for key in sorted(found) if key.endswith(".scale")}
        found = run(text, "layers", values | scales, mode, vjp=True)
        forget_last_run()
    if CUDA and (override != "none" or name == "high_precision"):
        return explicit_products(mode, override, Recipe(name), graphs, found, values)
    if CUDA:
        return None
    for graph in graphs:
        shown = {label.split(".", 1)[1] for _, _, label in graph.results}
        for layer in graph.linears:
            # Groups that a router makes are those of the grouped layer alone.
            if layer.is_grouped and not layer.sizes:
                continue
            for group, (x, w, bias, dy, made, rows) in enumerate(parts(layer, found, values)):
                claim = f"{mode}: {layer.weight}{f' of group {group}' if layer.sizes else ''}"
                own = {role: np.ravel(scales[f"{layer.weight}.{role}.scale"])[group] for role in ("x", "w", "dy")} \
                    if scales and not layer.high_precision else None
                recipe = Recipe("high_precision" if layer.high_precision else name, own)
                if x.shape[0] == 0:
                    expect(not made[2].any() and (made[3] is None or not made[3].any()), f"{claim}: no gradient of no rows")
                    continue
                y, dx, dw, db = linear(recipe, override, x, w, bias, dy)
                expect(same_bytes(without_sign_of_zero(dx[rows]), without_sign_of_zero(made[1])), f"{claim}: dx")
                expect(same_bytes(dw, made[2]), f"{claim}: dw")
                if bias is not None:
                    expect(same_bytes(db, made[3]), f"{claim}: db")
                # Where the layer is the whole graph, its result is one.
                if "y" in shown and len(graph.linears) == 1 and f"{graph.name}.y" in found:
                    wanted = found[f"{graph.name}.y"]
                    wanted = wanted if not layer.sizes else wanted[int(sum(-(-n // 128) * 128 for n in values[layer.sizes][:group])):][:rows.stop]
                    expect(same_bytes(without_sign_of_zero(y[rows]), without_sign_of_zero(wanted)), f"{claim}: y")
                expect(graph.name == "awkward" or dw.any(), f"{claim}: there is something to compare")


forwards = {}
for mode in MODES:
    compare_policies(mode, forwards)
    check_identities(mode)
finish("layer-matrix")
