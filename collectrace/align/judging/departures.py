"""How the calls of a rank depart from what they should have been, as one type of data.

Three references tell what they should have been: the calls of the other ranks, those of the
rank's own earlier iterations, and those of ranks of the same kind in other groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from collectrace.align.reading.evidence import ChannelKey, StreamKey
from collectrace.records import Call


class What(Enum):
    """How calls depart."""

    SKIPPED = "skipped"
    EXTRA = "extra"
    SWAPPED = "swapped"
    OTHER_CALL = "other call"
    OTHER_ARGUMENTS = "other arguments"
    FEWER_ITERATIONS = "fewer iterations"
    MORE_ITERATIONS = "more iterations"
    ENDED = "ended"


class Against(Enum):
    """What calls depart from."""

    OTHERS = "the other ranks"
    OWN = "its own earlier iterations"
    KIND = "ranks of the same kind in other groups"


@dataclass(frozen=True, slots=True)
class Departure:
    """Ranks that departed at one place, all in the same way."""

    what: What
    against: Against
    ranks: tuple[int, ...]
    """Who departed; sorted."""
    others: tuple[int, ...] = ()
    """Who did not; empty if a rank is compared with itself alone."""
    key: StreamKey | ChannelKey | None = None
    """The stream or channel concerned; None: several."""
    seq: int | None = None
    """The first row, or message, that is out of place in it."""
    calls: tuple[Call, ...] = ()
    """The calls concerned: those skipped, as others or the rank itself earlier made them; else
    those that the ranks made."""
    expected: tuple[Call, ...] = ()
    """What would have been made instead, if that is known."""
    stack: tuple[str, ...] = ()
    """The user's frames where it happened, innermost first."""
    iteration: int | None = None
    """The rank's iteration in which it happened, from 1."""
    alike: int = 0
    """Iterations before, in which it did not."""
