"""The code that a spawned child runs first. Its parent sends this file as text, see ``children``.

It runs before the child has its parent's ``sys.path``. So it imports only the standard library
until the child's work begins.
"""

from __future__ import annotations

import logging
import multiprocessing.process
import os
import sys
from typing import Any


def enable_when_running(environment: dict[str, str]) -> None:
    """Arrange that tracing is enabled when this process begins its work and has imported torch.

    ``environment`` holds the parent's options as variables; variables that the child has set
    already keep their values. Tracing is not enabled at once: the main module is imported later,
    and may call ``enable()`` with its own options.
    """
    process: Any = multiprocessing.process.BaseProcess
    bootstrap = process._bootstrap

    def traced_bootstrap(self: Any, *args: Any, **kwargs: Any) -> Any:
        process._bootstrap = bootstrap
        os.environ.update({n: v for n, v in environment.items() if n not in os.environ})
        _guarded(_enable_with_torch)
        return bootstrap(self, *args, **kwargs)

    process._bootstrap = traced_bootstrap


def _enable_with_torch() -> None:
    if "torch" in sys.modules:
        _enable()
    else:
        import wrapt

        wrapt.register_post_import_hook(lambda _: _guarded(_enable), "torch")


def _enable() -> None:
    import collectrace

    collectrace.enable()


def _guarded(act: Any) -> None:
    try:
        act()
    except Exception as problem:
        logging.getLogger("collectrace").warning("collectrace: child not traced: %s", problem)
