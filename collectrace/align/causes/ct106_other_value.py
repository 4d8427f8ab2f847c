"""One line gave the ranks different values, items or functions, which led to different calls.

What it means
    All ranks ran the same lines. The next item of a loop, the function that a line calls, or
    another value decided which call came next. Often the items of a loop differ between ranks: a
    set, a dict that was filled in another order, or files in directory order.

Example
    ::

        for name in names:          # a set: another order in each process
            dist.all_reduce(grads[name])

Not to be confused with
    CT102, if a condition chose the function. CT103, if a loop has the same items and a different
    length. CT403 and CT413, if only the tensors differ.

How to fix it
    Loop over the same items in the same order on every rank, for example with ``sorted``. Compute
    other values the same way on every rank, or broadcast them.
"""

from __future__ import annotations

from collectrace.align.causes import apart, deciders, remedies
from collectrace.align.causes.situation import Situation
from collectrace.align.reading import chains
from collectrace.findings import Decision


def find(situation: Situation) -> Decision | None:
    """Return the line that decided, unless it is a library call that both sides are still in."""
    stacks = [[*map(chains.site, step.stack)] for step in apart.next_calls(situation) or ()]
    within = {stack[0] for stack in stacks if stack and all(stack[0] in one for one in stacks)}
    found = (one for one in deciders.ranked(situation)
             if deciders.form(one) != "value" or one.site not in within)  # fmt: skip
    first = next(found, None)
    is_it = first is not None and deciders.form(first) in ("value", "items", "dispatch")
    return first if is_it else None


words = remedies.explained
