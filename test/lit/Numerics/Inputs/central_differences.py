"""Gradients of te-run against central differences of a forward written in numpy's float64.

With L = sum of cotangent * result, element i of a gradient is compared with D(h) = (L(x + h e_i) - L(x - h e_i)) / 2h. Bound:

* truncation. D(h) = L' + h^2 L'''/6 + O(h^4), so D(2h) - D(h) is three times the leading term: |D(2h) - D(h)| is allowed.
* rounding of D. L is a sum whose float64 error is below 64 eps * sum |cotangent * result|, and is divided by h: with
  h = 2^-14 and eps = 2^-53 that is 2^-33 of it, twice less than a float32 rounding.
* rounding of the gradient, u = 2^-24 a float32 operation. exp and tanh are within 2 ulp, at most 4u. Two kinds of program:
  - sums of products (linear, embedding, arith): with at most n roundings from an input to a gradient, the error is at most n u
    times the same gradient of the program of absolute values, which is found by differences too; `roundings` is n.
    n = 0 says that a gradient is a cotangent, or a copy: the bound is that of D alone.
  - others: `slack` gives, in u, the first-order error of the formula of the backward, term by term.
  Terms of order u^2 are below a hundredth of that: the bound is taken 1.01 times.

Activations are kept away from their kinks by more than 2h. What the bound leaves unused is printed as the largest error / bound of a case.
"""

import numpy as np
from harness import expect, run

H, U, EPS = 2.0**-14, 2.0**-24, 2.0**-53
rng = np.random.default_rng(17)
ratios = {}


def draw(*shape, low=0.0):
    x = rng.normal(size=shape)
    return (x + np.copysign(low, x)).astype(np.float32)


def differences(forward, arrays, cotangents, name):
    """(dL/d name, bound of its error)."""
    values = {key: array.astype(np.float64) if array.dtype.kind == "f" else array for key, array in arrays.items()}

    def loss():
        results = forward(values)
        return sum(np.sum(results[key] * cotangents[key]) for key in cotangents)

    def central(at, h):
        x = values[name][at]
        values[name][at] = x + h
        high = loss()
        values[name][at] = x - h
        low = loss()
        values[name][at] = x
        return (high - low) / (2 * h)

    results = forward(values)
    size = sum(np.sum(np.abs(results[key] * cotangents[key])) for key in cotangents)
    gradient, bound = np.zeros(values[name].shape), np.zeros(values[name].shape)
    for at in np.ndindex(gradient.shape):
        gradient[at] = central(at, H)
        bound[at] = abs(central(at, 2 * H) - gradient[at]) + 64 * EPS * size / H
    return gradient, bound


def check(title, body, arrays, results, forward, roundings=None, slack=None, pipeline=""):
    """`body` computes the `results` {name: type} from %name of `arrays`; `forward(v, minus)` does in float64."""
    types = {"f": "f32", "i": "i32"}
    signature = ", ".join(
        f'%{k}: tensor<{"".join(f"{n}x" for n in a.shape)}{types[a.dtype.kind]}> {{te.name = "{k}"}}'
        for k, a in arrays.items()
    )
    returned = ", ".join(f'{type} {{te.name = "{name}"}}' for name, type in results.items())
    text = (
        f"func.func @f({signature}) -> ({returned}) {{\n{body}\n  return {', '.join(f'%{r}' for r in results)} : "
        f"{', '.join(results.values())}\n}}\n"
    )
    plain = forward(arrays, -1.0)
    cotangents = {name: draw(*np.shape(plain[name])) for name in results}
    found = run(text, "f", arrays | {f"grad.{k}": v for k, v in cotangents.items()}, pipeline, vjp=True)
    wide = {k: v.astype(np.float64) for k, v in cotangents.items()}
    wanted_slack = (
        slack({k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in arrays.items()}, wide) if slack else {}
    )
    worst = 0.0
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            expect(f"grad.{name}" not in found, f"{title}: '{name}' has no gradient")
            continue
        wanted, bound = differences(lambda v: forward(v, -1.0), arrays, wide, name)
        if slack:
            rounding = wanted_slack[name]
        else:
            absolute = {k: np.abs(v) if v.dtype.kind == "f" else v for k, v in arrays.items()}
            size, more = differences(lambda v: forward(v, 1.0), absolute, {k: np.abs(v) for k, v in wide.items()}, name)
            rounding = roundings * (size + more)
        bound += 1.01 * U * rounding
        error = np.abs(found[f"grad.{name}"] - wanted)
        worst = max(worst, np.max(error / np.maximum(bound, 1e-300)))
        at = np.unravel_index(np.argmax(error - bound), error.shape)
        expect(
            (error <= bound).all(),
            f"{title}: 'grad.{name}'{list(map(int, at))} is {found[f'grad.{name}'][at]!r}, "
            f"expected {wanted[at]!r} within {bound[at]:.3g}",
        )
        expect(
            np.abs(wanted).max() > 1e3 * bound.max() or not np.any(wanted),
            f"{title}: the bound of '{name}' says something",
        )
    ratios[title] = worst
