"""Get texts of the program's objects safely.

A ``__str__`` or a property may raise, recurse, exit, or return anything. The functions here never
raise, except for exceptions of signal handlers.
"""

from __future__ import annotations

import opcode
import threading
from collections.abc import Callable
from types import WrapperDescriptorType
from typing import Any, Final

from collectrace.exceptions import both_ends
from collectrace.tracer.guard import is_users
from collectrace.tracer.user_objects import (
    arguments_of,
    class_attribute,
    is_a,
    traceback_of,
    type_name,
)

LONGEST: Final = 2000
"""Characters of a text."""

LONGEST_NAME: Final = 1000
"""Characters of a name."""

_RAISE: Final = opcode.opmap["RAISE_VARARGS"]


def safe_text(thing: object, limit: int = LONGEST) -> str:
    """Return the text of an object, cut in its middle; its type's name if it has none."""
    text = _ask(lambda: str(thing))
    # A subclass of str may override methods; a copy is a plain str.
    if text is None or not is_a(text, str):
        return f"<{type_name(thing)} without a text>"
    return both_ends(str.__getitem__(text, slice(None)), limit)


def safe_attribute(thing: object, name: str, default: object = None) -> Any:
    """Return an attribute of an object; ``default`` if it has none, or raises."""
    return _ask(lambda: getattr(thing, name), default)


def safe_name(name: object) -> str | None:
    """Return the text of a name, which may be any object; None for None."""
    return None if name is None else safe_text(name, LONGEST_NAME)


def thread_name(thread: threading.Thread) -> str:
    """Return the name of a thread."""
    return safe_name(safe_attribute(thread, "name")) or type_name(thread)


def plain_text(problem: BaseException, limit: int = LONGEST) -> str:
    """Return the text of an exception if Python's code makes it from plain values, or ``""``.

    The ``__str__`` of another class, or of a tensor, may wait for a lock or a device. The program
    itself might never call it.
    """
    is_pythons = type(class_attribute(problem, "__str__")) is WrapperDescriptorType
    values = arguments_of(problem)
    if is_pythons and all(any(type(value) is kind for kind in _PLAIN) for value in values):
        return safe_text(problem, limit)
    return ""


_PLAIN: Final = (str, bytes, int, float, bool, type(None))


class _Local(threading.local):
    asks = False


_local: Final = _Local()


def is_asking() -> bool:
    """Return whether the calling thread runs the program's code only to get a text for us."""
    return _local.asks


def _ask(question: Callable[[], Any], default: object = None) -> Any:
    """Call a function that runs the program's code; return ``default`` if it raises."""
    outer, _local.asks = _local.asks, True
    try:
        return question()
    except BaseException as problem:
        if _came_by_signal(problem):
            raise
        return default
    finally:
        _local.asks = outer


def _came_by_signal(problem: BaseException) -> bool:
    """Return whether a signal handler raised it while the object's code ran.

    Python's own handler of Ctrl-C leaves no frame; a ``raise`` in the object's code does.
    """
    if is_users(problem):
        return True
    at = traceback_of(problem)
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    is_raised = at is not None and at.tb_frame.f_code.co_code[at.tb_lasti] == _RAISE
    return is_a(problem, KeyboardInterrupt) and not is_raised
