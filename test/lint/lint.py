"""Helpers of the lints. Each lint is a script that prints one problem per line, and
exits with 1 if there are problems, or if it found nothing to check."""

import functools
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.cache
def read(path):
    return path.read_text(encoding="utf-8")


def tracked(*patterns):
    """Files of the repository that match git patterns; all files of the tree if
    there is no repository, as in a source archive."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", *patterns]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 0 and result.stdout:
        return [ROOT / name for name in result.stdout.split("\0") if name and (ROOT / name).is_file()]
    return [
        path
        for pattern in (patterns or ("*",))
        for path in ROOT.rglob(pattern)
        if path.is_file() and not {".git", "build", ".venv", ".deps"} & set(path.relative_to(ROOT).parts)
    ]


def finish(problems, checked, what):
    for problem in problems:
        print(problem)
    if not checked:
        print("found nothing to check")
    elif not problems:
        print(f"{checked} {what}")
    return 1 if problems or not checked else 0
