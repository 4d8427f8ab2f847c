"""The options of a traced process, and the environment variables that carry them."""

from __future__ import annotations

import difflib
import os
import re
import reprlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from collectrace.errors import CollectraceError, OptionError

SWITCH: Final = "COLLECTRACE"
"""The variable that switches tracing on in every process that imports torch, see ``autoload``."""

PREFIX: Final = f"{SWITCH}_"

TRACEBACK: Final = f"{PREFIX}TRACEBACK"
"""Names a file to which commands append tracebacks of internal errors, such as ``/dev/stderr``."""

ON_DIVERGENCE: Final = ("report", "raise", "exit")
"""What to do about a proven error."""

BUSY: Final = 8
"""A rank may be busy for so many times ``stall_after`` while others wait: an evaluation may be
long. By default that is 8 minutes; NCCL's watchdog ends the job after 10."""

ON: Final = "on"
AUTO: Final = "auto"
VALUES_ON: Final = "on"
VALUES_ALL: Final = "all"
OFF: Final = "off"
FULL: Final = "full"
LINES: Final = "lines"

SPOOL: Final = (ON, AUTO, OFF)
SOURCES: Final = (FULL, LINES, OFF)
VALUES: Final = (VALUES_ON, VALUES_ALL, OFF)

ARGUMENTS: Final = "arguments"
PATHS: Final = "paths"
SOURCE: Final = "source"
IN_VARIABLES: Final = "values"
OMITTABLE: Final = (ARGUMENTS, PATHS, SOURCE, IN_VARIABLES)
"""Parts of the record that can be left out; ``collectrace/privacy.py`` says what they hold."""


@dataclass(frozen=True, slots=True)
class Config:
    """The options of a traced process.

    Each field has an environment variable: ``COLLECTRACE_`` and its name in capitals. An argument
    of :func:`collectrace.enable` wins over the variable.
    """

    log_dir: Path = Path("logs")
    """Where runs are written, one folder each. Relative to the working directory."""

    max_bytes: int = 1 << 30
    """Bytes that one rank may keep. Beyond that the oldest segments are deleted, except the first:
    its header, groups and start of training explain the rest. As text, also with a unit: ``512M``,
    ``1.5G``, by powers of 1024."""

    heartbeat: float = 5.0
    """Seconds between two ``alive`` records. If a rank's file ends three heartbeats before its
    peers', the rank is not merely slow."""

    stall_after: float = 60.0
    """Seconds a collective may be pending before it counts as stalled. Long enough for an
    evaluation or a checkpoint on one rank. It is at most half of the default group's timeout, so
    that the record has the stacks of all ranks."""

    max_failures: int = 20
    """Internal failures after which the tracer switches itself off. A tracer that fails on every
    call only costs time."""

    spool: str = AUTO
    """Whether a rank records into a local folder first. Another process moves its files to
    ``log_dir``. So a file system that stops answering does not hold the job. ``auto``: if
    ``log_dir`` is on a network's file system, or a write to it is seen to hang. True and 1 mean
    on, False and 0 off."""

    sources: str = FULL
    """How much of the program's text is recorded. ``full``: the user's files from which calls come,
    each once per run; they show which condition a call depends on. ``lines``: only the lines of
    calls and their callers. ``off``: nothing. Anyone who can read the log can read them. ``True``
    and 1 mean ``full``, ``False`` and 0 mean ``off``."""

    values: str = VALUES_ON
    """Whether values of the program's variables are recorded when the rank stalls, is interrupted,
    or ends by an exception. ``on``: numbers, properties of other values that can be read without
    running their code, and length and a short hash of strings. ``all``: strings as well. ``off``:
    none. True and 1 mean on, False and 0 off."""

    omit: tuple[str, ...] = ()
    """Parts to leave out of the record: ``arguments``, the command line; ``paths``, all but the
    last part of each path; ``source``, as ``sources=off``; ``values``, as ``values=off``. Line
    numbers stay. As text, separated by commas."""

    shared: bool = False
    """Whether others than the owner may read the files, as far as the umask allows. Otherwise files
    have mode 0600, and new folders 0700, because they hold the program's text."""

    library: tuple[Path, ...] = ()
    """Folders of code that is not the user's own, such as a checkout of a framework. Calls from
    there get the user's line that called it. As text, separated as in ``PATH``. Installed packages,
    and those that ``tracer/record/owners`` knows by name, are recognised without it."""

    announce: bool = True
    """Whether the job's first rank prints the folder of the record and the command to read it. That
    is one line on standard error, when the first run of its process begins."""

    native: bool = True
    """Whether calls are recorded by code in C, if that was built when the package was installed.
    The code in Python writes the same."""

    keep_runs: int = 20
    """How many runs a folder may hold. When a run begins, the oldest beyond that are removed,
    except runs that may still be written to. 0: all are kept."""

    report: bool = True
    """Whether one rank compares the files of all ranks when a rank stalls or an exception ends it,
    and prints the errors on standard error. This needs a folder that holds the files of all ranks,
    and is off with ``online``."""

    online: bool = False
    """Whether the ranks compare their calls through the job's store while they run. They print
    errors on standard error as soon as they differ or hang. It costs a thread in each rank, and a
    few requests to the store per heartbeat."""

    on_divergence: str = "report"
    """What happens, with ``online``, when an error is proven by calls or by the ends of ranks.
    ``report``: it is only printed. ``raise``: the next collective of every rank raises
    :class:`collectrace.errors.DivergenceError`. ``exit``: every rank ends."""

    @classmethod
    def from_environment(cls, **given: Any) -> Config:
        """Return the defaults, overridden by the environment and by ``given`` (None: not given).

        An option takes the same forms in both, and on the command line: see ``OPTIONS``.

        Raises:
            OptionError: values that cannot be used, or unknown options; all of them in one line.

        """
        given = {name: value for name, value in given.items() if value is not None}
        values: dict[str, Any] = {}
        wrong = []
        unknown = sorted(given.keys() - OPTIONS.keys())
        if unknown:
            wrong.append(
                f"unknown option {', '.join(unknown)} (the options are {', '.join(OPTIONS)})"
            )
        for name, option in OPTIONS.items():
            variable = PREFIX + name.upper()
            asked, value = (
                (name, given[name])
                if name in given
                else (variable, os.environ.get(variable) or None)
            )
            if value is None:
                continue
            try:
                values[name] = option.read(value)
            except (ValueError, TypeError, OverflowError):
                wrong.append(f"{asked}={reprlib.repr(value)} is not {option.wanted}")
        if wrong:
            raise OptionError(f"{'; '.join(wrong)}. {_CORRECT}")
        omitted = values.get("omit", ())
        values |= {name: OFF for part, name in _SWITCHES.items() if part in omitted}
        return replace(cls(), **values)

    def to_environment(self) -> dict[str, str]:
        """Return the variables that give a child process the same options."""
        told = self.absolute()
        values = {PREFIX + f.name.upper(): str(getattr(told, f.name)) for f in fields(self)}
        values[PREFIX + "LIBRARY"] = os.pathsep.join(map(str, told.library))
        values[PREFIX + "OMIT"] = ",".join(told.omit)
        return values

    def without_effect(self) -> list[str]:
        """Return a message for each option that needs another one, which is not set."""
        if self.on_divergence == ON_DIVERGENCE[0] or self.online:
            return []
        return [f"on_divergence={self.on_divergence} has no effect without online=1"]

    @property
    def omitted(self) -> tuple[str, ...]:
        """All parts that are left out, by whichever option."""
        off = {part for part, name in _SWITCHES.items() if getattr(self, name) == OFF}
        return tuple(part for part in OMITTABLE if part in off or part in self.omit)

    def absolute(self) -> Config:
        """Return these options with absolute paths."""
        return replace(
            self,
            log_dir=self.log_dir.absolute(),
            library=tuple(folder.absolute() for folder in self.library),
        )


_CORRECT: Final = "Correct it, and start the job again."

_SWITCHES: Final = {SOURCE: "sources", IN_VARIABLES: "values"}
"""Options that switch off the same parts as ``omit`` can."""


def is_switched_on(environment: Mapping[str, str], variable: str = SWITCH) -> bool:
    """Return whether a variable, by default the one for tracing, is set to yes.

    Raises:
        CollectraceError: its value is neither yes nor no.

    """
    text = environment.get(variable, "")
    try:
        return bool(text) and _truth(text)
    except ValueError:
        raise CollectraceError(f"{variable}={text!r} is not 0 or 1. {_CORRECT}") from None


def mistyped(environment: Mapping[str, str]) -> list[str]:
    """Return a message for each variable that looks like an option and is none."""
    known = [f.name.upper() for f in fields(Config)]
    found = []
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in known or variable == TRACEBACK:
            continue
        meant = [PREFIX + close for close in difflib.get_close_matches(name, known, 1)]
        guess = f"Did you mean {meant[0]}?" if meant else f"The options are {', '.join(known)}."
        found.append(f"{variable} is not a known option and is ignored. {guess}")
    return found


# -- what an option may be given as -----------------------------------------------------------

_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT])(?:i?B)?", re.IGNORECASE)
_TRUTH: Final = {"0": False, "false": False, "no": False, "off": False,
                 "1": True, "true": True, "yes": True, "on": True}  # fmt: skip


def _whole(given: object, least: int) -> int:
    """Return a whole number: ``20``, ``"20"``, ``2e9``.

    Raises:
        ValueError: it is none, or too small.

    """
    text = str(given)
    try:
        number = int(text)
    except ValueError:
        number = int(float(text))
        if number != float(text):
            raise
    if number < least:
        raise ValueError(text)
    return number


def _size(given: object) -> int:
    """Return a number of bytes, with a unit or without: ``4096``, ``512M``, ``1.5 GiB``.

    Raises:
        ValueError: it is none.

    """
    found = _SIZE.fullmatch(str(given).strip())
    if found is None:
        return _whole(given, 1)
    number, unit = found.groups()
    return _whole(int(float(number) * 1024 ** ("KMGT".index(unit.upper()) + 1)), 1)


def _seconds(given: object) -> float:
    """Return a time that a clock can wait for.

    Raises:
        ValueError: it is none.

    """
    seconds = float(str(given))
    if not 0 < seconds <= threading.TIMEOUT_MAX:  # nan is not, either
        raise ValueError(given)
    return seconds


def _truth(given: object) -> bool:
    """Return a truth value: ``True``, ``1``, ``"yes"``, ``"off"``.

    Raises:
        ValueError: it is none.

    """
    try:
        return _TRUTH[str(given).strip().lower()]
    except KeyError:
        raise ValueError(given) from None


def _word(given: object, words: tuple[str, ...]) -> str:
    """Return one of some words.

    Raises:
        ValueError: it is none of them.

    """
    word = str(given).strip().lower()
    if word not in words:
        raise ValueError(given)
    return word


def _level(given: object, levels: tuple[str, ...]) -> str:
    """Return a level, by its name, or by a truth value for the first or the last.

    Raises:
        ValueError: it is none of these.

    """
    try:
        return levels[0] if _truth(given) else levels[-1]
    except ValueError:
        return _word(given, levels)


def _words(given: object, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return some words of a list: a list of them, or a text that separates them by commas.

    Raises:
        ValueError: one is not in the list.

    """
    parts = given.split(",") if isinstance(given, str) else cast("Iterable[object]", given)
    texts = [str(part).strip() for part in parts]
    chosen = {_word(text, words) for text in texts if text}
    return tuple(word for word in words if word in chosen)


def _folder(given: object) -> Path:
    """Return a path.

    Raises:
        TypeError: it is none.

    """
    return Path(cast("str | os.PathLike[str]", given))


def _folders(given: object) -> tuple[Path, ...]:
    """Return folders: a list of them, or a text that separates them as ``PATH`` does.

    Raises:
        TypeError: it is neither.

    """
    if isinstance(given, str):
        return tuple(Path(folder) for folder in given.split(os.pathsep) if folder)
    if isinstance(given, os.PathLike):
        return (Path(given),)
    return tuple(map(_folder, cast("Iterable[object]", given)))


@dataclass(frozen=True, slots=True)
class Option:
    """One option, given as an argument, a variable, or on the command line."""

    read: Callable[[object], Any]
    """Returns its value from any form; raises ValueError, TypeError or OverflowError."""
    wanted: str
    """What it must be: follows "is not"."""
    metavar: str
    """Its value in ``--help``; empty: it is switched on and off."""
    what: str
    """For ``--help``."""


_SECONDS: Final = "a number of seconds above 0"

OPTIONS: Final[dict[str, Option]] = {
    "log_dir": Option(_folder, "a folder", "DIR", "where runs are written"),
    "max_bytes": Option(
        _size, "a number of bytes above 0, such as 4096, 512M or 1G", "N",
        "bytes one rank may keep, such as 512M",
    ),
    "stall_after": Option(
        _seconds, _SECONDS, "S",
        "seconds after which a pending collective has stalled; at most half of a timeout",
    ),
    "heartbeat": Option(_seconds, _SECONDS, "S", "seconds between two heartbeats"),
    "max_failures": Option(
        partial(_whole, least=1), "a whole number above 0", "N",
        "internal failures after which the tracer switches itself off",
    ),
    "library": Option(
        _folders, f"a list of folders, or a text such as a{os.pathsep}b", f"DIR[{os.pathsep}DIR]",
        "folders of code that is not your own, such as frameworks",
    ),
    "keep_runs": Option(
        partial(_whole, least=0), "a whole number from 0 up", "N",
        "runs that the folder may hold; the oldest are deleted (0: none)",
    ),
    "spool": Option(
        partial(_level, levels=SPOOL), "auto, on or off", "WHEN",
        "record into a local folder first, and move the files to the log folder: auto, on or off",
    ),
    "sources": Option(
        partial(_level, levels=SOURCES), "full, lines or off", "LEVEL",
        "what to record of the script's text: full, lines or off",
    ),
    "values": Option(
        partial(_level, levels=VALUES), "on, all or off", "LEVEL",
        "what to record of variables when a rank stalls or fails: on, all or off",
    ),
    "omit": Option(
        partial(_words, words=OMITTABLE), f"a list of {', '.join(OMITTABLE)}", "PART[,PART]",
        f"what to leave out of the record: {', '.join(OMITTABLE)}",
    ),
    "shared": Option(_truth, "0 or 1", "", "let others read the record, as far as umask allows"),
    "announce": Option(_truth, "0 or 1", "", "print where it records, on standard error"),
    "native": Option(_truth, "0 or 1", "", "record by code in C, if it was built"),
    "report": Option(
        _truth, "0 or 1", "",
        "print what is wrong when ranks hang or fail, if one folder holds the files of all",
    ),
    "online": Option(_truth, "0 or 1", "", "compare the ranks while they run, through their store"),
    "on_divergence": Option(
        partial(_word, words=ON_DIVERGENCE), "report, raise or exit", "WORD",
        "with --online, once an error is proven: report, raise or exit",
    ),
}  # fmt: skip
"""Each field of :class:`Config`, and how to give it."""
