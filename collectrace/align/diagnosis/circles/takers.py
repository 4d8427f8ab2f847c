"""Two ranks that disagree about who takes part in a round: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import decided
from collectrace.align.diagnosis.callers import named
from collectrace.align.diagnosis.standpoint import of_call
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.takers import Uneven


def reason(case: Case, found: Uneven, waits: str) -> Reason:
    """Who took part in this round, and in those before.

    ``waits``: who waits for whom, a sentence.
    """
    hub, waiter, end = found.hub, found.waiter, named(case, found.hub, found.row, brief=True)
    way, did = ("to", "sent") if found.call.op == "recv" else ("from", "received")
    who, one = words.ranks(found.peers), named(case, waiter, found.call, brief=True)
    points = (of_call(case, waiter, found.call), of_call(case, hub, found.row))
    under = decided.own(case, *points).cause
    now = (
        f"in this one too, {way} {who}, and all of them came to it. Rank {waiter} alone waits for "
        f"one more, in {one}."
        if found.rank == waiter
        else f"in this one only {len(found.peers)}{f', {way} {who}' if found.peers else ''}. Rank "
        f"{waiter} waits for another, in {one}."
    )
    first = (
        f"Let rank {hub} decide who takes part in a round and broadcast the list, and let every "
        "rank go by that one."
        if found.rank == waiter
        else f"Let rank {hub} go by the same list of ranks as all others do, in all that it does "
        "of a round: one rank decides who takes part, and broadcasts it."
    )
    return Reason(
        f"{waits} In each of the {found.rounds} rounds before rank {hub} {did} "
        f"{words.counted(found.usual, 'message')} {way} changing ranks before {end}; {now}{under}",
        f"{first}\n"
        "If each rank draws the list by itself: with the same seed, and from a generator of its "
        "own (random.Random, torch.Generator) from which nothing else draws. One draw more on one "
        "rank, and its lists are others from then on.",
    )
