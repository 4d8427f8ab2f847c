"""The cause was not found: the finding says what is known, and where to look.

What it means
    The ranks differ, or wait for each other, and no cause applies. Sources were not recorded, the
    statement is in code that cannot be followed, or collectrace does not know this fault yet.

Example
    ::

        exec(compiled)              # the call stack ends here

Not to be confused with
    CT918, if logs are missing.

How to fix it
    Look at the lines that the report shows, from the last call that all ranks had in common.
    Record sources (``sources=full``) and values, and report a script that shows it.
"""

from __future__ import annotations

from typing import Final

from collectrace import words as text
from collectrace.align.causes import collectives, phrases, waited_for
from collectrace.align.causes.ct901_consequence import place
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.candidate import Candidate
from collectrace.align.matching.comparison import Divergence
from collectrace.findings import KINDS, Kind

_LOOK: Final[dict[Kind, str]] = {
    "missing_call": "Look for a branch or a loop above these lines that depends on the rank or on "
    "its data, and make the call on every rank, or on none.",
    "group_mismatch": "Create the same groups in the same order on every rank, members or not.",
    "p2p_unmatched": "Look for the send or the receive that belongs to it: peer, tag and group "
    "must fit.",
    "p2p_mismatch": "Pass tensors of the same size and dtype at both ends.",
    "deadlock": "Bring the calls into the same order on all ranks.",
    "stall": "Look at the network between the hosts.",
}
_OTHERS: Final = (
    "Look above these lines for the branch or the loop that sent the ranks to different ones, and "
    "make the same calls in the same order on every rank."
)


def find(situation: Situation) -> Kind:
    """Return the kind of the finding: it always applies."""
    return situation.kind


def words(situation: Situation, found: Kind) -> Words:
    """Return what is known, and where to look."""
    candidate = situation.candidate
    if found == "deadlock":
        headline = f"{text.ranks(candidate.ranks)} wait for each other"
    elif len(situation.called) > 1:
        headline = collectives.headline(situation)
    else:
        who = text.ranks(candidate.absent) if candidate.absent else "some ranks"
        headline = f"{who} {waited_for.missed(situation)}"
    return Words(
        phrases.fitting(headline, f"{KINDS[found].meaning}"),
        (
            _difference(candidate),
            "The logs do not show which statement led them apart.",
        ),
        (_LOOK.get(found, _OTHERS),),
    )


def _difference(candidate: Candidate) -> str:
    source, where = candidate.source, place(candidate)
    if isinstance(source, Divergence) and source.gap is not None:
        return f"The first difference that the logs show is at {where}."
    return f"The ranks agree up to {where}."
