"""Processes that a traced one starts: traced too, whichever way they are started.

A forked child has everything its parent had. A spawned one starts from nothing and imports the
main module, where ``enable()`` may stand under ``if __name__ == "__main__"``. So the setting
travels with what multiprocessing sends to prepare a child, as an object that switches tracing on
when it is unpickled (the way coverage.py carries its own).
"""

from __future__ import annotations

import inspect
import multiprocessing.spawn
from typing import Any, Final

from collectrace.config import Config
from collectrace.tracer import child
from collectrace.tracer.wire import Undo

_KEY: Final = "collectrace"


class Carried:
    """The parent's options; unpickled in a child it waits for the child's work to begin.

    It unpickles without this package, which the child may not be able to import yet, or at all.
    """

    def __init__(self, config: Config) -> None:
        self._environment = config.to_environment()

    def __reduce__(self) -> Any:
        start = f"enable_when_running({self._environment!r})"
        return exec, (f"{inspect.getsource(child)}\n{start}\n", {"__name__": child.__name__})


def install() -> Undo:
    """Send the setting along with every child that multiprocessing prepares."""
    original = multiprocessing.spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data = original(name)
        from collectrace.tracer.session import current

        session = current()
        if session is not None:
            data[_KEY] = Carried(session.config)
        return data

    multiprocessing.spawn.get_preparation_data = get_preparation_data

    def undo() -> None:
        if multiprocessing.spawn.get_preparation_data is get_preparation_data:
            multiprocessing.spawn.get_preparation_data = original

    return undo
