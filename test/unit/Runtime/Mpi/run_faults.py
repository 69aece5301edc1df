#!/usr/bin/env python3
"""run_faults.py FOLDER --size=N [--launcher=mpirun|torchrun] [--backend=NAME]: te-run if one of its processes fails.

N processes run steps with a collective, until the last one is killed or stopped. The others exit with an error within the time limit
plus five seconds, name the missing rank and the collective, and leave no process running.
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import launch

TIMEOUT_S = 4
GRACE_S = 5
MODULE = """
module attributes {{te.groups = [#te.group<id = 0, name = "dp", axis = "dp", size = {size}>]}} {{
  func.func @step(%x: tensor<512x256xbf16> {{te.name = "x"}}) -> (tensor<512x256xbf16> {{te.name = "y"}}) {{
    %y = te.all_reduce %x group 0 : tensor<512x256xbf16>
    return %y : tensor<512x256xbf16>
  }}
}}
"""

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--size", type=int, required=True)
parser.add_argument("--launcher", choices=("mpirun", "torchrun"), default="mpirun")
parser.add_argument("--backend", default="reference")
options = parser.parse_args()
options.folder.mkdir(parents=True, exist_ok=True)
# Only the processes of this run have this text on their command lines.
token = f"run-faults-{os.getpid()}"
module = options.folder / f"{token}.mlir"
module.write_text(MODULE.format(size=options.size))
command = [
    "te-run",
    str(module),
    "--entry=step",
    "--seed=1",
    f"--backend={options.backend}",
    "--steps=1000000000",
    f"--timeout={TIMEOUT_S}",
]
last = options.size - 1


def processes():
    """The process ids of te-run, by rank."""
    found = {}
    for number in subprocess.run(
        ["pgrep", "-f", f"^te-run .*{token}"], capture_output=True, text=True, check=False
    ).stdout.split():
        try:
            environment = pathlib.Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for name in (b"OMPI_COMM_WORLD_RANK=", b"RANK="):
            for entry in environment:
                if entry.startswith(name):
                    found[int(entry[len(name) :])] = int(number)
    return found


def start(log):
    if options.launcher == "mpirun":
        return [
            subprocess.Popen(launch.command(options.size, command), env=launch.environment(), stdout=log, stderr=log)
        ]
    port = launch.free_port()
    return [
        subprocess.Popen(
            command,
            env=os.environ | launch.variables("torchrun", rank, options.size, port, token),
            stdout=log,
            stderr=log,
        )
        for rank in range(options.size)
    ]


problems = []
for fault, number in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
    path = options.folder / f"{options.launcher}.{fault}.txt"
    with open(path, "w") as log:
        started = start(log)
        # Its first lines show that steps are running.
        deadline = time.monotonic() + 60
        while "step " not in path.read_text() and time.monotonic() < deadline and started[0].poll() is None:
            time.sleep(0.1)
        time.sleep(1)
        victim = processes().get(last)
        if "step " not in path.read_text() or victim is None:
            problems.append(f"{fault}: no step ran: {path.read_text()}")
            for process in started:
                process.kill()
            continue
        begin = time.monotonic()
        os.kill(victim, number)
        # The launcher, or all processes except the victim.
        others = started if options.launcher == "mpirun" else started[:last]
        late = False
        for process in others:
            try:
                process.wait(max(0.1, begin + TIMEOUT_S + GRACE_S + 10 - time.monotonic()))
            except subprocess.TimeoutExpired:
                late = True
        seconds = time.monotonic() - begin
        time.sleep(0.3)
        left = [pid for rank, pid in processes().items() if rank != last or options.launcher == "mpirun"]
        # The processes that a launcher would end.
        for pid in processes().values():
            os.kill(pid, signal.SIGKILL)
        for process in started:
            process.wait()
    said = path.read_text()
    codes = [process.returncode for process in others]
    print(
        f"{options.launcher} {options.backend} {options.size} processes, one {fault}: exit codes {codes} after {seconds:.1f} s"
    )
    errors = sorted({line for line in said.splitlines() if "error" in line})
    print("".join(f"  {line}\n" for line in errors), end="")
    if late or seconds > TIMEOUT_S + GRACE_S:
        problems.append(f"{fault}: expected an end within {TIMEOUT_S + GRACE_S} s, but it took {seconds:.1f} s")
    if 0 in codes:
        problems.append(f"{fault}: expected exit codes other than 0, but got {codes}")
    if left:
        problems.append(f"{fault}: processes {left} are left behind")
    # If a process is killed, mpirun ends the job before the others can print anything.
    if (fault, options.launcher) != ("killed", "mpirun") and not re.search(
        rf"rank {last} (did not come|has closed)", said
    ):
        problems.append(f"{fault}: expected 'rank {last}' to be missed in: {said}")
    # The place is the op, its location in the user's file, and the group. A dead rank may be noticed earlier, by the
    # launcher or at the end of a step.
    if fault == "stopped" and not re.search(
        rf"all_reduce_sum \(slot 0, 'y' at {re.escape(str(module))}:4:10\): group 0 \(rank \d of {options.size}\): ",
        said,
    ):
        problems.append(f"{fault}: expected the collective, its place and its group to be named in: {said}")
for problem in problems:
    print("error: " + problem, file=sys.stderr)
print(f"run-faults: {'FAILED' if problems else 'ok'}")
sys.exit(1 if problems else 0)
