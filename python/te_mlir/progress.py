"""A line on a terminal while a compilation takes long.

The compiler runs outside of Python's lock and does not say how far it is, so the line
has the seconds that went by. Nothing is written where stderr is no terminal.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

#: Seconds after which the line appears, and after which it changes.
DELAY, INTERVAL = 2.0, 0.25
_BAR = 20


@contextlib.contextmanager
def shown(what: str) -> Iterator[None]:
    """Shows `what` with a moving bar and the seconds, from DELAY on until its block ends."""
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
