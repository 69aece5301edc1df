#!/usr/bin/env python3
"""launch.py --size=N PROGRAM ARGUMENTS...: runs PROGRAM in N processes.

Tests run as root in containers and on machines with fewer cores than
processes; both need a word to mpirun.
"""

import argparse
import os
import subprocess
import sys


def command(size, program):
    return ["mpirun", "-n", str(size), "--oversubscribe", "--bind-to", "none", *program]


def environment():
    # Processes of one host need no network: no component looks for one.
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_btl": "self,vader", "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    sys.exit(subprocess.run(command(arguments.size, arguments.program), env=environment(),
                            check=False).returncode)
