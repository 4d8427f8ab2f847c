"""The file of ``align --follow --prometheus``, rewritten at each look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from collectrace.commands import output
from collectrace.errors import CollectraceError

if TYPE_CHECKING:
    from collectrace.findings import Alignment
    from collectrace.views import StreamPosition


class Metrics:
    """Writes metrics to a file; to none if ``name`` is None.

    The first failure is printed, and the others are ignored: a full disk must not end the live
    view. ``output`` renames the file into place when it is whole, so that no scrape reads half of
    it.
    """

    def __init__(self, name: str | None, stderr: TextIO) -> None:
        self._name, self._stderr = name, stderr
        self._has_failed = False

    def write(self, alignment: Alignment | None, positions: Sequence[StreamPosition]) -> None:
        """Write the current metrics; None: there is nothing to read yet, and the file is kept."""
        if self._name is None or alignment is None:
            return
        from collectrace.report import prometheus

        try:
            output.write_to(
                self._name, self._stderr, lambda out: prometheus.write(alignment, positions, out)
            )
        except CollectraceError as problem:
            if not self._has_failed:
                output.complain(self._stderr, f"--prometheus: {problem}")
            self._has_failed = True
