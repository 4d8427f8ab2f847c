"""Causes CT6xx: process groups."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import ALL, Cause, kinds

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT601", "other-group",
        "At one place in the program, ranks created groups with different members.",
        kinds("group_mismatch"), ("root",), yields_to=("CT602", "CT603"),
        example="groups/created_with_other_ranks", counter_example="groups/created_on_one_rank",
    ),
    Cause(
        "CT602", "group-skipped",
        "Some ranks did not create a group that the others created.",
        kinds("group_mismatch", "missing_call"), ("root",),
        yields_to=("CT302", "CT603"),
        example="groups/created_on_one_rank", counter_example="groups/created_with_other_ranks",
    ),
    Cause(
        "CT603", "members-make-group",
        "Members of a group that is made by its members only wait for each other.",
        kinds("group_mismatch", "missing_call", "deadlock"), ("root",),
        example="groups/local_groups_in_a_ring", counter_example="groups/created_in_other_order",
    ),
    Cause(
        "CT604", "wrong-group",
        "One line called a collective on different groups.",
        kinds("deadlock", "role_mismatch"), ("root",), yields_to=("CT603",),
        example="groups/wrong_group_same_members", counter_example="groups/rank_without_tokens",
    ),
    Cause(
        "CT605", "opposite-group-order",
        "Ranks entered two groups in opposite order, and wait for each other.",
        kinds("deadlock"), ("root",), yields_to=("CT104", "CT603", "CT604", "CT606"),
        example="groups/barrier_among_leaders", counter_example="groups/local_groups_in_a_ring",
    ),
    Cause(
        "CT606", "skipped-in-group",
        "A rank departed from its usual calls, and the ranks wait in different groups.",
        kinds("deadlock"), ("root",), yields_to=("CT104", "CT603", "CT604"),
        example="groups/rank_without_tokens", counter_example="groups/opposite_order",
    ),
    Cause(
        "CT607", "repeated",
        "The error of another group, or of another message, once more.",
        ALL, ("consequence",),
        example="groups/first_of_each_pair", counter_example="groups/rank_without_tokens",
    ),
)  # fmt: skip
