"""Keep failures of the tracer out of the user's calls: each call is made exactly once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import walk_tb
from types import CodeType
from typing import Any

from collectrace.tracer.user_objects import is_a, traceback_of

Wrapper = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]
"""A wrapper with wrapt's signature: the function, the instance it is bound to or None, and the
arguments of the call. It returns the result of the call."""

Failed = Callable[[Exception, str], None]
"""Counts a failure of the tracer. The text names what it was doing, as in "recording a batch"."""


class _Original:
    """A function that remembers whether it was called, and its result or exception."""

    __slots__ = ("__wrapped__", "error", "result", "was_called")

    def __init__(self, function: Any) -> None:
        self.__wrapped__ = function
        self.was_called = False
        self.result: Any = None
        self.error: BaseException | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.was_called = True
        try:
            self.result = self.__wrapped__(*args, **kwargs)
        except BaseException as problem:
            self.error = problem
            raise
        return self.result


def is_users(problem: BaseException) -> bool:
    """Return whether a signal handler of the program raised it while the tracer's code ran."""
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    return any(frame.f_code in handlers for frame, _ in walk_tb(traceback_of(problem)))


def _code(handler: Any) -> CodeType | None:
    try:
        handler = getattr(handler, "func", handler)  # a partial
        if callable(handler) and not hasattr(handler, "__code__"):
            handler = type(handler).__call__
        code = getattr(handler, "__code__", None)
    except Exception:
        return None  # any attribute of the program's object may raise
    return code if type(code) is CodeType else None


def guarded(handler: Wrapper, name: str, failed: Failed) -> Wrapper:
    """Return a wrapper like ``handler`` that passes failures of ``handler`` to ``failed``.

    After a failure, the caller gets what the wrapped function has returned or raised. If it was
    not called yet, it is called then. ``name`` is its name.
    """

    def guard(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        original: _Original | None = None
        try:
            original = _Original(wrapped)
            return handler(original, instance, args, kwargs)
        except BaseException as problem:
            is_its_own = original is not None and problem is original.error
            if is_its_own or not is_a(problem, Exception) or is_users(problem):
                if original is not None:
                    # The exception holds this frame, and so must not be held by it.
                    original.error = None
                raise
            failed(problem, f"following {name}")
        if original is None:
            return wrapped(*args, **kwargs)
        if original.error is not None:
            try:
                raise original.error
            finally:
                original.error = None
        return original.result if original.was_called else wrapped(*args, **kwargs)

    return guard


@contextmanager
def contained(failed: Failed, doing: str) -> Iterator[None]:
    """Suppress exceptions within this context, and pass them to ``failed`` with ``doing``."""
    try:
        yield
    except Exception as problem:
        failed(problem, doing)
