"""Facts that speak for or against blaming ranks, and what each weighs.

A finder looks at one candidate and yields rows of evidence. ``FACTS`` is the one table of what a
fact weighs and which facts forbid it to count. ``weighing.weigh`` decides by the rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from collectrace.findings import EvidenceRow

Speaks = Literal["for", "against"]

ENOUGH: Final = 50
"""Weight that blames ranks."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A kind of evidence."""

    summary: str
    """One line for readers of a report: what the fact means for the ranks that it is about."""

    weight: int
    """0 to 100. A fact of 50 or more decides alone; smaller ones must add up to 50."""

    vetoed_by: tuple[str, ...] = ()
    """Names of facts "against" under which this one does not count for the same ranks."""

    speaks: Speaks = "for"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One row: a fact about some ranks."""

    fact: str
    """A key of ``FACTS``."""

    ranks: tuple[int, ...]
    """The ranks that it is about; sorted. Of a fact "against": those that it protects."""

    sites: tuple[str, ...] = ()
    """``path:line`` of the code that shows it."""

    shown_by: object = field(default=None, compare=False)
    """The typed data behind it, such as a departure: causes read it, words never decide by it."""


_AGAINST: Final = 100


def _against(summary: str) -> Fact:
    return Fact(summary, _AGAINST, speaks="against")


_SHARED: Final = ("threads_share_group",)

_OF_ROWS: Final = (*_SHARED, "root_by_own_number", "same_calls_in_other_orders")

_VOTES: Final = (*_OF_ROWS, "root_alone_had_value")
"""Vetoes of what only tells that ranks did otherwise than others."""

_OF_CODE: Final = (*_VOTES, "other_line_for_others", "loader_ran_out", "shut_out_by_rank")
_OF_CIRCLES: Final = (
    "was_told", "first_message", "others_may_follow", "told_the_waiter", "ordered_by_waiter",
)  # fmt: skip

FACTS: Final[dict[str, Fact]] = {
    # -- rows of streams, groups, stalls ----------------------------------------------------
    "call_refused": Fact("These ranks were refused calls, and are short of them since.", 95),
    "failed_in_the_call": Fact("The call failed on these ranks for a reason of their own.", 95),
    "came_late": Fact("These ranks came to the call when others had given up.", 94),
    "stopped": Fact("These ranks stopped without a word.", 90),
    "left_no_log": Fact("These ranks left no log, and nobody got past the start.", 95),
    "holds_up_others": Fact("The others wait in the end for these ranks.", 90),
    "call_within_join": Fact(
        "These ranks made a call of their own while others were in join().", 85, _OF_ROWS
    ),
    "outvoted": Fact("More than half of the group did the same, and not these ranks.", 80, _VOTES),
    "fewer_finished": Fact(
        "All ranks were done here, and these are fewer than those who did otherwise.",
        80,
        ("root_alone_had_value",),
    ),
    "asked_otherwise": Fact("More than half asked for the same group, and not these ranks.", 80),
    "sizes_changed": Fact(
        "These ranks told the others their sizes, and then used other sizes.", 80, _SHARED
    ),
    "in_every_pair": Fact("These ranks are in every pair of which the sizes differ.", 75, _SHARED),
    "unlike_sister_groups": Fact(
        "Groups of the same kind did what the other ranks did.", 75, _VOTES
    ),
    "sizes_unlike_sisters": Fact(
        "These ranks use other sizes than those at their place in groups of the same kind.",
        70,
        _SHARED,
    ),
    "left_program_of_kind": Fact(
        "Most ranks of the same kind went on with their program, and not these.", 70, _VOTES
    ),
    "rank_condition": Fact(
        "A condition on the rank leads these ranks alone to a call that the others never make.",
        60,
        _OF_CODE,
    ),
    "caught_exception": Fact(
        "These ranks alone caught an exception just before they went elsewhere.", 55, _SHARED
    ),
    "led_past_by_rank": Fact(
        "A condition leads these ranks alone past what they had called before.", 30, _OF_CODE
    ),
    "in_handler": Fact(
        "These ranks caught an exception, and alone came to their call by it.", 30, _SHARED
    ),
    "left_own_rounds": Fact(
        "These ranks departed from their own iterations, and all others kept to theirs.",
        30,
        _VOTES,
    ),
    "new_in_loop_of_others": Fact(
        "These ranks came to a line where no rank ever was, in the loop in which the others go on.",
        20,
        (*_OF_CODE, "called_at_intervals"),
    ),
    "extra_calls": Fact(
        "These ranks alone made calls from lines of their own, and then went on like the others.",
        30,
        (*_OF_CODE, "called_at_intervals"),
    ),
    "called_at_intervals": _against(
        "These ranks make their call now and then, and each rank counts for itself."
    ),
    "other_line_for_others": _against(
        "The other ranks can meet that call from another line, which may have been left out."
    ),
    "shut_out_by_rank": _against(
        "A rank is where a condition should not let it come, by its number: a name has changed."
    ),
    "loader_ran_out": _against("A loader gave some ranks fewer batches than others."),
    "root_alone_had_value": _against(
        "A collective gave its result to the root alone, and that decided where ranks went."
    ),
    "root_by_own_number": _against("Each rank may have worked out the root by its own number."),
    "threads_share_group": _against("Several threads of a rank call on this group."),
    "same_calls_in_other_orders": _against(
        "From here on the ranks make the same calls, in more orders than there are sides."
    ),
    # -- messages and wait circles -----------------------------------------------------------
    "left_without_waiting": Fact("These ranks left before what they sent had arrived.", 90),
    "took_from_any": Fact("This rank took a message of any rank, and meant one rank's.", 85),
    "named_by_group_rank": Fact("These ranks named each other by their numbers in a group.", 80),
    "unpaired": Fact("This rank alone named another partner than would name it.", 65),
    "ended_in_round": Fact("This rank ended where its round always led to the message.", 60),
    "odd_message": Fact(
        "All others, and the other end, have another message there than this rank.", 60
    ),
    "end_of_every_misfit": Fact("This rank is an end of every message that does not fit.", 55),
    "message_of_its_own": Fact("This rank made a message from a line where no other was.", 50),
    "alone_in_row": Fact(
        "This rank came alone to a call, and the others are together elsewhere.",
        50,
        ("was_told",),
    ),
    "other_group_than_peers": Fact(
        "This rank alone took another of its groups first, at the line where its peers are.",
        55,
        ("was_told",),
    ),
    "odd_in_round": Fact(
        "This rank alone came to a place more, or less, often in this round than its like.",
        50,
        (
            "was_told",
            "first_message",
            "by_a_message",
            "by_a_plan",
            "told_the_waiter",
            "shared_by_rank",
        ),
    ),
    "kept_an_answer": Fact(
        "This rank gave no answer once, and had given one each time.",
        50,
        ("by_a_message", "by_a_plan", "told_the_waiter"),
    ),
    "skipped_call_once": Fact(
        "This rank left out once what it had called there each time.",
        50,
        ("was_told", "by_a_plan"),
    ),
    "led_by_its_rank": Fact(
        "A condition on its rank led this rank to a line where no other ever was.",
        50,
        ("first_message",),
    ),
    "came_by_handler": Fact(
        "Nothing but an exception led this rank to a call that is none of its round.", 50
    ),
    "left_out_by_handler": Fact(
        "Nothing but an exception led this rank past a call of its round.",
        50,
        ("peer_has_a_choice",),
    ),
    "hub_serves_as_many": Fact(
        "One rank serves as many others in each round, and this rank disagrees.", 50
    ),
    "hub_passed_over_one": Fact(
        "This rank passed over one of those that it served in each round.",
        50,
        ("peer_has_a_choice",),
    ),
    "uneven_exchange": Fact(
        "This rank alone made more, or less, than went the other way, as in no round before.", 50
    ),
    "left_own_order": Fact("This rank alone changed the order of its messages.", 50, ("was_told",)),
    "new_in_loop": Fact(
        "This rank came to a new call in the loop in which the other goes on.", 50, ("was_told",)
    ),
    "left_repeated_round": Fact(
        "These ranks left the round that they had repeated.", 20, _OF_CIRCLES
    ),
    "others_kept_rounds": Fact("All others kept their rounds.", 15, _OF_CIRCLES),
    "nobody_followed": Fact("Most others have not come where these ranks went.", 15, _OF_CIRCLES),
    "waiter_had_no_choice": Fact(
        "Only constants and agreed values lead the waiting rank to its call.", 15, _OF_CIRCLES
    ),
    "was_told": _against("Numbers, or a few elements, reached this rank before."),
    "first_message": _against("It is the first message that way: the other end may lack one."),
    "by_a_message": _against("What a message said led this rank there, and who waits may know it."),
    "by_a_plan": _against("A table that all ranks have led this rank there."),
    "ordered_by_waiter": _against(
        "The rank that waits may have ordered it, by the message that this rank got last."
    ),
    "shared_by_rank": _against(
        "How often each rank comes to that call depends on its number, as a share of the work does."
    ),
    "told_the_waiter": _against("This rank may have told the one that waits that nothing comes."),
    "others_may_follow": _against("The others may not have come to that call yet."),
    "peer_has_a_choice": _against("Who waits for this rank may have been led there wrongly."),
}
"""THE table of facts, by name."""


def told(rows: Sequence[Evidence]) -> tuple[EvidenceRow, ...] | None:
    """Return evidence as a finding has it; None: there is none."""
    return tuple(map(_told, rows)) or None


def _told(row: Evidence) -> EvidenceRow:
    fact = FACTS[row.fact]
    return EvidenceRow(
        fact=row.fact,
        speaks=fact.speaks,
        ranks=row.ranks,
        weight=fact.weight,
        sites=row.sites or None,
    )
