"""The words of a finding: headline, reasons, fixes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """The report of a cause."""

    headline: str
    """One sentence of at most 100 characters, without a full stop. Its subject is the suspect;
    without a suspect it says "disagree"."""

    why: tuple[str, ...]
    """At most three sentences."""

    fixes: tuple[str, ...] = ()
    """The best first, then at most two alternatives. Each is one or two sentences that name the
    line to change."""

    notes: tuple[str, ...] = ()
    """Observations that only a detailed report shows."""

    undecided: bool = False
    """The statements found only led to lines whose calls match by design, so none decided."""
