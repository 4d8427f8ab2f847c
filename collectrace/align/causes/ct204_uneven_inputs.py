"""Some ranks had fewer batches than others, and nothing takes care of that.

What it means
    The ranks loop over batches and make collectives for each. A rank that has no more batches
    leaves the loop, and the others wait for it, or meet the calls behind the loop.

Example
    ::

        for batch in loader:        # 5 batches on rank 0, 6 on rank 1
            model(batch).sum().backward()

Not to be confused with
    CT103, if the loop is not over inputs. CT102, if a condition left the loop before its end.

How to fix it
    Give every rank the same number of batches, or train inside ``with model.join():``.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import collectives, deciders, inputs
from collectrace.align.causes.inputs import Inputs
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words


def find(situation: Situation) -> Inputs | None:
    """Return the inputs of the ranks, if some ran out first."""
    return inputs.uneven(situation)


def words(situation: Situation, found: Inputs) -> Words:
    """Return the words for uneven inputs."""
    counted = " A DataLoader counted them." if found.counted_by == "loader" else ""
    why = [f"Uneven inputs: {found.phrase}.{counted}"]
    if found.left is not None:
        gone, count = found.left.gone, found.counts[found.left.gone.rank]
        after = (
            f"after {count} forward passes" if found.counted_by == "forwards" else f"after {count}"
        )
        why.append(
            f"The loop {deciders.quoted(found.left.loop)} ended earlier on {gone.who}, {after}; "
            f"{found.left.inside.who} {text.verb(found.left.inside.ranks, 'is', 'are')} still in it."
        )
    return Words(collectives.headline(situation), tuple(why), inputs.fixes(situation, found))
