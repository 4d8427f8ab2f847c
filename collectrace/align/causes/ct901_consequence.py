"""It follows from another finding of the run.

What it means
    After a first difference, calls meet the wrong partners, ranks wait for ranks that exited, and
    connections break. The report shows these consequences, so that nobody takes them for separate
    errors. Groups of one dimension run the same lines, so one error may show in each of them.

Example
    ::

        finding 1: rank 1 skipped all_reduce (train.py:13)
        finding 2: ranks 0 and 2 then did not reach barrier (train.py:40)   # CT901

Not to be confused with
    A second, independent error, which is a finding without ``caused_by``.

How to fix it
    Fix the finding that caused it.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases, repeated, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.candidate import Candidate
from collectrace.align.matching.comparison import ChannelIssue

FIX = "Nothing to change here: fix the finding that it follows from."


def find(situation: Situation) -> Candidate | None:
    """Return the finding that it follows from."""
    return situation.candidate.cause


def words(situation: Situation, found: Candidate) -> Words:
    """Return the words for a consequence, or for a repetition of the same error."""
    if repeated.is_repeat(situation):
        candidate, group = situation.candidate, situation.candidate.group
        who = text.ranks(candidate.ranks or (group.ranks if group is not None else ()))
        return Words(
            f"{who} made the same error as above, at the same lines",
            (f"It is the same error as at {place(found)}, of other ranks.",),
            ("Correct the error above first.",),
        )
    brief = "ranks waited in vain" if situation.is_absence else "further calls met wrong ones"
    return Words(
        phrases.fitting(_what(situation), brief),
        (f"It follows from the difference at {place(found)}.",),
        (FIX,),
    )


def place(candidate: Candidate) -> str:
    """Return ``call 29 of the default group``."""
    numbered = "message" if isinstance(candidate.source, ChannelIssue) else "call"
    what = f"{numbered} {candidate.seq}" if candidate.seq is not None else f"a {numbered}"
    if candidate.kind == "group_mismatch":
        what = "the creation"
    return what + (f" of {text.group(candidate.group)}" if candidate.group is not None else "")


def _what(situation: Situation) -> str:
    candidate = situation.candidate
    match candidate.kind:
        case "missing_call":
            return f"{text.ranks(candidate.absent)} did not reach {waited_for.call(situation)}"
        case "stall":
            return f"{waited_for.call(situation)} never completed"
        case "deadlock":
            return f"{text.ranks(candidate.ranks)} waited for each other"
        case "group_mismatch":
            return "the ranks disagreed about a process group"
        case "p2p_unmatched" if situation.called:
            side, call = situation.called[0]
            return f"{phrases.call(call)} of {text.ranks(side.ranks)} met no message"
    those = [f"{text.ranks(s.ranks)} in {phrases.call(c)}" for s, c in situation.called[:2]]
    return f"the wrong calls met: {', '.join(those)}"
