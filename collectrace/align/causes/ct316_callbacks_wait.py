"""Callbacks of gloo wait for calls that no thread of gloo is left to run.

What it means
    gloo has a few threads for all calls of a group (2 by default). If each of them runs a callback
    that waits for another call of the group, none is left to run that call.

Example
    ::

        work.get_future().then(lambda f: dist.all_reduce(f.value()))    # waits in the callback

Not to be confused with
    CT309, if no callback makes calls. CT307, if threads of the program make the calls.

How to fix it
    Let no callback wait: chain the second call to the future of the first.
"""

from __future__ import annotations

from typing import Final

from collectrace.align.causes import lagging, phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.candidate import IncompleteRow
from collectrace.records import NATIVE

_SEVERAL: Final = 2


def find(situation: Situation) -> IncompleteRow | None:
    """Return the call after which several threads of gloo made calls, on some rank."""
    source, case = situation.candidate.source, situation.case
    if not isinstance(source, IncompleteRow) or case.backend(source.stream) != "gloo":
        return None
    for rank in source.calls:
        log = case.log(rank)
        if log is None:
            continue
        later = log.calls(source.stream, source.seq + 1, log.last_seq[source.stream] + 1)
        threads = {c.thread for c in later if c is not None and c.thread}
        if sum(name.startswith(NATIVE) for name in threads) >= _SEVERAL:
            return source
    return None


def words(situation: Situation, found: IncompleteRow) -> Words:
    """Return the words for callbacks that wait for each other."""
    call = waited_for.call(situation)
    return Words(
        phrases.fitting(
            f"every rank reached {call}, and callbacks of gloo keep it from completing"
        ),
        (
            f"Threads of gloo itself made the calls after call {found.seq}, in callbacks of "
            "earlier calls.",
            "gloo has a few threads for all calls of a group (2 by default): once each runs a "
            "callback that waits, none is left to run what they wait for.",
        ),
        (
            "Let no callback wait: chain the second call to the future of the first.",
            "If a comm hook makes calls of its own, such as PowerSGD: raise bucket_cap_mb, so that "
            "there is one bucket.",
        ),
        lagging.notes(situation),
    )
