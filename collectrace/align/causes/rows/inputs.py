"""Causes CT2xx: join() and inputs."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import ROWS, Cause, kinds

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT201", "join-own-call",
        "The script made a call of its own inside join(), which does not answer it.",
        ROWS, ("root", "join"), yields_to=("CT206",),
        example="join/barrier_inside", counter_example="join/zero_left_out",
    ),
    Cause(
        "CT202", "join-unanswered",
        "A model or an optimizer made a call that join() does not answer.",
        ROWS, ("root", "join"),
        example="join/one_model_of_two", counter_example="join/two_models",
    ),
    Cause(
        "CT203", "join-on-some-ranks",
        "Some ranks ran a DDP model inside join(), and others outside of it.",
        ROWS, ("root", "ddp"),
        example="join/enabled_on_one_rank", counter_example="join/barrier_inside",
    ),
    Cause(
        "CT204", "uneven-inputs",
        "Some ranks had fewer batches than others, and nothing takes care of that.",
        ROWS | kinds("missing_call"), ("root", "inputs"), yields_to=("CT201", "CT202", "CT203"),
        example="join/inputs_uneven", counter_example="ddp/stops_early_and_ends",
    ),
    Cause(
        "CT206", "own-join-hook",
        "A join hook of the script's own made another call than what it is to answer.",
        ROWS, ("root", "join"),
        example="join/own_joinable", counter_example="join/barrier_inside",
    ),
)  # fmt: skip
