"""Processes that a traced one starts: traced too, whichever way they are started.

A forked child has everything its parent had. A spawned one starts from nothing and imports the
main module, where ``enable()`` may stand under ``if __name__ == "__main__"``. So the setting
travels with what multiprocessing sends to prepare a child, as an object that switches tracing on
when it is unpickled (the way coverage.py carries its own).
"""

from __future__ import annotations

import multiprocessing.spawn
import pkgutil
from typing import Any, Final

from collectrace.config import Config
from collectrace.tracer.tap.wire import Undo

_KEY: Final = "collectrace"

# As text and never imported: it is the child that runs it, before it can import anything of ours.
_CHILD: Final = (pkgutil.get_data(__package__, "child.py") or b"").decode()


class ChildSetup:
    """The parent's options; unpickled in a child it waits for the child's work to begin.

    It unpickles without this package, which the child may not be able to import yet, or at all.
    """

    def __init__(self, config: Config) -> None:
        self._environment = config.to_environment()

    def __reduce__(self) -> Any:
        start = f"enable_when_running({self._environment!r})"
        return exec, (f"{_CHILD}\n{start}\n", {"__name__": f"{__package__}.child"})


def install(config: Config) -> Undo:
    """Send the setting along with every child that multiprocessing prepares; the undo stops it."""
    original = multiprocessing.spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        return original(name) | {_KEY: ChildSetup(config)}

    multiprocessing.spawn.get_preparation_data = get_preparation_data

    def undo() -> None:
        if multiprocessing.spawn.get_preparation_data is get_preparation_data:
            multiprocessing.spawn.get_preparation_data = original

    return undo
