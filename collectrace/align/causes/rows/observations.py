"""Causes CT9xx: observations, consequences, and unexplained findings."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import ERRORS, FOUND, Cause, kinds, retired
from collectrace.findings import Kind

_KINDS: Final[tuple[Kind, ...]] = (
    "dtype_mismatch", "shape_mismatch", "reduce_op_mismatch", "root_mismatch", "split_mismatch",
    "role_mismatch", "group_mismatch", "missing_call", "p2p_unmatched", "p2p_mismatch", "deadlock",
    "stall",
)  # fmt: skip
"""Kinds with a retired code for findings of an unknown cause."""

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT901", "consequence",
        "It follows from another finding of the run.",
        ERRORS, ("consequence",),
        example="groups/mesh", counter_example="stopped/exception",
    ),
    Cause(
        "CT902", "lost-calls",
        "The ranks differ in calls of which a log has lost the lines.",
        kinds("lost_mismatch"), ("root",),
    ),
    Cause(
        "CT911", "crashed-alike",
        "Ranks ended with an exception though their collectives agree.",
        kinds("raised"),
        example="healthy/crashed_everywhere",
    ),
    Cause(
        "CT912", "other-batch-counts",
        "The ranks had different numbers of batches, and nothing failed because of it.",
        kinds("uneven_inputs"),
    ),
    Cause(
        "CT913", "straggler",
        "One rank kept the others waiting, in most of its calls.",
        kinds("straggler"),
        example="healthy/rotated",
    ),
    Cause(
        "CT914", "config-skew",
        "The ranks were not started alike: versions, environment, code or devices differ.",
        kinds("config_skew"),
    ),
    Cause(
        "CT915", "sampler-epoch",
        "A shuffling sampler never got the epoch.",
        kinds("sampler_epoch"),
    ),
    Cause(
        "CT916", "unwaited-work",
        "Nobody waited for the work of an asynchronous call, or its tensor was written before.",
        kinds("unwaited_work"),
        example="stopped/unwaited_work",
    ),
    Cause(
        "CT917", "early-termination",
        "join() ended the job when the first rank ran out of inputs, as configured.",
        kinds("early_termination"),
        example="healthy/join_throws",
    ),
    Cause(
        "CT918", "evidence-gap",
        "Evidence that would be needed to judge is not there.",
        kinds("evidence_gap"),
        example="stopped/enable_forgotten",
    ),
    Cause(
        "CT951", "unexplained",
        "The cause was not found: the finding says what is known, and where to look.",
        ERRORS - kinds("lost_mismatch"), ("root",), yields_to=FOUND,
        # No example: with the text of the program, every script of the collection has a cause.
    ),
    *(
        retired(f"CT{number}", f"unexplained-{kind.replace('_', '-')}", "CT951")
        for number, kind in enumerate(_KINDS, 952)
    ),
)  # fmt: skip
