"""Run the aligner in a separate process beside the job, with a time limit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from collectrace import file_modes

LIMIT: Final = 60.0
"""Seconds that the process may run."""

_TO_DIE: Final = 5.0
"""Seconds to wait for the end of a killed process: it may hang in a file system."""

_START: Final = (
    "import sys; sys.path[0] = sys.argv.pop(1); "
    "from collectrace.commands import {} as d; d.main(sys.argv[1:])"
)
"""``-m`` is not used, as it imports from the program's working directory."""


class AlignerProcess:
    """A process that runs ``main`` of a module of ``collectrace.commands``.

    It shares the standard error of this process, and survives its end.

    Raises:
        OSError: the process cannot be started.

    """

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        package = str(Path(__file__).parents[3])
        environment = {k: v for k, v in os.environ.items() if not k.startswith("COLLECTRACE")}
        environment |= file_modes.environment()
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START.format(module), package, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            env=environment,
        )  # fmt: skip

    def is_over(self) -> bool:
        """Return whether the process has ended; kill it if it exceeds its time."""
        if self._process.poll() is not None:
            return True
        lasts = time.monotonic() - self._began
        if lasts > LIMIT:
            self._process.kill()
        return lasts > LIMIT + _TO_DIE
