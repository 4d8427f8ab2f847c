"""The ranks made different calls, but a log has lost their lines.

What it means
    Digests before and after the lost lines prove that the ranks made different calls. The logs do
    not show which calls, or which rank is wrong.

Example
    ::

        rank 1's log lost calls 120 to 180; its digest at call 181 differs from the others'

Not to be confused with
    CT918, if nothing proves a difference.

How to fix it
    Look for a copy of the lost lines, or run the job again.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.matching.comparison import Divergence


def find(situation: Situation) -> Divergence | None:
    """Return the difference that digests prove."""
    source = situation.candidate.source
    return source if isinstance(source, Divergence) and source.gap is not None else None


def words(situation: Situation, found: Divergence) -> Words:
    """Return between which calls the ranks differ."""
    first, last = found.gap or (0, 0)
    what = f"call {first}" if first == last else f"calls {first} to {last}"
    lost, group = found.unknown, text.group(situation.candidate.group or found.group)
    return Words(
        phrases.fitting(
            f"the ranks differ in {what} of {group}, which {text.ranks(lost)} lost",
            f"the ranks differ in {what}, which {text.ranks(lost)} lost",
        ),
        (
            f"The digests before and after {what} prove that {text.ranks(lost)} made other calls "
            "than the others.",
            f"The {text.verb(lost, 'log', 'logs')} of {text.ranks(lost)} lost the lines, so "
            "nobody is to blame.",
            "Differences in later calls may follow from this one.",
        ),
        (
            "Look for a copy of the lost lines, such as another copy of the log.",
            f"Or run the job again, and compare {what}: which ranks make them, with which "
            "arguments.",
        ),
    )
