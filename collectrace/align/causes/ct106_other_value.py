"""One line computed different values on the ranks, and the calls after it differ in them.

What it means
    All ranks run the same lines. What a line computed, such as the next element of a loop, decided
    which call or which tensor came next.

Example
    ::

        for name in names:          # a set: another order in each process
            dist.all_reduce(grads[name])

Not to be confused with
    CT403 and its like, if only the tensors differ and each rank has its own data by right.

How to fix it
    Compute the value in the same way on every rank: iterate in a sorted order, or broadcast it.
"""

from __future__ import annotations

from collectrace.align.causes import apart, collectives, deciders
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.reading import chains
from collectrace.findings import Decision


def find(situation: Situation) -> Decision | None:
    """Return the line whose value decided: no call of a library that neither has come back from."""
    stacks = [[*map(chains.site, step.stack)] for step in apart.steps(situation) or ()]
    within = {stack[0] for stack in stacks if stack and all(stack[0] in one for one in stacks)}
    first = next((one for one in deciders.ranked(situation) if one.site not in within), None)
    return first if first is not None and deciders.form(first) == "value" else None


def words(situation: Situation, found: Decision) -> Words:
    """Return the words for a value that can differ between ranks."""
    return Words(
        collectives.headline(situation),
        deciders.reasons(situation, [found, *deciders.rest(situation, found)]),
        deciders.fixes(situation, found),
    )
