"""Several threads that issue calls on one group: nothing orders them, on any rank."""

from __future__ import annotations

import re
from typing import Final

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching.comparison import Divergence
from collectrace.dumps import MAIN
from collectrace.records import NATIVE, Call

_WINDOW: Final = 64
"""Rows before and behind a difference in which threads are looked for."""

_NUMBER: Final = re.compile(r"\d+")


@once
def sharing(case: Case, candidate: Candidate) -> tuple[str, ...]:
    """The threads whose calls met each other at a row, though each rank has them all.

    Empty where the calls of a row are of one thread, or of threads that only some ranks have.
    Names are those of the first rank's threads; their numbers may differ between ranks.
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
