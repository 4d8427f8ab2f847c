"""Causes CT6xx: process groups."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import ROWS, Cause, kinds, retired

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT602", "group-creation-differs",
        "Some ranks did not create a group that others created, or with other members.",
        kinds("group_mismatch", "missing_call"), ("root",), yields_to=("CT302", "CT603"),
        example="groups/created_on_one_rank", counter_example="groups/wrong_group_same_members",
    ),
    retired("CT601", "other-group", "CT602"),
    Cause(
        "CT603", "members-make-group",
        "Members of a group that is made by its members only wait for each other.",
        kinds("group_mismatch", "missing_call", "deadlock"), ("root",),
        example="groups/local_groups_in_a_ring", counter_example="groups/created_in_other_order",
    ),
    Cause(
        "CT604", "wrong-group",
        "One line called a collective on different groups.",
        ROWS | kinds("deadlock"), ("root",), yields_to=("CT603",),
        example="groups/wrong_group_same_members", counter_example="groups/rank_without_tokens",
    ),
    Cause(
        "CT606", "wait-in-different-groups",
        "Ranks wait for each other in different groups: one skipped a call, or the orders differ.",
        kinds("deadlock"), ("root",), yields_to=("CT104", "CT603", "CT604", "CT608"),
        example="groups/rank_without_tokens", counter_example="groups/local_groups_in_a_ring",
    ),
    Cause(
        "CT608", "not-in-the-group",
        "A rank called a collective on a group that it is not in, which torch ignores.",
        ROWS | kinds("deadlock", "missing_call"), ("root", "suspects"),
        example="groups/group_of_another_row", counter_example="groups/wrong_group_same_members",
    ),
    retired("CT605", "opposite-group-order", "CT606"),
    retired("CT607", "repeated", "CT901"),
)  # fmt: skip
