"""Ctrl-C before there is anybody to answer it, and after: the process ends without a traceback."""

from __future__ import annotations

import signal


def until_somebody_answers() -> None:
    """Let SIGINT end the process at once, unless it is ignored or somebody else's."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def no_more() -> None:
    """Let Python raise KeyboardInterrupt again, as a script expects it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
