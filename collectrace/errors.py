"""What collectrace raises, and when."""

from __future__ import annotations


class CollectraceError(Exception):
    """Anything a person can mend: the message is one line and says what to do."""


class OptionError(CollectraceError):
    """Options that cannot be used. The one line names each, and says what it must be."""


class LogError(CollectraceError):
    """The logs cannot be used at all: not there, not readable, not rank files."""


class Unreadable(LogError):
    """A file cannot be read."""

    def __init__(self, path: object, why: str) -> None:
        super().__init__(f"cannot read {path}: {why}")
        self.why = why


class NotThere(LogError):
    """There is nothing where logs were looked for: not yet, or no longer."""


class NotNow(LogError):
    """Ranks that run were asked, and it could not be finished: asked again, they may answer."""


class DivergenceError(CollectraceError):
    """The ranks of this job have parted, and ``on_divergence="raise"`` was asked for."""


class DamagedRecord(ValueError):
    """One line of a rank file does not hold a record; the reader counts it and goes on."""


def not_traced(problem: Exception, what: str = "not traced") -> None:
    """Warn, in one line, that this process runs untraced, or of what else failed, and why."""
    import logging

    try:
        text = " ".join(str(problem).split())
    except Exception:  # noqa: BLE001 - its text is code of others
        text = ""
    if not isinstance(problem, CollectraceError):
        text = f"{type(problem).__name__}: {text}; please report it"
    logging.getLogger("collectrace").warning("collectrace: %s: %s", what, text)
