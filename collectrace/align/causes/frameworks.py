"""Apply a framework's own fix to the words of a cause.

A fix is chosen by what the sides did where they diverged: a call that only one side made, or the
same call of both. If they are in different parts of frameworks, no fix applies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from collectrace import dumps
from collectrace.align.causes import apart, phrases
from collectrace.align.causes.apart import NextCall
from collectrace.align.causes.framework_fixes import TABLE, Fix, When
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.departures import What
from collectrace.align.ranks.standing import Standing
from collectrace.records import Call
from collectrace.signature import is_asked, is_user

_SIZES: Final = ("shape_mismatch", "split_mismatch")
_WHENS: Final[Mapping[str, When]] = {"CT204": "uneven", "CT511": "modules", "CT804": "library"}
_PROVEN: Final = "CT503"
"""The cause that proves which side alone made its call."""
_OWN_FIXES: Final = (
    "CT2", "CT502", "CT505", "CT508", "CT8",
)  # fmt: skip
"""Causes with fixes that no framework improves, unless ``_WHENS`` names them."""


def apply_fix(situation: Situation, code: str, words: Words) -> Words:
    """Return the words of a cause with the framework's fix first, or as a replacement."""
    if situation.candidate.cause is not None:
        return words
    beside = (waits_beside(situation.case.standings[rank]) for rank in situation.suspects)
    waits = next((one for one in beside if one is not None), None) if code == "CT302" else None
    if waits is not None:
        row, site = waits
        told = f"It waits in {row.path}(){phrases.line(site)}."
        return replace(words, fixes=(row.text,), notes=(told, *words.notes))
    found = _row(situation, code)
    if found is None:
        return words
    replaces = found.replaces or situation.kind == "p2p_mismatch"
    fixes = [*found.text.split("\n"), *(() if replaces else words.fixes)]
    if found.whole_forward:
        fixes = [*words.fixes, found.text]
    return replace(words, why=(*words.why, *filter(None, [found.why])), fixes=tuple(fixes[:3]))


def _row(situation: Situation, code: str) -> Fix | None:
    """Return the row of the table that applies to what the sides did."""
    if code.startswith(_OWN_FIXES) and code not in _WHENS:
        return None
    when = _when(situation, code)
    rows = [r for r in TABLE if when in r.when and (code == _PROVEN or not r.whole_forward)]
    is_mixed = when in ("some ranks", "library") and code != _PROVEN and _are_two_parts(situation)
    for step, call in _made(situation, code, when):
        lines = [phrases.text(situation.case, frame) for frame in _line(step)]
        made = [*(one.text for one in situation.decisions), *lines]
        for row in rows:
            is_named = bool(row.path) or (when == "some ranks" and is_asked(call))
            if (is_named or not is_mixed) and row.fits(call, path(situation, step), made):
                return row
    return None


def _when(situation: Situation, code: str) -> When | None:
    if code in _WHENS:
        return _WHENS[code]
    if situation.kind in ("p2p_mismatch", "p2p_unmatched", "deadlock"):
        ends = {(call.role, (call.part or "").rpartition(", ")[2]) for _, call in situation.called}
        is_one = situation.kind == "p2p_mismatch" and len(ends) == 1
        return "message sizes" if is_one else "messages"
    if len({call.thread for _, call in situation.called}) > 1:
        return "threads"
    places = {(call.role, call.part, call.site, side.stack) for side, call in situation.called}
    if len(places) == 1 and len(situation.called) > 1:
        if situation.kind == "root_mismatch":
            return "roots"
        return "sizes" if situation.kind in _SIZES else None
    return "some ranks"


def _made(situation: Situation, code: str, when: When | None) -> list[tuple[NextCall, Call]]:
    """Return the calls that a fix may apply to."""
    if when not in ("some ranks", "modules", "library"):
        made = apart.called(apart.at_finding(situation))
        is_own = when in ("messages", "message sizes") and any(is_user(call) for _, call in made)
        return [] if is_own else made
    both = apart.called(apart.next_calls(situation) or ())
    if code == _PROVEN or len(both) < 2:
        return both[:1]
    (mine, call), (other, theirs) = both
    is_blamed = set(mine.ranks) <= set(situation.suspects)
    if call.role == theirs.role or when != "some ranks":
        return both
    if is_user(call):
        departure = situation.departure
        skipped = departure is not None and departure.what is What.SKIPPED
        return both if skipped or not is_blamed else both[:1]
    if is_user(theirs):
        return both[:1]
    # In two parts of frameworks, only a call that the script's own line named can be fixed.
    is_named = is_blamed and not is_asked(theirs) and _line(mine) != _line(other)
    return both[:1] if is_named else []


def _are_two_parts(situation: Situation) -> bool:
    """Whether the sides are in different parts of frameworks where they diverged."""
    both = apart.called(apart.next_calls(situation) or ())
    return len({call.role for _, call in both if not is_user(call)}) > 1


def _line(step: NextCall) -> Sequence[str]:
    """Return the script's frames above a call, or only its line."""
    site = step.call.site if step.call is not None else None
    return step.stack or ((site,) if site else ())


def path(situation: Situation, step: NextCall) -> Sequence[str]:
    """Return the functions of libraries above a side's next call, outermost first."""
    log = situation.case.log(step.rank)
    stack = log.stack(step.call) if log is not None and step.call is not None else None
    return tuple(stack.path) if stack is not None else ()


def waits_beside(standing: Standing) -> tuple[Fix, str] | None:
    """Return the row for a function in which a rank waits outside of all collectives, and the line.

    The stacks of its last stall decide.
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
