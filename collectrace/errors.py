"""The exceptions of collectrace."""

from __future__ import annotations

from typing import Final


class CollectraceError(Exception):
    """A problem that a person can solve: the message is one line and says what to do."""


class OptionError(CollectraceError):
    """Unusable options. The message names each, and what it must be."""


class LogError(CollectraceError):
    """The logs cannot be used: they are missing, unreadable, or not rank files."""


class Unreadable(LogError):
    """A file cannot be read. ``advice``: what to do."""

    def __init__(self, path: object, why: str, advice: str = "") -> None:
        super().__init__(f"cannot read {path}: {why}{f'. {advice}' if advice else ''}")
        self.why = why


READ_ADVICE: Final = "Run as its owner, or copy it again."
"""What to do about a file that the system does not let one read."""


class NotThere(LogError):
    """There are no logs at a place: not yet, or no longer."""


class NotLogs(LogError):
    """A file is neither a log nor a dump that can be converted."""


class NotNow(LogError):
    """A query to running ranks could not be finished. It may succeed later."""


class DivergenceError(CollectraceError):
    """The ranks of this job have diverged, and ``on_divergence="raise"`` is set."""


class DamagedRecord(ValueError):
    """A line of a rank file does not hold a record; the reader counts it and continues."""


def not_traced(problem: Exception, what: str = "not traced") -> None:
    """Log one line of warning that this process runs untraced, or that ``what`` failed, and why."""
    import logging

    try:
        text = " ".join(str(problem).split())
    except Exception:  # noqa: BLE001 - its text is code of others
        text = ""
    if not isinstance(problem, CollectraceError):
        text = f"{type(problem).__name__}: {text}; please report it"
    logging.getLogger("collectrace").warning("collectrace: %s: %s", what, text)
