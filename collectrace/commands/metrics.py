"""The file of ``align --follow --prometheus``, written anew at each look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from collectrace.commands import output
from collectrace.errors import CollectraceError

if TYPE_CHECKING:
    from collectrace.findings import Alignment
    from collectrace.views import StreamPosition


class Metrics:
    """Writes metrics to a file, or nowhere where ``name`` is None.

    A look that cannot be written is told once and costs nothing else: who watches a job is not to
    lose it over a full disk. ``output`` gives the file its name when it is whole, so that no
    scrape reads half of it.
    """

    def __init__(self, name: str | None, stderr: TextIO) -> None:
        self._name, self._stderr = name, stderr
        self._has_failed = False

    def write(self, alignment: Alignment | None, positions: Sequence[StreamPosition]) -> None:
        """What is known now; None: there is nothing to read yet, and the file stays as it is."""
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
