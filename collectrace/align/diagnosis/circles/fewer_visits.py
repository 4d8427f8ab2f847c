"""One rank that came to a line of messages less often in a round than its like: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import decided, tally, ways_past
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.loop_lines import loop_of_one
from collectrace.align.diagnosis.standpoint import of_call
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.fewer_visits import FewerVisits


def reason(case: Case, found: FewerVisits, waits: str) -> Reason:
    """How often each of a kind came to the line.

    ``waits``: who waits for whom, a sentence.
    """
    rank, likes = found.rank, words.ranks(found.likes)
    all_ = words.ranks(sorted((*found.likes, rank)))
    line, behind = (named(case, rank, c, brief=True) for c in (found.call, found.behind))
    rounds = "the round" if found.rounds == 1 else f"each of the {found.rounds:,} rounds"
    led, counted = _led(case, found), tally.of_channel(case, found.channel)
    came, others = f"did not come to {closed(line)}", "did"
    if found.made:
        often = f"only {words.counted(found.made, 'time')}"
        came, others = f"came to {line}, {often}", "came to it more often"
    return Reason(
        f"Rank {rank} {came} in this round, and went on to {behind}; {likes} {others}. "
        f"In {rounds} before, {all_} came to it equally often."
        f"{led.cause} So they wait for each other: {words.lower(waits)}"
        + (f" {counted}" if counted else ""),
        _of_one(found, all_) if found.waiter not in found.likes else led.fix or _of_loop(all_),
    )


def _led(case: Case, found: FewerVisits) -> Reason:
    """What may have led the rank past the line: a sentence after a space, and what to do of it."""
    rank = found.rank
    ways = ways_past.few(case, case.stack(rank, found.call))
    if ways := [way for way in ways if way.origin.asks != "rank"]:  # it came there before
        told = ways_past.led(ways, f"rank {rank}")
        return Reason(told, ways_past.fix(ways, found.call.op))
    inside, gone = (of_call(case, rank, call) for call in (found.call, found.behind))
    if not found.made:
        return decided.own(case, inside, gone)
    loop = loop_of_one(case, inside, gone)
    if loop is None:
        return Reason("", "")
    name = words.name(found.call)
    return Reason(f" The {name} stands in {loop.quoted}, which ended earlier on rank {rank}.", "")


def _of_loop(all_: str) -> str:
    return (
        f"Let {all_} make as many of these exchanges in every round: end their loop by what is the "
        "same on all of them, as a fixed number of turns, or one flag that all combine."
    )


def _of_one(found: FewerVisits, all_: str) -> str:
    op = found.call.op
    asks = "asks for" if op == "send" else "sends"
    return (
        f"Let {all_} call this {op} equally often in every round, with zeros or an empty tensor "
        f"where there is nothing; or let rank {found.waiter} know first how many messages there "
        f"are with each, so that it {asks} no more."
    )
