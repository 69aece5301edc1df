#!/usr/bin/env python3
"""Builds the documentation's site with warnings as errors, and checks that it works without a network.

    site_test.py SITE

SITE is the folder that the site is written to. No page may load files from the
network, and the search has to find every page without a server.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Attributes of files that a browser loads; links that a reader follows may lead anywhere.
LOADED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^\"'> ]*", re.IGNORECASE
)
IN_STYLE = re.compile(r"(?:url\(|@import )[\"']?(?:https?:)?//[^\"') ]*")


def problems_of(site):
    pages = [path for path in site.rglob("*.html") if path.name != "404.html"]
    for path in sorted([*pages, *site.rglob("*.css")]):
        pattern = IN_STYLE if path.suffix == ".css" else LOADED
        for match in pattern.finditer(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads from the network: {match[0][-120:]}"
    text = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    known = {entry["location"].split("#")[0] for entry in json.loads(text.removeprefix("var __index = "))["docs"]}
    for page in pages:
        name = page.relative_to(site).as_posix()
        if name not in known and not name.startswith("source/"):
            yield f"{name}: the search does not know this page"
    if len(pages) < 30:
        yield f"expected at least 30 pages, but got {len(pages)}"


def main():
    site = pathlib.Path(sys.argv[1]).resolve()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    # --quiet would also hide the warnings that --strict counts.
    built = subprocess.run(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        print(built.stderr + "expected the site to build without a warning")
        return 1
    problems = list(problems_of(site))
    print("\n".join(problems) or f"the site in {site} is complete by itself")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
