"""The words of a finding: headline, reasons, fixes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_MOST: Final = 3
"""Reasons, and fixes."""


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

    @classmethod
    def of(
        cls, headline: str, said: Iterable[str], fixes: Iterable[str], notes: Iterable[str] = ()
    ) -> Words:
        """Return words with the first sentences as reasons, and the rest as notes.

        Empty sentences are left out, and all fixes behind the third.
        """
        told = [one for one in said if one]
        return cls(headline, tuple(told[:_MOST]), tuple(fixes)[:_MOST], (*told[_MOST:], *notes))
