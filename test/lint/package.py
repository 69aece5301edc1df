#!/usr/bin/env python3
"""An archive has a bill of materials and files of one time, and one without a notice of what is in it is an error."""

import json
import pathlib
import subprocess
import sys
import tempfile

from lint import ROOT, finish

NOTICES = ["LICENSE", "a.LICENSE.txt"]


def package(folder):
    settings = {
        "TEMPORARY_DIRECTORY": folder,
        "TE_SHARE": "share",
        "TE_SBOM": ROOT / "scripts/sbom.py",
        "TE_NOTICES": ";".join(NOTICES),
        "TE_TIME": "1700000000",
    }
    # CPack reads the time after this script, from the environment.
    script = pathlib.Path(folder, "script.cmake")
    script.write_text(f"include({ROOT}/cmake/TEPackage.cmake)\nmessage(STATUS time=$ENV{{SOURCE_DATE_EPOCH}})\n")
    command = ["cmake", *(f"-DCPACK_{name}={value}" for name, value in settings.items())]
    return subprocess.run([*command, "-P", str(script)], capture_output=True, text=True)


problems = []
with tempfile.TemporaryDirectory() as folder:
    share = pathlib.Path(folder, "share")
    share.mkdir()
    for missing in NOTICES:
        done = package(folder)
        if done.returncode == 0 or f"expected the notice '{missing}'" not in done.stderr:
            problems.append(f"expected an error about '{missing}', but got {done.returncode} and {done.stderr}")
        (share / missing).touch()
    done = package(folder)
    if done.returncode:
        problems.append(f"expected an archive with all notices, but got {done.stderr}")
    elif json.loads((share / "sbom.cdx.json").read_text())["bomFormat"] != "CycloneDX":
        problems.append("expected a bill of materials in the archive")
    elif "time=1700000000\n" not in done.stdout:
        problems.append(f"expected the time of all files in the environment, but got {done.stdout}")
sys.exit(finish(problems, 1 + len(NOTICES), "archives are refused or made"))
