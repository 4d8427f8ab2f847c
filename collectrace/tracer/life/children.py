"""Has the processes that a traced one spawns traced too.

A forked child has everything its parent had. A spawned one starts from nothing and imports the
main module, where ``enable()`` may stand under ``if __name__ == "__main__"``. So the options
travel in what multiprocessing sends to prepare a child (multiprocessing/spawn.py, Python 3.11), as
an object that has tracing switched on when it is unpickled. coverage.py does likewise.
"""

from __future__ import annotations

import multiprocessing.spawn
import pkgutil
from typing import Any, Final

from collectrace.config import Config
from collectrace.tracer.tap.wire import Undo

_KEY: Final = "collectrace"

# As text, never imported here: the child runs it before it can import anything of this package.
_CHILD: Final = (pkgutil.get_data(__package__, "child.py") or b"").decode()


class ChildSetup:
    """The parent's options. Unpickled in a child, it has tracing switched on there.

    That needs nothing of this package, which the child may not be able to import yet, or at all.
    """

    def __init__(self, config: Config) -> None:
        self._environment = config.to_environment()

    def __reduce__(self) -> Any:
        start = f"enable_when_running({self._environment!r})"
        return exec, (f"{_CHILD}\n{start}\n", {"__name__": f"{__package__}.child"})


def install(config: Config) -> Undo:
    """Send these options to every child that multiprocessing spawns from now on."""
    original = multiprocessing.spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        return original(name) | {_KEY: ChildSetup(config)}

    multiprocessing.spawn.get_preparation_data = get_preparation_data

    def undo() -> None:
        if multiprocessing.spawn.get_preparation_data is get_preparation_data:
            multiprocessing.spawn.get_preparation_data = original

    return undo
