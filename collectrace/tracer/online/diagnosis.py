"""The aligner, in a process of its own, for the one rank that has opened a turn."""

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
"""Bytes of a report that listeners are told."""


class Diagnosis(AlignerProcess):
    """A diagnosis that is on.

    The process does the telling: on the standard error that both have, but for what has been
    ``told`` already (:func:`exchange.headline_hash`), and, through the store, to all ranks.

    Raises:
        OSError: no process can be started.

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
        """The findings as ``--json`` gives them; None: it has left none."""
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if self._report.stat().st_size <= _LARGEST_REPORT:
                found = json.loads(self._report.read_bytes())
                return found if isinstance(found, dict) else None
        return None
