"""Causes CT4xx: arguments of calls."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import CAUGHT, ROWS, Cause, kinds

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT401", "other-dtype",
        "One call got tensors of different dtypes.",
        kinds("dtype_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT402", "CT413"),
        example="matching/dtype_differs", counter_example="loops/verifier_error_swallowed",
    ),
    Cause(
        "CT402", "half-precision",
        "One call got tensors of half precision on some ranks only.",
        kinds("dtype_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT413"),
        example="matching/dtype_autocast", counter_example="matching/dtype_differs",
    ),
    Cause(
        "CT403", "other-size",
        "One call got tensors of different sizes.",
        kinds("shape_mismatch"), ("root", "several"),
        yields_to=(*CAUGHT, "CT404", "CT409", "CT410", "CT411", "CT413"),
        example="matching/one_loss_less", counter_example="matching/helper_other_size",
    ),
    Cause(
        "CT404", "ragged-batch",
        "The last batch of a rank is smaller, and so is what it passed to a call.",
        kinds("shape_mismatch"), ("root", "several"),
        yields_to=(*CAUGHT, "CT409", "CT410", "CT411", "CT413"),
        example="matching/last_batch_of_one", counter_example="matching/classes_behind_the_loader",
    ),
    Cause(
        "CT405", "other-reduce-op",
        "The ranks combined one tensor by different reductions.",
        kinds("reduce_op_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT413"),
        example="matching/reduce_op_differs", counter_example="matching/one_row_fits",
    ),
    Cause(
        "CT406", "other-root",
        "The ranks named different roots for one call.",
        kinds("root_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT413", "CT415"),
        example="matching/root_differs", counter_example="healthy/root_rotates",
    ),
    Cause(
        "CT407", "other-splits",
        "The sizes of an all_to_all do not fit pair by pair.",
        kinds("split_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT408"),
        example="matching/all_to_all_pairs",
        counter_example="healthy/uneven_all_to_all",
    ),
    Cause(
        "CT408", "splits-changed",
        "The ranks exchanged the sizes of an all_to_all, and one then used others.",
        kinds("split_mismatch"), ("root", "several"), yields_to=CAUGHT,
        example="matching/duplicates_dropped_after_counts",
        counter_example="matching/all_to_all_pairs",
    ),
    Cause(
        "CT409", "other-batching",
        "The ranks batched their calls differently.",
        kinds("op_mismatch", "shape_mismatch"), ("root", "several"), yields_to=CAUGHT,
        example="matching/coalesced_grouping", counter_example="healthy/coalesced",
    ),
    Cause(
        "CT410", "object-lists",
        "Lists of objects have different lengths.",
        kinds("shape_mismatch"), ("root", "several"), yields_to=CAUGHT,
        example="matching/names_grow_on_the_source", counter_example="matching/count_differs",
    ),
    Cause(
        "CT411", "other-shape",
        "One call got as many elements in different shapes.",
        kinds("shape_mismatch"), ("root", "several"), yields_to=(*CAUGHT, "CT409", "CT413"),
        example="matching/shape_differs_count_agrees", counter_example="matching/count_differs",
    ),
    Cause(
        "CT413", "other-element",
        "One line goes through several tensors, and the ranks are at different ones.",
        kinds("dtype_mismatch", "shape_mismatch", "reduce_op_mismatch", "root_mismatch"),
        ("root", "several"), yields_to=(*CAUGHT, "CT409", "CT410", "CT415"),
        example="matching/one_mask_fewer", counter_example="matching/masked_out_metric",
    ),
    Cause(
        "CT415", "root-of-own-number",
        "Every rank worked out the root of a call from its own number.",
        kinds("root_mismatch"), ("root", "several"), yields_to=CAUGHT,
        example="matching/root_is_own_rank", counter_example="matching/root_differs",
    ),
    Cause(
        "CT416", "decided-at-root",
        "The ranks decided by a result that only the root got.",
        ROWS | kinds("missing_call"), ("root", "decisions"), yields_to=(*CAUGHT, "CT30"),
        example="matching/reduced_to_the_root", counter_example="groups/unused_in_one_node",
    ),
)  # fmt: skip
