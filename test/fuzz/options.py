#!/usr/bin/env python3
"""Runs te-run with random options, each time in a process of its own.

    options.py TE_RUN SEED RUNS FILE...       RUNS is a number, or a time such as 600s

The options are those of `te-run --help`, so that a new one is tried without a change here; their values fit
what the table says (files, numbers, names), or are something else. FILE are programs with small entries. A
command line that ends te-run by a signal, as a defect of the compiler (exit code 3), with an exit code that is
not documented, or not within 10 seconds is printed, and the exit code of this script is 1.
"""

import itertools
import os
import pathlib
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time

#: Seconds of the processor, and of waiting for anything else.
SECONDS, PATIENCE = 10, 60
DOCUMENTED = (0, 1, 2)

NUMBERS = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "007",
    "1e3",
    "0x10",
    "1.5",
    " 2",
    "9223372036854775808",
    "99999999999999999999",
]
TEXTS = [
    "",
    "x",
    "-",
    "--",
    "=",
    "%s%n",
    "'\"",
    "{rank}",
    "a b",
    "\n",
    "\t",
    "\x7f",
    "é",
    "\udcff",
    "A" * 300,
    "A" * 100000,
    "*",
    "[",
    "\\",
    "../..",
    "recipe=",
]
FILES = [
    "in.npz",
    "in.safetensors",
    "damaged.npz",
    "absent",
    "folder",
    "folder/",
    "absent/out.npz",
    "/dev/null",
    "/dev/full",
    "out",
    "{rank}.npz",
    "readonly",
]
NAMES = {
    "--backend": ["auto", "reference", "cuda"],
    "--gemm-choice": ["tuned", "first", "file"],
    "--probes": ["*", "w*", "*.x"],
}
#: Values of options of the pipeline.
WORDS = [
    "true",
    "false",
    "none",
    "high_precision",
    "float8_block_scaling",
    "float8_current_scaling",
    "delayed_scaling",
    "mxfp8_block_scaling",
    "nvfp4_block_scaling",
    "dequantized",
    "reference",
    "sm_90",
    "sm_100",
    "lower",
    "fuse",
    "*",
    "all",
    "json",
    "text",
]


def table(te_run):
    """The options of --help, each with what follows its name."""
    text = subprocess.run([te_run, "--help"], capture_output=True, text=True, check=True).stdout
    found = {}
    for name, value in re.findall(r"(?<![\w`'-])(--[a-z][a-z-]+)(\[?=[\w.\"]+)?", text.split("EXAMPLES")[0]):
        # Others' texts name an option without its value.
        found[name] = found.get(name) or value
    return {
        name: value for name, value in found.items() if name not in ("--help", "--version", "--te-training-pipeline")
    }


def pipeline_options(te_run, program):
    run = subprocess.run(
        [te_run, program, "--entry=x", "--pipeline=an-option-that-is-far-from-all=1"], capture_output=True, text=True
    )
    return re.findall(r"'([a-z-]+)'", run.stderr.split("there are")[-1])


def entries(programs):
    return [
        (program, name)
        for program in programs
        for name in re.findall(r"func\.func @(\w+)", pathlib.Path(program).read_text())
    ]


class Generator:
    def __init__(self, seed, options, of_pipeline, programs):
        self.random = random.Random(seed)
        self.options, self.of_pipeline, self.entries = options, of_pipeline, entries(programs)

    def value(self, name, kind):
        pick = self.random.choice
        if self.random.random() < 0.15:
            return pick(TEXTS + NUMBERS)
        if name in NAMES:
            return pick(NAMES[name])
        if "OPTS" in kind:
            count = self.random.choice([0, 1, 1, 2, 3])
            return " ".join(f"{pick(self.of_pipeline)}={pick(WORDS + NUMBERS + TEXTS[:6])}" for _ in range(count))
        if "NAME" in kind:
            return pick(self.entries)[1]
        if kind in ("=N", "=S"):
            return pick(NUMBERS)
        return pick(FILES)

    def command(self):
        program, entry = self.random.choice(self.entries)
        arguments = [program] if self.random.random() < 0.97 else [self.random.choice(FILES + TEXTS)]
        if self.random.random() < 0.95:
            arguments.append(f"--entry={entry}")
        if self.random.random() < 0.8:
            arguments.append("--seed=1")
        if self.random.random() < 0.8:
            arguments.append("--backend=reference")
        for name in self.random.sample(list(self.options), self.random.choice([0, 1, 1, 2, 2, 3, 4, 6])):
            kind = self.options[name]
            if kind or self.random.random() < 0.1:
                # Some values are arguments of their own.
                arguments += (
                    [name, self.value(name, kind)]
                    if self.random.random() < 0.05
                    else [f"{name}={self.value(name, kind)}"]
                )
            else:
                arguments.append(name)
        self.random.shuffle(arguments)
        return arguments


def prepare(folder):
    """The files that FILES names."""
    (folder / "folder").mkdir()
    (folder / "in.npz").write_bytes(b"PK\5\6" + bytes(18))
    (folder / "damaged.npz").write_bytes(b"PK\3\4" + bytes(60))
    (folder / "in.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    (folder / "readonly").write_bytes(b"")
    (folder / "readonly").chmod(0o400)


def limit():
    # At the hard limit this is SIGKILL, which no handler turns into another error.
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def fault(te_run, arguments, folder):
    """What is wrong with a run, or nothing."""
    environment = {
        name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH", "ASAN_OPTIONS") if name in os.environ
    }
    environment["XDG_CACHE_HOME"] = str(folder)
    try:
        run = subprocess.run(
            [te_run, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            preexec_fn=limit,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {PATIENCE} s"
    except ValueError:
        return None  # Not an argument that a process can have.
    if run.returncode < 0:
        name = signal.Signals(-run.returncode).name
        return (
            f"took more than {SECONDS} s"
            if name == "SIGKILL"
            else f"ended by {name}\n" + run.stderr.decode(errors="replace")[-2000:]
        )
    if run.returncode not in DOCUMENTED:
        return f"exit code {run.returncode}\n" + run.stderr.decode(errors="replace")[-2000:]
    if run.returncode and not run.stderr.strip():
        return f"exit code {run.returncode} without a message"
    return None


def main():
    te_run, seed, count = os.path.abspath(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    end = time.monotonic() + float(count[:-1]) if count.endswith("s") else None
    runs = itertools.count() if end else range(int(count))
    programs = [os.path.abspath(file) for file in sys.argv[4:]]
    generator = Generator(seed, table(te_run), pipeline_options(te_run, programs[0]), programs)
    assert len(generator.options) > 20 and len(generator.of_pipeline) > 10, "the tables were not found"
    number = found = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder)
        for number in runs:
            if end and time.monotonic() > end:
                break
            arguments = generator.command()
            if error := fault(te_run, arguments, folder):
                found += 1
                print(f"run {number}: {shlex.join(['te-run', *arguments])}\n  {error}", flush=True)
    print(f"{number + 1} runs with seed {seed}, {found} of them wrong")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
