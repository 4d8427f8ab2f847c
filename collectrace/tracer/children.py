"""Processes that a traced one starts: traced too, whichever way they are started.

A forked child has everything its parent had. A spawned one starts from nothing and imports the
main module, where ``enable()`` may stand under ``if __name__ == "__main__"``. So the setting
travels with what multiprocessing sends to prepare a child, as an object that switches tracing on
when it is unpickled (the way coverage.py carries its own).
"""

from __future__ import annotations

import multiprocessing.process
import multiprocessing.spawn
import sys
from typing import Any

import wrapt

from collectrace.config import Config
from collectrace.tracer.wire import Undo

_KEY = "collectrace"


class Carried:
    """The parent's options; unpickled in a child it waits for the child's work to begin."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def __getstate__(self) -> dict[str, str]:
        return self.config.to_environment()

    def __setstate__(self, environment: dict[str, str]) -> None:
        _enable_when_running(environment)


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


def _enable_when_running(environment: dict[str, str]) -> None:
    # Not yet: the main module is imported after this, and may call enable() with options of its
    # own. When the process runs it is known whether it uses torch at all.
    process = multiprocessing.process.BaseProcess
    bootstrap = process._bootstrap  # type: ignore[attr-defined]

    def traced_bootstrap(self: Any, *args: Any, **kwargs: Any) -> Any:
        process._bootstrap = bootstrap  # type: ignore[attr-defined]
        if "torch" in sys.modules:
            _enable(environment)
        else:
            wrapt.register_post_import_hook(lambda _: _enable(environment), "torch")
        return bootstrap(self, *args, **kwargs)

    process._bootstrap = traced_bootstrap  # type: ignore[attr-defined]


def _enable(environment: dict[str, str]) -> None:
    import os

    import collectrace

    for name, value in environment.items():
        os.environ.setdefault(name, value)
    collectrace.enable()
