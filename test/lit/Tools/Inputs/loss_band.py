"""Checks the statistics of loss_band.py against cases done by hand.

loss_band.py EXAMPLE_FOLDER
"""

import math
import sys

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import numpy as np  # noqa: E402
from loss_band import T_975, WINDOW, band_of, curves_of, inside, judge, range_of  # noqa: E402


def near(got, expected):
    assert np.allclose(got, expected, rtol=0, atol=1e-9), f"expected {expected}, but got {got}"


# Quantiles from the closed forms of the distribution functions.
def distribution(t, freedom):
    x = t * t / freedom
    if freedom in (1, 3):
        tail = t / math.sqrt(3) / (1 + x) if freedom == 3 else 0.0
        return 0.5 + (math.atan(math.sqrt(x)) + tail) / math.pi
    cubic = 1 - x / (1 + x) / 3 if freedom == 4 else 1.0
    factor = 3 / 8 * 2 if freedom == 4 else 1 / 2
    return 0.5 + factor * math.sqrt(x / (1 + x)) * cubic


for freedom, t in T_975.items():
    near(distribution(t, freedom), 0.975)

# Five constant curves at 1, 2, 3, 4, 5: mean 3, variance (4+1+0+1+4)/4 = 2.5.
flat = np.outer([1.0, 2.0, 3.0, 4.0, 5.0], np.ones(WINDOW + 1))
half = 2.776445104764 * math.sqrt(2.5 * 1.2)
low, high = band_of(curves_of(flat))
assert low.shape == (2,)
near(low, 3 - half)
near(high, 3 + half)
near(range_of(curves_of(flat)), [[1, 1], [5, 5]])

# Running means: 0, ..., 0, WINDOW, 2 * WINDOW over three windows.
ramp = [0.0] * WINDOW + [float(WINDOW), 2.0 * WINDOW]
near(curves_of(ramp), [0, 1, 3])

near(list(inside(np.array([0.0, 1.0, 5.0, 7.5]), (np.ones(4), np.full(4, 5.0))).values()), [0.5, 2.5])
assert inside(np.array([math.nan]), (np.zeros(1), np.ones(1)))["part"] == 0

# The same losses are inside, also at the ends of the range. The smallest and largest seeds are outside of the range of
# the others.
same = judge(flat, flat)
assert same["stays_inside"] and same["end_minus_bf16"] == 0
near([seed["range_of_other_seeds"]["part"] for seed in same["seeds"]], [0, 1, 1, 1, 0])
near(same["seeds"][0]["range_of_other_seeds"]["excursion"], 1)

# Shifted by 0.5, seed 4 leaves the range by 0.5. No seed leaves the band, and neither does the mean.
moved = judge(flat, flat + 0.5)
near(moved["seeds"][4]["range"]["excursion"], 0.5)
near([seed["band"]["part"] for seed in moved["seeds"]], 1)
near([moved["end_minus_bf16"], moved["end_minus_bf16_error"]], [0.5, 0])
assert moved["stays_inside"]

# Shifted by 2.5, the mean is 5.5, outside of the range.
assert not judge(flat, flat + 2.5)["stays_inside"]
near(judge(flat, flat + 2.5)["mean_in_range"]["excursion"], 0.5)

# One seed has a large difference with another sign: the mean stays inside, but the seed does not.
apart = flat.copy()
apart[0] -= 6
apart[4] += 6
assert judge(flat, apart)["mean_in_range"]["part"] == 1 and not judge(flat, apart)["stays_inside"]
near(judge(flat, apart)["seeds"][4]["band"]["excursion"], 11 - 3 - half)

# Differences of the seeds 1, 2, 3, 4, 5: mean 3, standard error sqrt(2.5 / 5).
paired = judge(flat, flat * 2)
near([paired["end_minus_bf16"], paired["end_minus_bf16_error"]], [3, math.sqrt(0.5)])
print("statistics agree")
