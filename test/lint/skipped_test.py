#!/usr/bin/env python3
"""scripts/skipped.py finds each kind of skipped test in a log of ctest, with its reason, and no other line."""

import sys

from lint import ROOT, finish

sys.path.append(str(ROOT / "scripts"))
import skipped  # noqa: E402


def entry(name, output):
    return f"""1/9 Testing: {name}
1/9 Test: {name}
Command: "x"
Output:
----------------------------------------------------------
{output}
<end of output>
Test time =   0.01 sec
----------------------------------------------------------
Test Passed.
"""


LOG = (
    entry("python-a", "skipped: no jax")
    + entry("lint-b", "skip nothing\n12 skipped: not at the start of a line")
    + entry(
        "te-c",
        """[ RUN      ] A.B/cuda
../C.cpp:12: Skipped
no GPU of
this kind

[  SKIPPED ] A.B/cuda (0 ms)
[ RUN      ] A.C
[       OK ] A.C (0 ms)
[ RUN      ] A.D/cuda
../C.cpp:12: Skipped
no GPU of
this kind

[  SKIPPED ] A.D/cuda (1 ms)
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] A.B/cuda
[  SKIPPED ] A.D/cuda
""",
    )
    + entry("python-d", "..s.\nSKIPPED [3] tests/test_d.py:7: no triton\n4 passed, 3 skipped in 1.00s")
    + entry(
        "lit-e",
        """********************
Unsupported Tests (2):
  te :: Numerics/recipes-golden.test
  te :: Absent/none.test


Total Discovered Tests: 3
""",
    )
)
WANTED = [
    "   1 lit-e: requires te-golden",
    "   1 lit-e: unsupported",
    "   1 python-a: no jax",
    "   3 python-d: no triton",
    "   2 te-c: no GPU of this kind",
]
found = skipped.report(LOG)
problems = [f"expected {WANTED}, but got {found}"] if found != WANTED else []
sys.exit(finish(problems, len(WANTED), "kinds of skipped tests are found"))
