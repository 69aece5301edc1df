"""Draws the recipe of a random model, and runs its program in all forms that have to have the same bits."""

import random
import traceback

import numpy as np
import torch
from model_checks import CLAIMS, Case, Checker, differing, is_stochastic, same, worst
from model_graph import Draw
from model_values import DRAWS, ROUNDING, TINY, Exact, Noise, Read, Round, U
from te_model.formats import load, store

import te_mlir
from te_mlir.recipes import Format

#: Steps of a run, in which states change.
STEPS = 2
OVERRIDES = ("none", "high_precision", "dequantized")


def draw_recipe(pick, custom=True):
    """A recipe, with options that are often the defaults."""

    def some(default, *others):
        return pick((default, default, *others))

    kinds = [
        te_mlir.HighPrecision,
        te_mlir.DelayedScaling,
        te_mlir.Float8CurrentScaling,
        te_mlir.Float8BlockScaling,
        te_mlir.MXFP8BlockScaling,
        te_mlir.NVFP4BlockScaling,
    ]
    kind = pick(kinds + [te_mlir.CustomRecipe] * custom)
    if kind is te_mlir.HighPrecision:
        return kind()
    if kind is te_mlir.DelayedScaling:
        return kind(
            amax_history_len=pick((1, 2, 4)),
            margin=some(0, 1),
            fp8_format=some(Format.HYBRID, Format.E4M3),
            amax_compute_algo=pick(("max", "most_recent")),
        )
    if kind is te_mlir.Float8CurrentScaling:
        return kind(
            use_power_2_scales=some(False, True),
            fp8_format=some(Format.HYBRID, Format.E4M3),
            amax_epsilon=some(0.0, 0.5),
        )
    if kind is te_mlir.Float8BlockScaling:
        dims = some((1, 2, 1), (1, 1, 1), (2, 1, 1), (1, 1, 2))
        return kind(
            use_f32_scales=some(False, True),
            fp8_format=some(Format.E4M3, Format.HYBRID),
            amax_epsilon=some(0.0, 0.5),
            x_block_scaling_dim=dims[0],
            w_block_scaling_dim=dims[1],
            grad_block_scaling_dim=dims[2],
        )
    if kind is te_mlir.MXFP8BlockScaling:
        return kind(fp8_format=some(Format.E4M3, Format.HYBRID), enable_2d_quantization=some(False, True))
    if kind is te_mlir.NVFP4BlockScaling:
        chosen = some("none", "none", "all", "weights")
        return kind(
            disable_rht=some(False, True) or chosen == "all",
            disable_stochastic_rounding=pick((False, True)),
            disable_2d_quantization=some(False, True),
            nvfp4_4over6=chosen,
        )
    parts = [draw_recipe(pick, custom=False) for _ in range(3)]
    # One delayed recipe, whose scales are those of the tensors themselves.
    delayed = next((part for part in parts if uses_delayed(part)), None)
    parts = [delayed if uses_delayed(part) else part for part in parts]
    second = (parts[2], parts[1], parts[2])
    sources = ["original" if uses_delayed(part) else some("original", "rowwise_dequantized") for part in second]
    if isinstance(parts[2], te_mlir.HighPrecision):
        sources[2] = "original"
    return kind(*parts, *sources)


def uses_delayed(recipe):
    return any(name.endswith("scale") for name in recipe.states())


def draw_case(seed):
    r = random.Random(seed)
    recipe = draw_recipe(r.choice)
    dtype = r.choice(("bf16", "bf16", "bf16", "f32"))
    if isinstance(recipe, te_mlir.HighPrecision):
        dtype = r.choice(("bf16", "f16", "f32"))
    if "nvfp4" in recipe.spelling():
        dtype = "bf16"
    aligned = "block" in recipe.spelling()
    model = Draw(seed, dtype, 128 if aligned and "float8_block" in recipe.spelling() else 32).model
    linears = [op.result for op in model.ops if op.kind == "linear"]
    own = {name: te_mlir.HighPrecision() for name in linears if r.random() < 0.1}
    if dtype == "bf16" and r.random() < 0.2:
        others = {name: draw_recipe(r.choice, custom=False) for name in linears if r.random() < 0.2}
        # Two delayed recipes have two scales for one tensor.
        own |= {name: other for name, other in others.items() if not uses_delayed(other)}
    delayed = any(uses_delayed(each) for each in (recipe, *own.values()))
    numbers, cotangents = np.random.default_rng(seed + 1), {}
    shapes = {op.result: op.shape for op in model.ops}
    for name in model.results:
        shape = shapes[name]
        array = np.float32(1) if shape == () else numbers.normal(0, 0.3, shape).astype(np.float32)
        cotangents[name] = store(array, model.type(name)) if shape else np.array(array)
    may_override = not delayed and not isinstance(recipe, te_mlir.HighPrecision)
    return Case(model, recipe, r.choice(OVERRIDES) if may_override else "none", own, cotangents)


class Variants:
    """The program as it is written, and other forms of it."""

    def __init__(self, case, seed):
        self.case, self.model, self.random = case, case.model, random.Random(seed)
        self.wrong = []

    def steps(self, name, count=STEPS, **how):
        """The results of some steps; None if the form is refused for a reason that it may have."""
        try:
            step = self.case.compile(**how)
        except te_mlir.CompileError as error:
            if may_refuse(how, str(error)):
                CLAIMS["refused forms"] += 1
                return None
            raise RuntimeError(f"{name}: {error}") from None
        self.case.start(step)
        found = []
        for _ in range(count):
            found.append(self.case.run(step))
            found[-1] |= states(step)
            found[-1] = {key: value.copy() for key, value in found[-1].items()}
        return found

    def compare(self, name, wanted, found, only=lambda key: True, zeros=True):
        """Whether all results that both have are equal."""
        if found is None:
            return
        CLAIMS["forms with the same bits"] += 1
        for number, (a, b) in enumerate(zip(wanted, found)):
            common = [key for key in a if key in b and only(key)]
            if not common:
                self.wrong.append(f"{name}: no results in common")
            for key in common:
                if not same(a[key], b[key], zeros):
                    self.wrong.append(f"{name}: step {number}, '{key}' differs, {differing(a[key], b[key])}")

    def forms(self):
        """Options and forms that change no bit: (name, arguments of `steps`, results that are compared)."""
        r, model = self.random, self.model
        kinds = sorted({REMAT.get(op.kind, op.kind) for op in model.ops} & set(REMAT_NAMES))
        yield "fuse=false", {"fuse": False}
        yield "remat=everything", {"remat": "everything"}
        if kinds:
            names = r.sample(kinds, r.randint(1, len(kinds)))
            yield f"remat=ops:{','.join(names)}", {"remat": f"ops:{','.join(names)}"}
        yield "remat=ops:quantize", {"remat": "ops:quantize"}
        yield "remat=budget", {"remat": f"budget:{r.choice((0, 2000, 20000))}"}
        yield "transpose-policy=cached", {"transpose_policy": "cached"}
        yield "transpose-policy=eager", {"transpose_policy": "eager", "remat": r.choice(("nothing", "everything"))}
        yield "transpose-policy=budget", {"transpose_policy": "budget", "transpose_budget": r.choice((0, 5000, 50000))}
        yield "fuse=false remat", {"fuse": False, "remat": "everything", "transpose_policy": "cached"}
        yield "check-finite", {"check_finite": True}
        yield "expose-casts", {"expose_casts": True}
        yield "probes", {"probes": "*"}
        yield "deterministic", {"deterministic": True}
        yield "recorded", {"cuda_graph": True}
        yield "renamed", {"form": {"renamed": True}}
        yield "dead layers", {"form": {"dead": True}}
        if any(op.kind == "loss" for op in model.ops) and "current" not in self.case.recipe.spelling():
            yield "logits-budget", {"logits_budget": r.choice((1, 1000, 4000))}

    def run(self, shown):
        plain = self.steps("the program", count=STEPS)
        stochastic = any(is_stochastic(each) for each in (self.case.recipe, *self.case.layer_recipes.values()))
        numbered = stochastic and self.case.override == "none"
        self.compare("every value is a result", plain[:1], shown, only=is_result, zeros=False)
        forms = list(self.forms())
        for name, how in self.random.sample(forms, min(5, len(forms))):
            self.compare(name, plain, self.steps(name, **how))
        self.compare("forward", plain, self.steps("forward", count=1, vjp=False), only=is_forward)
        if self.case.override != "none":
            other = self.random.choice(OVERRIDES)
            self.compare(f"override {other}", plain, self.steps("override", count=1, override=other), only=is_forward)
        # Scales of delayed scaling have the name of the first layer that reads a tensor.
        if not self.case.scales:
            found = self.steps("another order", form={"order": self.order()})
            self.compare("another order", plain, found, only=is_forward)
        self.micro_batches(plain, numbered)
        if isinstance(self.case.recipe, te_mlir.HighPrecision) and not self.case.layer_recipes:
            self.autograd(plain[0])
        return self.wrong

    def order(self):
        """Another order of the operations, in which each follows its operands."""
        made, left, order = set(self.model.arrays), list(range(len(self.model.ops))), []
        while left:
            ready = [n for n in left if made.issuperset(self.model.ops[n].operands)]
            order.append(self.random.choice(ready))
            left.remove(order[-1])
            made.update((self.model.ops[order[-1]].result, *self.model.ops[order[-1]].more))
        return order

    def micro_batches(self, plain, numbered):
        """Casts of weights that are kept, and sums of gradients."""
        found = self.steps("cache-weights", count=1, cache_weights=True)
        self.compare(
            "cache-weights", plain, found, only=lambda key: is_result(key) and not (numbered and "grad" in key)
        )
        if not any(f"grad.{op.operands[1]}" in plain[0] for op in self.model.ops if op.kind in ("linear", "grouped")):
            return
        found = self.steps("main-grad", count=1, main_grad=True)
        self.compare("main-grad", plain, found, only=lambda key: key.removeprefix("grad.") not in self.model.weights)
        if not numbered and not self.case.scales:
            self.sums(plain[0])

    def sums(self, plain):
        """Two micro-batches, which are equal, and then a first one again."""
        step, runs = self.case.compile(main_grad=True, cache_weights=True), []
        for first in (True, False, True):
            with step.microbatch(first=first):
                found = self.case.run(step) | states(step)
            runs.append({key: value.copy() for key, value in found.items()})
        self.compare("first micro-batch again", runs[:1], runs[2:])
        self.compare("later micro-batch", runs[:1], runs[1:2], only=is_result)
        # The gradients of several readers are added one after another.
        once = {name: runs[0].get(f"state grad.{name}") for name in self.model.weights if self.model.readers(name) == 1}
        once = {name: array for name, array in once.items() if array is not None}
        if once:
            doubled = {f"state grad.{name}": 2 * array for name, array in once.items()}
            self.compare("sum of gradients", [doubled], runs[1:2], zeros=False)
            rounded = {f"grad.{name}": store(array, self.model.type(name)) for name, array in once.items()}
            self.compare("rounded sum of gradients", [plain], [rounded], zeros=False)

    def autograd(self, found):
        """Results and gradients of PyTorch in float64, within the bound of all roundings."""
        # Experts whose scores are close may be others.
        if any(op.kind in ("dropout", "router") or "dropout" in op.params for op in self.model.ops):
            return
        exact = evaluate(self.model, self.case.cotangents, Exact(), None)
        worsts = {name: np.abs(value).max(initial=0) * U for name, value in exact.items()}
        for draw in range(DRAWS):
            torch.manual_seed(draw)
            changed = evaluate(self.model, self.case.cotangents, Noise(), ROUNDING[self.model.dtype])
            worsts = {
                name: max(worst, np.abs(changed[name] - exact[name]).max(initial=0)) for name, worst in worsts.items()
            }
        for name, wanted in exact.items():
            type = self.model.type(name.removeprefix("grad.")) if found[name].dtype != np.float32 else "f32"
            error, bound = np.abs(load(found[name], type) - wanted), 16 * worsts[name] + TINY[type]
            CLAIMS["results of autograd"] += 1
            if not (error <= bound).all():
                self.wrong.append(f"autograd: '{name}', {worst(error, bound)}")


#: Operations that remat= can name, by their kind in a model.
REMAT = {"add": "addf", "sub": "subf", "mul": "mulf", "scale": "mulf", "grouped": "grouped_linear"}
REMAT_NAMES = (
    "linear",
    "rms_norm",
    "layer_norm",
    "activation",
    "attention",
    "softmax",
    "rope",
    "dropout",
    "grouped_linear",
)


def may_refuse(how, said):
    """Whether an option may be refused with this message."""
    return "remat" in how and "but nothing is called" in said or "the smallest 'budget' that works" in said


def states(step):
    """The states after a call, except casts that are kept."""
    types = {argument.name: argument.dtype.name for argument in step.arguments}
    names = [name for name in step.state_names if types[name] in ("float32", "int32")]
    found = {name: step.state[name] for name in names}
    return {
        f"state {name}": np.array(a if isinstance(a, np.ndarray) else np.from_dlpack(a)) for name, a in found.items()
    }


def is_forward(key):
    return not key.startswith(("grad.", "state ", "tap.", "show."))


def is_result(key):
    return not key.startswith(("state ", "tap.", "show."))


def evaluate(model, cotangents, of, size):
    """The results and gradients of a model by PyTorch, in f64; size: of the rounding of values to their type."""

    def rounded(x):
        return x if size is None else Round.apply(x, size)

    values, leaves = {}, {}
    for name, array in model.arrays.items():
        type = model.types[name]
        values[name] = torch.from_numpy(
            array.astype(np.int64) if type == "i32" else load(array, type).astype(np.float64)
        )
        if model.is_float(name):
            leaves[name] = values[name].requires_grad_()
    for op in model.ops:
        operands = [values[name] if size is None else Read.apply(values[name], size) for name in op.operands]
        params = op.params
        if op.kind == "scale":
            by = load(store(np.float32(params["by"]), model.dtype), model.dtype)
            value = operands[0] * np.asarray(by).item()
        elif op.kind == "slice":
            value = operands[0][:, params["offset"] : params["offset"] + op.shape[1]]
        else:
            value = getattr(of, op.kind)(*operands, **params)
        value = value[0] if op.kind == "attention" else value
        values[op.result] = rounded(value) if op.shape else value
    results = [values[name] for name in model.results]
    given = [
        torch.from_numpy(load(c, model.dtype if c.ndim else "f32").astype(np.float64)) for c in cotangents.values()
    ]
    total = sum((r * c).sum() for r, c in zip(results, given))
    gradients = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
    found = dict(zip(model.results, results)) | {f"grad.{name}": g for name, g in zip(leaves, gradients)}
    return {name: value.detach().numpy() for name, value in found.items()}


def check(seed):
    """What is wrong with the model of a seed; None if nothing is."""
    case = draw_case(seed)
    said = f"model {seed}, {case.override}, {case.recipe}\n{case.layer_recipes}\n{case.model}\n"
    try:
        step = case.compile(form={"taps": True})
        case.scales = draw_scales(step, seed)
        case.start(step)
        shown = case.run(step)
        step = case.compile(vjp=False, form={"taps": True, "shown": True})
        case.start(step)
        forward = case.run(step)
        shown |= {name: array for name, array in forward.items() if name.startswith("show.")}
        if not all(
            np.isfinite(load(v, case.model.dtype if v.dtype.itemsize == 2 else "f32")).all() for v in shown.values()
        ):
            CLAIMS["models with infinities"] += 1
            return None
        wrong = Checker(case, shown).run()
        wrong += Variants(case, seed).run([shown])
    except Exception:  # noqa: BLE001 - What a program may not do is found here.
        wrong = [traceback.format_exc()]
    CLAIMS["models"] += 1
    return said + "\n".join(wrong) if wrong else None


def draw_scales(step, seed):
    """Scales of delayed scaling that differ by tensor."""
    numbers = np.random.default_rng(seed + 2)
    names = [name for name in step.state if name.endswith(".scale")]
    made = {}
    for name in sorted(names):
        shape = np.shape(step.state[name])
        made[name] = np.exp2(np.array(numbers.uniform(-2, 5, shape))).astype(np.float32)
    return made
