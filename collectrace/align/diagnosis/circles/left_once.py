"""A message that a rank left out once, where it made it each time before and since: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis import ways_past
from collectrace.align.diagnosis.callers import at_its_line
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.left_once import LeftOnce
from collectrace.records import Call


def reason(case: Case, found: LeftOnce, waits: str) -> Reason:
    """Which one, and between what. ``waits``: who waits for whom, a sentence."""
    rank, waiter = found.rank, found.waiter
    due, before, behind = (_step(call) for call in (found.due, found.before, found.behind))
    place = at_its_line(case, rank, found.due)
    ways = ways_past.few(case, case.stack(rank, found.due))
    led = ways_past.led(ways, f"rank {rank}")
    empty = (
        "" if found.due.op == "recv" else ", with an empty message or zeros where it has nothing"
    )
    other = "send" if found.due.op == "recv" else "recv"
    fixes = (
        ways_past.fix(ways, found.due.op),
        (
            f"Let rank {rank} make the {found.due.op}{place} each time{empty}; or let rank "
            f"{waiter} leave out its {other} of the same step, which both must know."
        ),
    )
    return Reason(
        f"{waits} Rank {rank} made {due}{place} {found.times:,} times, each time behind {before}, "
        f"and went on to {behind}; once it went from the one to the other without it. Rank "
        f"{waiter} has made its {other} each time, which is one more. The messages look alike, so "
        f"each of those that came later was taken for the next one's, and the last {other} of "
        f"rank {waiter} has no other end.{led}",
        "\n".join(filter(None, fixes)),
    )


def _step(call: Call) -> str:
    """``its send to rank 3``, ``its send to rank 1 with tag 2``, ``its all_reduce``."""
    if call.peer is None:
        return f"its {call.op}"
    tag = f" with tag {call.tag}" if call.tag else ""
    return f"its {call.op} {words.peer(call)}{tag}"
