"""Ranks that exchange messages in pairs, and whose partners were not mutual any more: in words."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.diagnosis import ways_told
from collectrace.align.diagnosis.callers import named, telling
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
    if found.behind and found.odd is not None:
        return _left_out(case, found, found.odd)
    text = (
        f"In each of the {found.before} exchanges before, each rank's partner named it too, though "
        f"the partners changed from one to the next. In the {words.ordinal(found.before + 1)} "
        f"exchange of each rank that is not so: {_names(case, found)}."
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


def _left_out(case: Case, found: Unpaired, odd: int) -> Reason:
    """One rank has left out an exchange, and is one ahead of the others since."""
    call = found.calls.get(odd)
    came = f", before {named(case, odd, call, brief=True)}," if call is not None else ""
    number, rank = words.ordinal(found.before + 1), f"rank {odd}"
    text = (
        f"Partners change from one exchange to the next, and must name each other. In the {number} "
        f"exchange of each rank they do not: {_names(case, found)}. With one more of {rank} before "
        f"it, with rank {found.instead}, all would be mutual there and in the "
        f"{words.counted(found.behind, 'exchange')} behind: so {rank} has left out its {number} "
        f"one{came} and is ahead of the others since."
    )
    take_part = (
        f"Let {rank} exchange with its partner in every round, its weights as they are where it "
        "has nothing new; or let all ranks agree first to leave out a round."
    )
    past = ways_told.of_round(case, case.stack(odd, call)) if call is not None else None
    if past is None:
        return Reason(text, take_part)
    return Reason(f"{text}{past.cause}", f"{past.fix}\n{take_part}")


def _names(case: Case, found: Unpaired) -> str:
    """``rank 0 names rank 2 (gossip.py:34), rank 1 names rank 0 (gossip.py:37)``."""
    told = []
    for rank, peer in list(found.names.items())[:_MOST_NAMES]:
        call = found.calls.get(rank)
        site = telling(case, rank, call).site if call is not None else None
        at = f" ({words.site(site)})" if site else ""
        told.append(f"rank {rank} names rank {peer}{at}")
    more = len(found.names) - len(told)
    return words.listed([*told, *([f"{more} more"] if more else [])])
