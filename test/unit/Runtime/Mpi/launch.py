#!/usr/bin/env python3
"""launch.py [--launcher=NAME] --size=N PROGRAM ARGUMENTS...: runs PROGRAM in N processes.

Tests run as root in containers, and on machines with fewer cores than
processes; both need an option of mpirun. For `torchrun` and `srun`, processes are
started with the environment variables that these set; neither has to be installed.
"""

import argparse
import itertools
import os
import signal
import socket
import subprocess
import sys
import time

LAUNCHERS = ("mpirun", "torchrun", "srun")
_jobs = itertools.count()


def command(size, program):
    return ["mpirun", "-n", str(size), "--oversubscribe", "--bind-to", "none", *program]


def environment():
    # Processes of one host do not need a network, so no component searches for one.
    return {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_btl": "self,vader",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    }


def variables(launcher, rank, size, port, job):
    """The variables that a launcher sets for one of the processes of this host."""
    place = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    if launcher == "torchrun":
        return place | {
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_RANK": str(rank),
            "TORCHELASTIC_RUN_ID": job,
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
    return place | {
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_LOCALID": str(rank),
        "SLURM_JOB_ID": job,
        "SLURM_STEP_ID": "0",
    }


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return min(probe.getsockname()[1], 64000)


class Job:
    """Runs processes with a launcher's variables, one for each of `commands`. Returns their combined output."""

    def __init__(self, launcher, commands):
        name, port = f"{os.getpid()}-{next(_jobs)}", free_port()
        self.processes = [
            subprocess.Popen(
                command,
                env=os.environ | variables(launcher, rank, len(commands), port, name),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank, command in enumerate(commands)
        ]

    def wait(self, seconds):
        """Returns exit codes and outputs. A process that does not end in time is killed, and its code is None."""
        deadline = time.monotonic() + seconds
        codes, texts = [], []
        for process in self.processes:
            try:
                text, _ = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
                codes.append(process.returncode)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                text, _ = process.communicate()
                codes.append(None)
            texts.append(text)
        return codes, texts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launcher", choices=LAUNCHERS, default="mpirun")
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.launcher != "mpirun":
        codes, texts = Job(arguments.launcher, [arguments.program] * arguments.size).wait(600)
        sys.stdout.write("".join(texts))
        sys.exit(next((1 if code is None else code for code in codes if code != 0), 0))
    sys.exit(subprocess.run(command(arguments.size, arguments.program), env=environment(), check=False).returncode)
