"""The options of a traced process, and the environment variables that carry them."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from collectrace.errors import CollectraceError

PREFIX: Final = "COLLECTRACE_"


@dataclass(frozen=True, slots=True)
class Config:
    """What a traced process needs to know.

    Every field can be set by an environment variable, ``COLLECTRACE_`` and its name in
    capitals, so that a job can be traced differently without touching its script. An argument
    given to :func:`collectrace.enable` wins over the environment.
    """

    log_dir: Path = Path("logs")
    """Where runs are written, one folder each. Relative to the working directory."""

    max_bytes: int = 1 << 30
    """Bytes one rank may keep. Beyond it the oldest segments go, except the first: the header,
    the groups and the start of training explain everything that follows."""

    heartbeat: float = 5.0
    """Seconds between two ``alive`` records. A rank whose file ends three heartbeats before its
    peers' is told apart from one that is only slow."""

    stall_after: float = 60.0
    """Seconds a collective may be pending before it counts as stalled. Long enough for an
    evaluation or a checkpoint on one rank, far shorter than any backend's timeout."""

    max_failures: int = 20
    """Internal failures after which the tracer switches itself off. A tracer that fails on every
    call costs time and tells nothing."""

    sources: bool = True
    """Whether the record holds the lines of the program's text that calls come from, and the
    statements around these. They tell which condition a call hangs on; who may see the log can
    read them."""

    announce: bool = True
    """Whether the job's first rank says on standard error where it records, and how to ask: one
    line as the first run of its process begins."""

    keep_runs: int = 20
    """How many runs a folder may hold: as one begins, the oldest beyond that are removed, but none
    that may still be written to. 0: all are kept."""

    @classmethod
    def from_environment(cls, **given: Any) -> Config:
        """Defaults, overridden by the environment, overridden by ``given`` (None: not given).

        Raises:
            CollectraceError: a value that cannot be read, or an unknown option.

        """
        known = {f.name: f for f in fields(cls)}
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise CollectraceError(
                f"unknown option {', '.join(unknown)}; the options are {', '.join(known)}"
            )
        values: dict[str, Any] = {}
        for name in known:
            text = os.environ.get(PREFIX + name.upper())
            if text:
                values[name] = _read(name, text)
        values.update({name: value for name, value in given.items() if value is not None})
        if "log_dir" in values:
            values["log_dir"] = Path(values["log_dir"])
        config = replace(cls(), **values)
        for name in ("max_bytes", "heartbeat", "stall_after", "max_failures"):
            value = getattr(config, name)
            if not value > 0:  # nan is not, either
                raise CollectraceError(f"{name} must be greater than zero")
            if value == math.inf:
                raise CollectraceError(f"{name} must be finite")
        if config.keep_runs < 0:
            raise CollectraceError("keep_runs must be 0 (all) or more")
        return config

    def to_environment(self) -> dict[str, str]:
        """The variables that give a child process these same options."""
        values = {PREFIX + f.name.upper(): str(getattr(self, f.name)) for f in fields(self)}
        values[PREFIX + "LOG_DIR"] = str(self.log_dir.absolute())
        return values


_WANTED: Final[dict[type, str]] = {int: "a whole number", float: "a number", bool: "0 or 1"}
_SWITCH: Final = {"0": False, "false": False, "1": True, "true": True}


def _read(name: str, text: str) -> Any:
    kind = type(getattr(Config(), name))
    try:
        return _SWITCH[text.lower()] if kind is bool else kind(text)
    except (ValueError, KeyError):
        raise CollectraceError(
            f"{PREFIX}{name.upper()}={text!r} is not {_WANTED[kind]}; unset it or give one"
        ) from None
