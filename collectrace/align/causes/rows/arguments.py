"""Causes CT4xx: arguments of calls."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import CAUGHT, Cause, kinds, retired

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT403", "other-argument",
        "All ranks made one call, with tensors, ops or roots that differ.",
        kinds("op_mismatch", "dtype_mismatch", "shape_mismatch", "reduce_op_mismatch",
              "root_mismatch"),
        ("root", "several"), yields_to=(*CAUGHT, "CT413"),
        example="matching/one_loss_less", counter_example="loops/verifier_error_swallowed",
    ),
    Cause(
        "CT407", "other-splits",
        "The sizes of an all_to_all do not fit pair by pair.",
        kinds("split_mismatch"), ("root", "several"), yields_to=CAUGHT,
        example="matching/all_to_all_pairs",
        counter_example="healthy/uneven_all_to_all",
    ),
    Cause(
        "CT413", "other-element",
        "One line goes through several tensors, and the ranks are at different ones.",
        kinds("dtype_mismatch", "shape_mismatch", "reduce_op_mismatch", "root_mismatch"),
        ("root", "several"), yields_to=CAUGHT,
        example="matching/one_mask_fewer", counter_example="matching/masked_out_metric",
    ),
    retired("CT401", "other-dtype", "CT403"),
    retired("CT402", "half-precision", "CT403"),
    retired("CT404", "ragged-batch", "CT403"),
    retired("CT405", "other-reduce-op", "CT403"),
    retired("CT406", "other-root", "CT403"),
    retired("CT408", "splits-changed", "CT407"),
    retired("CT409", "other-batching", "CT403"),
    retired("CT410", "object-lists", "CT403"),
    retired("CT411", "other-shape", "CT403"),
    retired("CT415", "root-of-own-number", "CT403"),
    retired("CT416", "decided-at-root", "CT102"),
)  # fmt: skip
