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
from collectrace.signature import is_asked, is_user

_SIZES = ("shape_mismatch", "dtype_mismatch", "split_mismatch")
_WHENS: Final[Mapping[str, When]] = {
    "CT204": "uneven", "CT511": "modules", "CT804": "library",
}  # fmt: skip
_PROVEN = ("CT503", "CT507")
"""Causes by which it is known which side alone made its call."""
_OWN_FIXES = (
    "CT2",
    "CT501",
    "CT502",
    "CT504",
    "CT505",
    "CT506",
    "CT508",
    "CT509",
    "CT512",
    "CT515",
    "CT8",
)
"""Causes whose fix no framework betters."""


def applied(situation: Situation, code: str, words: Words) -> Words:
    """Return the words of a cause, with the fix of the framework at work before or in its place."""
    words = replace(words, notes=(*words.notes, *remarks.of(situation)))
    is_own = code.startswith(_OWN_FIXES) and code not in ("CT204", "CT804")
    if situation.candidate.cause is not None or is_own:
        return words
    when = _when(situation, code)
    made = _made(situation, code, when)
    path_of = {id(step): path(situation, step) for step in made}
    decided = [one.text for one in situation.decisions]
    whole = code == "CT503"
    for step in made:
        for row in TABLE:
            if when not in row.when or (row.whole_forward and not whole) or step.call is None:
                continue
            if row.fits(step.call, path_of[id(step)], decided):
                replaces = row.replaces or situation.kind == "p2p_mismatch"
                kept = words.fixes[1:] if row.whole_forward else words.fixes
                kept = () if replaces else kept
                return replace(words, fixes=(*row.text.split("\n"), *kept)[:3])
    return words


def _when(situation: Situation, code: str) -> When:
    if code in _WHENS:
        return _WHENS[code]
    if situation.kind in ("p2p_mismatch", "p2p_unmatched", "deadlock"):
        ends = {call.role for _, call in situation.called}
        is_one = situation.kind == "p2p_mismatch" and len(ends) == 1
        return "message sizes" if is_one else "messages"
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
    if _is_asked_alone(situation, both):
        return both[:1]
    parts = {step.call.role for step in both if step.call is not None and not is_user(step.call)}
    if len(parts) != 1:
        return []
    return [step for step in both if step.call is not None and step.call.role in parts]


def _is_asked_alone(situation: Situation, both: Sequence[Step]) -> bool:
    """Whether the suspects called a part of a framework by name, and the others were in another.

    Not if one line of the script led to both: then the framework itself chose the part.
    """
    if len(both) < 2 or not set(both[0].ranks) <= set(situation.suspects):
        return False
    mine, other = both
    if mine.call is None or other.call is None or is_user(mine.call):
        return False
    asked = is_asked(mine.call) and not is_asked(other.call)
    return asked and mine.stack != other.stack


def path(situation: Situation, step: Step) -> Sequence[str]:
    """Return the functions of libraries above a side's next call, outermost first."""
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
