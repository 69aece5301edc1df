"""Reads the output of te-translate: an HTML page or JSON, by the file's extension."""

import html.parser
import json
import pathlib
import sys

path = pathlib.Path(sys.argv[1])


class Reader(html.parser.HTMLParser):
    # Elements that have no end tag in HTML.
    OPEN = {"meta", "tr", "td", "th"}

    def __init__(self):
        super().__init__()
        self.stack, self.count = [], 0

    def handle_starttag(self, tag, attrs):
        self.count += 1
        if tag not in self.OPEN:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.count += 1

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            sys.exit(f"</{tag}> closes nothing, at {self.getpos()}")


if path.suffix == ".html":
    reader = Reader()
    reader.feed(path.read_text())
    reader.close()
    if reader.stack or reader.count < 100:
        sys.exit(f"{reader.stack} is open after {reader.count} elements")
    print("every element is closed")
else:
    step = json.loads(path.read_text())
    for graph in step["graphs"]:
        for edge in graph["edges"]:
            assert edge["from"] < edge["to"] < len(graph["nodes"])
            assert edge["value"] < len(graph["nodes"][edge["from"]]["values"])
    parts = [
        f"{graph['phase']}: {len(graph['nodes'])} nodes, "
        f"{sum(value['usage'] != '' for node in graph['nodes'] for value in node['values'])} scaled values"
        for graph in step["graphs"]
    ]
    parts.append(
        f"{sum(len(ledger['gemms']) for ledger in step['precision'])} gemms, "
        f"{len(step['launches'])} launches, {len(step['memory'])} plan"
    )
    print("; ".join(parts))
