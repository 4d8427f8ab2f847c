"""Causes CT5xx: DDP and sharded models."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import ROWS, Cause, kinds, retired

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT501", "models-differ",
        "The models that ranks gave to DDP differ.",
        ROWS | kinds("missing_call"), ("root", "ddp"),
        example="ddp/model_sizes_differ",
    ),
    Cause(
        "CT502", "ddp-settings-differ",
        "DDP was constructed with other arguments, or has another communication hook.",
        ROWS, ("root", "ddp"), yields_to=("CT506", "CT508"),
        example="ddp/find_unused_on_one_rank", counter_example="ddp/head_left_out_of_the_loss",
    ),
    Cause(
        "CT503", "forward-on-some-ranks",
        "Only some ranks ran a forward of a wrapped model.",
        ROWS | kinds("missing_call"), ("root", "frameworks", "suspects"),
        yields_to=("CT2", "CT501", "CT506", "CT508", "CT510", "CT512", "CT803"),
        example="ddp/evaluation_after_training", counter_example="ddp/two_models_swapped",
    ),
    Cause(
        "CT504", "no-sync-boundaries",
        "no_sync() was entered for other micro-batches on some ranks.",
        ROWS | kinds("missing_call"), ("root", "frameworks", "suspects"),
        example="ddp/no_sync_boundaries", counter_example="ddp/accumulating_step_skipped",
    ),
    Cause(
        "CT505", "unused-parameters",
        "Parameters took no part in the loss on some ranks.",
        ROWS | kinds("missing_call"), ("root", "ddp"),
        yields_to=("CT204", "CT502", "CT508", "CT509"),
        example="ddp/head_left_out_of_the_loss", counter_example="ddp/last_step_skipped",
    ),
    Cause(
        "CT506", "other-model",
        "Ranks used several DDP models in another order, or each another one.",
        ROWS, ("root", "ddp"),
        example="ddp/two_models_swapped", counter_example="ddp/critic_held_back",
    ),
    Cause(
        "CT507", "call-among-frameworks",
        "Only some ranks made a call that stands among those of a framework.",
        ROWS | kinds("missing_call"), ("root", "frameworks", "decisions", "suspects"),
        yields_to=("CT104", "CT2", "CT504", "CT505", "CT508", "CT510", "CT801", "CT802", "CT803"),
        example="ddp/call_between_forward_and_backward",
        counter_example="ddp/skipped_step",
    ),
    Cause(
        "CT508", "backward-skipped",
        "A rank skipped a whole iteration: it ran no backward() where the others did.",
        ROWS | kinds("missing_call"), ("root", "frameworks", "suspects"),
        yields_to=("CT204", "CT504"),
        example="ddp/skipped_step", counter_example="ddp/accumulation_tail_flush",
    ),
    Cause(
        "CT509", "cut-out-of-the-graph",
        "The backward of an autograd function did not run on some ranks.",
        ROWS | kinds("missing_call"), ("root", "decisions"),
        example="ddp/regulariser_cut_out_of_the_graph",
        counter_example="ddp/head_left_out_of_the_loss",
    ),
    Cause(
        "CT510", "recomputed",
        "A forward ran again within backward() on some ranks only.",
        ROWS | kinds("missing_call"), ("root",),
        example="sharded/recomputed_on_one_rank", counter_example="sharded/block_run_by_itself",
    ),
    Cause(
        "CT511", "module-left-out",
        "Some ranks left out a module of a sharded model.",
        ROWS | kinds("missing_call"), ("root", "frameworks"),
        yields_to=("CT204", "CT510", "CT512"),
        example="sharded/layer_dropped_at_random", counter_example="sharded/widths_differ",
    ),
    Cause(
        "CT512", "resharding-differs",
        "A sharded module kept its parameters after the forward on some ranks only.",
        ROWS, ("root", "frameworks"),
        example="sharded/kept_gathered_where_there_is_room",
        counter_example="sharded/module_cut_out_of_the_loss",
    ),
    Cause(
        "CT515", "gradients-left-out",
        "The gradients of a module of a sharded model did not come on some ranks.",
        ROWS | kinds("missing_call"), ("root", "frameworks"),
        yields_to=("CT204", "CT510", "CT512"),
        example="sharded/module_cut_out_of_the_loss",
        counter_example="sharded/layer_dropped_at_random",
    ),
    retired("CT513", "framework-arguments", "CT403"),
)  # fmt: skip
