"""Several threads make calls on one group, and nothing orders them.

What it means
    Every rank must make the calls of a group in the same order. If two threads make them, the order
    depends on which thread is faster, separately on each rank.

Example
    ::

        threading.Thread(target=heartbeat).start()  # calls broadcast
        dist.all_reduce(loss)                       # the main thread, same group

Not to be confused with
    CT102, if only some ranks have the thread at all.

How to fix it
    Give each thread its own process group, or make all calls from one thread.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace import words as text
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.threads import sharing_threads
from collectrace.align.matching.comparison import Divergence
from collectrace.dumps import MAIN
from collectrace.signature import is_user


class Shared(NamedTuple):
    """Threads that make calls on one group."""

    threads: tuple[str, ...]
    calls: tuple[str, ...]
    """Each with the ranks that made it, in words."""


def find(situation: Situation) -> Shared | None:
    """Return the threads that made the calls of the sides, if nothing orders them."""
    made = situation.called
    calls = tuple(f"{text.ranks(side.ranks)} called {phrases.call(call)}" for side, call in made)
    found = sharing_threads(situation.case, situation.candidate)
    if found:
        return Shared(found, calls)
    threads = tuple(dict.fromkeys(call.thread or MAIN for _, call in made))
    is_row = isinstance(situation.candidate.source, Divergence)
    if not is_row or len(threads) < 2 or not all(is_user(call) for _, call in made):
        return None
    # A statement that certainly decided is more specific: it may start the thread on some ranks.
    is_known = any(one.is_certain for one in situation.decisions)
    return None if is_known else Shared(threads, calls)


def words(situation: Situation, found: Shared) -> Words:
    """Return the words for threads that share a group."""
    group = text.group(situation.candidate.group) if situation.candidate.group else "one group"
    threads = text.listed([name if name != MAIN else "the main thread" for name in found.threads])
    who = text.ranks(situation.suspects) if situation.suspects else "the ranks"
    met = " and ".join(found.calls[:2])
    return Words(
        phrases.fitting(
            f"{who} made the calls of two threads in another order: they share {group}",
            f"two threads share {group}, and the ranks made their calls in different orders",
        ),
        (
            f"{text.upper(group)} is shared: {threads} make calls on it.",
            "Nothing orders threads, so their calls come in one order on some ranks and in another "
            "on others.",
            f"Here {met}.",
        ),
        (
            "Give the thread a process group of its own: call torch.distributed.new_group() on "
            "every rank, before the thread starts.",
            f"Or make all calls on {group} from one thread, in the same order on every rank.",
        ),
    )
