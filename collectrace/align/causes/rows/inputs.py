"""Causes CT2xx: join() and inputs."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import ROWS, Cause, kinds, retired

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT201", "unanswered-in-join",
        "A call inside join() met another call, by which a rank without inputs answers there.",
        ROWS, ("root", "ddp"),
        example="join/barrier_inside", counter_example="join/inputs_uneven",
    ),
    Cause(
        "CT204", "uneven-inputs",
        "Some ranks had fewer batches than others, and nothing takes care of that.",
        ROWS | kinds("missing_call"), ("root", "inputs"), yields_to=("CT201",),
        example="join/inputs_uneven", counter_example="ddp/stops_early_and_ends",
    ),
    retired("CT202", "join-unanswered", "CT201"),
    retired("CT203", "join-on-some-ranks", "CT201"),
    retired("CT206", "own-join-hook", "CT201"),
)  # fmt: skip
