"""The aligner, in a process of its own, for the one rank that has opened a turn."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from collectrace import exchange
from collectrace.exchange import Announced

LIMIT: Final = 60.0
"""Seconds that a diagnosis may take."""

_TO_DIE: Final = 5.0
"""Seconds after which a killed process is waited for no longer: it may hang in a file system."""

_LARGEST_REPORT: Final = 16 << 20
"""Bytes of a report that listeners are told."""

_START: Final = (
    "import sys; sys.path[0] = sys.argv.pop(1); "
    "from collectrace.commands import diagnose_online as d; d.main(sys.argv[1:])"
)
"""Not ``-m``: the program's working directory may hold anything."""


class Diagnosis:
    """A diagnosis that is on. It imports no torch, and ends by itself.

    The process does not end with this one, and so it does the telling: on the standard error that
    both have, but for what has been ``told`` already (:func:`exchange.told`), and, through the
    store, to all ranks.

    Raises:
        OSError: no process can be started.

    """

    def __init__(
        self, host: str, port: int, announced: Announced, turn: int, folder: Path,
        told: Sequence[str],
    ) -> None:  # fmt: skip
        package = str(Path(__file__).parents[3])
        arguments = [
            host, str(port), exchange.encode(announced).decode(), str(turn), str(folder),
            json.dumps(list(told)),
        ]  # fmt: skip
        environment = {k: v for k, v in os.environ.items() if not k.startswith("COLLECTRACE")}
        self.turn = turn
        self._report = folder / f"verdict.{turn:04d}.json"
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, package, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,  # its standard error is ours
            env=environment,
        )  # fmt: skip

    def is_over(self) -> bool:
        """Whether it has ended; one that lasts too long is ended."""
        if self._process.poll() is not None:
            return True
        lasts = time.monotonic() - self._began
        if lasts > LIMIT:
            self._process.kill()
        return lasts > LIMIT + _TO_DIE

    def report(self) -> dict[str, Any] | None:
        """The findings as ``--json`` gives them; None: it has left none."""
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if self._report.stat().st_size <= _LARGEST_REPORT:
                found = json.loads(self._report.read_bytes())
                return found if isinstance(found, dict) else None
        return None
