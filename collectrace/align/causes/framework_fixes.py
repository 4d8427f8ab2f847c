"""Fixes in the words of the framework between the script and a collective, as one table.

A row states which part of which framework needs which change in which situation. It can be applied
to the words of any cause. A row applies only if the calls at which the ranks diverged have its
role, or passed through its function. Each row names the framework's version, and the docstring or
file that it is from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from collectrace.records import Call

When = Literal[
    "some ranks", "modules", "library", "sizes", "uneven", "threads", "roots", "messages",
    "message sizes", "elsewhere",
]  # fmt: skip
"""``some ranks``: only some ranks made the calls. ``modules``: some ranks skipped a module of a
forward. ``library``: a statement of the library decided. ``sizes``: one call with different
tensors. ``uneven``: ranks ran out of inputs. ``threads``: several share a group. ``roots``: ranks
name different ones. ``messages``: their numbers differ. ``message sizes``: their ends differ.
``elsewhere``: a rank waits outside of all collectives."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that a framework needs."""

    text: str
    roles: tuple[str, ...]
    """Roles of the calls that it applies to; one that ends with a dot is a prefix."""
    path: str = ""
    """A library function that must be on the stack, as in ``Stack.path``."""
    when: tuple[When, ...] = ("some ranks",)
    whole_forward: bool = False
    """Whether it needs a forward that only some ranks ran as a whole. Then it comes behind the
    cause's own."""
    condition: str = ""
    """Text that a deciding statement must contain; empty: any."""
    replaces: bool = False
    """Whether it replaces the cause's own fix, which would be wrong."""
    why: str = ""
    """How the framework makes the call; empty: its name shows it."""

    def fits(self, call: Call, path: Sequence[str], decided: Sequence[str]) -> bool:
        """Whether it applies to a call, its library functions, and the deciding statements."""
        if not any(
            call.role.startswith(one) if one.endswith(".") else call.role == one
            for one in self.roles
        ):
            return False
        if self.path and self.path not in path:
            return False
        return not self.condition or any(self.condition in text for text in decided)


_MODULES: Final = ("fsdp.unshard", "fsdp.reduce_scatter", "fsdp.all_reduce")
_MODULES_ONE: Final = ("fsdp_one.unshard", "fsdp_one.reduce_scatter", "fsdp_one.all_reduce")
_GATHERS_MODULES: Final = ("fsdp.", "fsdp_one.unshard", "deepspeed.fetch")
_CHECKPOINT: Final = (
    "dcp.plan", "dcp.finish", "dcp.gather", "dcp.broadcast", "dcp.barrier", "dcp.other",
)  # fmt: skip

TABLE: Final = (
    # -- Lightning 2.6.6 ----------------------------------------------------------------------
    # fit_loop.py, on_advance_end: the callbacks' hook comes before the module's, and that of
    # progress_bar.py, get_metrics, reduces what was logged, where the bar is shown: on rank 0.
    Fix(
        "Make no collective in on_train_epoch_end beside such values, as by compute() of a metric: "
        "log the metric itself by self.log(). Or switch the bar off: "
        "Trainer(enable_progress_bar=False).",
        ("lightning.log",), path="ProgressBar.get_metrics", when=("some ranks", "library"),
        replaces=True,
        why="Lightning's progress bar is on rank 0 alone. It reduces what was logged with "
        "sync_dist=True before the module's on_train_epoch_end runs.",
    ),
    # LightningModule.log: "Tells Lightning if you are calling self.log from every process
    # (default) or only from rank 0. If True, you won't be able to use this metric as a monitor".
    Fix(
        "Call self.log(..., sync_dist=True) on every rank: it reduces the value over all of them. "
        "To log on rank 0 alone: self.log(..., rank_zero_only=True), without sync_dist; callbacks "
        "cannot monitor such a value.",
        ("lightning.log",),
    ),
    # Trainer.save_checkpoint: "This method needs to be called on all processes"; it ends in a
    # barrier under every strategy, and writes on rank 0 by itself.
    Fix(
        "Call trainer.save_checkpoint() on every rank, outside of any condition on the rank: it "
        "writes on rank 0 by itself, and then waits for all ranks in a barrier.",
        ("lightning.checkpoint",),
    ),
    # Trainer.log_dir: "You must call this on all processes"; it broadcasts the path.
    Fix(
        "Read trainer.log_dir on every rank, outside of any condition on the rank: it broadcasts "
        "the path. Only what is then done with it belongs on one rank.",
        ("lightning.",), path="Trainer.log_dir",
    ),
    # LightningModule.all_gather: "needs to be called on all processes and the tensors need to
    # have the same shape across all processes".
    Fix(
        "Call self.all_gather() on every rank, with tensors of one shape.",
        ("lightning.all_gather",), when=("some ranks", "sizes"), replaces=True,
    ),
    # Trainer(use_distributed_sampler=True), trainer/trainer.py: it replaces the sampler of a
    # map-style data set by a DistributedSampler, which pads.
    Fix(
        "Lightning's DistributedSampler gives every rank as many samples "
        "(Trainer(use_distributed_sampler=True), the default): a sampler of your own, or an "
        "IterableDataset, must do so itself. It also holds for validation.",
        ("lightning.",), when=("uneven",),
    ),

    # -- Accelerate 1.15.0: accelerator.py ------------------------------------------------------
    Fix(
        "Call accelerator.gather_for_metrics() on every process, outside of "
        "`if accelerator.is_main_process:`; use its result there.",
        ("accelerate.gather_for_metrics",),
    ),
    Fix(
        "Call accelerator.gather(), reduce() and pad_across_processes() on every process, outside "
        "of `if accelerator.is_main_process:`; use the result there.",
        ("accelerate.gather", "accelerate.reduce", "accelerate.pad"),
    ),
    Fix(
        "Let every process call accelerator.wait_for_everyone(), equally often: outside of any "
        "condition on the process.",
        ("accelerate.wait_for_everyone",),
    ),
    Fix(
        "Call accelerator.check_trigger() on every process in each step; only "
        "accelerator.set_trigger() belongs under the condition.",
        ("accelerate.check_trigger",),
    ),
    # Accelerator.pad_across_processes; gather_for_metrics(use_gather_object): "useful for
    # gathering tensors with different sizes that we don't want to pad".
    Fix(
        "Bring the tensors to one size before: accelerator.pad_across_processes(tensor, dim=0), or "
        "gather_for_metrics(..., use_gather_object=True).",
        ("accelerate.gather", "accelerate.gather_for_metrics", "accelerate.reduce"),
        when=("sizes",), replaces=True,
    ),
    # DataLoaderConfiguration.even_batches; Accelerator.join_uneven_inputs.
    Fix(
        "Hand the DataLoader to accelerator.prepare(), which evens it out (even_batches=True, the "
        "default), or train inside `with accelerator.join_uneven_inputs([model]):`.",
        ("accelerate.",), when=("uneven",),
    ),

    # -- Transformers 5.23.0: trainer.py, generation/utils.py -----------------------------------
    # Trainer.evaluation_loop gathers on every process before it calls compute_metrics.
    Fix(
        "Call evaluate() and predict() of the Trainer on every process: they gather from all of "
        "them. Only printing belongs under is_world_process_zero().",
        ("trainer.gather",),
    ),
    Fix(
        "Let every process save through the Trainer: it writes on the main process by itself.",
        ("trainer.checkpoint",),
    ),
    Fix(
        "Reduce on every process, and let only the printing stand under is_world_process_zero(); "
        "or compute it in the Trainer's compute_metrics, which is given what all processes found.",
        ("user",), condition="is_world_process_zero",
    ),
    # TrainingArguments.ignore_data_skip: "If False, skips seen data"; save_on_each_node: "whether
    # to save models and checkpoints on each node, or only on the main one".
    Fix(
        "Resume on every rank from the same checkpoint, or on none (resume_from_checkpoint): one "
        "that resumes skips the batches that the checkpoint has behind it. Where nodes share no "
        "disk: TrainingArguments(save_on_each_node=True).\n"
        "If all resumed alike: give every rank the same number of batches.",
        ("trainer.",), when=("uneven",), condition="resume_from_checkpoint", replaces=True,
    ),
    # GenerationMixin.generate(synced_gpus): "Whether to continue running the while loop until
    # max_length. [...] to avoid deadlocking".
    Fix(
        "Call generate(..., synced_gpus=True) on every rank: ranks whose sequences are complete "
        "then go on with forwards until all are.",
        _GATHERS_MODULES, path="GenerationMixin.generate", replaces=True,
        when=("some ranks", "modules", "library"),
    ),

    # -- torchmetrics 1.9.0: metric.py ----------------------------------------------------------
    # Metric._sync_dist gathers the states of all ranks in compute() if sync_on_compute is true,
    # which is its default. An empty list state without a reduction gathers nothing. _wrap_compute
    # returns its cached value if there was no update() since.
    Fix(
        "Call compute() of the metric on every rank, after an update() on every rank: it gathers "
        "the states of all. For a value of the rank's own: Metric(sync_on_compute=False).",
        ("torchmetrics.sync",),
        why="A metric keeps what compute() gave until its next update(): a rank without one "
        "gathers nothing.",
    ),
    # Metric.add_state: dist_reduce_fx; Metric._sync_dist joins a list only for "cat".
    Fix(
        "Let each state of the metric hold as many tensors on every rank: "
        'add_state(..., dist_reduce_fx="cat") makes one of a list before it is gathered; without '
        "it a list is gathered item by item, and every rank must have as many. Or append one "
        "tensor in each update(), an empty one of the same dimensions too, in as many updates.",
        ("torchmetrics.sync",), when=("sizes", "library"), replaces=True,
    ),

    # -- DeepSpeed 0.19.8 -----------------------------------------------------------------------
    # utils/z3_leaf_module.py: set_z3_leaf_modules. Not run is not enough: what no loss is computed
    # from reduces no gradients either.
    Fix(
        "Let every rank run the same modules in the same order: ZeRO stage 3 gathers each one's "
        "parameters over all ranks. Where not all of a block's children run on every rank (a "
        "mixture of experts): deepspeed.utils.set_z3_leaf_modules(model, [Block]) before "
        "deepspeed.initialize(), and let every expert take part in the loss, times zero.",
        ("deepspeed.fetch",), when=("modules",), replaces=True,
    ),
    # DeepSpeedEngine.save_checkpoint: "all processes must call this method and not just the
    # process with rank 0".
    Fix(
        "Call save_checkpoint() and load_checkpoint() of the engine on every rank, not on rank 0 "
        "alone: each has its own part to save.",
        ("deepspeed.checkpoint",),
    ),
    # runtime/zero/partition_parameters.py: GatheredParameters.
    Fix(
        "Enter deepspeed.zero.GatheredParameters(..., modifier_rank=0) on every rank; only what "
        "changes the parameters inside belongs under `if rank == 0:`.",
        ("deepspeed.gathered_parameters",),
    ),

    # -- Ray Train 2.60.0 -----------------------------------------------------------------------
    # ray.train.report: "All workers must call `ray.train.report` the same number of times [...]
    # acts as a barrier across all workers".
    Fix(
        "Call ray.train.report() on every worker, equally often: it waits for all of them. A "
        "worker without a checkpoint passes checkpoint=None.",
        (), path="ray.train.report", when=("elsewhere",), replaces=True,
    ),

    # -- torch 2.13.0: DDP (nn/parallel/distributed.py) ------------------------------------------
    # DistributedDataParallel(forward_sync_buffers): "syncing (broadcasting) buffers of the module
    # at beginning of the forward function"; before torch 2.13 it is broadcast_buffers.
    Fix(
        "Keep the model's buffers at one size on every rank: DDP broadcasts them in each forward. "
        "What a forward makes longer (a cache, a table of positions) make longer on all ranks "
        "alike, or keep it out of the buffers (register_buffer).\n"
        "Where each may have its own: DDP with forward_sync_buffers=False on all ranks (in older "
        "torch broadcast_buffers=False).",
        ("ddp.forward.sync_buffers", "join.sync_buffers"), when=("sizes",), replaces=True,
    ),

    # -- torch 2.13.0: FSDP2 (distributed/fsdp/_fully_shard) ------------------------------------
    # fully_shard gathers before each module's forward. With cpu_offload "only the rank0 will get
    # the state_dict" (StateDictOptions).
    Fix(
        "Or evaluate a copy that is not sharded, filled by get_model_state_dict(model, "
        "options=StateDictOptions(full_state_dict=True, cpu_offload=True)) on every rank.",
        _MODULES, whole_forward=True,
    ),
    # FSDPParamGroup.post_backward gives zeros only for unsharded parameters, so the setting does
    # not help if the module was not entered. FullyShardedDataParallel reduces gradients by a hook
    # that the module's own forward sets: _runtime_utils.py, _register_post_backward_hook.
    Fix(
        "Let every rank enter the same modules in the same order, equally often: FSDP gathers each "
        "one's parameters over all ranks. Where a rank has no use for a module, run it all the "
        "same and add its output times zero (x + 0 * layer(x)), so that its backward runs too; "
        "set_reduce_scatter_unused_params() does not help a module that was not entered.",
        (*_MODULES, *_MODULES_ONE), when=("modules",), replaces=True,
    ),
    # FSDPModule.set_reduce_scatter_unused_params: "when different ranks use different parameters
    # due to conditional control flow [...] causing mismatched reduce-scatter collectives".
    Fix(
        "Of the parameters that one fully_shard() holds together others took part in the loss on "
        "each rank: model.set_reduce_scatter_unused_params(True), on every rank, sends zeros for "
        "those that had no gradient. Where the ranks' models differ: build the same model.",
        ("fsdp.reduce_scatter", "fsdp.all_reduce"), when=("sizes",), replaces=True,
    ),
    Fix(
        "Build the same model on every rank, with the same sizes of layers, and shard it alike: "
        "the shards of one module differ in size.",
        ("fsdp.unshard", "fsdp_one.unshard"), when=("sizes",), replaces=True,
    ),

    # -- torch 2.13.0: FullyShardedDataParallel, ZeroRedundancyOptimizer, SyncBatchNorm ----------
    # FullStateDictConfig (fsdp/api.py): "`state` will be empty on non rank 0 and contain CPU
    # tensors on rank 0". summon_full_params: "Nor can forward and backward be started from within".
    Fix(
        "Or evaluate a module that is not wrapped, filled by what model.state_dict() gives rank 0, "
        "called on every rank inside FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, "
        "FullStateDictConfig(offload_to_cpu=True, rank0_only=True)).",
        _MODULES_ONE, whole_forward=True,
    ),
    # FullyShardedDataParallel.clip_grad_norm_: "needs to be called on all ranks".
    Fix(
        "Call clip_grad_norm_() on every rank: the norm of sharded gradients is a sum over all "
        "ranks.",
        ("fsdp_one.clip_grad_norm", "dtensor.grad_norm"),
    ),
    Fix(
        "Call state_dict() on every rank, and save what it gives on rank 0: sharded parameters are "
        "gathered from all ranks. With FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, "
        "FullStateDictConfig(offload_to_cpu=True, rank0_only=True)) rank 0 alone keeps the "
        "tensors.",
        ("fsdp_one.state_dict",),
    ),
    # FullyShardedDataParallel.optim_state_dict, full_optim_state_dict: "This needs to be called on
    # all ranks since it uses collective communications".
    Fix(
        "Call FSDP.optim_state_dict(model, optimizer) on every rank, and save what it gives on "
        "rank 0: the states of sharded parameters are gathered from all ranks.",
        ("fsdp_one.optim_state_dict",),
    ),
    Fix(
        "Call consolidate_state_dict(to=0) on every rank, then state_dict() on rank 0.",
        ("zero.consolidate",),
    ),
    # ZeroRedundancyOptimizer.consolidate_state_dict: "to (int): the rank that receives the
    # optimizer states".
    Fix(
        "Pass the same `to` on every rank: consolidate_state_dict(to=0), then state_dict() on that "
        "rank alone. Where several ranks need it, let all ranks call it once for each of them.",
        ("zero.consolidate",), when=("roots",), replaces=True,
    ),
    # nn.SyncBatchNorm: with running statistics it does not sync in evaluation mode.
    Fix(
        "Call the layer equally often on every rank; to run it on some ranks only, after "
        "model.eval(): SyncBatchNorm then uses its running statistics, and does not sync.",
        ("syncbn.forward",),
    ),

    # -- torch 2.13.0: DTensor (distributed/tensor), distributed checkpoint ----------------------
    # DTensor.full_tensor: "It will perform necessary collectives to gather the local tensors".
    Fix(
        "Call full_tensor() on every rank, and use the result on one: it gathers from all ranks.",
        ("dtensor.full_tensor",),
    ),
    Fix(
        "Run the parallel modules on every rank of their mesh alike: what goes in and comes out is "
        "exchanged between all of them.",
        ("dtensor.redistribute", "dtensor.loss"),
    ),
    # parallel/style.py, ColwiseParallel(input_layouts): "If not specified, we assume the input
    # tensor to be replicated". Padding would add up rows of different samples.
    Fix(
        "Give all ranks of a tensor-parallel group the same inputs: what is not declared otherwise "
        "(input_layouts) is taken to be replicated. Split the data over the data-parallel "
        "dimension of the mesh alone, by the rank in that dimension.",
        ("dtensor.redistribute", "dtensor.loss"), when=("sizes",), replaces=True,
    ),
    # state_dict.py, StateDictOptions: see above.
    Fix(
        "Call get_model_state_dict() and its like on every rank: a full state dict is gathered "
        "from all. With StateDictOptions(full_state_dict=True, cpu_offload=True) rank 0 alone "
        "gets the tensors; save them there.",
        ("dcp.state_dict",),
    ),
    # state_dict_saver.py: save, async_save; "no_dist: If True, this function will assume the
    # intent is to load a checkpoint on a single rank/process".
    Fix(
        "Call save() and load() of torch.distributed.checkpoint on every rank: each writes and "
        "reads its own shards. For a checkpoint of one process alone: no_dist=True.",
        _CHECKPOINT,
    ),
    Fix(
        "Give async_save() a process group of its own: "
        'process_group=torch.distributed.new_group(backend="gloo"), made on every rank before; '
        "and wait for its future before the next one.",
        _CHECKPOINT, when=("threads",), replaces=True,
    ),

    # -- torch 2.13.0: pipelining (distributed/pipelining/schedules.py) --------------------------
    # Each step() and eval() sends and receives as many messages as there are microbatches.
    Fix(
        "Call step() and eval() of the schedule equally often on every rank of the pipeline, every "
        "rank with the same schedule and the same n_microbatches.",
        ("pp.",), when=("messages",),
    ),
    # stage.py: a stage allocates its receive buffers once, with the shapes that it was given
    # (input_args, output_args) or that the first step() showed.
    Fix(
        "Let every microbatch have the shape that the stages were built for, by their example "
        "arguments or by the first step(): drop the last, smaller batch on every rank "
        "(DataLoader(drop_last=True)), or pad it to the full size. For batches of another shape "
        "build stages and a schedule of their own.",
        ("pp.forward", "pp.backward", "pp.exchange"), when=("message sizes",), replaces=True,
    ),
)  # fmt: skip
