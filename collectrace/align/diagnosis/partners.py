"""Ranks that exchange messages in pairs, and whose partners were not mutual any more: in words."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.diagnosis.wording import Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.partners import Unpaired, unpaired

_MOST_NAMES: Final = 8


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """Partners that changed from exchange to exchange and were mutual, and are not any more.

    None where another rank than the odd one is known to have left the common order.
    """
    found = unpaired(case, candidate)
    if found is None or set(candidate.suspects) - {found.odd}:
        return None
    text = (
        f"In each of the {found.before} exchanges before, each rank's partner named it too, though "
        f"the partners changed from one to the next. In the {words.ordinal(found.before + 1)} "
        f"exchange of each rank that is not so: {_names(found)}."
    )
    odd = found.odd
    if odd is not None:
        text += (
            f" Had rank {odd} named rank {found.instead}, all would be mutual: so rank {odd} "
            "worked out another partner than the others did, or it is in another round than they "
            "are."
        )
    else:
        text += " The ranks worked out partners that do not belong together."
    who = f"rank {odd}" if odd is not None else "a rank"
    return Reason(
        text,
        "Let every rank work out the same pairs. Partners that are drawn must be drawn from one "
        "generator with one seed on every rank, a torch.Generator of its own that nothing else "
        f"draws from: from the global one a DataLoader, dropout or a branch that only {who} takes "
        "draws too. Or let one rank draw the pairs, and broadcast them.\n"
        "If they follow from the number of the round: count it alike on every rank, leave out no "
        "round.",
    )


def _names(found: Unpaired) -> str:
    """``rank 0 names rank 2 (gossip.py:34), rank 1 names rank 0 (gossip.py:37)``."""
    told = []
    for rank, peer in list(found.names.items())[:_MOST_NAMES]:
        call = found.calls.get(rank)
        at = f" ({words.site(call.site)})" if call is not None and call.site else ""
        told.append(f"rank {rank} names rank {peer}{at}")
    more = len(found.names) - len(told)
    return words.listed([*told, *([f"{more} more"] if more else [])])
