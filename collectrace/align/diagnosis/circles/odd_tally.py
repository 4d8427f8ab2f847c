"""One rank that alone made a message more, or less, in a round than its like: in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import decided, tally, ways_past
from collectrace.align.diagnosis.callers import at_depth, closed, named, telling_depth
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.diagnosis.ways_past import WayPast
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.odd_tally import How, OddTally
from collectrace.align.reading.evidence import ChannelKey


def reason(case: Case, found: OddTally, waits: str) -> Reason:
    """What each of a kind exchanged in the round.

    ``waits``: who waits for whom, a sentence.
    """
    return _TOLD[found.how](case, found, waits)


def _came_alone(case: Case, found: OddTally, waits: str) -> Reason:
    """One exchange more, from a line of its own."""
    rank, both = found.rank, (found.call, found.usual)
    stacks = [case.stack(rank, call) for call in both]
    depth = telling_depth(stacks)
    calls = [at_depth(call, stack, depth) for call, stack in zip(both, stacks, strict=True)]
    new, usual = (named(case, rank, call, brief=True) for call in calls)
    points = (Standpoint((rank,), call, stack) for call, stack in zip(calls, stacks, strict=True))
    under = decided.own(case, *points)
    met = (
        ". It met the messages that were meant for the next one: so "
        f"rank {rank} waits for one more in {usual}"
        if found.how == "met"
        else f", and waits there for rank {found.peer}, which makes none"
    )
    alike = f"Make the exchange of {closed(new)} on every rank in the same step, or on none."
    return Reason(
        f"{waits} {_before(found)} In this one {words.ranks(found.likes)} did so and came to "
        f"{_row(case, found)}. Rank {rank} alone made one exchange more, from {closed(new)} to "
        f"which no rank had ever come{met}.{under.cause}{_counted(case, found)}",
        f"{under.fix}\n{alike}" if under.fix else alike,
    )


def _asked_alone(case: Case, found: OddTally, waits: str) -> Reason:
    """A message that all of its like did without in this round."""
    rank, peer = found.rank, found.peer
    call, ways = named(case, rank, found.call, brief=True), _ways(case, found)
    led = ways_past.led(ways, "the others")
    also = f", as rank {peer} did" if peer not in found.likes else ""
    sends, takes = (peer, rank) if found.call.op == "recv" else (rank, peer)
    return Reason(
        f"{waits} {_before(found)} In this one rank {rank} alone called {closed(call)} while "
        f"{words.ranks(found.likes)} went past that, and came to {_row(case, found)}"
        f"{also}.{led}{_counted(case, found)}",
        "Whether there is such a message in a round must be decided alike at both ends: let every "
        f"rank tell first what it finds (an all_gather or all_reduce of the flag), and let rank "
        f"{sends} send, and rank {takes} receive, by that.",
    )


def _left_out(case: Case, found: OddTally, waits: str) -> Reason:
    """A message that all of its like made in this round, too."""
    rank, ways = found.rank, _ways(case, found)
    usual = named(case, rank, found.call, brief=True)
    led = ways_past.led(ways, f"rank {rank}")
    take_part = (
        f"Let rank {rank} take part in {closed(usual)} in every round, with zeros or an empty "
        "tensor where it has nothing of its own; or let all ranks agree first to leave it out."
    )
    return Reason(
        f"{waits} {_before(found)} In this one {words.ranks(found.likes)} did so, for no more "
        f"messages than before. Rank {rank} alone left out {closed(usual)} and came to "
        f"{_row(case, found)}.{led}{_counted(case, found)}",
        f"{ways_past.fix(ways, found.call.op)}\n{take_part}" if ways else take_part,
    )


def _before(found: OddTally) -> str:
    """What those alike did in each round before, a sentence."""
    who = words.ranks(sorted((*found.likes, found.rank)))
    return (
        f"In each of the {found.rounds} rounds before with messages of {who} all of them made "
        "theirs from the same lines."
    )


def _row(case: Case, found: OddTally) -> str:
    """The collective in which all others are."""
    return named(case, found.peer, found.row, brief=True)


def _ways(case: Case, found: OddTally) -> list[WayPast]:
    """The ways past the call of which it is told; nothing where there are too many."""
    return ways_past.few(case, case.stack(found.rank, found.call))


def _counted(case: Case, found: OddTally) -> str:
    """The messages of the channel in which one waits: a sentence after a space, or nothing."""
    call = found.waiting
    ends = found.peer, found.waiter
    source, destination = ends if call.op == "recv" else ends[::-1]
    told = tally.of_channel(
        case, ChannelKey(call.group, call.device, source, destination, call.tag or 0)
    )
    return f" {told}" if told else ""


_TOLD: Final[Mapping[How, Callable[[Case, OddTally, str], Reason]]] = {
    "left out": _left_out,
    "again": _asked_alone,
    "new": _came_alone,
    "met": _came_alone,
}
