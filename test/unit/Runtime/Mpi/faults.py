#!/usr/bin/env python3
"""faults.py --size=N te-group-fault: tests that the other processes stop if one fails.

For each fault, the job exits with an error within the time limit plus five
seconds, the ranks that waited name the rank that failed, and no process remains.
"""

import argparse
import os
import re
import subprocess
import sys
import time

import launch

TIMEOUT_S = 3
GRACE_S = 5

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--size", type=int, required=True)
parser.add_argument("program")
arguments = parser.parse_args()
last = arguments.size - 1

# The messages of the ranks that wait; None if the launcher ends the job first.
LATE = rf"status 6: .*: rank {last} did not come in time \({TIMEOUT_S}000 ms\)"
FAULTS = {
    "none": "",
    "no-bind": rf"te_rt_context_bind_communicator: group 0 \(rank 0 of {arguments.size}\): rank {last} did",
    "order": rf"all_reduce_sum \(slot 0\): group 0 \(rank 0 of {arguments.size}\): rank {last} did",
    "stopped": LATE,
    "killed": None,
    "aborted": None,
    "left": None,
}


# Only the processes of this run have this text on their command lines.
TOKEN = f"faults-{os.getpid()}"


def leftovers():
    return subprocess.run(["pgrep", "-f", TOKEN], capture_output=True, text=True, check=False).stdout.split()


problems = []
for fault, expected in FAULTS.items():
    begin = time.monotonic()
    try:
        job = subprocess.run(
            launch.command(arguments.size, [arguments.program, fault, str(TIMEOUT_S * 1000), TOKEN]),
            env=launch.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        problems.append(f"{fault}: the job did not end in a minute")
        continue
    seconds = time.monotonic() - begin
    print(f"{fault}: exit code {job.returncode} after {seconds:.1f} s")
    print("".join(f"  {line}\n" for line in job.stderr.splitlines() if line.startswith("rank ")), end="")
    if fault == "none":
        if job.returncode != 0:
            problems.append(f"none: exit code {job.returncode}: {job.stderr}")
        continue
    if job.returncode == 0:
        problems.append(f"{fault}: expected an exit code other than 0")
    if seconds > TIMEOUT_S + GRACE_S:
        problems.append(f"{fault}: expected an end within {TIMEOUT_S + GRACE_S} s, but it took {seconds:.1f} s")
    if expected and not re.search(expected, job.stderr):
        problems.append(f"{fault}: expected {expected!r} in: {job.stderr}")
    if left := leftovers():
        problems.append(f"{fault}: processes {left} are left behind")
for problem in problems:
    print("error: " + problem, file=sys.stderr)
sys.exit(1 if problems else 0)
