"""Words for calls of a group that several causes share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from collectrace import words
from collectrace.align.causes import iterations, phrases, structure
from collectrace.align.causes.situation import Situation
from collectrace.align.judging.departures import Departure, What
from collectrace.findings import Way


def headline(situation: Situation) -> str:
    """Return what each side did at the first difference, as a headline."""
    found, called = situation.departure, situation.called
    if found is not None and situation.suspects and (said := _departed(situation, found)):
        return said
    if situation.is_absence or len(called) < 2:
        return _absence(situation)
    is_one = len({phrases.name(call) for _, call in called}) == 1
    tensors = [words.tensors(call) for _, call in called]
    given = [f" with {one}" if is_one and len({*tensors}) > 1 else "" for one in tensors]
    if not situation.suspects:
        alone = [(phrases.call(call), side.ranks) for side, call in called]
        full = [(told + what, ranks) for (told, ranks), what in zip(alone, given, strict=True)]
        headline = f"ranks disagree: {phrases.on_each(full)}"
        if len(headline) > phrases.HEADLINE and len({told for told, _ in alone}) == len(alone):
            # There is no room for both, and the lines tell more than the tensors.
            headline = f"ranks disagree: {phrases.on_each(alone)}"
        return phrases.fitted(headline)
    (side, call), (other, theirs) = called[:2]
    return (
        f"{phrases.made(side.ranks, call)}{given[0]}{iterations.at(situation, call.iteration)}, "
        f"{phrases.made(other.ranks, theirs)}{given[1]}"
    )


def _departed(situation: Situation, found: Departure) -> str:
    """Return what the suspects did; empty if naming both calls is clearer."""
    who, others = words.ranks(situation.suspects), words.ranks(situation.others)
    if not found.calls or not situation.others:
        return ""
    if found.what is What.SKIPPED and _loop_differs(situation, "iterates", "ended"):
        own = next((c for s, c in situation.called if {*s.ranks} & {*situation.suspects}), None)
        if own is not None:
            return f"{who} made an extra call, {phrases.call(own)}"
    at = iterations.at(situation, found.iteration)
    match found.what:
        case What.SKIPPED | What.FEWER_ITERATIONS:
            first, n = made(situation, found), len(found.calls)
            which = f"{first}{at}" if n == 1 else f"{n} calls{at}, first {first}"
            if n == _BOTH:
                second = found.calls[1]
                same = (second.op, second.site) == (found.calls[0].op, found.calls[0].site)
                which = f"{first} twice{at}" if same else f"{first} and {phrases.call(second)}{at}"
            return f"{who} skipped {which}"
        case What.EXTRA if _is_instead(situation):
            return ""
        case What.EXTRA if _loop_differs(situation, "ended", "iterates") or structure.has_left_loop(
            situation
        ):
            side, call = situation.called[0]
            called = f"{phrases.verb_of(side.ranks, call)} {phrases.call(call)}"
            return f"{who} left the loop and {called}; {others} were still in it"
        case What.EXTRA | What.MORE_ITERATIONS:
            n = len(found.calls)
            extra = "an extra call" if n == 1 else f"{n} extra calls"
            return f"{who} made {extra}, {made(situation, found)}{at}"
        case What.SWAPPED:
            count, first = words.counted(len(found.calls), "call"), phrases.call(found.calls[0])
            return f"{who} made {count} in another order than {others}, first {first}"
        case _:
            return ""


_BOTH: Final = 2
"""Skipped calls that are both named."""


def _is_instead(situation: Situation) -> bool:
    """Whether each branch of one statement contains a call, so that the calls are alternatives."""
    return any(structure.around(situation, one).branches > 1 for one in situation.decisions[:1])


def _loop_differs(situation: Situation, suspects: Way, others: Way) -> bool:
    """Whether a loop had one outcome on the suspects, and another one on the other ranks."""
    return any(
        {side.did for side in one.sides if side.rank in situation.suspects} == {suspects}
        and {side.did for side in one.sides if side.rank not in situation.suspects} == {others}
        for one in situation.decisions
    )


def _absence(situation: Situation) -> str:
    absent = situation.candidate.absent
    if not situation.called:
        return f"{words.ranks(absent)} did not make a call that others wait in"
    side, call = situation.called[0]
    if situation.suspects and set(situation.suspects) <= set(side.ranks):
        return (
            f"{words.ranks(situation.suspects)} made an extra call, {phrases.call(call)}"
            f"{iterations.at(situation, call.iteration)}"
        )
    states = {situation.case.standings[rank].state for rank in absent}
    how = "finished without" if states == {"finished"} else "did not reach"
    wait = phrases.wait(situation.case, side.ranks)
    at = iterations.at(situation, call.iteration)
    return (
        f"{words.ranks(absent)} {how} {phrases.call(call)}{at}; "
        f"{words.ranks(side.ranks)} {wait} there"
    )


def made(situation: Situation, found: Departure) -> str:
    """Return the first call of a departure in words: ``barrier (train.py:14)``."""
    call = found.calls[0]
    is_own = found.what in (What.EXTRA, What.MORE_ITERATIONS)
    whose = {*(found.ranks if is_own else found.others)}
    sites = [
        told.site
        for side, told in situation.called
        if (told.op, told.seq) == (call.op, call.seq) and whose & {*side.ranks}
    ]
    return phrases.call(call, sites[0] if sites else None)


def silent(situation: Situation) -> tuple[str, ...]:
    """Return since when results are wrong without an error, as a sentence, or nothing.

    That is so if the sides diverged earlier, and sizes matched until the finding's call.
    """
    found = situation.departure
    if found is None or found.seq is None or found.key != situation.candidate.stream:
        return ()
    seq = situation.candidate.seq or 0
    if found.seq >= seq or found.what is What.ENDED:
        return ()
    rank = situation.candidate.present[:1] or situation.candidate.ranks[:1]
    first, last = _at(situation, rank, found.seq), _at(situation, rank, seq)
    later = last if last != first else ""
    return (
        f"From call {found.seq}{first} on, calls met wrong ones: the results are wrong from there, "
        f"though nothing failed until call {seq}{later}.",
    )


def _at(situation: Situation, rank: Sequence[int], seq: int) -> str:
    """Return when a rank made a call, `` (14:02:11)``; empty if not known."""
    stream, case = situation.candidate.stream, situation.case
    call = case.call(rank[0], stream, seq) if rank and stream is not None else None
    t = case.issued(rank[0], call) if rank else None
    return f" ({datetime.fromtimestamp(t / 1e9, UTC):%H:%M:%S} UTC)" if t is not None else ""
