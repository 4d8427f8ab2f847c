"""Some ranks skipped a module of a sharded model.

What it means
    A sharded model gathers the parameters of each module before it runs it. A rank that does not
    run a module makes fewer calls. Its gather for the next module meets the others' gather for the
    skipped one.

Example
    ::

        for layer in self.layers:
            if torch.rand(()) > 0.1:        # another number on each rank
                x = layer(x)

Not to be confused with
    CT503, if only some ranks ran the whole forward. CT505, if all ranks ran the module, and some
    did not reduce its gradients.

How to fix it
    Run the same modules on every rank, and multiply the result by zero if it is not wanted.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import control, phrases, sharded
from collectrace.align.causes.apart import NextCall
from collectrace.align.causes.sharded import DifferentModules
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words


def find(situation: Situation) -> DifferentModules | None:
    """Return the sides that gather different modules in one statement, in the forward."""
    found = sharded.different_modules(situation)
    return found if found is not None and not found.in_backward else None


def words(situation: Situation, found: DifferentModules) -> Words:
    """Return the words for a module that was left out."""
    site = found.mine.call.site if found.mine.call is not None else None
    return Words(
        f"{_where(found.mine)}, {_where(found.other)}",
        (f"The ranks run other modules{phrases.line(site)}.", *control.why(situation)),
        ("Let every rank run the same modules in the same order.", *control.fixes(situation)),
    )


def _where(step: NextCall) -> str:
    """Return ``rank 1 is in FSDP unshard of layers.3``."""
    name = text.name(step.call) if step.call is not None else "no call"
    return f"{step.subject} {text.verb(step.ranks, 'is', 'are')} in {name}"
