"""The part of docs/guides/memory.md that a script makes: written, or compared with what is there."""

import argparse
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs/guides/memory.md"


def main(description, marker, make):
    """The command line of a script: make(te_opt) is the text between `<!-- marker -->` and `<!-- end of marker -->`."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--te-opt", default="te-opt")
    options = parser.parse_args()
    marked = re.compile(rf"(<!-- {marker} -->\n).*(<!-- end of {marker} -->)", re.S)
    page = PAGE.read_text()
    wanted, count = marked.subn(lambda match: match[1] + make(options.te_opt) + match[2], page)
    if count != 1:
        print(f"expected docs/guides/memory.md to have one pair of markers '{marker}', but got {count}")
        return 1
    if not options.check:
        PAGE.write_text(wanted)
        return 0
    if page != wanted:
        print(f"docs/guides/memory.md is out of date: run {pathlib.Path(sys.argv[0]).name} and commit")
        return 1
    print("docs/guides/memory.md is what te-opt makes")
    return 0
