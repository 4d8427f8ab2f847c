"""The words of a finding: headline, reasons, fixes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """What a report says of a cause."""

    headline: str
    """One sentence of at most 100 characters, without a full stop. Its subject is the suspect;
    without a suspect it says "disagree"."""

    why: tuple[str, ...]
    """At most three sentences."""

    fixes: tuple[str, ...] = ()
    """The best first, then at most two alternatives. Each is a sentence or two that name the line
    to change."""

    notes: tuple[str, ...] = ()
    """Observations that only a detailed report shows."""

    undecided: bool = False
    """No statement decided: those that were found only led to lines that belong together."""
