"""One call got as many elements on every rank, but in different shapes.

What it means
    The bytes fit, so nothing fails. But elements that do not belong together are combined.

Example
    ::

        table = scores.T if rank == 2 else scores
        dist.all_reduce(table)

Not to be confused with
    CT403, if the numbers of elements differ.

How to fix it
    Bring the tensors into the same shape before the call.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import arguments
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.signature import counts


def find(situation: Situation) -> bool | None:
    """Return whether only the shapes of one call differ."""
    calls = [call for _, call in situation.called]
    is_same = len({tuple(counts(one)) for one in calls}) == 1
    return True if is_same and arguments.are_one_call(situation) else None


def words(situation: Situation, found: bool) -> Words:
    """Return the words for shapes that differ."""
    return Words(
        arguments.headline(situation, text.tensors),
        (
            f"The same number of elements, in another shape: "
            f"{arguments.listed(situation, text.tensors)}.",
            arguments.silent(situation),
            *arguments.why(situation),
        ),
        ("Bring the tensors into the same shape before the call (a transpose on some ranks?).",)
        if found
        else (),
        arguments.before(situation, text.tensors),
    )
