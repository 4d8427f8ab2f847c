"""A rank that gave all others of a kind something in a round, and nothing to one: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import tally
from collectrace.align.diagnosis.callers import named
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.unserved import Unserved
from collectrace.align.reading.evidence import ChannelKey


def reason(case: Case, found: Unserved, waits: str) -> Reason:
    """What the rank gave each of them in this round, and in those before.

    ``waits``: who waits for whom, a sentence.
    """
    hub, waiter, end = found.hub, found.waiter, named(case, found.hub, found.row, brief=True)
    likes, all_ = words.ranks(found.likes), words.ranks(sorted((*found.likes, found.waiter)))
    call = named(case, waiter, found.call, brief=True)
    counted = tally.of_channel(case, _channel(found))
    return Reason(
        f"{waits} In each of the {found.rounds} rounds before rank {hub} sent each of {all_} a "
        f"message before {end}; in this one it sent some to {likes}, none to rank {waiter}, and "
        f"went on to that. Rank {waiter} has done in this round what {likes} began theirs with: "
        f"{call}. In the source nothing leads past that, and rank {hub} has taken all that rank "
        f"{waiter} sent it." + (f" {counted}" if counted else ""),
        f"Let rank {hub} send something to each of {all_} in every round: where it has nothing for "
        "one, a message that says so.\n"
        f"Or let all ranks know before the round whom rank {hub} has something for (one broadcast "
        "of the list), and only those receive.",
    )


def _channel(found: Unserved) -> ChannelKey:
    call = found.call
    return ChannelKey(call.group, call.device, found.hub, found.waiter, call.tag or 0)
