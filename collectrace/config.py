"""The options of a traced process, and the environment variables that carry them."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from collectrace.errors import CollectraceError

SWITCH: Final = "COLLECTRACE"
"""The variable that switches tracing on in every process that imports torch, see ``autoload``."""

PREFIX: Final = f"{SWITCH}_"

TRACEBACK: Final = f"{PREFIX}TRACEBACK"
"""Names a file that commands append the tracebacks of internal errors to, ``/dev/stderr`` too."""

ON_DIVERGENCE: Final = ("report", "raise", "exit")
"""What can be done about an error that is proven."""

VALUES_ON: Final = "on"
VALUES_ALL: Final = "all"
OFF: Final = "off"
FULL: Final = "full"
LINES: Final = "lines"

LEVELS: Final[dict[str, tuple[str, ...]]] = {
    "sources": (FULL, LINES, OFF),
    "values": (VALUES_ON, VALUES_ALL, OFF),
}
"""Options that take a word, or a truth value for the first or the last of theirs."""


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
    the groups and the start of training explain everything that follows. As text, also with a
    unit: ``512M``, ``1.5G``, by powers of 1024."""

    heartbeat: float = 5.0
    """Seconds between two ``alive`` records. A rank whose file ends three heartbeats before its
    peers' is told apart from one that is only slow."""

    stall_after: float = 60.0
    """Seconds a collective may be pending before it counts as stalled. Long enough for an
    evaluation or a checkpoint on one rank, far shorter than any backend's timeout."""

    max_failures: int = 20
    """Internal failures after which the tracer switches itself off. A tracer that fails on every
    call costs time and tells nothing."""

    sources: str = FULL
    """What is recorded of the program's text. ``full``: the user's files from which calls come,
    each written once per run; they show which condition a call depends on. ``lines``: the lines of
    the calls and of their callers alone. ``off``: nothing. Who may see the log can read them.
    ``True`` and 1 mean ``full``, ``False`` and 0 mean ``off``."""

    values: str = VALUES_ON
    """Whether the record holds what variables of the program's functions held when the rank
    stalled, ended by an exception, or was interrupted: ``on``, numbers and what can be told of
    other values without running code of theirs, of strings the length and a short hash; ``all``,
    strings as well; ``off``. True and 1 mean on, False and 0 off."""

    library: tuple[Path, ...] = ()
    """Folders of code that is not the user's own, such as a checkout of a framework: a call is
    said to come from the line that called it. As text, separated as in ``PATH``. What is
    installed, and what ``tracer/record/owners`` knows by name, need not be given."""

    announce: bool = True
    """Whether the job's first rank says on standard error where it records, and how to ask: one
    line as the first run of its process begins."""

    keep_runs: int = 20
    """How many runs a folder may hold: as one begins, the oldest beyond that are removed, but none
    that may still be written to. 0: all are kept."""

    report: bool = True
    """Whether one rank compares the files of all ranks when a rank has stalled or an exception ends
    it, and prints on standard error what is wrong. Only where the run's folder holds the files of
    all ranks, and not where the ranks compare notes (``online``)."""

    online: bool = False
    """Whether the ranks compare notes through the job's store while it runs, and say on standard
    error what is wrong as soon as they differ, or hang: a thread more in each, and a few requests
    to the store per heartbeat."""

    on_divergence: str = "report"
    """What happens, with ``online``, once an error is proven by what ranks called, or by how they
    ended: ``report``: it is told, and that is all; ``raise``: the next collective of every rank
    raises :class:`collectrace.errors.DivergenceError`; ``exit``: every rank ends."""

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
        if isinstance(values.get("library"), str | os.PathLike):
            raise CollectraceError("library must be a list of folders")
        values["library"] = tuple(Path(folder) for folder in values.get("library", ()))
        values |= {name: _given_level(name, values[name]) for name in LEVELS if name in values}
        config = replace(cls(), **values)
        for name in ("max_bytes", "heartbeat", "stall_after", "max_failures"):
            value = getattr(config, name)
            if not value > 0:  # nan is not, either
                raise CollectraceError(f"{name} must be greater than zero")
            if value == math.inf:
                raise CollectraceError(f"{name} must be finite")
        if config.on_divergence not in ON_DIVERGENCE:
            raise CollectraceError(
                f"on_divergence={config.on_divergence!r} is none of {', '.join(ON_DIVERGENCE)}"
            )
        if config.keep_runs < 0:
            raise CollectraceError("keep_runs must be 0 (all) or more")
        return config

    def to_environment(self) -> dict[str, str]:
        """The variables that give a child process these same options."""
        told = self.absolute()
        values = {PREFIX + f.name.upper(): str(getattr(told, f.name)) for f in fields(self)}
        values[PREFIX + "LIBRARY"] = os.pathsep.join(map(str, told.library))
        return values

    def absolute(self) -> Config:
        """These options for wherever the working directory is going to be."""
        return replace(
            self,
            log_dir=self.log_dir.absolute(),
            library=tuple(folder.absolute() for folder in self.library),
        )


def is_switched_on(environment: Mapping[str, str]) -> bool:
    """Whether the variable asks for tracing.

    Raises:
        CollectraceError: it says neither yes nor no.

    """
    text = environment.get(SWITCH, "")
    try:
        return bool(text) and _truth(text)
    except ValueError:
        raise CollectraceError(f"{SWITCH}={text!r} is not 0 or 1") from None


def mistyped(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that looks like an option and is none."""
    known = [f.name.upper() for f in fields(Config)]
    found = []
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in known or variable == TRACEBACK:
            continue
        meant = [PREFIX + close for close in difflib.get_close_matches(name, known, 1)]
        guess = f"did you mean {meant[0]}?" if meant else f"the options are {', '.join(known)}"
        found.append(f"{variable} is no option and has no effect; {guess}")
    return found


def size(text: str) -> int:
    """A number of bytes, with a unit or without: ``4096``, ``512M``, ``1.5 GiB``.

    Raises:
        ValueError: it is none.

    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    number, unit = found.groups()
    if not unit:
        return int(number)
    return int(float(number) * 1024 ** ("KMGT".index(unit.upper()) + 1))


_SIZE: Final = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)\s*(?:([KMGT])(?:i?B)?)?", re.IGNORECASE)
_TRUTH: Final = {"0": False, "false": False, "no": False, "off": False,
                 "1": True, "true": True, "yes": True, "on": True}  # fmt: skip


def _truth(text: str) -> bool:
    try:
        return _TRUTH[text.strip().lower()]
    except KeyError:
        raise ValueError(text) from None


def _level(name: str, given: object) -> str:
    """Return one of an option's levels, by its name or by a truth value.

    Raises:
        ValueError: it is none of these.

    """
    word, levels = str(given).strip().lower(), LEVELS[name]
    if word in levels:
        return word
    return levels[0] if _truth(word) else levels[-1]


def _given_level(name: str, given: object) -> str:
    try:
        return _level(name, given)
    except ValueError:
        raise CollectraceError(f"{name}={given!r} is none of {', '.join(LEVELS[name])}") from None


def folders(text: str) -> tuple[Path, ...]:
    """Folders, separated as in ``PATH``."""
    return tuple(Path(folder) for folder in text.split(os.pathsep) if folder)


_READERS: Final[dict[str, tuple[Callable[[str], Any], str]]] = {
    "log_dir": (Path, "a folder"),
    "max_bytes": (size, "a whole number, or a size such as 512M or 1G"),
    "heartbeat": (float, "a number"),
    "stall_after": (float, "a number"),
    "max_failures": (int, "a whole number"),
    "sources": (partial(_level, "sources"), "full, lines or off"),
    "values": (partial(_level, "values"), "on, all or off"),
    "library": (folders, "a list of folders"),
    "announce": (_truth, "0 or 1"),
    "keep_runs": (int, "a whole number"),
    "report": (_truth, "0 or 1"),
    "online": (_truth, "0 or 1"),
    "on_divergence": (str, "a word"),
}
"""How the text of each option is read, and what it must be."""


def _read(name: str, text: str) -> Any:
    read, wanted = _READERS[name]
    try:
        return read(text)
    except ValueError:
        raise CollectraceError(
            f"{PREFIX}{name.upper()}={text!r} is not {wanted}; unset it or give one"
        ) from None
