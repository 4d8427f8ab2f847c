"""Causes CT3xx: states of ranks."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import ABSENCE, ERRORS, ROWS, Cause, kinds, retired

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT301", "busy-elsewhere",
        "A rank is busy with something else and did not reach a call.",
        ABSENCE, ("root", "busy"), yields_to=("CT302", "CT303", "CT304", "CT305", "CT314"),
        example="stopped/slow_loader", counter_example="stopped/sigkill",
    ),
    Cause(
        "CT302", "raised-exception",
        "A rank raised an exception and ended, and the others wait for it.",
        kinds("missing_call"), ("root", "raised"),
        yields_to=("CT2", "CT306", "CT317", "CT501", "CT505"),
        example="stopped/exception", counter_example="healthy/raises_and_takes_part",
    ),
    Cause(
        "CT303", "died",
        "A rank's process ended without a last line, and the others wait for it.",
        kinds("missing_call"), ("root", "died"), yields_to=("CT302",),
        example="stopped/sigkill", counter_example="healthy/killed_when_done",
    ),
    Cause(
        "CT304", "never-started",
        "A rank left no file, and the others wait for it.",
        kinds("missing_call"), ("root", "missing"), yields_to=("CT302", "CT303"),
        example="stopped/before_init", counter_example="stopped/before_new_group",
    ),
    Cause(
        "CT305", "stopped-process",
        "A rank's process exists but gives no sign of life, and the others wait for it.",
        ABSENCE | kinds("stall"), ("root", "silent"), yields_to=("CT302", "CT303", "CT304"),
        example="stopped/gil_held", counter_example="stopped/endless_loop",
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
        "CT308", "came-late",
        "A rank reached a call when the others had given up waiting.",
        kinds("stall"), ("root",),
        example="stopped/late_after_timeout", counter_example="stopped/sigstop_inside_the_call",
    ),
    Cause(
        "CT309", "never-completes",
        "Every rank reached a call, and it never completes.",
        kinds("stall"), ("root",), yields_to=("CT305", "CT308"),
    ),
    Cause(
        "CT312", "left-job",
        "A rank destroyed its process groups to form the job anew, and the others did not.",
        kinds("missing_call"), ("root", "finished"),
        example="stopped/formed_anew_by_one", counter_example="stopped/functional_wait_of_absent",
    ),
    Cause(
        "CT313", "left-by-exit",
        "A rank left by sys.exit() in the middle of its program.",
        kinds("missing_call"), ("root", "finished"),
        example="stopped/handler_exits_as_if_done",
        counter_example="stopped/functional_wait_of_absent",
    ),
    Cause(
        "CT314", "thread-ended",
        "An exception ended a thread of a rank, and the rank waits for it.",
        ABSENCE, ("root", "busy"), yields_to=("CT302", "CT303", "CT304", "CT305"),
        example="stopped/helper_thread_raises", counter_example="stopped/lock",
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
    retired("CT319", "caught-error", "CT104"),
)  # fmt: skip
