"""Shows a line on a terminal while a long compilation runs.

The compiler runs outside of Python's lock and does not report its progress, so the line
shows the elapsed seconds. Nothing is written if stderr is not a terminal.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

#: Seconds until the line appears, and between its updates.
DELAY, INTERVAL = 2.0, 0.25
_BAR = 20


@contextlib.contextmanager
def shown(what: str) -> Iterator[None]:
    """Shows `what` with a moving bar and the elapsed seconds, from DELAY until the end of the block."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield
        return
    ended, start = threading.Event(), time.monotonic()

    def show() -> None:
        wait, width = DELAY, 0
        while not ended.wait(wait):
            seconds = time.monotonic() - start
            place = int(seconds / INTERVAL) % _BAR
            bar = "".join("#" if (i - place) % _BAR < 4 else "." for i in range(_BAR))
            line = f"te_mlir: {what} [{bar}] {seconds:.0f} s"
            width = max(width, len(line))
            stream.write("\r" + line)
            stream.flush()
            wait = INTERVAL
        if width:
            stream.write("\r" + " " * width + "\r")
            stream.flush()

    thread = threading.Thread(target=show, name="te_mlir progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
