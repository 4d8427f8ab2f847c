"""A thread that stops where a test wants to look at it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from collectrace.tracer.values import stack
from collectrace.tracer.values.stack import FoundStack

PATIENCE = 60.0


class Pause:
    """Called in the thread: waits until the test goes on."""

    def __init__(self) -> None:
        self._reached, self._go_on = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self._reached.set()
        assert self._go_on.wait(PATIENCE)

    def is_reached(self) -> bool:
        return self._reached.wait(PATIENCE)

    def go_on(self) -> None:
        self._go_on.set()


class Stopped:
    """A thread that stands in a pause, and what its function has returned in the end."""

    def __init__(self, function: Callable[[Pause], Any]) -> None:
        self._pause = Pause()
        self._results: list[Any] = []
        self._thread = threading.Thread(
            target=lambda: self._results.append(function(self._pause)), daemon=True
        )
        self._thread.start()
        assert self._pause.is_reached()

    def stack(self) -> FoundStack:
        """Its frames, as they are found while it stands."""
        frames = sys._current_frames()
        assert self._thread.ident is not None
        innermost = [frames.pop(self._thread.ident)]
        frames.clear()
        return stack.of_thread(innermost.pop(), {})

    def result(self) -> Any:
        """Let it go on, and return what its function returns."""
        self._pause.go_on()
        self._thread.join(PATIENCE)
        (result,) = self._results
        return result


@contextmanager
def stopped(function: Callable[[Pause], Any]) -> Iterator[Stopped]:
    """A thread that has called ``function``, which pauses; it goes on at the end."""
    thread = Stopped(function)
    try:
        yield thread
    finally:
        thread._pause.go_on()
        thread._thread.join(PATIENCE)
