#!/usr/bin/env python3
"""Writes scripts/requirements.txt: what scripts/setup.sh installs from PyPI, with versions and SHA-256 of all wheels.

  .venv/bin/python scripts/pin_packages.py

Run it by Python 3.11 with an index that has the CPU build of PyTorch, after a version below is changed. Packages that these
need keep the versions that the environment has, if they fit. Nothing is installed.
"""

import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FILE = pathlib.Path(__file__).with_name("requirements.txt")
VERSIONS = ("3.12", "3.13")  # beside 3.11
PYTHON = {
    "example": ["numpy", "matplotlib"],
    "test": [
        *("torch==2.13.0", "transformers==5.23.0", "accelerate==1.15.0", "ml_dtypes", "pytest", "setuptools"),
        *("trl==1.16.0", "lightning==2.6.6", "mypy==2.4.1", "ruff==0.17.6"),
        *("mkdocs-material==9.8.1", "mkdocstrings-python==2.0.11"),
        # The last release for Python 3.11; libte_xla is compiled with a header of it.
        *("jax==0.10.2", "optax==0.2.8", "equinox==0.13.8", "flax==0.12.8"),
    ],
}
#: Without the dependencies that only torchtitan's trainer (Triton alone has 1 GB), timm's data sets (torchvision, for
#: PyTorch's build for CUDA) and LitGPT's commands need.
ALONE = ["torchtitan==0.3.0", "spmd_types==0.2.3", "tyro==1.0.17", "docstring_parser==0.18.0"]
ALONE += ["litgpt==0.5.13", "timm==1.0.31", "diffusers==0.42.1", "peft==0.21.2"]
#: Headers of the releases that the kernels were measured with, and CUDA's compiler.
CUDA = ["nvidia-cublas==13.1.0.3", "nvidia-cudnn-cu13==9.19.0.56", "nvidia-cudnn-frontend==1.18.0"]
CUDA += [f"nvidia-{name}==13.0.*" for name in ("cuda-nvcc", "cuda-crt", "nvvm", "cuda-runtime", "cuda-cccl")]
SPECIAL: "set[str]" = set()
HEAD = "# Written by scripts/pin_packages.py. [torch] is PyTorch of PyPI with what it needs beyond its CPU build.\n"


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def resolve(requirements, *options, only_pypi=False):
    """{Name: (version, hashes)} of what pip would install, and in `SPECIAL` what has a wheel for each Python."""
    environment = dict(os.environ)
    if only_pypi:
        environment |= {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": ""}
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "-qq", "--dry-run", "--ignore-installed"]
        command += ["--only-binary=:all:", f"--report={report}", *options, *requirements]
        subprocess.run(command, check=True, env=environment)
        installed = json.loads(report.read_text())["install"]
    SPECIAL.update(normal(i["metadata"]["name"]) for i in installed if "-cp311-cp311" in i["download_info"]["url"])
    return {
        normal(item["metadata"]["name"]): (
            item["metadata"]["version"],
            {item["download_info"]["archive_info"]["hashes"]["sha256"]},
        )
        for item in installed
    }


def add(found, more):
    for name, (version, hashes) in more.items():
        if name in found and found[name][0] == version:
            found[name][1].update(hashes)


def section(name, found):
    lines = (f"{n}=={v}{''.join(f' --hash=sha256:{h}' for h in sorted(hs))}" for n, (v, hs) in sorted(found.items()))
    return f"\n# [{name}]\n" + "\n".join(lines) + "\n"


def main():
    with tempfile.TemporaryDirectory() as folder:
        kept = pathlib.Path(folder, "kept.txt")
        freeze = subprocess.run([sys.executable, "-m", "pip", "freeze"], check=True, capture_output=True, text=True)
        kept.write_text(re.sub(r"\+\w+$", "", freeze.stdout, flags=re.M))
        parts = {name: resolve(required, "-c", str(kept)) for name, required in PYTHON.items()}
    parts["test"] |= resolve(ALONE, "--no-deps")
    cpu = {"torch": parts["test"].pop("torch")}
    pypi = resolve([f"torch=={cpu['torch'][0].split('+')[0]}"], only_pypi=True)
    for part in (*parts.values(), pypi):
        for name, version in itertools.product(sorted(part.keys() & SPECIAL), VERSIONS):
            other = ["--no-deps", f"--python-version={version}", f"--target={FILE.parent / 'none'}"]
            try:
                add(part, resolve([f"{name}=={part[name][0]}"], *other, only_pypi=part is pypi))
            except subprocess.CalledProcessError:
                print(f"no wheel of {name} {part[name][0]} for Python {version}")
    parts["torch-cpu"] = cpu
    parts["torch"] = {name: pin for name, pin in pypi.items() if name not in parts["test"]}
    parts["cuda"] = resolve(CUDA, "--no-deps", "--python-version=3.11", f"--target={FILE.parent / 'none'}")
    FILE.write_text(HEAD + "".join(section(name, found) for name, found in parts.items()))


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(0 if print(__doc__.strip()) or sys.argv[1] in ("-h", "--help") else 2)
    main()
