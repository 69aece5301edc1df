"""The summaries of te-run-tune.test: which algorithms the launches have."""

import json
import sys


def gemms(path):
    with open(path) as file:
        return json.load(file)["gemms"]


from_file, first, tuned = (gemms(path) for path in sys.argv[1:])


def column(rows, key):
    return [row[key] for row in rows]


assert column(tuned, "name") == ["w fprop", "w fprop", "v fprop", "v fprop"], column(tuned, "name")
assert column(tuned, "gemm")[1] == "m=1024 n=512 k=512 a=bf16 b=bf16 out=bf16", column(tuned, "gemm")
assert column(tuned, "chosen") == ["measured", "measured", "measured", "small"]
assert column(from_file, "chosen") == ["file", "file", "file", "small"]
assert column(first, "chosen") == ["first", "first", "first", "small"]
# The file has what another process measured, not what this machine would.
assert column(from_file, "algorithm") == column(tuned, "algorithm")
assert len(set(column(tuned, "algorithm")[:3])) == 1
assert all(a != b for a, b in zip(column(first, "algorithm")[:3], column(tuned, "algorithm")[:3], strict=True))
assert first[3]["algorithm"] == tuned[3]["algorithm"]
