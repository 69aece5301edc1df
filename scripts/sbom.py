#!/usr/bin/env python3
"""Prints a bill of materials, as JSON of CycloneDX 1.5.

  scripts/sbom.py > te-mlir.cdx.json

It has what a release contains (scope 'required', with the versions that this
machine has), and the Python packages of scripts/requirements.txt for the build and
the tests ('excluded': they are not in a release). Debian's packages have to be installed.
"""

import json
import pathlib
import re
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What is linked into libraries and tools.
DEBIAN = ["libmlir-22-dev", "llvm-22-dev", "nlohmann-json3-dev", "libasio-dev", "zlib1g-dev", "libzstd-dev"]


def component(kind, name, version, scope):
    separator = "/debian/" if kind == "deb" else "/"
    purl = f"pkg:{kind}{separator}{name}@{urllib.parse.quote(version)}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "scope": scope}


def installed(package):
    query = ["dpkg-query", "-W", "-f", "${Version}", package]
    found = subprocess.run(query, capture_output=True, text=True)
    if found.returncode or not found.stdout:
        sys.exit(f"sbom.py: expected the package '{package}'; scripts/setup.sh build installs it")
    return found.stdout


def main():
    if "--help" in sys.argv:
        print(__doc__.strip())
        return
    version = re.search(r"project\(te-mlir VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    pins = re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "scripts/requirements.txt").read_text(), re.M)
    components = [component("deb", name, installed(name), "required") for name in DEBIAN]
    for name, pin in sorted(set(pins)):
        # cuDNN's frontend is headers that are compiled into the runtime.
        scope = "required" if name == "nvidia-cudnn-frontend" else "excluded"
        components.append(component("pypi", name, pin, scope))
    subject = {"type": "application", "bom-ref": "te-mlir", "name": "te-mlir", "version": version}
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": subject},
        "components": components,
        "dependencies": [
            {"ref": "te-mlir", "dependsOn": [c["bom-ref"] for c in components if c["scope"] == "required"]}
        ],
    }
    print(json.dumps(bom, indent=2))


if __name__ == "__main__":
    main()
