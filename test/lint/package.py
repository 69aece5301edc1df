#!/usr/bin/env python3
"""An archive has a bill of materials, and the same bytes from any folder; one without a notice of what is in it is an error."""

import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

from lint import ROOT, finish

NOTICES = ["LICENSE", "a.LICENSE.txt"]
TIME = 1700000000
# What this machine or its user may have set.
SETTINGS = {"TAR_OPTIONS": "--exclude=c", "XZ_DEFAULTS": "--check=none", "XZ_OPT": "--check=sha256"}


def package(staged, environment):
    settings = {
        "TEMPORARY_DIRECTORY": staged,
        "TE_SHARE": "share",
        "TE_SBOM": ROOT / "scripts/sbom.py",
        "TE_NOTICES": ";".join(NOTICES),
        "TE_TIME": TIME,
    }
    command = ["cmake", *(f"-DCPACK_{name}={value}" for name, value in settings.items())]
    script = str(ROOT / "cmake/TEPackage.cmake")
    return subprocess.run([*command, "-P", script], capture_output=True, text=True, env={**os.environ, **environment})


def stage(folder, files, mask):
    """Writes files, of a name and what is in them, one after the other with modes of a mask."""
    before = os.umask(mask)
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        if path.parent.name == "bin":
            path.chmod(0o777 & ~mask)
        if mask == 0o77 and os.geteuid() == 0:
            os.chown(path, 7, 7)
    os.umask(before)


def refused(folder):
    """Problems of archives that lack a notice."""
    problems = []
    for i, missing in enumerate(NOTICES):
        stage(folder / "te", [(f"share/{name}", "") for name in ["other", *NOTICES[:i]]], 0o22)
        done = package(folder / "te", {})
        if done.returncode == 0 or f"expected the notice '{missing}'" not in done.stderr:
            problems.append(f"expected an error about '{missing}', but got {done.returncode} and {done.stderr}")
        if (folder / "te.tar.xz").exists():
            problems.append(f"expected no archive without '{missing}'")
    return problems


def contents(archive):
    """Problems of what is in an archive."""
    problems = []
    with tarfile.open(archive) as members:
        names = members.getnames()
        if names != sorted(names, key=lambda name: name.split("/")):
            problems.append(f"expected the files in the order of their names, but got {names}")
        if json.load(members.extractfile("te/share/sbom.cdx.json"))["bomFormat"] != "CycloneDX":
            problems.append("expected a bill of materials in the archive")
        for member in members:
            has = (member.mtime, member.uid, member.gid, member.uname, member.gname, member.mode)
            runs = member.isdir() or member.name.startswith("te/bin/")
            if has != (TIME, 0, 0, "", "", 0o755 if runs else 0o644):
                problems.append(f"expected the time, owner and mode of every archive, but '{member.name}' has {has}")
    return problems


with tempfile.TemporaryDirectory() as name:
    work = pathlib.Path(name)
    problems = refused(work / "refused")
    files = [(f"share/{notice}", notice) for notice in NOTICES] + [("bin/te-b", "b"), ("bin/te-a", "a"), ("lib/c", "c")]
    cases = {
        "first": (files, 0o22, {}),
        "of_another_user": (files[::-1], 0o77, SETTINGS),
        "changed": ([*files[:-1], ("lib/c", "d")], 0o22, {}),
    }
    archives = {}
    for case, (staged, mask, environment) in cases.items():
        stage(work / case / "te", staged, mask)
        done = package(work / case / "te", environment)
        if done.returncode:
            problems.append(f"expected an archive with all notices, but got {done.stderr}")
            continue
        archives[case] = (work / case / "te.tar.xz").read_bytes()
        problems += contents(work / case / "te.tar.xz")
    if archives.get("first") != archives.get("of_another_user"):
        problems.append("expected the same bytes of the same files in two folders")
    if archives.get("first") == archives.get("changed"):
        problems.append("expected other bytes of other files")
sys.exit(finish(problems, len(cases) + len(NOTICES), "archives are refused or made"))
