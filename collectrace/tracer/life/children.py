"""Trace the processes that a traced process spawns.

A forked child inherits everything. A spawned one starts a new interpreter and imports the main
module, which may call ``enable()`` only under ``if __name__ == "__main__"``. So the options go into
the data that multiprocessing sends to prepare a child (multiprocessing/spawn.py, Python 3.11). They
are an object that enables tracing when it is unpickled. coverage.py does the same.
"""

from __future__ import annotations

import multiprocessing.spawn
import pkgutil
from typing import Any, Final

from collectrace.config import Config
from collectrace.tracer.tap.wire import Undo

_KEY: Final = "collectrace"

# The child runs this text before it can import anything of this package.
_CHILD: Final = (pkgutil.get_data(__package__, "child.py") or b"").decode()


class ChildSetup:
    """The parent's options, as an object that enables tracing when a child unpickles it.

    Unpickling imports nothing of this package: the child may not be able to do so yet, or at all.
    """

    def __init__(self, config: Config) -> None:
        self._environment = config.to_environment()

    def __reduce__(self) -> Any:
        start = f"enable_when_running({self._environment!r})"
        return exec, (f"{_CHILD}\n{start}\n", {"__name__": f"{__package__}.child"})


def install(config: Config) -> Undo:
    """Send these options to every child that multiprocessing spawns; return the undo."""
    original = multiprocessing.spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        return original(name) | {_KEY: ChildSetup(config)}

    multiprocessing.spawn.get_preparation_data = get_preparation_data

    def undo() -> None:
        if multiprocessing.spawn.get_preparation_data is get_preparation_data:
            multiprocessing.spawn.get_preparation_data = original

    return undo
