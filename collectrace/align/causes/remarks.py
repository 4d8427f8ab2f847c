"""Facts beside a cause that help to understand it, for any cause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from collectrace import roles, words
from collectrace.align.causes import apart, caught, inputs, phrases
from collectrace.align.causes.situation import Situation
from collectrace.signature import is_user

_ENOUGH: Final = 2
"""Iterations that are enough to show what is usual."""


def remarks_on(situation: Situation) -> tuple[str, ...]:
    """Return sentences on what ranks caught or left unused, and on gradients that met others."""
    if situation.candidate.cause is not None:
        return ()
    return tuple(one for one in _remarks(situation) if one)


def _remarks(situation: Situation) -> Iterator[str]:
    yield caught.note(situation)
    yield inputs.left_over(situation)
    yield _usual(situation)
    calls = [call for _, call in situation.called]
    in_backward = [call for call in calls if roles.of(call.role).in_backward]
    if len({call.model or 1 for call in in_backward}) > 1:
        yield "The gradients of one model met those of another model: results are wrong."
    places = {(call.role, call.site, side.stack) for side, call in situation.called}
    if len(places) == 1 and len({call.op for call in calls}) > 1:
        made = [f"{call.op} on {words.ranks(s.ranks)}" for s, call in situation.called]
        yield f"At one line {words.issuer(calls[0])} made {words.listed(made)}."
    absent = situation.candidate.absent
    if absent and any(call.role.startswith("ddp.") for call in calls):
        log = situation.case.log(absent[0])
        passes = inputs.last_iteration(log) if log is not None else None
        if passes is not None:
            yield (
                f"{words.upper(words.ranks(absent))} had run "
                f"{words.counted(passes, 'forward pass', 'forward passes')} of the DDP model."
            )


def _usual(situation: Situation) -> str:
    """Return that a call always came before backward(), and some ranks skipped it this time."""
    case, stream, seq = situation.case, situation.candidate.stream, situation.candidate.seq
    sides = apart.at_finding(situation)
    for mine, other in (sides, sides[::-1]) if len(sides) == 2 else ():
        call, bucket = mine.call, other.call
        if call is None or bucket is None or call.iteration != bucket.iteration:
            continue
        if not is_user(call) or not roles.of(bucket.role).is_bucket:
            continue
        counts = set()
        for step in sides:
            rows = case.before(step.rank, stream, seq)
            before = [one for one in rows if one is not None and one.iteration is not None]
            whole = {one.iteration for one in before[1:] if one.iteration != call.iteration}
            made = {one.iteration for one in before if (one.op, one.site) == (call.op, call.site)}
            counts.add((len(whole), whole <= made))
        if len(counts) == 1 and (found := counts.pop())[1] and found[0] >= _ENOUGH:
            return (
                f"{words.upper(other.subject)} reached {phrases.call(bucket)} without it: in the "
                f"{found[0]} iterations before, every rank called {phrases.call(call)} first."
            )
    return ""
