"""Causes CT8xx: frameworks."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import ALL, ROWS, Cause, kinds

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT801", "one-rank-hook",
        "A collective stands in a function that a framework calls on one rank alone.",
        ALL, ("root", "frameworks"),
    ),
    Cause(
        "CT802", "others-held-at-entry",
        "A context manager lets one rank go first, and a collective stands in its body.",
        ROWS | kinds("deadlock"), ("root",),
        example="matching/collective_while_one_goes_first",
    ),
    Cause(
        "CT803", "computed-once",
        "A function that keeps its result makes a collective the first time it is used.",
        ROWS | kinds("missing_call"), ("root",), yields_to=("CT801", "CT802"),
    ),
    Cause(
        "CT804", "decided-in-a-library",
        "A library decided, by something that is not the same on all ranks.",
        ROWS | kinds("missing_call"), ("root", "frameworks"),
        yields_to=("CT2", "CT5", "CT801", "CT802", "CT803"),
    ),
)  # fmt: skip
