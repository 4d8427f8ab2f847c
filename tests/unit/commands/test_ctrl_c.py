"""Ctrl-C at any moment at all of a job that is watched."""

from __future__ import annotations

import subprocess
import sys

EVERY_MOMENT = """
import faulthandler, signal, sys
from collectrace.commands.align import _stopped_by_ctrl_c
faulthandler.dump_traceback_later(60, exit=True)

def interrupting(nth):
    lines = 0
    def trace(frame, event, arg):
        nonlocal lines
        if event == "line" and frame.f_code.co_filename != "<string>":
            lines += 1
            if lines == nth:
                signal.raise_signal(signal.SIGINT)
        return trace
    return trace

for nth in range(1, 40):
    with _stopped_by_ctrl_c() as stop:
        sys.settrace(interrupting(nth))
        while not stop.is_set():
            stop.wait(0.0001)
        sys.settrace(None)
print("over")
"""


def test_it_is_heard_on_every_line_of_what_waits_for_it() -> None:
    # A process of its own: where it is not heard, nothing else ends.
    done = subprocess.run(
        [sys.executable, "-c", EVERY_MOMENT], capture_output=True, text=True, check=False
    )
    assert done.stdout == "over\n", done.stderr
