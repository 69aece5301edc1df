"""Programs for te-run, and the results that the model in test/model expects."""

import numpy as np
from harness import expect, forget_last_run, run
from te_model.tensor_scaling import Scaled

compared = {"elements": 0}


def scaled_type(shape, element, scheme, flags, axis):
    return f"!te.scaled<{shape[0]}x{shape[1]}x{element}, {scheme}{flags}, contract = {axis}>"


class Program:
    """A function with given arguments and the expected results."""

    def __init__(self, claim):
        self.claim, self.arguments, self.arrays, self.lines, self.results, self.wanted = claim, [], {}, [], [], {}

    def argument(self, name, type, value):
        self.arguments.append(f'%{name}: {type} {{te.name = "{name}"}}')
        self._arrays(self.arrays, name, value)

    def op(self, text):
        self.lines.append(f"  {text}")

    def result(self, name, type, value, of=None):
        """Returns `%of` (by default `%name`) as the result `name`."""
        self.results.append((name, type, of or name))
        self._arrays(self.wanted, name, value)

    @staticmethod
    def _arrays(arrays, name, value):
        if isinstance(value, Scaled):
            parts = {"data": value.data, "scale": value.scale, "amax": value.amax}
            arrays.update({f"{name}.{part}": array for part, array in parts.items() if array is not None})
        else:
            arrays[name] = np.asarray(value)

    def check(self, **options):
        types = ", ".join(f'{type} {{te.name = "{name}"}}' for name, type, _ in self.results)
        returned = f"  return {', '.join('%' + value for _, _, value in self.results)} : {', '.join(type for _, type, _ in self.results)}"
        text = "\n".join([f"func.func @f({', '.join(self.arguments)}) -> ({types}) {{", *self.lines, returned, "}", ""])
        found = run(text, "f", self.arrays, **options)
        if all(same(found[name], wanted, f"{self.claim}: '{name}'") for name, wanted in self.wanted.items()):
            forget_last_run()


def same(found, wanted, claim):
    """Whether the bits are equal, where all f32 NaNs count as equal."""
    found, wanted = np.ascontiguousarray(found), np.ascontiguousarray(wanted)
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return expect(False, f"{claim}: {found.dtype}{found.shape} for {wanted.dtype}{wanted.shape}")
    equal = found.view(f"u{found.itemsize}") == wanted.view(f"u{found.itemsize}")
    if found.dtype == np.float32:
        equal |= np.isnan(found) & np.isnan(wanted)
    compared["elements"] += equal.size
    return expect(equal.all(), f"{claim}: {equal.size - np.count_nonzero(equal)} of {equal.size} elements differ")
