"""Causes CT1xx: conditions, loops, handlers and values."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import HANDLED, ROWS, STATES, Cause, kinds, retired

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT102", "skipped-by-condition",
        "A condition was not the same on all ranks, and decided which calls they made.",
        ROWS | kinds("missing_call"), ("root", "decisions"), yields_to=(*STATES, "CT104", "CT108"),
        example="stopped/exception_lived_with", counter_example="healthy/mesh_rank_zero_logs",
    ),
    Cause(
        "CT103", "loop-length",
        "A loop had more iterations on some ranks than on others.",
        ROWS | kinds("missing_call"), ("root", "decisions"), yields_to=(*STATES, "CT104", "CT108"),
    ),
    Cause(
        "CT104", "handled-exception",
        "Some ranks handled an exception that the others did not have.",
        ROWS | kinds("missing_call", "deadlock"), ("root",), yields_to=HANDLED,
    ),
    Cause(
        "CT106", "other-value",
        "One line gave the ranks other values, items or functions, and the calls after it differ.",
        ROWS | kinds("missing_call"), ("root", "decisions"),
        yields_to=(*STATES, "CT104", "CT108", "CT604", "CT804"),
    ),
    Cause(
        "CT108", "other-order",
        "A rank made the same calls as the others, in another order.",
        ROWS, ("root",), yields_to=(*STATES, "CT104"),
    ),
    retired("CT101", "rank-condition", "CT102"),
    retired("CT105", "other-function", "CT106"),
    retired("CT107", "iteration-order", "CT106"),
)  # fmt: skip
