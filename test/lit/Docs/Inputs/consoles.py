"""Runs the commands of documentation pages and compares what they print.

    consoles.py PAGE... [--files FOLDER]...

A fenced block ```console has commands, each after '$ ' (a trailing backslash
continues it), and below each the expected output on both streams. A line '...'
matches any lines, and '...' inside a line matches any text; runs of blanks match
one blank. '# exit N' as the last line of the output is the expected exit code.
The commands run in order in a new folder with a copy of the FOLDERs' files, and
`python3` is the interpreter of this script. A block ```mlir FILE, or
```mlir title="FILE", is the content of such a file.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def commands(page):
    """Yields (line number, command, expected lines) of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    inside, current = False, None
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            if current:
                yield current
            inside, current = line == "```console", None
        elif inside and line.startswith("$ "):
            if current:
                yield current
            current = [number, line[2:], []]
        elif inside and current and current[1].endswith("\\"):
            current[1] = current[1][:-1] + line.strip()
        elif inside and current:
            current[2].append(line)


def written_files(page):
    """Yields (name, content) of the blocks that a reader saves to a file."""
    return re.findall(r'^```mlir (?:title=")?([^\s"]+)"?\n(.*?)^```$', page.read_text(encoding="utf-8"), re.S | re.M)


def pattern(line):
    return r".*?".join(
        re.escape(" ".join(part.split())) if part.strip() else r"\s?" for part in line.split("...")
    ).replace(r"\ ", r"\s*")


def differs(expected, actual):
    """The first expected line that is not at its position in `actual`, or None."""
    at, anywhere = 0, False
    for line in expected:
        if line.strip() == "...":
            anywhere = True
            continue
        wanted = re.compile(pattern(line.strip()))
        while at < len(actual):
            at += 1
            if wanted.fullmatch(" ".join(actual[at - 1].split())):
                break
            if not anywhere:
                return f"expected: {line}\n  but got:  {actual[at - 1]}"
        else:
            return f"expected: {line}\n  but there is no such line"
        anywhere = False
    if at < len(actual) and not anywhere:
        return f"expected no more lines\n  but got:  {actual[at]}"
    return None


def run(page, folder):
    problems, count = [], 0
    for number, command, expected in commands(page):
        count += 1
        code = 0
        if expected and (match := re.fullmatch(r"# exit (\d)", expected[-1])):
            code = int(match[1])
            expected = expected[:-1]
        result = subprocess.run(
            command, shell=True, cwd=folder, text=True, stdin=subprocess.DEVNULL, capture_output=True
        )
        actual = [line for line in (result.stdout + result.stderr).splitlines() if line.strip()]
        problem = differs([line for line in expected if line.strip()], actual)
        if result.returncode != code:
            problem = f"expected exit code {code}, but got {result.returncode}: {result.stderr[:400]}"
        if problem:
            problems.append(f"{page.name}:{number}: {command}\n  {problem}")
    return problems, count


def main():
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--files", type=pathlib.Path, action="append", default=[])
    options = parser.parse_args()
    problems, count = [], 0
    for page in options.pages:
        with tempfile.TemporaryDirectory() as folder:
            for path in (path for files in options.files for path in files.iterdir() if path.is_file()):
                shutil.copy(path, folder)
            for name, content in written_files(page):
                pathlib.Path(folder, name).write_text(content, encoding="utf-8")
            more, ran = run(page, folder)
            problems += more
            count += ran
    print("\n".join(problems) or f"{count} commands print what the pages say")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main())
