"""Causes CT8xx: frameworks."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import ROWS, Cause, kinds, retired

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT801", "entered-by-one",
        "A collective is in a function or a block that only some ranks enter at this point.",
        ROWS | kinds("missing_call", "deadlock"), ("root",),
        example="matching/collective_while_one_goes_first",
        counter_example="matching/extra_before_the_entry",
    ),
    retired("CT802", "others-held-at-entry", "CT801"),
    retired("CT803", "computed-once", "CT801"),
    Cause(
        "CT804", "decided-in-a-library",
        "A library decided, by something that is not the same on all ranks.",
        ROWS | kinds("missing_call"), ("root", "frameworks"), yields_to=("CT2", "CT5", "CT801"),
    ),
)  # fmt: skip
