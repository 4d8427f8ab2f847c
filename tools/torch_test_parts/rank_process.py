"""The process of a rank in one of torch's tests, forked from one that has imported all of it.

The tests spawn their ranks, and each imports torch anew, which takes seconds. Here a rank is forked
from multiprocessing's fork server, which has imported torch, the test and the tracer, and traces
nothing. Tracing begins in the rank itself, as torch's import begins it under ``COLLECTRACE=1``.
"""

from __future__ import annotations

import os
from multiprocessing.context import ForkServerProcess
from typing import Final

import collectrace.tracer.switch  # noqa: F401 - so that no rank need import it
from collectrace.autoload import _enable

OUTPUT: Final = "TORCH_TESTS_OUTPUT"
"""The file that a test's processes print to."""


def begin() -> None:
    """Print to the test's own file, and trace if the environment asks for it."""
    output = os.open(os.environ[OUTPUT], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    _enable()


class RankProcess(ForkServerProcess):
    """A process that has the environment that its parent had at its start, and is traced by it."""

    def start(self) -> None:
        self._environment = dict(os.environ)
        self._group = os.getpgid(0)
        super().start()

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self._environment)
        os.setpgid(0, self._group)  # whoever ends the test ends its ranks
        begin()
        super().run()
