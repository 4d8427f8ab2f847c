"""What a spawned child runs first: its parent sends it this file as text, see ``children``.

It runs before the child has its parent's ``sys.path``, so it imports nothing beyond the standard
library until the child's own work begins.
"""

from __future__ import annotations

import logging
import multiprocessing.process
import os
import sys
from typing import Any


def enable_when_running(environment: dict[str, str]) -> None:
    """Switch tracing on later: when this process begins its work, and as soon as it has torch.

    ``environment`` holds the parent's options as variables; those that the child has set itself
    stay. Not at once, since the main module is imported after this, and may call ``enable()``
    with options of its own.
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
