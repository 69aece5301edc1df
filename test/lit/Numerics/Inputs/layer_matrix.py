"""Every layer under every recipe, override, transpose policy and remat policy.

Layers are the examples Linear (twice: once with infinities and NaN), LayerNormLinear, LayerNormMLP, GroupedLinear, a Llama layer,
a GPT layer and a mixture of experts. The claims have no tolerance:

* Results of the forward have the same bits under every override of a recipe.
* Gradients have the same bits under every transpose policy, every remat policy, and both together.
* A copy of the program returns the input, dx and dy of each linear layer. There, dx and dw of overrides and of layers in high
  precision are those of a program with only these GEMMs, on operands that te_model dequantised, and db is the sum of dy in the
  documented order.
* In that copy, y, dx and dw are also those of `te_model.linear`, which computes the GEMMs from the input, the weight and dy, in the
  documented order of sums. On a GPU this is not checked, because vendor libraries add in another order.

    layer_matrix.py FOLDER [--backend=cuda] [--modes=TEXT]     needs te-run in PATH, and numpy

Modes are independent, so they can run in several processes with separate folders. A layer without a kernel on a GPU is printed,
and the others run without it.
"""

import numpy as np
from harness import (
    BACKEND,
    Refused,
    expect,
    expect_same,
    finish,
    forget_last_run,
    from_bf16,
    modes,
    refusals,
    run,
    same_bytes,
    to_bf16,
)
from layer_graphs import EXAMPLES, arrays, module, read
from te_model.linear import Recipe, column_sum, linear

CUDA = BACKEND == "cuda"
SHRINK = {"llama_layer": 2}
LAYERS = {
    "linear": "linear",
    "awkward": "linear",
    "ln_linear": "layernorm_linear",
    "ln_mlp": "layernorm_mlp",
    "grouped": "grouped_linear",
    "llama": "llama_layer",
    "gpt": "gpt_layer",
    "moe": "moe",
}
#: Policies besides the default, which casts the columns of weights in the forward and recomputes nothing. Budgets are some of the saved bytes.
POLICIES = [
    "transpose-policy=cached",
    "remat=everything",
    "remat=ops:activation,layer_norm,rms_norm,attention",
    "remat=budget:1000000",
    "transpose-policy=cached remat=ops:linear",
    "transpose-policy=budget transpose-budget=1000000",
]


def layers(names, taps):
    return [read(name, EXAMPLES / f"{LAYERS[name]}.mlir", SHRINK.get(LAYERS[name], 1), taps) for name in names]


def given(graphs):
    made = {}
    for graph in graphs:
        # The seed depends on the layer, so that overrides have the same arrays.
        made |= arrays(graph, seed=list(LAYERS).index(graph.name))
    if "awkward.x" in made:
        for row, column, bits in ((5, 3, 0x7F80), (9, 40, 0xFF80), (17, 60, 0x7FC0), (30, 3, 0x7F7F)):
            made["awkward.x"][row, column] = bits
        made["awkward.w"][11, 90], made["grad.awkward.y"][21, 14], made["grad.awkward.y"][22, 15] = (
            0xFF80,
            0x7FC0,
            0x7F80,
        )
    return made


def run_layers(names, mode, taps=False, **given_too):
    graphs = layers(names, taps)
    found = run(module(graphs), "layers", given(graphs) | given_too, mode, vjp=True, summary=True)
    forget_last_run()
    return graphs, *found


def base_of(mode):
    """The layers that the backend has kernels for: (their names, graphs, arrays, te-run's summary)."""
    try:
        return list(LAYERS), *run_layers(LAYERS, mode)
    except Refused:
        names = []
        for name in LAYERS:
            with refusals(f"{mode}: {name}"):
                run_layers([name], mode)
                names.append(name)
        return names, *(run_layers(names, mode) if names else ([], {}, {}))


def override_of(mode):
    return mode.split("override=")[1].split()[0] if "override=" in mode else "none"


def compare_policies(mode, names, graphs, base, said):
    """The examples without changes."""
    arena = {"": said["arena_bytes"]}
    for name in base:
        is_finite = base[name].dtype != np.uint16 or np.isfinite(from_bf16(base[name])).all()
        expect(is_finite or name.startswith(("awkward", "grad.awkward")), f"{mode}: '{name}' is finite")
    forward = sorted(label for graph in graphs for _, _, label in graph.results)
    if override_of(mode) == "none":
        without_override[mode, *names] = base
    else:
        plain = mode.replace(f"override={override_of(mode)}", "override=none")
        if (plain, *names) not in without_override:
            without_override[plain, *names] = run_layers(names, plain)[1]
        expect_same(base, without_override[plain, *names], forward, f"{mode}: the override leaves the forward alone")
    for policy in POLICIES:
        with refusals(f"{mode} {policy}"):
            _, found, said = run_layers(names, f"{mode} {policy}")
            arena[policy] = said["arena_bytes"]
            expect(set(found) == set(base), f"{mode} {policy}: the results are those without")
            expect_same(found, base, sorted(base), f"{mode} {policy}")
    if len(arena) <= len(POLICIES) or len(names) < len(LAYERS):
        return
    # Otherwise, programs would be compared with themselves.
    for policy in POLICIES:
        if policy.startswith("remat"):
            expect(arena[policy] < arena[""], f"{mode} {policy}: {arena[policy]} bytes are fewer than {arena['']}")
    if "override" not in mode or "override=none" in mode and "mxfp8" not in mode:
        cached = arena["transpose-policy=cached"]
        expect(
            mode == "recipe=high_precision" or cached != arena[""],
            f"{mode}: transposes take {cached} bytes, and columns that are cast in the forward {arena['']}",
        )


def without_sign_of_zero(bits):
    """A tap adds zero, which changes -0 to 0."""
    return np.where(bits == 0x8000, np.uint16(0), bits)


def parts(layer, found, values):
    """(x, w, bias, dy) in f32 and (y, dx, dw, db) in bits for each GEMM of a layer: one, or one for each group."""
    x, dy = found[f"{layer.weight}.in"], found[f"grad.{layer.weight}.zero.out"]
    y, dx = found.get(f"{layer.weight}.y"), found[f"grad.{layer.weight}.zero.in"]
    w, dw = values[layer.weight], found[f"grad.{layer.weight}"]
    b, db = (values[layer.bias], found[f"grad.{layer.bias}"]) if layer.bias else (None, None)
    if not layer.sizes:
        yield (*(None if v is None else from_bf16(v) for v in (x, w, b, dy)), (y, dx, dw, db), slice(None))
        return
    start = 0
    for group, size in enumerate(values[layer.sizes]):
        # If a group ends inside a block, the rest of the block is zeros, not the values in memory.
        rows, height = slice(start, start + size), -(-size // 128) * 128
        start += height

        def padded(bits):
            full = np.zeros((height, bits.shape[1]), np.float32)
            full[:size] = from_bf16(bits[rows])
            return full

        yield (
            padded(x),
            from_bf16(w[group]),
            None if b is None else from_bf16(b[group]),
            padded(dy),
            (None if y is None else y[rows], dx[rows], dw[group], None if db is None else db[group]),
            slice(size),
        )


def explicit_products(mode, graphs, found, values):
    """dx and dw of every layer from a program with only these GEMMs, on the same backend; and db."""
    name, override = mode.split()[0].split("=")[1], override_of(mode)
    arguments, results, lines, operands, wanted = [], [], [], {}, []

    def declare(label, array, type="bf16"):
        operands[label] = to_bf16(array) if type == "bf16" else array
        arguments.append(f'%{label}: tensor<{"".join(f"{n}x" for n in array.shape)}{type}> {{te.name = "{label}"}}')
        return arguments[-1].split()[1]

    for graph in graphs:
        for i, layer in enumerate(graph.linears):
            if layer.is_grouped and not layer.sizes:
                continue
            recipe = Recipe("high_precision" if layer.high_precision else name)
            x, w, dy = (
                from_bf16(array)
                for array in (found[f"{layer.weight}.in"], values[layer.weight], found[f"grad.{layer.weight}.zero.out"])
            )
            dx, dw = found[f"grad.{layer.weight}.zero.in"], found[f"grad.{layer.weight}"]
            for group, (own_x, own_w, bias, own_dy, made, rows) in enumerate(parts(layer, found, values)):
                if bias is not None:
                    expect(
                        same_bytes(to_bf16(column_sum(own_dy)), made[3]), f"{mode}: {layer.weight} of group {group}, db"
                    )
                if override == "dequantized" and recipe.name != "high_precision" and own_x.shape[0]:
                    start = sum(-(-size // 128) * 128 for size in values[layer.sizes][:group]) if layer.sizes else 0
                    x, w = x.copy(), w.copy()
                    x[start : start + own_x.shape[0]][rows] = recipe.decode(own_x, "x")[rows]
                    w[group if layer.sizes else slice(None)] = recipe.decode(own_w, "w")
            if override == "none" and recipe.name != "high_precision":
                continue
            own = f"{graph.name}{i}"
            types = {role: declare(f"{own}{role}", array) for role, array in (("x", x), ("w", w), ("dy", dy))}
            if layer.sizes:
                sizes = declare(f"{own}sizes", values[layer.sizes], "i32")
                products = (
                    (
                        f"te.grouped_matmul %{own}dy, %{own}w, %{own}sizes contract = 0 {{alignment = 128 : i64}} :",
                        "w",
                        "x",
                        dx,
                    ),
                    (f"te.grouped_wgrad %{own}dy, %{own}x, %{own}sizes {{alignment = 128 : i64}} :", "x", "w", dw),
                )
                products = [
                    (f"{op} {types['dy']}, {types[b]}, {sizes} -> {types[to]}", types[to], bits)
                    for op, b, to, bits in products
                ]
            else:
                products = [
                    (
                        f"te.matmul %{own}dy, %{own}{b} contract = [{axis}, 0] : {types['dy']}, {types[b]} -> {types[to]}",
                        types[to],
                        bits,
                    )
                    for b, axis, to, bits in (("w", 1, "x", dx), ("x", 0, "w", dw))
                ]
            for gradient, (op, type, bits) in zip(("dx", "dw"), products):
                lines.append(f"  %{own}{gradient} = {op}")
                results.append((f"{own}{gradient}", type))
                wanted.append((f"{own}{gradient}", f"{layer.weight}, {gradient}", bits))
    if not wanted:
        return
    named = ", ".join(f'{type} {{te.name = "{name}"}}' for name, type in results)
    text = "\n".join(
        [
            f"func.func @products({', '.join(arguments)}) -> ({named}) {{",
            *lines,
            f"  return {', '.join(f'%{name}' for name, _ in results)} : {', '.join(type for _, type in results)}",
            "}",
            "",
        ]
    )
    products = run(text, "products", operands, "recipe=high_precision fuse=false")
    forget_last_run()
    for name, claim, bits in wanted:
        expect(same_bytes(without_sign_of_zero(products[name]), without_sign_of_zero(bits)), f"{mode}: {claim}")


def check_identities(mode, names):
    """The copy of the program that returns the tensors of each linear layer."""
    name, override = mode.split()[0].split("=")[1], override_of(mode)
    # The position of a cast determines its random bits, which other tests check.
    if name.startswith("nvfp4"):
        mode = mode.replace(f"recipe={name}", f"recipe='{name}, {{stochastic_rounding = false}}'")
    graphs, found, _ = run_layers(names, mode, taps=True)
    values, scales = given(graphs), {}
    if name == "delayed_scaling":
        rng = np.random.default_rng(3)
        scales = {
            key: np.exp2(rng.uniform(-2, 5, np.shape(found[key]))).astype(np.float32)
            for key in sorted(found)
            if key.endswith(".scale")
        }
        _, found, _ = run_layers(names, mode, taps=True, **scales)
    explicit_products(f"recipe={name} override={override}", graphs, found, values)
    if CUDA:
        return
    for graph in graphs:
        shown = {label.split(".", 1)[1] for _, _, label in graph.results}
        for layer in graph.linears:
            # Only the grouped layer has groups that a router computes.
            if layer.is_grouped and not layer.sizes:
                continue
            for group, (x, w, bias, dy, made, rows) in enumerate(parts(layer, found, values)):
                claim = f"{mode}: {layer.weight}{f' of group {group}' if layer.sizes else ''}"
                own = (
                    {role: np.ravel(scales[f"{layer.weight}.{role}.scale"])[group] for role in ("x", "w", "dy")}
                    if scales and not layer.high_precision
                    else None
                )
                recipe = Recipe("high_precision" if layer.high_precision else name, own)
                if x.shape[0] == 0:
                    expect(
                        not made[2].any() and (made[3] is None or not made[3].any()), f"{claim}: no gradient of no rows"
                    )
                    continue
                y, dx, dw, db = linear(recipe, override, x, w, bias, dy)
                expect(same_bytes(without_sign_of_zero(dx[rows]), without_sign_of_zero(made[1])), f"{claim}: dx")
                expect(same_bytes(dw, made[2]), f"{claim}: dw")
                if bias is not None:
                    expect(same_bytes(db, made[3]), f"{claim}: db")
                # If the layer is the whole graph, its result is a result of the graph.
                if "y" in shown and len(graph.linears) == 1 and f"{graph.name}.y" in found:
                    wanted = found[f"{graph.name}.y"]
                    wanted = (
                        wanted
                        if not layer.sizes
                        else wanted[int(sum(-(-n // 128) * 128 for n in values[layer.sizes][:group])) :][: rows.stop]
                    )
                    expect(same_bytes(without_sign_of_zero(y[rows]), without_sign_of_zero(wanted)), f"{claim}: y")
                expect(graph.name == "awkward" or dw.any(), f"{claim}: there is something to compare")


without_override = {}
for mode in modes(turn=1):
    names, *base = base_of(mode)
    if names:
        compare_policies(mode, names, *base)
        with refusals(f"{mode}: the copy that shows operands"):
            check_identities(mode, names)
        print(f"{mode}: {len(names)} of {len(LAYERS)} layers", flush=True)
finish("layer-matrix")
