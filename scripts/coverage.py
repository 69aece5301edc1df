#!/usr/bin/env python3
"""Counts the lines and branches of lib/ and include/ that the tests run, for each folder.

    coverage.py [--runtime] [--targets TARGET...] [ctest options]
    coverage.py --report

The first form builds the preset coverage, with --runtime only what needs no LLVM, and with --targets only these; then
it runs the tests and prints the table. The second one prints the table of the last run again. A branch is a condition
that was true, or one that was false. Assertions are not compiled, and what no program links is not counted.
build/coverage/uncovered.txt has the lines that no test runs.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/coverage"
PROFILES, MERGED = BUILD / "profiles", BUILD / "tests.profdata"


def llvm(name):
    return str(pathlib.Path(os.environ.get("LLVM_DIR", "/usr/lib/llvm-22")) / "bin" / name)


def binaries():
    """Programs and libraries with counters."""
    found = [path for path in (BUILD / "bin").iterdir() if path.is_file() and os.access(path, os.X_OK)]
    found += [path for path in (BUILD / "lib").glob("*.so") if path.is_file()]
    with_counters = []
    for path in sorted({path.resolve() for path in found}):
        sections = subprocess.run([llvm("llvm-readelf"), "-S", path], capture_output=True, text=True).stdout
        if "__llvm_covmap" in sections:
            with_counters.append(path)
    return with_counters


def run_tests(arguments, others):
    extra = ["-DTE_RUNTIME_ONLY=ON"] if arguments.runtime else []
    subprocess.run([ROOT / "scripts/configure.sh", "coverage", *extra], check=True)
    subprocess.run(
        ["cmake", "--build", BUILD, *[word for t in arguments.targets for word in ("--target", t)]], check=True
    )
    PROFILES.mkdir(exist_ok=True)
    for old in PROFILES.iterdir():
        old.unlink()
    # Processes of one program add to one of four files.
    environment = {**os.environ, "LLVM_PROFILE_FILE": str(PROFILES / "%4m.profraw")}
    tests = subprocess.run(["ctest", "--test-dir", BUILD, "--output-on-failure", *others], env=environment)
    if tests.returncode:
        print("coverage.py: some tests failed", file=sys.stderr)


def merge():
    profiles = sorted(map(str, PROFILES.glob("*.profraw")))
    if not profiles:
        sys.exit("coverage.py: expected profiles of tests in build/coverage/profiles, but there are none")
    # A process that is ended by a signal leaves half a file.
    command = [llvm("llvm-profdata"), "merge", "--failure-mode=all", "-sparse", "-o", MERGED, *profiles]
    subprocess.run(command, check=True)


def cov(command, *options):
    objects = binaries()
    arguments = [str(objects[0])] + [word for other in objects[1:] for word in ("-object", str(other))]
    sources = [str(ROOT / "lib"), str(ROOT / "include")]
    return [llvm("llvm-cov"), command, *options, f"-instr-profile={MERGED}", *arguments, "-sources", *sources]


def folder(name):
    parts = pathlib.Path(name).relative_to(ROOT).parts
    return "/".join(parts[:3] if len(parts) > 3 else parts[:-1])


def percent(covered, count):
    return f"{100 * covered / count:6.1f} % of {count:7,}" if count else f"{'-':>19}"


def report():
    files = json.loads(subprocess.run(cov("export", "-summary-only"), check=True, capture_output=True).stdout)
    sums = collections.defaultdict(lambda: [0, 0, 0, 0])
    for file in files["data"][0]["files"]:
        summary = file["summary"]
        counts = [summary[kind][of] for kind in ("lines", "branches") for of in ("covered", "count")]
        for key in (folder(file["filename"]), "all"):
            sums[key] = [a + b for a, b in zip(sums[key], counts)]
    print(f"{'':28}{'lines':>19}   {'branches':>19}")
    for key in sorted(sums, key=lambda key: (key == "all", key)):
        lines, all_lines, branches, all_branches = sums[key]
        print(f"{key:28}{percent(lines, all_lines)}   {percent(branches, all_branches)}")
    text = subprocess.run(cov("export", "-format=lcov"), check=True, capture_output=True, text=True).stdout
    with open(BUILD / "uncovered.txt", "w") as out:
        source, lines = "", []
        for row in text.splitlines():
            if row.startswith("SF:"):
                source, lines = row[3:], pathlib.Path(row[3:]).read_text().splitlines()
            elif row.startswith("DA:") and row.endswith(",0"):
                number = int(row[3:].split(",")[0])
                # A program that was not built again may know a longer file.
                line = lines[number - 1].strip() if number <= len(lines) else ""
                out.write(f"{pathlib.Path(source).relative_to(ROOT)}:{number}: {line}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", action="store_true", help="build only what needs no LLVM")
    parser.add_argument("--targets", nargs="+", default=[], metavar="TARGET", help="build only these")
    parser.add_argument("--report", action="store_true", help="run no tests")
    arguments, others = parser.parse_known_args()
    if not arguments.report:
        run_tests(arguments, others)
        merge()
    report()


if __name__ == "__main__":
    main()
