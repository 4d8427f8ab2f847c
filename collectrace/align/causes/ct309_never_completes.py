"""Every rank reached a call, all with the same arguments, and it never completes.

What it means
    The program is right so far. What fails lies below the collective: the network between the
    hosts, a driver, a device that hangs.

Example
    ::

        dist.all_reduce(loss)       # every rank waits here, and no rank ever returns

Not to be confused with
    CT305, if the process of a rank stopped inside the call. CT308, if a rank came too late.

How to fix it
    Look at the network, and run again with the backend's own log.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import lagging, phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.candidate import IncompleteRow


def find(situation: Situation) -> IncompleteRow | None:
    """Return the call that does not complete."""
    source = situation.candidate.source
    return source if isinstance(source, IncompleteRow) else None


def words(situation: Situation, found: IncompleteRow) -> Words:
    """Return the words for a call that every rank reached."""
    call, who = waited_for.call(situation), situation.suspects
    group = text.group(situation.candidate.group) if situation.candidate.group else "the group"
    stopped = f"{text.ranks(who)} stopped inside {call}" if who else ""
    return Words(
        phrases.fitting(stopped or f"every rank reached {call}, and it never completes", stopped),
        (
            f"All ranks of {group} made call {found.seq} alike.",
            f"{text.upper(text.ranks(who))} made no progress after that."
            if who
            else "None is known to have stopped, so the fault lies below the collective: the "
            "network, a driver, or a device that hangs.",
        ),
        (
            f"Look at the process of {text.ranks(who)}."
            if who
            else "Look at the network between the hosts, and run again with NCCL_DEBUG=INFO or "
            "TORCH_DISTRIBUTED_DEBUG=INFO.",
        ),
        lagging.notes(situation),
    )
