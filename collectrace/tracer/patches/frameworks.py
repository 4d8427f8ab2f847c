"""The table of the frameworks' functions that issue collectives, with their roles.

A wrapper only enters a scope. Rows name the narrowest functions that issue calls, so that no user
code runs inside them. If it does, in a callback of a library, ``make_template`` notices that there
is no library between it and torch.

The table is from torch 2.13, Lightning 2.6, Accelerate 1.15, Transformers 5.23, torchmetrics 1.9
and DeepSpeed 0.19. Functions that a version lacks are skipped.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from collectrace.tracer.guard import Wrapper
from collectrace.tracer.patches.patching import Target
from collectrace.tracer.record import scopes
from collectrace.tracer.record.scopes import local
from collectrace.tracer.session import Session
from collectrace.tracer.user_objects import type_name
from collectrace.tracer.user_text import safe_name

Part = Callable[..., str | None]
"""Returns the part (``Call.part``) from the arguments of a method, its instance first."""


def part_of(role: str, part: Part | None = None) -> Callable[[Session], Wrapper]:
    """Wrap a function of a framework that issues collectives in this role."""

    def make(session: Session) -> Wrapper:
        def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            if session.recorder is None:
                return wrapped(*args, **kwargs)
            name = None if part is None else safe_name(part(instance, *args, **kwargs))
            return scopes.within(local.state.scope.inside_part(role, name), wrapped, args, kwargs)

        return wrapper

    return make


# -- parts --------------------------------------------------------------------------------


def _fqn(group: Any, *_: Any, **__: Any) -> str | None:
    """Return the name of an FSDPParamGroup's module below the root, such as ``layers.2``."""
    name = group._module_fqn
    return None if name is None else name or "(root)"


def _handle(handle: Any, *_: Any, **__: Any) -> str | None:
    """Return the module of a FlatParamHandle: its index among FSDP's modules, and its class."""
    index = handle._handle_index
    return None if index is None else f"{index} {type_name(handle._fully_sharded_module)}"


def _handle_of(_: Any, __: Any, handle: Any, *___: Any, **____: Any) -> str | None:
    return _handle(handle)


def _step(_: Any, step: Any = None, *__: Any, **___: Any) -> str | None:
    """Return the purpose of a checkpoint's exchange: ``plan``, ``write``, ``read``."""
    return step if isinstance(step, str) else None


def _stage(stage: Any, *_: Any, **__: Any) -> str:
    return f"stage {stage.stage_index}"


def _metric(metric: Any, *_: Any, **__: Any) -> str:
    return type_name(metric)


def _logged(result: Any, *_: Any, **__: Any) -> str | None:
    """Return the name under which a value was logged."""
    return getattr(result.meta, "name", None)


# -- pipelining ---------------------------------------------------------------------------

_messages: weakref.WeakKeyDictionary[Any, tuple[str, str]] = weakref.WeakKeyDictionary()
"""Role and part of each message that a stage wants to send or receive."""


def _chunk(role: str) -> Callable[[Session], Wrapper]:
    """Wrap a stage's method that lists the messages of one microbatch."""

    def make(session: Session) -> Wrapper:
        def wrapper(wrapped: Any, stage: Any, args: Any, kwargs: Any) -> Any:
            listed = wrapped(*args, **kwargs)
            if session.recorder is not None and args:
                named = role, f"stage {stage.stage_index}, microbatch {args[0]}"
                for message in listed:
                    _messages[message] = named
            return listed

        return wrapper

    return make


def _batch(session: Session) -> Wrapper:
    """Wrap ``_batch_p2p``, which issues the messages of one microbatch, or of two."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        if session.recorder is None:
            return wrapped(*args, **kwargs)
        messages = args[0] if args else kwargs.get("p2p_ops", ())
        role, part = _of_batch([_messages[m] for m in messages if m in _messages])
        return scopes.within(local.state.scope.inside_part(role, part), wrapped, args, kwargs)

    return wrapper


def _of_batch(named: Sequence[tuple[str, str]]) -> tuple[str, str | None]:
    found = {role for role, _ in named}
    role = found.pop() if len(found) == 1 else "pp.exchange"
    return role, " and ".join(dict.fromkeys(part for _, part in named)) or None


# -- the table ----------------------------------------------------------------------------

_FSDP_GROUP: Final = "torch.distributed.fsdp._fully_shard._fsdp_param_group:FSDPParamGroup"
_FSDP_ONE: Final = "torch.distributed.fsdp.fully_sharded_data_parallel:FullyShardedDataParallel"
_FLAT: Final = "torch.distributed.fsdp._flat_param:FlatParamHandle"
_CP: Final = "torch.distributed.tensor.experimental._context_parallel._attention:"
_LOSS: Final = "torch.distributed.tensor.parallel.loss:"
_SCHEDULE: Final = "torch.distributed.pipelining.schedules:_PipelineSchedule"
_STAGE: Final = "torch.distributed.pipelining.stage:"
_DCP: Final = "torch.distributed.checkpoint.utils:_DistWrapper"
_STATE: Final = "torch.distributed.checkpoint.state_dict:"
_ZERO_REDUNDANCY: Final = (
    "torch.distributed.optim.zero_redundancy_optimizer:ZeroRedundancyOptimizer"
)
_BATCH_NORM: Final = "torch.nn.modules._functions:SyncBatchNorm"
_LIGHTNING: Final = ("lightning.pytorch.", "pytorch_lightning.")
_STRATEGIES: Final = (
    "strategies.ddp:DDPStrategy", "strategies.fsdp:FSDPStrategy",
    "strategies.model_parallel:ModelParallelStrategy", "strategies.parallel:ParallelStrategy",
)  # fmt: skip
_ACCELERATOR: Final = "accelerate.accelerator:Accelerator"
_TRAINER: Final = "transformers.trainer:Trainer"
_ZERO: Final = "deepspeed.runtime.zero."
_STAGE3: Final = f"{_ZERO}stage3:DeepSpeedZeroOptimizer_Stage3"
_ENGINE: Final = "deepspeed.runtime.engine:DeepSpeedEngine"

_TORCH: Final[tuple[tuple[str, str, Part | None], ...]] = (
    (f"{_FSDP_GROUP}.unshard", "fsdp.unshard", _fqn),
    (f"{_FSDP_GROUP}.post_backward", "fsdp.reduce_scatter", _fqn),
    (f"{_FSDP_ONE}.__init__", "fsdp_one.construct", None),
    (f"{_FLAT}.unshard", "fsdp_one.unshard", _handle),
    (f"{_FLAT}.unshard_grad", "fsdp_one.unshard_grad", None),
    ("torch.distributed.fsdp._runtime_utils:_reduce_grad", "fsdp_one.reduce_scatter", _handle_of),
    ("torch.distributed.fsdp._runtime_utils:_reduce_grad_no_shard", "fsdp_one.all_reduce",
     _handle_of),
    ("torch.distributed.fsdp._exec_order_utils:_ExecOrderData._check_order",
     "fsdp_one.check_order", None),
    (f"{_FSDP_ONE}.clip_grad_norm_", "fsdp_one.clip_grad_norm", None),
    ("torch.distributed.fsdp._state_dict_utils:_pre_state_dict_hook", "fsdp_one.state_dict", None),
    ("torch.distributed.fsdp._state_dict_utils:_post_state_dict_hook", "fsdp_one.state_dict", None),
    ("torch.distributed.fsdp._state_dict_utils:_pre_load_state_dict_hook",
     "fsdp_one.state_dict", None),
    (f"{_FSDP_ONE}._optim_state_dict_impl", "fsdp_one.optim_state_dict", None),
    (f"{_FSDP_ONE}._optim_state_dict_to_load_impl", "fsdp_one.optim_state_dict", None),

    ("torch.distributed.tensor._redistribute:redistribute_local_tensor",
     "dtensor.redistribute", None),
    ("torch.distributed.tensor:DTensor.full_tensor", "dtensor.full_tensor", None),
    ("torch.distributed.tensor.placement_types:Shard._make_shard_tensor",
     "dtensor.distribute", None),
    ("torch.distributed.tensor.placement_types:Replicate._make_replicate_tensor",
     "dtensor.distribute", None),
    (f"{_LOSS}_log_softmax", "dtensor.loss", None),
    (f"{_LOSS}_nll_loss_forward", "dtensor.loss", None),
    (f"{_LOSS}_nll_loss_and_log_softmax_backward", "dtensor.loss", None),
    (f"{_CP}_templated_ring_attention", "cp.forward", None),
    (f"{_CP}_templated_ring_attention_backward", "cp.backward", None),
    (f"{_CP}context_parallel_unshard", "cp.unshard", None),

    # torch 2.15: stages vote, exchange metadata and warm up their connections.
    (f"{_SCHEDULE}._initialize_pipeline_distributed_state", "pp.handshake", None),
    (f"{_STAGE}PipelineStage._send_meta", "pp.metadata", _stage),
    (f"{_STAGE}PipelineStage._recv_meta", "pp.metadata", _stage),
    (f"{_STAGE}PipelineStage._warmup_forward_vote", "pp.handshake", _stage),
    (f"{_STAGE}PipelineStage._warmup_backward_result", "pp.handshake", _stage),

    (f"{_DCP}.reduce_scatter", "dcp.plan", _step),
    (f"{_DCP}.all_reduce", "dcp.finish", _step),
    (f"{_DCP}.all_gather", "dcp.gather", _step),
    (f"{_DCP}.broadcast", "dcp.broadcast", _step),
    (f"{_DCP}.barrier", "dcp.barrier", None),
    (f"{_STATE}_get_model_state_dict", "dcp.state_dict", None),
    (f"{_STATE}_load_model_state_dict", "dcp.state_dict", None),
    (f"{_STATE}_get_optim_state_dict", "dcp.state_dict", None),
    (f"{_STATE}_load_optim_state_dict", "dcp.state_dict", None),

    (f"{_BATCH_NORM}.forward", "syncbn.forward", None),
    (f"{_BATCH_NORM}.backward", "syncbn.backward", None),
    (f"{_ZERO_REDUNDANCY}.consolidate_state_dict", "zero.consolidate", None),
    ("torch.distributed.algorithms.model_averaging.utils:average_parameters",
     "averaging.parameters", None),
)  # fmt: skip

_NORMS: Final = ("_get_total_norm", "clip_grad_norm_", "_clip_grads_with_norm_")
"""Functions of torch.nn.utils.clip_grad. DTensor issues the collectives inside them."""

_LIGHTNING_PARTS: Final[tuple[tuple[str, str, Part | None], ...]] = (
    *((f"{strategy}.{method}", role, None)
      for strategy in _STRATEGIES
      for method, role in (
          ("barrier", "lightning.barrier"), ("broadcast", "lightning.broadcast"),
          ("reduce", "lightning.reduce"), ("all_gather", "lightning.all_gather"))),
    ("trainer.connectors.logger_connector.result:_ResultMetric.update", "lightning.log", _logged),
    ("trainer.connectors.logger_connector.result:_ResultMetric.compute",
     "lightning.log", _logged),
    ("loops.training_epoch_loop:_TrainingEpochLoop._broadcast_sigterm_tensor",
     "lightning.sigterm", None),
    ("core.module:LightningModule.all_gather", "lightning.all_gather", None),
    ("trainer.trainer:Trainer.save_checkpoint", "lightning.checkpoint", None),
    ("utilities.data:has_len_all_ranks", "lightning.loader_check", None),
    ("callbacks.early_stopping:EarlyStopping._run_early_stopping_check",
     "lightning.early_stopping", None),
)  # fmt: skip

_LIBRARIES: Final[tuple[tuple[str, str, Part | None], ...]] = (
    (f"{_ACCELERATOR}.gather", "accelerate.gather", None),
    (f"{_ACCELERATOR}.gather_for_metrics", "accelerate.gather_for_metrics", None),
    (f"{_ACCELERATOR}.reduce", "accelerate.reduce", None),
    (f"{_ACCELERATOR}.pad_across_processes", "accelerate.pad", None),
    (f"{_ACCELERATOR}.check_trigger", "accelerate.check_trigger", None),
    ("accelerate.state:PartialState.wait_for_everyone", "accelerate.wait_for_everyone", None),
    ("accelerate.utils.random:synchronize_rng_states", "accelerate.random_state", None),

    (f"{_TRAINER}.evaluation_loop", "trainer.gather", None),
    (f"{_TRAINER}._get_num_items_in_batch", "trainer.num_items", None),
    (f"{_TRAINER}.store_flos", "trainer.flops", None),
    (f"{_TRAINER}._save_checkpoint", "trainer.checkpoint", None),

    ("torchmetrics.metric:Metric._sync_dist", "torchmetrics.sync", _metric),

    (f"{_ENGINE}._broadcast_model", "deepspeed.broadcast_model", None),
    (f"{_ENGINE}.save_checkpoint", "deepspeed.checkpoint", None),
    (f"{_ENGINE}.load_checkpoint", "deepspeed.checkpoint", None),
    (f"{_ENGINE}.allreduce_gradients", "deepspeed.reduce_gradients", None),
    (f"{_ZERO}partition_parameters:Init._zero_init_param", "deepspeed.construct", None),
    (f"{_ZERO}partition_parameters:GatheredParameters.__enter__",
     "deepspeed.gathered_parameters", None),
    (f"{_ZERO}partition_parameters:GatheredParameters.__exit__",
     "deepspeed.gathered_parameters", None),
    (f"{_ZERO}partitioned_param_coordinator:PartitionedParameterCoordinator._fetch_sub_module_impl",
     "deepspeed.fetch", None),
    (f"{_ZERO}partitioned_param_coordinator:PartitionedParameterCoordinator.reset_step",
     "deepspeed.trace_check", None),
    (f"{_STAGE3}.__init__", "deepspeed.construct", None),
    (f"{_STAGE3}._DeepSpeedZeroOptimizer_Stage3__reduce_and_partition_ipg_grads",
     "deepspeed.reduce_gradients", None),
    (f"{_STAGE3}.step", "deepspeed.step", None),
    (f"{_ZERO}stage_1_and_2:DeepSpeedZeroOptimizer.__init__", "deepspeed.construct", None),
    (f"{_ZERO}stage_1_and_2:DeepSpeedZeroOptimizer.reduce_ipg_grads",
     "deepspeed.reduce_gradients", None),
    (f"{_ZERO}stage_1_and_2:DeepSpeedZeroOptimizer.step", "deepspeed.step", None),
)  # fmt: skip


def _target(where: str, make: Callable[[Any], Any]) -> Target:
    module, _, name = where.partition(":")
    return Target((module,), name, make, by_name=True)


def rows() -> Iterator[Target]:
    """Yield the functions to patch, including those of libraries that are not imported."""
    for where, role, part in (*_TORCH, *_LIBRARIES):
        yield _target(where, part_of(role, part))
    for package in _LIGHTNING:
        for where, role, part in _LIGHTNING_PARTS:
            yield _target(f"{package}{where}", part_of(role, part))
    for name in _NORMS:
        yield _target(f"torch.nn.utils.clip_grad:{name}", part_of("dtensor.grad_norm"))
    stage = f"{_STAGE}_PipelineStageBase"
    for method in ("get_fwd_recv_ops", "get_fwd_send_ops"):
        yield _target(f"{stage}.{method}", _chunk("pp.forward"))
    for method in ("get_bwd_recv_ops", "get_bwd_send_ops"):
        yield _target(f"{stage}.{method}", _chunk("pp.backward"))
    yield _target("torch.distributed.pipelining.schedules:_batch_p2p", _batch)
