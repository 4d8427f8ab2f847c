"""Several threads that issue calls on one group, in an order that no rank guarantees."""

from __future__ import annotations

import re
from typing import Final

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching.comparison import Divergence
from collectrace.dumps import MAIN
from collectrace.records import NATIVE, Call

_WINDOW: Final = 64
"""Calls before and after a difference in which threads are searched."""

_NUMBER: Final = re.compile(r"\d+")


@once
def sharing_threads(case: Case, candidate: Candidate) -> tuple[str, ...]:
    """Return the threads with calls that met each other, though every rank has all of them.

    Empty if the calls are of one thread, or of threads that only some ranks have. The names are
    those of the first rank's threads; thread numbers may differ between ranks.
    """
    source = candidate.source
    if not isinstance(source, Divergence) or candidate.is_warning:
        return ()
    calls = {rank: call for rank, call in source.calls.items() if call is not None}
    names = {_name(call): call.thread or MAIN for call in reversed(calls.values())}
    if len(names) < 2 or any(name.startswith(NATIVE) for name in names.values()):
        return ()
    for rank in calls:
        log = case.log(rank)
        if log is None:
            return ()
        last = log.last_seq.get(source.stream, 0)
        start, stop = max(1, source.seq - _WINDOW), min(last, source.seq + _WINDOW) + 1
        near = log.calls(source.stream, start, stop)
        if not names.keys() <= {_name(call) for call in near if call is not None}:
            return ()
    return tuple(sorted(names.values(), key=lambda name: (name != MAIN, name)))


def _name(call: Call) -> str:
    return _NUMBER.sub("", call.thread or MAIN)
