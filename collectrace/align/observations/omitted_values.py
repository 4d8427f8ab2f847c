"""Note values that were omitted from the record although a finding needed them."""

from __future__ import annotations

from collections.abc import Iterable

from collectrace.align.reading.evidence import RankLog
from collectrace.config import IN_VARIABLES
from collectrace.findings import Finding


def notes(logs: Iterable[RankLog], findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return a note on omitted values if an error has only possible decisions."""
    if not any(IN_VARIABLES in (log.header.omitted or ()) for log in logs):
        return ()
    for finding in findings:
        strengths = {one.strength for one in finding.decisions or ()}
        if finding.severity == "error" and strengths == {"possible"}:
            told = (
                "the values of variables were left out of the record (omit, redact): without them "
                "it is not known which of the possible decisions was made"
            )
            return (told,)
    return ()
