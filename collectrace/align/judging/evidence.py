"""Facts for or against blaming ranks, and their weights.

A finder looks at one candidate and yields rows of evidence. The table ``FACTS`` holds the weight of
each fact and the facts that veto it. ``weighing.weigh`` decides from the rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from collectrace.findings import EvidenceRow
from collectrace.records import Call, Raised

Speaks = Literal["for", "against"]

ENOUGH: Final = 50
"""Weight that is enough to blame ranks."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A kind of evidence."""

    summary: str
    """One line for readers of a report: the meaning of the fact for its ranks."""

    weight: int
    """0 to 100. A fact of 50 or more decides alone; smaller ones must add up to 50."""

    vetoed_by: tuple[str, ...] = ()
    """Facts "against" that cancel this one for the same ranks."""

    speaks: Speaks = "for"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One row: a fact about some ranks."""

    fact: str
    """A key of ``FACTS``."""

    ranks: tuple[int, ...]
    """The ranks that it is about; sorted. For a fact "against", the ranks that it protects."""

    sites: tuple[str, ...] = ()
    """``path:line`` of the code that shows it."""

    shown_by: object = field(default=None, compare=False)
    """The typed data behind it, such as a departure. Causes read it."""


def sites_of(calls: Iterable[Call | Raised]) -> tuple[str, ...]:
    """Return the lines of some calls, each once."""
    return tuple(dict.fromkeys(one.site for one in calls if one.site))


_AGAINST: Final = 100


def _against(summary: str) -> Fact:
    return Fact(summary, _AGAINST, speaks="against")


_SHARED: Final = ("threads_share_group",)

_BY_EXCEPTION: Final = (*_SHARED, "made_usual_call")

_OF_ROWS: Final = (*_SHARED, "root_by_own_number", "same_calls_in_other_orders")

_VOTES: Final = (*_OF_ROWS, "root_alone_had_value")
"""Vetoes of facts that only show a difference from other ranks."""

_OF_CODE: Final = (*_VOTES, "other_line_for_others")

FACTS: Final[dict[str, Fact]] = {
    # -- rows of streams, groups, stalls ----------------------------------------------------
    "call_refused": Fact(
        "Calls of these ranks were refused, and they have made fewer calls since.", 95
    ),
    "outside_of_group": Fact(
        "These ranks made the call on a group that they are not in, so torch ignored it.", 95
    ),
    "came_late": Fact("These ranks reached the call after the others had given up.", 94),
    "stopped": Fact("These ranks stopped without a last line.", 90),
    "left_no_log": Fact("These ranks left no file, and no rank got past the start.", 95),
    "holds_up_others": Fact(
        "The other ranks wait, directly or through others, for these ranks.", 90
    ),
    "call_within_join": Fact(
        "These ranks made a call of their own while others were in join().", 85, _OF_ROWS
    ),
    "outvoted": Fact(
        "More than half of the group made the same call, and these ranks another one.", 80, _VOTES
    ),
    "fewer_finished": Fact(
        "Some ranks finished without a call that others made. These ranks are the smaller part.",
        80,
        ("root_alone_had_value",),
    ),
    "asked_otherwise": Fact(
        "More than half of the ranks asked for one group, and these ranks for another.", 80
    ),
    "sizes_changed": Fact(
        "These ranks sent their sizes to the others, and then used other sizes.", 80, _SHARED
    ),
    "in_every_pair": Fact(
        "These ranks are in every pair of ranks whose sizes differ.", 75, _SHARED
    ),
    "unlike_sister_groups": Fact(
        "Groups of the same kind did what the other ranks did.", 75, _VOTES
    ),
    "left_program_of_kind": Fact(
        "Most ranks of the same kind kept to one program, and these ranks left it.", 70, _VOTES
    ),
    "in_hook_of_one_rank": Fact(
        "A framework calls this function on one rank alone, and this rank made a call in it.", 75
    ),
    "rank_condition": Fact(
        "A condition on the rank leads these ranks alone to a call that the others never make.",
        60,
        _OF_CODE,
    ),
    "caught_exception": Fact(
        "These ranks alone caught an exception just before they diverged.", 55, _BY_EXCEPTION
    ),
    "led_past_by_rank": Fact(
        "A condition on the rank leads these ranks alone past a call that they made before.",
        30,
        _OF_CODE,
    ),
    "in_handler": Fact(
        "These ranks alone reached their call by handling an exception.", 30, _BY_EXCEPTION
    ),
    "left_own_rounds": Fact(
        "These ranks departed from their own iterations, and all others kept to theirs.",
        30,
        _VOTES,
    ),
    "new_in_loop_of_others": Fact(
        "These ranks reached a line where no rank ever was, in the loop that the others are in.",
        20,
        (*_OF_CODE, "called_at_intervals"),
    ),
    "called_at_intervals": _against(
        "These ranks make the call from time to time, and each rank counts for itself."
    ),
    "other_line_for_others": _against(
        "The other ranks can make that call at another line, and may have skipped it."
    ),
    "root_alone_had_value": _against(
        "A collective gave its result to the root alone, and that result decided."
    ),
    "root_by_own_number": _against("Each rank may have computed the root from its own number."),
    "threads_share_group": _against("Several threads of a rank call on this group."),
    "made_usual_call": _against(
        "These ranks made, at another line, the call that the others had always made at theirs."
    ),
    "same_calls_in_other_orders": _against(
        "The ranks make the same calls from here on, in more orders than there are sides."
    ),
    # -- messages and wait circles -----------------------------------------------------------
    "left_without_waiting": Fact("These ranks ended before their messages had arrived.", 90),
    "took_from_any": Fact(
        "This rank received from any rank, and got a message that was meant for another receive.",
        85,
    ),
    "named_by_group_rank": Fact("These ranks named each other by their numbers in a group.", 80),
    "unpaired": Fact("This rank alone named a partner that names another rank.", 65),
    "left_its_peer": Fact(
        "This rank named another peer than ever before at that line. The other end did not.", 65
    ),
    "ended_in_round": Fact("This rank ended where its iterations always led to the message.", 60),
    "odd_message": Fact(
        "The other end and all peers agree on the message, and only this rank has another one.", 60
    ),
    "end_of_every_misfit": Fact("This rank is an end of every message that does not fit.", 55),
    "alone_in_row": Fact(
        "This rank reached a call alone, and the others are together in another one.",
        50,
        ("was_told",),
    ),
    "other_group_than_peers": Fact(
        "This rank took another of its groups first, at the line where all its peers are.",
        55,
        ("was_told",),
    ),
    "fewest_to_any": Fact(
        "This rank sent one message fewer than its peers to a rank that receives from any of them.",
        60,
        ("was_told", "by_a_message", "by_a_plan", "told_the_waiter"),
    ),
    "odd_in_round": Fact(
        "This rank reached a line less often in this iteration than its peers.",
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
        "This rank skipped one answer, and had always answered before.",
        50,
        ("by_a_message", "by_a_plan", "told_the_waiter"),
    ),
    "skipped_call_once": Fact(
        "This rank skipped a call once, and had always made it there.",
        50,
        ("was_told", "by_a_plan"),
    ),
    "led_by_its_rank": Fact(
        "A condition on the rank led this rank to a line where no other rank ever was.",
        50,
        ("first_message",),
    ),
    "came_by_handler": Fact(
        "Only an exception can have led this rank to a call outside of its iterations.", 50
    ),
    "left_out_by_handler": Fact(
        "Only an exception can have led this rank past a call of its iterations.",
        50,
        ("peer_has_a_choice",),
    ),
    "hub_serves_as_many": Fact(
        "One rank always exchanged messages with as many others, and this rank changes how many.",
        50,
    ),
    "hub_passed_over_one": Fact(
        "This rank skipped one of the ranks that it had served in each iteration.",
        50,
        ("peer_has_a_choice",),
    ),
    "left_repeated_round": Fact(
        "These ranks departed from their own iterations, and all others kept to theirs.",
        50,
        ("was_told", "first_message", "others_may_follow", "by_a_plan", "ordered_by_waiter"),
    ),
    "was_told": _against("This rank had received numbers, or a few elements of a collective."),
    "first_message": _against(
        "It is the first message of its channel, so the other end may have skipped its own."
    ),
    "by_a_message": _against(
        "A received message decided, and the waiting rank may know its content."
    ),
    "by_a_plan": _against("A table or constants decided, and all ranks have the same."),
    "ordered_by_waiter": _against(
        "The last message that this rank received decided, and the waiting rank sent it."
    ),
    "shared_by_rank": _against(
        "The number of such calls depends on the rank, as a share of the work does."
    ),
    "told_the_waiter": _against(
        "This rank may have told the waiting rank that no call, or how many, will follow."
    ),
    "others_may_follow": _against("The other ranks may not have reached that call yet."),
    "peer_has_a_choice": _against("A condition may have led the waiting rank to the wrong call."),
}
"""All facts by name."""


def evidence_rows(rows: Sequence[Evidence]) -> tuple[EvidenceRow, ...] | None:
    """Return evidence in the form of findings, or None if there is none."""
    return tuple(map(_evidence_row, rows)) or None


def _evidence_row(row: Evidence) -> EvidenceRow:
    fact = FACTS[row.fact]
    return EvidenceRow(
        fact=row.fact,
        speaks=fact.speaks,
        ranks=row.ranks,
        weight=fact.weight,
        sites=row.sites or None,
        says=fact.summary,
    )
