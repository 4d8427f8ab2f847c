"""Some ranks had fewer batches than others, and nothing compensates for it.

What it means
    The ranks loop over batches and make collectives for each. A rank without further batches leaves
    the loop. The others wait for it, or meet its calls after the loop.

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
from collectrace.align.causes import collectives, deciders, inputs, phrases
from collectrace.align.causes.inputs import Inputs
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words

find = inputs.uneven


def words(situation: Situation, found: Inputs) -> Words:
    """Return the words for uneven inputs."""
    counted = " A DataLoader counted them." if found.counted_by == "loader" else ""
    what = "inputs" if found.skip is None else "forward passes"
    why = [f"Uneven {what}: {found.phrase}.{counted}"]
    if found.left is not None:
        gone, count = found.left.gone, found.counts[found.left.gone.rank]
        after = (
            f"after {count} forward passes" if found.counted_by == "forwards" else f"after {count}"
        )
        why.append(
            f"The loop {deciders.quoted(found.left.loop)} ended earlier on {gone.subject}, "
            f"{after}; {found.left.inside.subject} "
            f"{text.verb(found.left.inside.ranks, 'is', 'are')} still in it."
        )
    if found.skip is not None:
        why.append(
            f"Either it had fewer batches, or {deciders.shown(found.skip)} skipped some of its "
            "forward passes."
        )
    elif not situation.suspects and found.counted_by == "forwards":
        why.append("The logs do not show which number is right.")
    return Words(_headline(situation, found), tuple(why), inputs.fixes(situation, found))


def _headline(situation: Situation, found: Inputs) -> str:
    left, suspects, others = found.left, situation.suspects, situation.others
    if left is not None and left.inside.call is not None:
        who, gone, call = left.inside.subject, left.gone.subject, left.inside.call
        if not suspects or {*suspects} != {*left.inside.ranks}:
            did = "ran out of inputs" if found.skip is None else "left the loop"
            return f"{gone} {did}; {who} went on to {phrases.call(call)}"
    else:
        known = [[found.counts[one] for one in those if one in found.counts]
                 for those in (suspects, others)]  # fmt: skip
        if not (all(known) and situation.called) or min(known[0]) <= max(known[1]):
            return collectives.headline(situation)
        who, gone = text.ranks(suspects), text.ranks(others)
        call = situation.called[0][1]
    return f"{who} had more inputs than {gone}, and is in {phrases.call(call)}"
