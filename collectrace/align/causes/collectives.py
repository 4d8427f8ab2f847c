"""What happened to a call of a group, in words that several causes share."""

from __future__ import annotations

from collections.abc import Sequence

from collectrace import words
from collectrace.align.causes import phrases
from collectrace.align.causes.difference import Difference
from collectrace.align.causes.situation import Situation
from collectrace.align.reading import chains
from collectrace.records import Call


def departure(situation: Situation) -> Difference | None:
    """Return how the suspects depart from the others; in a tie how either does, if it is known."""
    both = situation.difference
    if both is None:
        return None
    suspects = situation.suspects
    if suspects:
        return next((one for one in both if one.rank in suspects and one.what != "other"), None)
    return next((one for one in both if one.what in ("skipped", "extra", "ended")), None)


def headline(situation: Situation) -> str:
    """Return who did what at the first difference."""
    if situation.is_absence or len(situation.called) < 2:
        return _absence(situation)
    (side, call), *rest = situation.called
    if not situation.suspects:
        those = words.listed([words.ranges(s.ranks) for s, _ in situation.called])
        calls = " or ".join(dict.fromkeys(phrases.call(c) for _, c in situation.called))
        return f"ranks {those} disagree: {calls}"
    who = words.ranks(side.ranks)
    others = words.ranks(rest[0][0].ranks)
    found = departure(situation)
    if found is not None and found.what == "skipped":
        return f"{who} skipped {made(found)}{iteration(call)}, {others} did not"
    if found is not None and found.what == "extra":
        return f"{who} made an extra call, {phrases.call(call)}{iteration(call)}; {others} did not"
    return (
        f"{phrases.made(side.ranks, call)}{iteration(call)}, "
        f"{phrases.made(rest[0][0].ranks, rest[0][1])}"
    )


def _absence(situation: Situation) -> str:
    absent = situation.candidate.absent
    there = [(side, call) for side, call in situation.called if side.call is not None]
    if not there:
        return f"{words.ranks(absent)} did not make a call that others wait in"
    side, call = there[0]
    states = {situation.case.standings[rank].state for rank in absent}
    how = "finished without" if states == {"finished"} else "did not reach"
    return (
        f"{words.ranks(absent)} {how} {phrases.call(call)}{iteration(call)}; "
        f"{words.ranks(side.ranks)} {words.verb(side.ranks, 'waits', 'wait')} there"
    )


def made(found: Difference) -> str:
    """Return the calls of a difference in words: ``barrier (train.py:14)``."""
    return phrases.calls(
        [(place[0], chains.site(place[1][0]) if place[1] else "") for place in found.places]
    )


def iteration(call: Call) -> str:
    """Return `` in iteration 4``; empty if no loop of the framework counts."""
    return f" in iteration {call.iteration}" if call.iteration is not None else ""


def awaited(situation: Situation) -> Sequence[Call]:
    """Return the calls of the sides that are not to blame; of all sides in a tie."""
    suspects = set(situation.suspects)
    found = [c for s, c in situation.called if not set(s.ranks) & suspects]
    return found or [c for _, c in situation.called]


def subject_call(situation: Situation) -> str:
    """Return the call that only some ranks made, in words: the suspects' if it is an extra call."""
    found = departure(situation)
    if found is not None and found.places and found.what in ("skipped", "extra"):
        return made(found)
    return phrases.call(awaited(situation)[0]) if situation.called else "the call"
