"""Ends te-run at random moments while it replaces its own checkpoint, and reads what is left.

interrupted.py FOLDER [--kills=N] [--seed=N] [--signal=SIGKILL]

Half of the runs end by SIGKILL, half by SIGINT (--signal: all by one of them), and half of each near the end, where the
checkpoint is written. The checkpoint is always that of one step or of the next one, as a whole. SIGINT leaves no other
file. A file that SIGKILL leaves is removed by a later run, which needs it to be ten minutes old: here, its time is set
back.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import time

import numpy as np

SIZE = 1024
PROGRAM = f"""
func.func @step(%w: tensor<{SIZE}x{SIZE}xf32> {{te.name = "w", te.init = 0.0 : f32}})
    -> (tensor<{SIZE}x{SIZE}xf32> {{te.name = "w"}}) {{
  %one = arith.constant dense<1.0> : tensor<{SIZE}x{SIZE}xf32>
  %next = arith.addf %w, %one : tensor<{SIZE}x{SIZE}xf32>
  return %next : tensor<{SIZE}x{SIZE}xf32>
}}
"""

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--kills", type=int, default=10)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--signal", choices=("SIGKILL", "SIGINT"))
options = parser.parse_args()
signals = [signal.Signals[options.signal]] * 2 if options.signal else [signal.SIGKILL, signal.SIGINT]
draw = random.Random(options.seed)
# Only what te-run writes is in this folder.
folder = options.folder / "checkpoints"
folder.mkdir(parents=True)
program, checkpoint = options.folder / "step.mlir", folder / "state.safetensors"
program.write_text(PROGRAM)
command = ["te-run", program, "--entry=step", "--backend=reference", "--quiet", f"--save={checkpoint}"]


def steps_of_checkpoint():
    """Checks that the file is whole; returns its number of steps."""
    contents = checkpoint.read_bytes()
    (size,) = struct.unpack("<Q", contents[:8])
    steps = int(json.loads(contents[8 : 8 + size])["__metadata__"]["te.step"])
    values = np.frombuffer(contents[8 + size :], np.float32)
    assert values.size == SIZE * SIZE and np.all(values == steps), (steps, values)
    return steps


def others():
    return [path for path in folder.iterdir() if path != checkpoint]


subprocess.run(command, check=True)
assert steps_of_checkpoint() == 1 and not others()
command.append(f"--load={checkpoint}")
start = time.monotonic()
subprocess.run(command, check=True)
whole = time.monotonic() - start
written = left = 0
for number in range(options.kills):
    before, known = steps_of_checkpoint(), others()
    how = signals[number % 2]
    begin = 0.7 if number % 4 < 2 else 0.0
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    time.sleep(draw.uniform(begin * whole, 1.05 * whole))
    process.send_signal(how)
    sent = time.monotonic()
    code = process.wait(timeout=60)
    assert code in (0, -how) or how == signal.SIGINT and code > 0, code
    if how == signal.SIGINT:
        assert time.monotonic() - sent < 10, f"te-run went on for {time.monotonic() - sent:.1f} s"
    after = steps_of_checkpoint()
    assert after in (before, before + 1) and (code != 0 or after == before + 1), (before, after, code)
    written += after - before
    found = others()
    assert how == signal.SIGKILL or set(found) <= set(known), (known, found)
    # What an earlier run left is gone as soon as this one opened its file.
    assert len(found) <= 2, found
    left += how == signal.SIGKILL and bool(found)
    for path in found:
        old = time.time() - 3600
        os.utime(path, (old, old))
subprocess.run(command, check=True)
steps_of_checkpoint()
assert not others(), others()
print(f"{options.kills} runs ended, {written} had written, {left} left a file for the next one")
