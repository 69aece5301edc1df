#!/usr/bin/env python3
"""Runs fuzzers in several processes, each with a seed of its own, and adds up what they did.

    many.py [--processes N] [--seconds S | --runs R] [--seed S] [--bin FOLDER]... [--found FOLDER] NAME...

NAME is one of npz, safetensors, runtime, tcp (te-fuzz-NAME), program (te-fuzz-program), options (te-run, by
options.py) and models (libte_compiler, by models.py). R is the number of executions of all processes together, or, for
program and options, of child processes. What is wrong is in FOLDER: inputs as 'NAME-crash-*', 'NAME-oom-*' and
'NAME-timeout-*', programs, command lines and models as 'program-*', 'options-*.log' and 'models-*.log'. The exit code is
1 if something is.

This needs the binaries, test/fuzz, docs/examples and test/lit, and nothing else of the project; models also need
python, test/model, NumPy, ml_dtypes and PyTorch.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
READERS, LIBFUZZER = ("npz", "safetensors"), ("npz", "safetensors", "runtime", "tcp")
CHILDREN = ("program", "options", "models")
#: What an input may take: seconds, and MiB with what AddressSanitizer keeps of freed memory.
SECONDS, MEMORY = 10, 1024
SANITIZERS = {
    # A size that no machine has is an allocation that fails.
    "ASAN_OPTIONS": "allocator_may_return_null=1:quarantine_size_mb=64:malloc_context_size=8",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


class Fuzzer:
    """One process."""

    def __init__(self, options, name, number):
        self.name, self.number = name, number
        self.log = options.found / f"{name}-{number}.log"
        seed = options.seed + number
        runs = -(-options.runs // options.processes) if options.runs else None
        command = getattr(self, "libfuzzer" if name in LIBFUZZER else name)(options, seed, runs)
        environment = dict(os.environ)
        for variable, value in SANITIZERS.items():
            environment[variable] = f"{value}:{environment[variable]}" if variable in environment else value
        if name == "models":
            environment["PYTHONPATH"] = f"{ROOT / 'python'}{os.pathsep}{ROOT / 'test/model'}"
            environment.setdefault("TE_MLIR_LIBRARY_PATH", str(ROOT / "build/dev/lib"))
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
            )

    def libfuzzer(self, options, seed, runs):
        found = options.found / self.name
        found.mkdir(parents=True, exist_ok=True)
        command = [
            tool(options, f"te-fuzz-{self.name}"),
            f"-seed={seed}",
            f"-timeout={SECONDS}",
            f"-rss_limit_mb={MEMORY}",
            "-print_final_stats=1",
            f"-artifact_prefix={options.found}/{self.name}-",
            f"-runs={runs}" if runs else f"-max_total_time={options.seconds}",
        ]
        # Files may be longer than what libFuzzer tries of its own accord.
        if self.name in READERS and self.number % 4 == 3:
            command.append(f"-max_len={1 << 20}")
        return [*command, found, HERE / "corpus" / self.name]

    def program(self, options, seed, runs):
        return [
            tool(options, "te-fuzz-program"),
            str(seed),
            str(runs) if runs else f"{options.seconds}s",
            options.found / f"program-{self.number}",
            *sorted(
                path
                for folder in ("docs/examples", "test/fuzz/corpus/program", "test/lit")
                for path in (ROOT / folder).rglob("*.mlir")
            ),
        ]

    def options(self, options, seed, runs):
        return [
            sys.executable,
            HERE / "options.py",
            tool(options, "te-run"),
            str(seed),
            str(runs) if runs else f"{options.seconds}s",
            ROOT / "test/lit/Tools/Inputs/linear.mlir",
            ROOT / "docs/examples/sgd.mlir",
        ]

    def models(self, options, seed, runs):
        # Seeds of models follow each other.
        first = seed * 1000000
        return [sys.executable, HERE / "models.py", str(first), str(runs) if runs else f"{options.seconds}s"]

    def text(self):
        return self.log.read_text(errors="replace")

    def executions(self):
        """How many there were, as far as the log says."""
        text = self.text()
        if final := re.findall(r"number_of_executed_units: (\d+)|^(\d+) runs with seed", text, re.MULTILINE):
            return int("".join(final[-1]))
        return max((int(number) for number in re.findall(r"^#(\d+)\t", text, re.MULTILINE)), default=0)

    def megabytes(self):
        return max((int(number) for number in re.findall(r"peak_rss_mb:\s*(\d+)", self.text())), default=0)


def tool(options, name):
    for folder in options.bin:
        if (path := pathlib.Path(folder).resolve() / name).exists():
            return path
    sys.exit(f"many.py: expected '{name}' in one of {', '.join(map(str, options.bin))}, but it is in none")


def run(options, name):
    """Whether nothing is wrong."""
    begin = time.monotonic()
    fuzzers = [Fuzzer(options, name, number) for number in range(options.processes)]
    print(f"== {name}: {len(fuzzers)} processes with seeds from {options.seed} on", flush=True)
    try:
        wrong = [fuzzer for fuzzer in fuzzers if fuzzer.process.wait() != 0]
    finally:
        for fuzzer in fuzzers:
            if fuzzer.process.poll() is None:
                fuzzer.process.kill()
    seconds = time.monotonic() - begin
    executions = sum(fuzzer.executions() for fuzzer in fuzzers)
    memory = max(fuzzer.megabytes() for fuzzer in fuzzers)
    print(
        f"   {executions:,} executions in {seconds:.0f} s"
        + (f", at most {memory} MiB" if memory else "")
        + f", {len(wrong)} processes found something"
    )
    for fuzzer in wrong:
        print(f"-- exit code {fuzzer.process.returncode}, the end of {fuzzer.log}:")
        print("\n".join("   " + line[:300] for line in fuzzer.text().splitlines()[-40:]), flush=True)
    return not wrong


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        epilog=__doc__.split("\n\n", 2)[2],
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count(), metavar="N", help="as many as processors")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--seconds", type=int, default=600, metavar="S", help="for each name; 600 if nothing is said")
    amount.add_argument("--runs", type=int, metavar="R", help="for each name")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first process, 1 if it is not said")
    parser.add_argument(
        "--bin",
        action="append",
        metavar="FOLDER",
        help="where the binaries are; build/fuzz/bin and build/dev/bin if it is not said",
    )
    parser.add_argument("--found", type=pathlib.Path, default=ROOT / "build/fuzz/test/fuzz/found", metavar="FOLDER")
    parser.add_argument("name", nargs="+", choices=(*LIBFUZZER, *CHILDREN), metavar="NAME")
    options = parser.parse_args()
    if min(options.processes, options.seconds, options.runs or 1, options.seed) < 1:
        parser.error("expected numbers above 0")
    options.bin = options.bin or [ROOT / "build/fuzz/bin", ROOT / "build/dev/bin"]
    options.found = options.found.resolve()
    options.found.mkdir(parents=True, exist_ok=True)
    # Each is run, also after one that found something.
    return 1 if [name for name in options.name if not run(options, name)] else 0


if __name__ == "__main__":
    sys.exit(main())
