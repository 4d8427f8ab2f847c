"""Facts beside a cause that help to understand it, whatever the cause is."""

from __future__ import annotations

from collections.abc import Iterator

from collectrace import roles, words
from collectrace.align.causes import inputs
from collectrace.align.causes.situation import Situation


def of(situation: Situation) -> tuple[str, ...]:
    """Return sentences on inputs that were left, and on models whose gradients met."""
    if situation.candidate.cause is not None:
        return ()
    return tuple(one for one in _remarks(situation) if one)


def _remarks(situation: Situation) -> Iterator[str]:
    yield inputs.left_over(situation)
    calls = [call for _, call in situation.called]
    in_backward = [call for call in calls if roles.of(call.role).in_backward]
    if len({call.model or 1 for call in in_backward}) > 1:
        yield "The gradients of one model met those of another model: results are wrong."
    absent = situation.candidate.absent
    if absent and any(call.role.startswith("ddp.") for call in calls):
        log = situation.case.log(absent[0])
        passes = inputs.last_iteration(log) if log is not None else None
        if passes is not None:
            yield (
                f"{words.upper(words.ranks(absent))} had run "
                f"{words.counted(passes, 'forward pass', 'forward passes')} of the DDP model."
            )
