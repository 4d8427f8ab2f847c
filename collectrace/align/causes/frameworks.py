"""Apply what a framework asks for over the words of a cause.

A fix is chosen by what both sides did where they diverged: a call that only one side made, or one
call that both made. Two sides in different parts of frameworks get the fix of neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from collectrace import dumps
from collectrace.align.causes import apart, remarks
from collectrace.align.causes.apart import Step
from collectrace.align.causes.framework_fixes import TABLE, Fix, When
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks.standing import Standing
from collectrace.signature import is_user

_SIZES = ("shape_mismatch", "dtype_mismatch", "split_mismatch")
_WHENS: Final[Mapping[str, When]] = {
    "CT204": "uneven", "CT511": "modules", "CT804": "library",
}  # fmt: skip
_PROVEN = ("CT503", "CT507")
"""Causes by which it is known which side alone made its call."""
_OWN_FIXES = ("CT2", "CT501", "CT502", "CT504", "CT505", "CT506", "CT508", "CT509", "CT512", "CT515", "CT8")
"""Causes whose fix no framework betters."""


def applied(situation: Situation, code: str, words: Words) -> Words:
    """Return the words of a cause, with the fix of the framework at work before or in its place."""
    words = replace(words, notes=(*words.notes, *remarks.of(situation)))
    is_own = code.startswith(_OWN_FIXES) and code not in ("CT204", "CT804")
    if situation.candidate.cause is not None or is_own:
        return words
    when = _when(situation, code)
    made = _made(situation, code, when)
    path_of = {id(step): _path(situation, step) for step in made}
    decided = [one.text for one in situation.decisions]
    whole = code == "CT503"
    for step in made:
        for row in TABLE:
            if when not in row.when or (row.whole_forward and not whole) or step.call is None:
                continue
            if row.fits(step.call, path_of[id(step)], decided):
                kept = () if row.replaces or row.whole_forward else words.fixes
                if row.whole_forward:
                    kept = words.fixes[1:]
                return replace(words, fixes=(*row.text.split("\n"), *kept)[:3])
    return words


def _when(situation: Situation, code: str) -> When:
    if code in _WHENS:
        return _WHENS[code]
    if situation.kind == "p2p_mismatch":
        return "message sizes"
    if situation.kind in ("p2p_unmatched", "deadlock"):
        return "messages"
    if len({call.thread for _, call in situation.called}) > 1:
        return "threads"
    places = {(call.role, call.part, side.stack) for side, call in situation.called}
    if len(places) == 1 and len(situation.called) > 1:
        if situation.kind == "root_mismatch":
            return "roots"
        if situation.kind in _SIZES:
            return "sizes"
    return "some ranks"


def _made(situation: Situation, code: str, when: When) -> list[Step]:
    """Return the calls that a fix may be about."""
    if when not in ("some ranks", "modules", "library"):
        steps = apart.at_finding(situation)
        calls = [step.call for step in steps if step.call is not None]
        is_own = when in ("messages", "message sizes") and any(map(is_user, calls))
        return [] if is_own else [step for step in steps if step.call is not None]
    both = [step for step in apart.steps(situation) or () if step.call is not None]
    if code in _PROVEN:
        return both[:1]
    parts = {step.call.role for step in both if step.call is not None and not is_user(step.call)}
    if len(parts) != 1:
        return []
    return [step for step in both if step.call is not None and step.call.role in parts]


def _path(situation: Situation, step: Step) -> Sequence[str]:
    log = situation.case.log(step.rank)
    stack = log.stack(step.call) if log is not None and step.call is not None else None
    return tuple(stack.path) if stack is not None else ()


def waits_beside(standing: Standing) -> tuple[Fix, str] | None:
    """Return the row about a function in which a rank waits beside all collectives, and the line.

    By the stacks of its last stall.
    """
    stall = standing.log.stall if standing.log is not None else None
    rows = [row for row in TABLE if "elsewhere" in row.when]
    for frames in stall.stacks.values() if stall is not None else ():
        own = dumps.own(frames)
        for row in rows:
            package, _, function = row.path.rpartition(".")
            part = f"/{package.replace('.', '/')}/"
            if own and any(part in one and one.endswith(f" {function}") for one in frames):
                return row, own[-1].rpartition(" ")[0]
    return None
