"""Causes CT3xx: states of ranks."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import ABSENCE, ERRORS, ROWS, Cause, kinds, retired

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT302", "absent-rank",
        "A rank that others wait for raised an exception, ended, stopped, or is busy.",
        ABSENCE, ("root",), yields_to=("CT2", "CT306", "CT317", "CT502", "CT505", "CT608"),
        example="stopped/exception", counter_example="healthy/raises_and_takes_part",
    ),
    Cause(
        "CT306", "refused-call",
        "A call was refused on some ranks over its own arguments.",
        ROWS | kinds("missing_call", "deadlock"), ("root", "caught"),
        example="stopped/error_caught_by_a_wrapper_of_two",
        counter_example="matching/plan_that_never_came",
    ),
    Cause(
        "CT307", "threads-share-group",
        "Several threads make calls on one group, and nothing orders them.",
        ROWS, ("root", "several"), yields_to=("CT306",),
        example="threads/two_threads_one_group", counter_example="healthy/threads_in_order",
    ),
    Cause(
        "CT309", "never-completes",
        "Every rank reached a call, and it does not complete: a rank stopped in it, or came late.",
        kinds("stall"), ("root",),
        example="stopped/late_after_timeout", counter_example="stopped/exception",
    ),
    Cause(
        "CT317", "returned-early",
        "A rank returned before a call, and raised an exception later.",
        kinds("missing_call"), ("root", "raised", "decisions"), yields_to=("CT306",),
        example="stopped/returned_before_the_exchange", counter_example="stopped/exception",
    ),
    Cause(
        "CT318", "too-early",
        "Ranks had not reached a call when the logs end, and that proves nothing.",
        ERRORS, ("early",),
        example="healthy/killed_everywhere", counter_example="stopped/interrupted",
    ),
    Cause(
        "CT320", "held-across-a-call",
        "Ranks wait for each other: one for a lock or the like that a rank in a call holds.",
        kinds("deadlock"), ("root",),
        example="stopped/lock_held_across_call", counter_example="stopped/lock",
    ),
    retired("CT301", "busy-elsewhere", "CT302"),
    retired("CT303", "died", "CT302"),
    retired("CT304", "never-started", "CT302"),
    retired("CT305", "stopped-process", "CT302"),
    retired("CT308", "came-late", "CT309"),
    retired("CT312", "left-job", "CT302"),
    retired("CT313", "left-by-exit", "CT302"),
    retired("CT314", "thread-ended", "CT302"),
    retired("CT319", "caught-error", "CT104"),
)  # fmt: skip
