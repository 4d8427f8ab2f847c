"""Causes CT1xx: conditions, loops, handlers and values."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import HANDLED, ROWS, STATES, Cause, kinds

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT101", "rank-condition",
        "A condition on the rank let only some ranks make a call.",
        ROWS | kinds("missing_call"), ("root", "decisions"),
        yields_to=(*STATES, "CT104", "CT108"),
        example="stopped/exception_lived_with", counter_example="healthy/mesh_rank_zero_logs",
    ),
    Cause(
        "CT102", "decided-by-data",
        "A condition that can differ between ranks decided which calls they made.",
        ROWS | kinds("missing_call"), ("root", "decisions"),
        yields_to=("CT101", "CT104", "CT107", "CT108", *STATES),
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
        "CT105", "other-function",
        "One line called different functions on different ranks.",
        ROWS | kinds("missing_call"), ("root", "decisions"),
        yields_to=(*STATES, "CT104", "CT107", "CT108"),
    ),
    Cause(
        "CT106", "other-value",
        "One line computed different values, and the calls after it differ.",
        ROWS | kinds("missing_call"), ("root", "decisions"),
        yields_to=(*STATES, "CT104", "CT107", "CT108", "CT804"),
    ),
    Cause(
        "CT107", "iteration-order",
        "A loop gave the ranks other items, or the same items in another order.",
        ROWS | kinds("missing_call"), ("root", "decisions"), yields_to=STATES,
    ),
    Cause(
        "CT108", "other-order",
        "A rank made the same calls as the others, in another order.",
        ROWS, ("root",), yields_to=(*STATES, "CT104", "CT107"),
    ),
)  # fmt: skip
