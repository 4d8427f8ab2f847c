"""Run the aligner in a separate process, for the rank that has opened a turn."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from collectrace import exchange
from collectrace.exchange import Announced
from collectrace.tracer.life.aligner_process import AlignerProcess

_LARGEST_REPORT: Final = 16 << 20
"""Bytes of a report that listeners receive."""


class Diagnosis(AlignerProcess):
    """A diagnosis in progress.

    Its process prints the findings on the shared standard error, except those in ``told`` (hashes,
    see :func:`exchange.headline_hash`). It sends the verdict to all ranks through the store.

    Raises:
        OSError: the process cannot be started.

    """

    def __init__(
        self, host: str, port: int, announced: Announced, turn: int, folder: Path,
        told: Sequence[str],
    ) -> None:  # fmt: skip
        self.turn = turn
        self._report = folder / f"verdict.{turn:04d}.json"
        super().__init__(
            "diagnose_online",
            [host, str(port), exchange.encode(announced).decode(), str(turn), str(folder),
             json.dumps(list(told))],
        )  # fmt: skip

    def report(self) -> dict[str, Any] | None:
        """Return the findings as ``--json`` writes them; None: there is no valid report."""
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if self._report.stat().st_size <= _LARGEST_REPORT:
                found = json.loads(self._report.read_bytes())
                return found if isinstance(found, dict) else None
        return None
