"""Causes CT5xx: DDP and sharded models."""

from __future__ import annotations

from typing import Final

from collectrace.align.causes.cause import ROWS, Cause, kinds, retired

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "CT502", "models-differ",
        "Ranks built their models, or wrapped them, differently, or used them in another order.",
        ROWS | kinds("missing_call"), ("root", "frameworks"), yields_to=("CT508",),
        example="ddp/model_sizes_differ", counter_example="ddp/head_left_out_of_the_loss",
    ),
    retired("CT501", "model-sizes-differ", "CT502"),
    retired("CT506", "other-model", "CT502"),
    retired("CT512", "resharding-differs", "CT502"),
    Cause(
        "CT503", "among-frameworks",
        "Only some ranks ran a forward of a wrapped model, or made a call among a framework's.",
        ROWS | kinds("missing_call"), ("root", "frameworks", "suspects"),
        yields_to=("CT104", "CT2", "CT502", "CT505", "CT508", "CT510", "CT801"),
        example="ddp/evaluation_after_training", counter_example="ddp/two_models_swapped",
    ),
    retired("CT507", "call-among-frameworks", "CT503"),
    Cause(
        "CT505", "left-out-of-the-loss",
        "What some ranks computed took no part in their loss: a part of backward() did not run.",
        ROWS | kinds("missing_call"), ("root",),
        yields_to=("CT204", "CT502", "CT508", "CT510"),
        example="ddp/head_left_out_of_the_loss", counter_example="ddp/last_step_skipped",
    ),
    retired("CT509", "cut-out-of-the-graph", "CT505"),
    retired("CT515", "gradients-left-out", "CT505"),
    Cause(
        "CT508", "iteration-skipped",
        "A rank ran no backward() where the others did, or ran it inside no_sync().",
        ROWS | kinds("missing_call"), ("root", "frameworks"), yields_to=("CT204",),
        example="ddp/skipped_step", counter_example="ddp/accumulation_tail_flush",
    ),
    retired("CT504", "no-sync-boundaries", "CT508"),
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
        yields_to=("CT204", "CT502", "CT510"),
        example="sharded/layer_dropped_at_random", counter_example="sharded/widths_differ",
    ),
    retired("CT513", "framework-arguments", "CT403"),
)  # fmt: skip
