"""Installs this build, and builds and runs programs against the install tree.

The programs do not use the source or the build tree. They are: find_package(TE), a
step that is linked into a C program, the compiler as a library, and the trainer of
examples/cpp_trainer, whose resumed runs have the bits of uninterrupted ones.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

import numpy as np

RECIPES = ["float8_block_scaling", "delayed_scaling", "nvfp4_block_scaling"]

parser = argparse.ArgumentParser()
for option in ("cmake", "build", "source", "compiler", "c-compiler", "work"):
    parser.add_argument(f"--{option}", required=True)
options = parser.parse_args()
work = pathlib.Path(options.work)
prefix = work / "prefix"


def run(*command, fails=None):
    """Runs a command and returns its output. With `fails`, the command must exit with 1 and print that text."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if fails is None and done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}\n{done.stdout}")
    if fails is not None and (done.returncode != 1 or fails not in done.stdout):
        sys.exit(
            f"{' '.join(map(str, command))}\nexpected to fail with '{fails}', "
            f"but ended with {done.returncode}\n{done.stdout}"
        )
    return done.stdout


def expect(condition, text):
    if not condition:
        sys.exit(text)


def build(source, folder, *settings):
    run(
        options.cmake,
        "-S",
        source,
        "-B",
        folder,
        "-G",
        "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_CXX_COMPILER={options.compiler}",
        f"-DCMAKE_C_COMPILER={options.c_compiler}",
        *settings,
    )
    run(options.cmake, "--build", folder)
    return folder


shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)
components = ["runtime", "tools", "compiler"]
if (pathlib.Path(options.build) / "lib/libte_mpi.so").exists():
    components.append("mpi")
for component in components:
    run(options.cmake, "--install", options.build, "--prefix", prefix, "--component", component)
config = "\n".join(path.read_text() for path in prefix.rglob("*.cmake"))
for tree in (options.source, options.build):
    expect(f"{tree}/" not in config, f"the installed CMake files name {tree}")

consumer = build(
    pathlib.Path(options.source) / "test/install/consumer",
    work / "consumer",
    f"-DCOMPONENTS={';'.join(components)}",
    f"-DEXAMPLES={pathlib.Path(options.source) / 'docs/examples'}",
)
expect("largest error 8 of 5 and" in run(consumer / "linked"), "the linked step gives another error")
expect(run(consumer / "compiler").strip(), "the compiler has no version")

# A step is compiled again only if its file changes.
trainer = build(
    prefix / "share/te-mlir/examples/cpp_trainer",
    work / "trainer",
    "-DTRAINER_PIPELINE=recipe=float8_block_scaling target=reference",
)
expect("no work to do" in run(options.cmake, "--build", trainer), "an unchanged step is compiled again")

expect("Apache License" in (prefix / "share/te-mlir/LICENSE").read_text(), "the license is not installed")

examples = prefix / "share/te-mlir/examples/byte_lm"
program, text = trainer / "trainer", examples / "text.txt"
rng = np.random.default_rng(0)
np.savez(
    work / "batch.npz",
    context=rng.integers(0, 256, 2048).astype(np.int32),
    step=np.float32(5),
    targets=rng.integers(0, 256, 256).astype(np.int32),
    lr=np.float32(1e-3),
)
steps = {}
for recipe in RECIPES:
    pipeline = f"--pipeline=recipe={recipe} target=reference"
    step = work / f"{recipe}.so"
    run(prefix / "bin/te-compile", examples / "train.mlir", "--entry=train_step", pipeline, "-o", step)
    train = [program, step, text, "--backend=reference", "--seed=3"]
    whole = run(*train, "--steps=6", f"--save={work / 'whole'}")
    first = run(*train, "--steps=4", f"--save={work / 'half'}")
    second = run(*train, "--steps=6", f"--load={work / 'half'}", f"--save={work / 'resumed'}")
    expect(first + second == whole, f"{recipe}: the losses differ:\n{whole}\n{first}{second}")
    expect((work / "whole").read_bytes() == (work / "resumed").read_bytes(), f"{recipe}: the states differ")
    said = run(*train, "--steps=4", f"--load={work / 'half'}")
    expect(said == "trainer: no step is left: at 4, and --steps=4\n", f"{recipe}: a run without steps says '{said}'")
    # A state that differs by one bit is found.
    damaged = bytearray((work / "half").read_bytes())
    damaged[-3] ^= 1
    (work / "damaged").write_bytes(damaged)
    run(*train, "--steps=6", f"--load={work / 'damaged'}", f"--save={work / 'resumed'}")
    expect((work / "whole").read_bytes() != (work / "resumed").read_bytes(), f"{recipe}: a damaged state is not seen")
    # te-run and the trainer read each other's files.
    run(
        prefix / "bin/te-run",
        examples / "train.mlir",
        "--entry=train_step",
        pipeline,
        "--backend=reference",
        "--quiet",
        f"--inputs={work / 'batch.npz'}",
        f"--load={work / 'half'}",
        f"--save={work / 'other'}",
    )
    run(*train, "--steps=6", f"--load={work / 'other'}")
    steps[recipe] = train

# The loss decreases: the first losses are near ln 256 = 5.55.
losses = [
    float(line.split()[-1]) for line in run(*steps["float8_block_scaling"], "--steps=40", "--lr=3e-3").splitlines()
]
expect(losses[0] > 4.5 and losses[-1] < losses[0] - 1.5, f"the loss does not fall: {losses}")
# A group of one rank is bound before the step is loaded.
run(*steps["float8_block_scaling"], "--steps=1", "--group=0", "--ranks=1", "--rank=0")

# Packed lines, with boundaries as an input like any other.
run(
    sys.executable,
    prefix / "share/te-mlir/examples/tiny_llama/write_llama.py",
    f"--text={text}",
    f"--output={work}",
    "--pack",
)
pipeline = "--pipeline=recipe=float8_block_scaling target=reference"
run(prefix / "bin/te-compile", work / "llama.mlir", "--entry=train_step", pipeline, "-o", work / "packed.so")
packed = [program, work / "packed.so", text, "--backend=reference"]
whole = run(*packed, "--steps=20")
losses = [float(line.split()[-1]) for line in whole.splitlines()]
expect(losses[0] > 4.5 and losses[-1] < losses[0] - 1.5, f"the loss of packed lines does not fall: {losses}")
first = run(*packed, "--steps=8", f"--save={work / 'half'}")
second = run(*packed, "--steps=20", f"--load={work / 'half'}")
expect(first + second == whole, f"packed lines: the losses differ:\n{whole}\n{first}{second}")

run(program, work / "absent.so", text, fails="absent.so")
run(*steps["delayed_scaling"], f"--load={work / 'absent'}", fails="No such file or directory")
for before, after, fails in (
    (b'"te.step":"', b'"te.step":"x', "to be a number of steps below 9223372036854775807, but got 'x"),
    (b'"F32"', b'"I32"', "to be F32 [256], but got I32 [256]"),
):
    saved = (work / "whole").read_bytes()
    size = int.from_bytes(saved[:8], "little")
    header = saved[8 : 8 + size].replace(before, after, 1)
    expect(header != saved[8 : 8 + size], f"no {before} in the header")
    (work / "wrong").write_bytes(len(header).to_bytes(8, "little") + header + saved[8 + size :])
    run(*steps[RECIPES[-1]], f"--load={work / 'wrong'}", fails=fails)
# A run goes on under another recipe.
said = run(*steps["delayed_scaling"], "--steps=7", f"--load={work / 'whole'}")
expect("was saved under #te.recipe<nvfp4_block_scaling>, but" in said and "step 7 loss" in said, said)
run(*steps["delayed_scaling"], "--backend=tpu", fails="expected 'backend' to be")
print("installed, found, built, trained, resumed")
