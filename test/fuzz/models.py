#!/usr/bin/env python3
"""Compiles random models and compares their steps with an independent evaluation, on the reference backend.

    models.py SEED RUNS       RUNS is a number, or a time such as 600s; SEED is that of the first model

A model has its own recipe, override and type. In a copy of its program, each value is returned, and gets an addend of zeros, whose
gradient is that of the value. So each operation can be checked for what it read:

* linear layers and layers of groups, forward and backward, have the bits of te_model's casts and sums, under every recipe and override;
* sums of elements, slices and the like are exact, other operations are within the bound of their rounding (model_values.py);
* a gradient is the sum of what the readers of its value say.

The results and gradients of the program itself have the bits of that copy, under options and in forms of the program that may not
change bits. Under HighPrecision, they are also those of PyTorch's autograd over the whole model, within the bound of all roundings.

PYTHONPATH has python and test/model of the repository.
"""

import itertools
import sys
import time

import model_checks
import model_variants


def main():
    seed, count = int(sys.argv[1]), sys.argv[2]
    end = time.monotonic() + float(count[:-1]) if count.endswith("s") else None
    number = found = 0
    for number in itertools.count() if end else range(int(count)):
        if end and time.monotonic() > end:
            break
        if wrong := model_variants.check(seed + number):
            found += 1
            print(wrong, flush=True)
    print(f"{number + 1} runs with seed {seed}, {found} of them wrong; {model_checks.counts()}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
