"""Handle errors inside collectrace: limit what they cost, and report them.

A failed part of an answer costs that part: :class:`Faults` collects what failed. Any other error
inside a command is reported by the command line, in one line.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from collectrace.config import TRACEBACK
from collectrace.errors import CollectraceError
from collectrace.findings import Alignment, InternalError, Part
from collectrace.printable import clean

_PACKAGE: Final = Path(__file__).parent

_LACKS: Final[dict[Part, str]] = {
    "suspects": "a finding may lack its suspects",
    "explanation": "a finding lacks a part of its explanation",
    "decisions": "the statements that can have led to a finding are missing",
    "observations": "remarks beside the errors may be missing",
    "overview": "a part of the overview is missing",
    "earlier": "an earlier attempt could not be read",
}

_MOST: Final = 3
_LONGEST: Final = 300
"""Characters of an exception that are shown."""

_PLEASE: Final = "Please report this line as an issue of collectrace."

P = ParamSpec("P")
T = TypeVar("T")


class Faults:
    """Collects the internal errors that cost a part of one answer."""

    def __init__(self) -> None:
        self._found: dict[InternalError, None] = {}

    @property
    def found(self) -> tuple[InternalError, ...]:
        """Each error once, in the order in which they came."""
        return tuple(self._found)

    def attempt(
        self, part: Part, otherwise: T, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what ``work`` returns, or ``otherwise`` if it raises.

        Raises:
            CollectraceError: ``work`` raised it. It is no internal error: a person can mend it.

        """
        try:
            return work(*args, **kwargs)
        except CollectraceError:
            raise
        except Exception as problem:  # noqa: BLE001 - whatever fails, the rest of the answer holds
            keep(problem)
            fault = InternalError(part=part, error=type(problem).__name__, site=site(problem))
            self._found[fault] = None
            return otherwise


def sentence(fault: InternalError) -> str:
    """Return one line for people: what failed, what the answer lacks, and what to do."""
    lacks = f"{_LACKS[fault.part]}; the rest of the answer holds"
    if fault.error == MemoryError.__name__:
        return f"collectrace ran out of memory at {fault.site}: {lacks}."
    return f"Internal error in collectrace, {fault.error} at {fault.site}: {lacks}. {_PLEASE}"


def sentences(alignment: Alignment) -> list[str]:
    """Return a line for each internal error of an answer; of many, the first ones."""
    return [sentence(fault) for fault in (alignment.internal_errors or ())[:_MOST]]


def line(problem: BaseException) -> str:
    """Return one line for people about an error that ended a command."""
    where = site(problem)
    if isinstance(problem, MemoryError):
        return f"out of memory at {where}"
    what = type(problem).__name__
    with contextlib.suppress(Exception):  # an exception may fail to describe itself
        what += f": {problem}" if str(problem) else ""
    told = f"internal error, {clean(what[:_LONGEST])} at {where}. {_PLEASE}"
    return f"{told} {TRACEBACK}=FILE keeps a traceback."


def site(problem: BaseException) -> str:
    """Return ``collectrace/path.py:line`` of our innermost frame, or of any frame."""
    found = "an unknown place"
    is_ours = False
    for frame, number in traceback.walk_tb(problem.__traceback__):
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(_PACKAGE):
            found, is_ours = f"{file.relative_to(_PACKAGE.parent)}:{number}", True
        elif not is_ours:
            found = f"{file.name}:{number}"
    return found


@contextlib.contextmanager
def survived() -> Iterator[None]:
    """Suppress any error; for work beside which something else must go on."""
    try:
        yield
    except Exception as problem:  # noqa: BLE001 - that is what it is for
        keep(problem)


def keep(problem: BaseException) -> None:
    """Append the traceback to the file that ``COLLECTRACE_TRACEBACK`` names, if it names one."""
    name = os.environ.get(TRACEBACK)
    if not name:
        return
    with contextlib.suppress(Exception), Path(name).open("a", errors="backslashreplace") as out:
        traceback.print_exception(problem, file=out)
