"""Checks that a trace of te-run can be displayed, and prints it without times."""

import json
import os
import sys

trace = json.load(open(sys.argv[1]))
print("other", *(f"{key}={value}" for key, value in sorted(trace["otherData"].items())))
spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in spans)
tracks = {track: [event for event in spans if event["cat"] == track] for track in ("host", "launch")}
for track in tracks.values():
    assert len({event["tid"] for event in track}) == 1
    for before, after in zip(track, track[1:]):
        assert before["ts"] + before["dur"] <= after["ts"] + 1e-3, (before, after)
print("host", *(event["name"] for event in tracks["host"]))
for event in tracks["launch"]:
    arguments = event["args"]
    place = os.path.basename(arguments["location"])
    assert event["name"].startswith(arguments["kernel"] + " ")
    print(
        "launch",
        event["name"],
        "|",
        place,
        *(f"{key}={value}" for key, value in sorted(arguments["parameters"].items()) if key in "kmn"),
    )
step = tracks["host"][-1]
first, last = tracks["launch"][0], tracks["launch"][-1]
# A float of milliseconds has a relative error of 1e-7; the tolerance is a microsecond.
assert step["ts"] - 1 <= first["ts"] and last["ts"] + last["dur"] <= step["ts"] + step["dur"] + 1
print("inside", step["name"])
