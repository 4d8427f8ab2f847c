"""Takes texts of objects of the program, whatever these do when asked for one.

A ``__str__`` may raise, recurse, exit, or return anything, and so may a property. Nothing here
raises, but for what a signal handler raises meanwhile.
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
    text = _asked(lambda: str(thing))
    # A subclass of str has methods of its own, a copy has not.
    if text is None or not is_a(text, str):
        return f"<{type_name(thing)} without a text>"
    return both_ends(str.__getitem__(text, slice(None)), limit)


def safe_attribute(thing: object, name: str, default: object = None) -> Any:
    """Return an attribute of an object; ``default`` if it has none, or raises."""
    return _asked(lambda: getattr(thing, name), default)


def safe_name(name: object) -> str | None:
    """Return the text of what names something, if there is a name."""
    return None if name is None else safe_text(name, LONGEST_NAME)


def thread_name(thread: threading.Thread) -> str:
    """Return the name of a thread."""
    return safe_name(safe_attribute(thread, "name")) or type_name(thread)


def plain_text(problem: BaseException, limit: int = LONGEST) -> str:
    """Return the text of an exception if Python's own classes make it of plain values, else none.

    What else has a ``__str__`` of its own, or holds a tensor, may wait for a lock or a device when
    it is asked for its text, which the program may never do.
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
    """Whether the program's code that the calling thread is in runs because we ask for a text."""
    return _local.asks


def _asked(question: Callable[[], Any], default: object = None) -> Any:
    """Return the answer to a question; ``default`` if the object raises."""
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
    """Whether a signal handler raised it, by chance while the object was asked.

    Python's own handler of Ctrl-C leaves no frame; a ``raise`` in the object's code does.
    """
    if is_users(problem):
        return True
    at = traceback_of(problem)
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    is_raised = at is not None and at.tb_frame.f_code.co_code[at.tb_lasti] == _RAISE
    return is_a(problem, KeyboardInterrupt) and not is_raised
