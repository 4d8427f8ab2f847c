"""Wrappers of functions that give work to other threads, to remember the user's line.

For example, a checkpoint that is saved in the background issues its collectives from a thread with
no line of the user on its stack.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from collectrace.tracer.guard import Wrapper
from collectrace.tracer.record import scopes, sites
from collectrace.tracer.record.scopes import local
from collectrace.tracer.record.sites import Place
from collectrace.tracer.session import Session


class _Submitted:
    """A function for an executor, with the place that submitted it. Pickles as the function."""

    __slots__ = ("_function", "_place")

    def __init__(self, function: Callable[..., Any], place: Place) -> None:
        self._function = function
        self._place = place

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        mine = local.state
        outer, mine.given_at = mine.given_at, self._place
        try:
            return self._function(*args, **kwargs)
        finally:
            mine.given_at = outer

    def __reduce__(self) -> Any:
        return itemgetter(0), ((self._function,),)


def submit(session: Session) -> Wrapper:
    """Wrap ``ThreadPoolExecutor.submit``, which ``map`` uses, too."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        if session.recorder is None or not args or not callable(args[0]):
            return wrapped(*args, **kwargs)
        place = sites.find(sys._getframe(), local.state)
        return wrapped(_Submitted(args[0], place), *args[1:], **kwargs)

    return wrapper


def start(session: Session) -> Wrapper:
    """Wrap ``Thread.start``: remember the line that starts the thread."""

    def wrapper(wrapped: Any, thread: Any, args: Any, kwargs: Any) -> Any:
        if session.recorder is not None:
            scopes.started_at[thread] = sites.find(sys._getframe(), local.state)
        return wrapped(*args, **kwargs)

    return wrapper
