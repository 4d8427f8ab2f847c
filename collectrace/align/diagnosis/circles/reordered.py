"""A rank that exchanged messages in another order than each time before: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.reordered import Reordered


def reason(case: Case, found: Reordered, waits: str) -> Reason:
    """What came first this time. ``waits``: who waits for whom, a sentence."""
    left, others = found.left, words.ranks(found.others)
    made, due = (
        f"{named(case, left.rank, call, brief=True)} ({words.peer(call)})"
        for call in (left.made, left.usual)
    )
    return Reason(
        f"{waits} In each of the {left.rounds:,} exchanges of messages before, rank {left.rank} "
        f"had come to {due} where it came to {made} this time, which used to follow later; "
        f"{others} kept the order of the exchanges before.",
        f"Let rank {left.rank} go through its peers in one order every time, whatever was added, "
        f"replaced or sorted anew in between: {closed(due)} before {closed(made)}. Where the new "
        "order is meant, every rank must change to it in the same exchange.\n"
        "Or start all messages of an exchange together, with batch_isend_irecv([P2POp(isend, ...), "
        "P2POp(irecv, ...)]): then their order does not matter.",
    )
