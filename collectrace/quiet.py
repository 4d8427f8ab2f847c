"""Make Ctrl-C end the process without a traceback, before and after a command runs."""

from __future__ import annotations

import signal


def until_somebody_answers() -> None:
    """Let SIGINT end the process at once, unless it is ignored or has another handler."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def no_more() -> None:
    """Let Python raise KeyboardInterrupt again, as a script expects it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
