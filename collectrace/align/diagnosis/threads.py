"""Several threads that issue calls on one group: in words."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.threads import sharing
from collectrace.align.matching.comparison import Divergence
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
    source = candidate.source
    if candidate.cause is not None or reason.because == "threads":
        return reason
    by_thread: dict[str | None, list[int]] = {}
    for rank, call in sorted(source.calls.items()) if isinstance(source, Divergence) else ():
        if call is not None:
            if not is_user(call):
                return reason
            by_thread.setdefault(call.thread, []).append(rank)
    if len(by_thread) < 2:
        return reason
    told = words.listed(
        [
            f"that of {words.ranks(ranks)} in {'thread ' + name if name else 'the main thread'}"
            for name, ranks in by_thread.items()
        ]
    )
    fix = A_GROUP_EACH.format(who="the thread", start="it starts", calls="issue all calls of both")
    return reason._replace(
        cause=f"{reason.cause} The calls are of several threads, {told}, on one group: where "
        "neither thread waits for the other, nothing orders them.",
        fix=f"{reason.fix}\nIf nothing orders the threads: {words.lower(fix)}",
    )
