"""Several threads that issue calls on one group: in words."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.diagnosis.wording import Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.threads import sharing
from collectrace.signature import is_user

A_GROUP_EACH: Final = (
    "Give {who} a process group of its own (torch.distributed.new_group() on every rank, before "
    "{start}), or {calls} from one thread."
)


def shared(case: Case, candidate: Candidate) -> Reason | None:
    """Several threads of each rank issue calls on the group, in whatever order they come."""
    found = sharing(case, candidate)
    if not found:
        return None
    group = words.group(candidate.group) if candidate.group is not None else "one group"
    return Reason(
        f"Threads {words.listed(found)} of each rank issue calls on {group}. Nothing "
        "orders threads, so the calls come in one order on some ranks and in another on others: no "
        "rank is to blame, the group is shared.",
        A_GROUP_EACH.format(
            who="every thread", start="the threads start", calls="issue all calls of the group"
        ),
        "threads",
    )


def added(candidate: Candidate, reason: Reason) -> Reason:
    """A reason with the threads that the calls of a row are of, where they are of several.

    Which rank is late with its thread, or with the others, nobody may have meant. The threads of
    frameworks, and of autograd, are not the user's to give a group.
    """
    sides = [] if candidate.cause is not None or reason.because == "threads" else called(candidate)
    threads = {call.thread for _, call in sides}
    if len(threads) < 2 or not all(is_user(call) for _, call in sides):
        return reason
    told = words.listed(
        [
            f"that of {words.ranks(side.ranks)} in "
            f"{'thread ' + call.thread if call.thread else 'the main thread'}"
            for side, call in sides
        ]
    )
    fix = A_GROUP_EACH.format(who="the thread", start="it starts", calls="issue all calls of both")
    return reason._replace(
        cause=f"{reason.cause} The calls are of several threads, {told}, on one group: where "
        "neither thread waits for the other, nothing orders them.",
        fix=f"{reason.fix}\nIf nothing orders the threads: {words.lower(fix)}",
    )
