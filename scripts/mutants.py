#!/usr/bin/env python3
"""Measures whether tests notice changed predicates of verifiers and passes.

    scripts/mutants.py build                     copies the tree to build/mutants/source, and builds it
    scripts/mutants.py run [options]             changes predicates, one at a time, and runs the tests

A predicate is a condition of 'if' or '?', an operand of '&&' or '||', or a
comparison in a .cpp file of lib/Dialect or lib/Transforms; conditions that declare
a variable, constant expressions, assertions, macros and the headers of loops are
left out. In the copy each is an argument of te_mutant(), which changes it if the
environment names it: TE_MUTANT=17:not negates predicate 17, and 17:true and
17:false replace it. So one build has all mutants.

'run' first runs each test once to find which predicates it evaluates and to what
(again only if the test or the build changed). Of all mutants it then takes a random
sample, and runs the tests that can notice one, the quickest first, until one fails.
A process of a mutant that uses the processor for longer than 10 seconds is ended by a
signal, which is a failure. A mutant that no test evaluates is alive. What is alive is
printed with its place; build/mutants/results.json has all results.

Tests that fail without a mutant are left out, and so are those of lit that take long.
No process of the others needs the half of the 10 seconds.
"""

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import random
import re
import subprocess
import sys
import time

from predicates import HEADER, rewrite

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build/mutants"
SOURCE, BUILD = FOLDER / "source", FOLDER / "build"
FOLDERS = ("lib/Dialect/", "lib/Transforms/")
UNITS = (
    "te-unit-transforms",
    "te-insert-casts-test",
    "te-form-regions-test",
    "te-memory-planner-test",
    "te-overlap-planner-test",
)
TOOLS = ("te-opt", "te-run", "te-tblgen", "te_runtime")
QUICK = "^(te-|IR/|Support/|Transforms/)"


def write(path, data):
    """Writes a file of the copy unless it has these bytes, so that only changed files are compiled."""
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def build(_):
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    names = [name for name in sorted(listed.split("\0")) if name and (ROOT / name).is_file()]
    for old in SOURCE.rglob("*"):
        if old.is_file() and str(old.relative_to(SOURCE)) not in names and old.name != "te_mutant.h":
            old.unlink()
    found, first = {}, 1000
    for name in names:
        data = (ROOT / name).read_bytes()
        if name.startswith(FOLDERS) and name.endswith(".cpp"):
            # Each source has 1,000 numbers, so that a change of it moves no others.
            text, lines = rewrite(data.decode(), first)
            assert len(lines) <= 1000, name
            found.update({first + i: [name, *line] for i, line in enumerate(lines)})
            first += 1000
            data = text.encode()
        write(SOURCE / name, data)
        os.chmod(SOURCE / name, (ROOT / name).stat().st_mode)
    write(SOURCE / "include/te_mutant.h", HEADER.replace("TE_MUTANTS", str(first)).encode())
    write(FOLDER / "predicates.json", json.dumps(found, indent=0).encode())
    print(f"{len(found)} predicates")
    options = ["-DTE_CUDA=OFF", "-DTE_MPI=OFF", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1 -w"]
    subprocess.run(["cmake", "--preset", "dev", "-B", BUILD, *options], cwd=SOURCE, check=True)
    subprocess.run(["ninja", "-C", BUILD, *TOOLS, *UNITS], check=True)


class Unit:
    """A test binary, as lit has tests."""

    def __init__(self, name):
        self.name, self.file = name, str(BUILD / "bin" / name)

    def fails(self, environment):
        done = subprocess.run([self.file], env={**os.environ, **environment}, capture_output=True, timeout=600)
        return done.returncode != 0


class Lit:
    """A test of lit, which runs in this process."""

    def __init__(self, test, config):
        self.test, self.config = test, config
        self.name, self.file = "/".join(test.path_in_suite), test.getSourcePath()

    def fails(self, environment):
        self.test.config.environment.update(environment)
        # Workers that run one test at a time have their own temporary files.
        self.test.suite.exec_root = str(BUILD / "test/lit" / f"worker-{os.getpid()}")
        pathlib.Path(self.test.getExecPath()).parent.mkdir(parents=True, exist_ok=True)
        try:
            result = self.test.config.test_format.execute(self.test, self.config)
        finally:
            for name in environment:
                del self.test.config.environment[name]
        # A test that this machine cannot run (no GPU, no package) notices nothing, nor does one that is known to fail.
        return (result[0] if isinstance(result, tuple) else result.code).name not in ("PASS", "UNSUPPORTED", "XFAIL")


def find_tests(names):
    cache = (BUILD / "CMakeCache.txt").read_text()
    program = pathlib.Path(re.search(r"TE_LIT:FILEPATH=(.*)", cache)[1]).resolve()
    sys.path.insert(1, str(program.parents[1] / "utils/lit"))
    import lit.discovery
    import lit.LitConfig

    config = lit.LitConfig.LitConfig("lit", [], "error", False, False, [], False, False, False, "lexical", {})
    tests = lit.discovery.find_tests_for_inputs(config, [str(BUILD / "test/lit")])
    found = [Unit(name) for name in UNITS] + [Lit(test, config) for test in tests]
    return [test for test in found if re.search(names, test.name)]


def observe(number):
    """The seconds of a test, whether it fails without a mutant, and what it evaluates to what."""
    log = FOLDER / f"log-{os.getpid()}"
    log.unlink(missing_ok=True)
    start = time.monotonic()
    fails = TESTS[number].fails({"TE_MUTANT_LOG": str(log)})
    seen = sorted(set(log.read_text().split("\n")) - {""}) if log.exists() else []
    return number, {"seconds": time.monotonic() - start, "fails": fails, "seen": seen}


def try_mutant(task):
    """The test that fails under a mutant, or None."""
    mutant, candidates = task
    for number in candidates:
        if TESTS[number].fails({"TE_MUTANT": mutant}):
            return mutant, TESTS[number].name
    return mutant, None


def load(name):
    path = FOLDER / name
    return json.loads(path.read_text()) if path.exists() else {}


def baseline(pool, limit):
    """What each test evaluates, from the last time where neither the test nor the build is newer."""
    known, tools = load("tests.json"), max((BUILD / "bin" / name).stat().st_mtime for name in ("te-opt", "te-run"))
    stamps = [max(tools, os.stat(test.file).st_mtime) for test in TESTS]
    new = [i for i, test in enumerate(TESTS) if known.get(test.name, {}).get("stamp") != stamps[i]]
    for number, result in pool.imap_unordered(observe, new):
        known[TESTS[number].name] = {**result, "stamp": stamps[number]}
        (FOLDER / "tests.json").write_text(json.dumps(known))
    used = []
    for number, test in enumerate(TESTS):
        result = known[test.name]
        # Unit tests evaluate few predicates, so that a slow one may stay.
        slow = isinstance(test, Lit) and result["seconds"] > limit
        if result["fails"] or slow:
            why = "fails" if result["fails"] else f"takes {result['seconds']:.0f} s"
            print(f"left out: {test.name} {why}")
        elif result["seen"]:
            used.append(number)
    return {number: known[TESTS[number].name] for number in sorted(used, key=lambda i: known[TESTS[i].name]["seconds"])}


def run(options):
    global TESTS
    TESTS = find_tests(options.tests)
    places = load("predicates.json")
    pool = multiprocessing.Pool(options.jobs)
    tests = baseline(pool, options.limit)
    observers = collections.defaultdict(list)
    for number, result in tests.items():
        for line in result["seen"]:
            observers[line].append(number)
    mutants = [
        f"{number}:{change}"
        for number, (file, _, _) in places.items()
        for change in options.changes.split(",")
        if re.search(options.only, file)
    ]
    random.Random(options.seed).shuffle(mutants)
    mutants = mutants[: options.sample]
    results, tasks = load("results.json"), []
    for mutant in mutants:
        number, change = mutant.split(":")
        # A predicate that is true anyway is not changed by 'true'.
        wanted = {"not": "01", "true": "0", "false": "1"}[change]
        candidates = [i for i in tests if any(i in observers[f"{number} {value}"] for value in wanted)]
        candidates.sort(key=lambda i: TESTS[i].name != results.get(mutant))
        tasks.append((mutant, candidates))
    began = time.monotonic()
    for count, (mutant, killer) in enumerate(pool.imap_unordered(try_mutant, tasks), 1):
        results[mutant] = killer
        (FOLDER / "results.json").write_text(json.dumps(results, indent=0))
        if not count % 50:
            print(f"{count} of {len(tasks)} in {time.monotonic() - began:.0f} s", flush=True)
    pool.close()
    evaluated = {mutant: bool(candidates) for mutant, candidates in tasks}
    for mutant in sorted((m for m in mutants if not results[m]), key=lambda m: int(m.split(":")[0])):
        number, change = mutant.split(":")
        file, line, text = places[number]
        print(f"{file}:{line}: {mutant}{'' if evaluated[mutant] else ' (never evaluated)'}: {text}")
    killed = sum(results[mutant] is not None for mutant in mutants)
    print(f"{killed} of {len(mutants)} mutants are killed: {100 * killed / max(1, len(mutants)):.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    commands.add_parser("build").set_defaults(do=build)
    running = commands.add_parser("run")
    running.add_argument("--sample", type=int, default=500, help="how many mutants (500)")
    running.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    running.add_argument("--changes", default="not", help="'not', 'true' and 'false', with commas ('not')")
    running.add_argument("--only", default="", help="a regular expression for names of files")
    running.add_argument("--tests", default=QUICK, help=f"a regular expression for names of tests ({QUICK})")
    running.add_argument(
        "--limit", type=float, default=10, help="tests of lit that take more seconds are left out (10)"
    )
    running.add_argument("--jobs", type=int, default=os.cpu_count())
    running.set_defaults(do=run)
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
