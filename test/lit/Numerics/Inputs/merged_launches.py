"""Launches that are merged have the bits of the separate ones.

Steps with updates of small parameters and with roundings of weights run with and without te-merge-launches. The test checks that
launches are merged only with it, and compares all states after some steps.
"""

import re

import numpy as np
from harness import FOLDER, compile_to, expect, expect_same, finish, run, to_bf16

STEPS = 3
SHAPES = ((48,), (7,), (5, 9), (48,), (300,), (48,))


def tensor(shape, element):
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def module(moment, skips, scales):
    """Updates of parameters that are rounded and multiplied before; their gradients are computed between the updates."""
    arguments, body, results, types = [], [], [], []

    def argument(name, kind):
        arguments.append(f'%{name}: {kind} {{te.name = "{name}"}}')

    for name in ("lr", "t"):
        argument(name, "tensor<f32>")
    if skips:
        argument("skip", "tensor<f32>")
    if scales:
        argument("scale", "tensor<f32>")
    for i, shape in enumerate(SHAPES):
        f32, bf16, state = (tensor(shape, element) for element in ("f32", "bf16", moment))
        for name, kind in (("p", f32), ("x", bf16), ("m", state), ("v", state)):
            argument(f"{name}{i}", kind)
        body += [
            f"%r{i} = arith.truncf %p{i} : {f32} to {bf16}",
            f"%y{i} = arith.mulf %r{i}, %x{i} : {bf16}",
            f"%a{i} = te.amax %y{i} : {bf16}",
        ]
        results += [(f"y{i}", bf16), (f"a{i}", "tensor<f32>")]
    for i, shape in enumerate(SHAPES):
        f32, bf16, state = (tensor(shape, element) for element in ("f32", "bf16", moment))
        body += [
            f"%g{i} = arith.addf %y{i}, %x{i} : {bf16}",
            f"%np{i}, %nm{i}, %nv{i} = te.adamw %p{i}, %g{i}, %m{i}, %v{i} lr %lr step %t"
            + " grad_scale %scale" * scales
            + " unless %skip" * skips
            + f" {{seed = {i + 3} : i32}} : {f32}, {bf16}"
            + f", {state}" * (moment != "f32"),
        ]
        results += [(f"{name}{i}", kind) for name, kind in (("np", f32), ("nm", state), ("nv", state))]
    names = [re.sub(r"^n([pmv])", r"\1", name) for name, _ in results]
    signature = ", ".join(f'{kind} {{te.name = "{name}"}}' for name, (_, kind) in zip(names, results))
    types = ", ".join(kind for _, kind in results)
    values = ", ".join(f"%{name}" for name, _ in results)
    lines = "\n    ".join([*body, f"return {values} : {types}"])
    return f"func.func @step({', '.join(arguments)}) -> ({signature}) {{\n    {lines}\n}}\n"


def arrays(moment, skips, scales):
    rng = np.random.default_rng(5)
    given = {"lr": np.float32(0.01), "t": np.float32(3)}
    if skips:
        given["skip.steps"] = np.array([0, 1, 0], np.float32)
    if scales:
        given["scale"] = np.float32(0.3)
    for i, shape in enumerate(SHAPES):
        p, x, m, v = rng.normal(0, 1, (4, *shape)).astype(np.float32)
        stored = to_bf16 if moment == "bf16" else np.asarray
        given |= {f"p{i}": p, f"x{i}": to_bf16(x), f"m{i}": stored(m * 0.1), f"v{i}": stored(v * v)}
    return given


def launches(program, kernel):
    return len(re.findall(f'tert.launch "{kernel}"', program))


for moment in ("f32", "bf16"):
    for skips in (False, True):
        for scales in (False, True):
            text = module(moment, skips, scales)
            path = FOLDER / f"{moment}-{skips}-{scales}.mlir"
            path.write_text(text)
            what = f"moments {moment}, skipped {skips}, scaled {scales}"
            merged, separate = (compile_to(path, "schedule", options) for options in ("", "fuse=false"))
            expect(launches(merged, "adamw_group") == 1 and launches(merged, "adamw") == 0, f"{what}: one update")
            expect(launches(separate, "adamw_group") == 0, f"{what}: updates of their own")
            expect(
                launches(merged, "generated") < launches(separate, "generated") and launches(merged, "amax") == 0,
                f"{what}: fewer launches of generated code",
            )
            given = arrays(moment, skips, scales)
            found = run(path, "step", given, steps=STEPS)
            wanted = run(path, "step", given, "fuse=false", steps=STEPS)
            expect_same(found, wanted, sorted(wanted), what)
            expect(not np.array_equal(found["p0"], given["p0"]), f"{what}: parameters change")
finish("merged-launches")
