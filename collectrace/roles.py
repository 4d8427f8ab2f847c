"""The roles of calls: who issued a collective, and which roles may match each other.

A collective that a framework issues has a role: DDP's forward, its reducer, a join hook. Roles are
compared by their *pairing class*. For example, two ranks inside ``join()`` issue the same bytes for
different reasons: one still trains, and the other shadows it.

The tracer's tables say which function of which framework has a role (``tracer/patches/targets.py``
and ``tracer/patches/frameworks.py``). Parts that legally meet the script's own calls, as any
barrier may meet any other, pair as the script's own do.

Sources: ``torch/distributed/algorithms/join.py`` and ``torch/nn/parallel/distributed.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

USER: Final = "user"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Role:
    """A role: what it pairs with, and its words.

    Some rows are families: a framework's part as a whole, whose name begins the names of its parts.
    No record bears the role of a family: a call that is inside it, and inside none of its parts,
    is the user's own.
    """

    name: str
    pairs: str
    """The pairing class: what must agree between the ranks."""
    issuer: str
    """The issuer, as headlines name it."""
    short: str
    """A few words for a table cell."""
    words: str
    """A clause for a sentence."""
    precision: int = 4
    """If parts of frameworks nest, the one with the higher precision names the role; of equals, the
    outer one.

    1: a family, or a library's part. 2: a part that may run the user's code or another part. So a
    comm hook that the reducer runs keeps the reducer's role, and one in join()'s shadow the
    shadow's. 3: a helper that other parts use. 4: anything else.
    """
    shadows: bool = False
    """Issued only by a rank that ran out of inputs inside ``join()``."""
    in_backward: bool = False
    """Part of a backward: issued without waiting, and waited for before the backward returns. On a
    rank that trains DDP's reducer in C++ issues it, and does not say for which model."""
    is_bucket: bool = False
    """Carries gradients."""
    by_part: bool = False
    """Whether calls pair only where their part, such as the name of a module, is the same."""
    is_library: bool = False
    """Part of a package other than torch, which drives torch's own: those name a call better."""
    is_asked: bool = False
    """Issued by a function that scripts call by name, such as ``gather()``, and not within a
    forward, a backward or a step."""
    if_op: tuple[tuple[str, str], ...] = ()
    """Ops that have another role than the rest of this part, each with that role."""

    @property
    def is_family(self) -> bool:
        """Return whether it covers a framework's part as a whole."""
        return self.precision == 1 and not self.is_library

    @property
    def weight(self) -> int:
        """Return the weight: of nested parts of frameworks, the largest weight names the role."""
        return 0 if self.is_library else self.precision


_FORWARD: Final = "DDP forward()"
_BACKWARD: Final = "DDP backward()"
_JOIN: Final = "join()"
_ZERO: Final = "ZeroRedundancyOptimizer.step()"
_FSDP: Final = "FSDP"
_FSDP1: Final = "FullyShardedDataParallel"
_DTENSOR: Final = "DTensor"
_CP: Final = "context parallelism"
_PP: Final = "the pipeline schedule"
_DCP: Final = "distributed checkpoint"
_LIGHTNING: Final = "Lightning"
_ACCELERATE: Final = "Accelerate"
_TRAINER: Final = "the Trainer"
_TRANSFORMERS: Final = "Transformers"
_METRIC: Final = "torchmetrics"
_DEEPSPEED: Final = "DeepSpeed"


def _part(
    name: str, issuer: str, short: str, doing: str = "", *, pairs: str = "", by_part: bool = False,
    if_op: tuple[tuple[str, str], ...] = (), asked: bool = False,
) -> Role:  # fmt: skip
    """Return the row of a part of torch's frameworks. ``doing``: the clause after the issuer."""
    words = f"{issuer} {doing}" if doing else f"{issuer}'s {short.partition(' ')[2]}"
    return Role(
        name, pairs or name, issuer, short, words,
        by_part=by_part, if_op=if_op, is_asked=asked,
    )  # fmt: skip


def _library(
    name: str, issuer: str, short: str, doing: str = "", *, pairs: str = "", by_part: bool = False,
    asked: bool = False,
) -> Role:  # fmt: skip
    """Return the row of a part of a package between torch and the script."""
    words = f"{issuer} {doing}" if doing else f"{issuer}'s {short.partition(' ')[2]}"
    return Role(
        name, pairs or name, issuer, short, words, 1,
        by_part=by_part, is_library=True, is_asked=asked,
    )  # fmt: skip


_TABLE: Final = (
    Role(USER, USER, "the script", "script", "the script's own call"),
    Role(UNKNOWN, UNKNOWN, "the script", "not known", "a call whose issuer is not known"),

    Role("ddp.construct", "ddp.construct", "DDP's constructor",
         "DDP constructor", "DDP's constructor", precision=2),

    Role("ddp.forward", "ddp.forward", _FORWARD, _FORWARD, _FORWARD, precision=1),
    Role("ddp.forward.notify_join", "ddp.join_count", _FORWARD,
         "DDP forward() 1", "DDP forward() 1, telling join() that it still has inputs"),
    Role("ddp.forward.terminate_check", "ddp.terminate", _FORWARD,
         "DDP forward() terminate?", "DDP forward() asking whether a rank ran out of inputs"),
    Role("ddp.forward.sync_check", "ddp.sync_check", _FORWARD,
         "DDP forward() 2", "DDP forward() 2, announcing a gradient sync"),
    Role("ddp.forward.buffers_rank", "ddp.buffers_rank", _FORWARD,
         "DDP forward() buffers rank", "DDP forward() agreeing whose buffers count"),
    Role("ddp.forward.sync_buffers", "ddp.buffers", _FORWARD,
         "DDP forward() buffers", "DDP forward() broadcasting buffers", precision=3),
    Role("ddp.forward.rebuild_buckets", "ddp.rebuild", _FORWARD,
         "DDP rebuild buckets", "DDP agreeing on rebuilt buckets"),

    Role("ddp.backward", "ddp.backward", _BACKWARD, _BACKWARD, _BACKWARD, precision=1),
    Role("ddp.backward.bucket", "ddp.bucket", _BACKWARD,
         "DDP backward()", "DDP backward(), a gradient bucket",
         precision=2, in_backward=True, is_bucket=True),
    Role("ddp.backward.unused_params", "ddp.unused_params", _BACKWARD,
         "DDP backward() unused", "DDP backward() exchanging which parameters were used",
         in_backward=True),

    Role("join", "join", _JOIN, _JOIN, _JOIN, precision=1, shadows=True),
    Role("join.count_nonjoined", "ddp.join_count", _JOIN,
         "join() count nonjoined", "join() counting the ranks that still have inputs",
         shadows=True),
    Role("join.terminate", "ddp.terminate", _JOIN,
         "join() terminate", "join() telling the others to stop", shadows=True),
    Role("join.sync_check", "ddp.sync_check", _JOIN,
         "join() check bwd grad sync", "join() asking whether gradients will be synced",
         shadows=True),
    Role("join.buffers_rank", "ddp.buffers_rank", _JOIN,
         "join() buffers rank", "join() agreeing whose buffers count", shadows=True),
    Role("join.sync_buffers", "ddp.buffers", _JOIN,
         "join() buffers", "join() receiving buffers", precision=3, shadows=True),
    Role("join.bucket", "ddp.bucket", _JOIN,
         "join() hook", "join() shadowing a gradient bucket",
         shadows=True, in_backward=True, is_bucket=True),
    Role("join.unused_params", "ddp.unused_params", _JOIN,
         "join() unused params", "join() exchanging which parameters were used",
         shadows=True, in_backward=True),
    Role("join.common_rank", "ddp.common_rank", _JOIN, "_find_common_rank()",
         "join() choosing the rank whose model counts (_find_common_rank)"),
    Role("join.final_sync", "ddp.final_sync", _JOIN,
         "sync final model", "join() broadcasting the final model", precision=3),

    Role("join.own_hook", USER, _JOIN, "join() own hook",
         "join() running a join hook of the script's own", shadows=True),

    Role("zero.step", "zero.step", _ZERO, "ZeRO step()", _ZERO, precision=2),
    _part("zero.consolidate", "ZeroRedundancyOptimizer", "ZeRO consolidate",
          "gathering its state (consolidate_state_dict)", asked=True),

    # FSDP2 (fully_shard). Which module is gathered must agree, or shards of two are mixed.
    _part("fsdp.unshard", _FSDP, "FSDP unshard", "gathering a module's parameters (unshard)",
          by_part=True),
    _part("fsdp.reduce_scatter", _FSDP, "FSDP reduce-scatter", "reducing a module's gradients",
          by_part=True, if_op=(("all_reduce", "fsdp.all_reduce"),)),
    _part("fsdp.all_reduce", _FSDP, "FSDP all-reduce",
          "reducing a module's gradients between its replicas (HSDP)", by_part=True),
    _part("fsdp.other", _FSDP, "FSDP", "at work", pairs=USER),

    # FullyShardedDataParallel
    _part("fsdp_one.construct", _FSDP1, "FSDP constructor", "being constructed"),
    _part("fsdp_one.unshard", _FSDP1, "FSDP unshard", "gathering a module's parameters (unshard)",
          by_part=True),
    _part("fsdp_one.unshard_grad", _FSDP1, "FSDP unshard grad", "gathering a module's gradients"),
    _part("fsdp_one.reduce_scatter", _FSDP1, "FSDP reduce-scatter", "reducing a module's gradients",
          by_part=True, if_op=(("all_reduce", "fsdp_one.all_reduce"),)),
    _part("fsdp_one.all_reduce", _FSDP1, "FSDP all-reduce",
          "reducing a module's gradients between its replicas", by_part=True),
    _part("fsdp_one.check_order", _FSDP1, "FSDP order check",
          "checking that all ranks run their modules in one order"),
    _part("fsdp_one.clip_grad_norm", _FSDP1, "FSDP clip_grad_norm_", "in clip_grad_norm_()",
          asked=True),
    _part("fsdp_one.state_dict", _FSDP1, "FSDP state_dict", "gathering or loading a state_dict",
          asked=True),
    _part("fsdp_one.optim_state_dict", _FSDP1, "FSDP optim_state_dict",
          "gathering or loading an optimizer's state", asked=True),

    # DTensor, and tensor and context parallelism on it
    _part("dtensor.redistribute", _DTENSOR, "DTensor redistribute",
          "changing how a tensor is sharded (redistribute)"),
    _part("dtensor.full_tensor", _DTENSOR, "DTensor full_tensor", "in full_tensor()", asked=True),
    _part("dtensor.distribute", _DTENSOR, "DTensor distribute",
          "scattering or copying a tensor to the ranks (distribute_tensor)", asked=True),
    _part("dtensor.grad_norm", _DTENSOR, "DTensor gradient norm",
          "computing or clipping the norm of sharded gradients", asked=True),
    _part("dtensor.loss", _DTENSOR, "DTensor loss", "computing a loss whose classes are sharded"),
    _part("dtensor.other", _DTENSOR, "DTensor", "at work", pairs=USER),
    _part("cp.forward", _CP, "CP forward", "passing keys and values on in the forward"),
    _part("cp.backward", _CP, "CP backward", "passing keys, values and gradients on in backward"),
    _part("cp.unshard", _CP, "CP unshard", "gathering its buffers (context_parallel_unshard)",
          asked=True),
    _part("cp.other", _CP, "CP", "at work", pairs=USER),

    # pipelining
    _part("pp.forward", _PP, "pipeline forward", "passing activations between stages"),
    _part("pp.backward", _PP, "pipeline backward", "passing gradients between stages"),
    _part("pp.exchange", _PP, "pipeline exchange",
          "passing activations and gradients between stages"),
    _part("pp.metadata", _PP, "pipeline metadata", "telling the next stage what it will be sent"),
    _part("pp.handshake", _PP, "pipeline handshake", "asking whether stages know their shapes"),
    _part("pp.other", _PP, "pipeline", "at work", pairs=USER),

    # distributed checkpoint
    _part("dcp.plan", _DCP, "checkpoint plan", "agreeing on who saves or loads what",
          by_part=True, asked=True),
    _part("dcp.finish", _DCP, "checkpoint finish", "collecting what was written", by_part=True,
          asked=True),
    _part("dcp.gather", _DCP, "checkpoint gather", "collecting what was read", by_part=True,
          asked=True),
    _part("dcp.broadcast", _DCP, "checkpoint broadcast", "telling all ranks", by_part=True,
          asked=True),
    _part("dcp.barrier", _DCP, "checkpoint barrier", "waiting for all ranks", pairs=USER,
          asked=True),
    _part("dcp.state_dict", _DCP, "state_dict", "gathering or spreading a state_dict", asked=True),
    _part("dcp.other", _DCP, "checkpoint", "at work", pairs=USER),

    _part("syncbn.forward", "SyncBatchNorm", "SyncBatchNorm forward", "sharing its statistics"),
    _part("syncbn.backward", "SyncBatchNorm", "SyncBatchNorm backward",
          "sharing the gradients of its statistics"),
    _part("averaging.parameters", "the model averager", "averaging parameters",
          "averaging the parameters"),
    _part("compile.agree", "torch.compile", "torch.compile",
          "agreeing with the other ranks on what it compiles and runs", pairs=USER),
    _part("compile.graph", "a compiled graph", "compiled graph", "running what the script wrote",
          pairs=USER),

    # packages between torch and the script
    _library("lightning.barrier", _LIGHTNING, "Lightning barrier", pairs=USER),
    _library("lightning.broadcast", _LIGHTNING, "Lightning broadcast",
             "telling all ranks what one knows"),
    _library("lightning.reduce", _LIGHTNING, "Lightning reduce", "reducing a value of its own"),
    _library("lightning.all_gather", _LIGHTNING, "Lightning all_gather", "in self.all_gather()",
             asked=True),
    _library("lightning.log", _LIGHTNING, "Lightning log",
             "reducing a logged value (self.log with sync_dist)", asked=True),
    _library("lightning.sigterm", _LIGHTNING, "Lightning sigterm",
             "asking in each batch whether a rank was told to stop (SIGTERM)"),
    _library("lightning.checkpoint", _LIGHTNING, "Lightning checkpoint", "saving a checkpoint",
             asked=True),
    _library("lightning.loader_check", _LIGHTNING, "Lightning loader check",
             "comparing the lengths of the loaders"),
    _library("lightning.early_stopping", _LIGHTNING, "Lightning EarlyStopping",
             "asking whether to stop early"),
    _library("lightning.other", _LIGHTNING, "Lightning", "at work", pairs=USER),

    _library("accelerate.gather", _ACCELERATE, "Accelerate gather", "in gather()", asked=True),
    _library("accelerate.gather_for_metrics", _ACCELERATE, "gather_for_metrics",
             "in gather_for_metrics()", asked=True),
    _library("accelerate.reduce", _ACCELERATE, "Accelerate reduce", "in reduce()", asked=True),
    _library("accelerate.pad", _ACCELERATE, "Accelerate pad", "in pad_across_processes()",
             asked=True),
    _library("accelerate.wait_for_everyone", _ACCELERATE, "wait_for_everyone",
             "in wait_for_everyone()", pairs=USER, asked=True),
    _library("accelerate.check_trigger", _ACCELERATE, "Accelerate check_trigger",
             "in check_trigger()", asked=True),
    _library("accelerate.random_state", _ACCELERATE, "Accelerate random state",
             "giving all ranks the same random state"),
    _library("accelerate.other", _ACCELERATE, "Accelerate", "at work", pairs=USER),

    _library("trainer.gather", _TRAINER, "Trainer evaluation",
             "gathering what an evaluation has found"),
    _library("trainer.num_items", _TRAINER, "Trainer item count",
             "counting the items of a batch over all ranks"),
    _library("trainer.flops", _TRAINER, "Trainer flops", "adding up floating point operations"),
    _library("trainer.checkpoint", _TRAINER, "Trainer checkpoint", "saving a checkpoint"),
    _library("trainer.other", _TRAINER, "Trainer", "at work", pairs=USER),
    _library("transformers.other", _TRANSFORMERS, "Transformers", "at work", pairs=USER),

    _library("torchmetrics.sync", _METRIC, "torchmetrics sync",
             "gathering a metric's state (sync)", by_part=True, asked=True),
    _library("torchmetrics.other", _METRIC, "torchmetrics", "at work", pairs=USER),

    _library("deepspeed.construct", _DEEPSPEED, "DeepSpeed constructor",
             "setting up the model and its optimizer"),
    _library("deepspeed.broadcast_model", _DEEPSPEED, "DeepSpeed broadcast",
             "giving all ranks the same model"),
    _library("deepspeed.fetch", _DEEPSPEED, "ZeRO-3 fetch",
             "gathering a module's parameters (ZeRO stage 3)"),
    _library("deepspeed.trace_check", _DEEPSPEED, "ZeRO-3 trace check",
             "checking that all ranks ran their modules in one order (ZeRO stage 3)"),
    _library("deepspeed.reduce_gradients", _DEEPSPEED, "DeepSpeed gradients",
             "reducing gradients"),
    _library("deepspeed.gathered_parameters", _DEEPSPEED, "GatheredParameters",
             "in GatheredParameters", asked=True),
    _library("deepspeed.step", _DEEPSPEED, "DeepSpeed step",
             "in the optimizer's step: norms, and parameters as they are now"),
    _library("deepspeed.checkpoint", _DEEPSPEED, "DeepSpeed checkpoint",
             "saving or loading a checkpoint", asked=True),
    _library("deepspeed.other", _DEEPSPEED, "DeepSpeed", "at work", pairs=USER),
    _library("ray.other", "Ray Train", "Ray Train", "at work", pairs=USER),
)  # fmt: skip

ROLES: Final[dict[str, Role]] = {role.name: role for role in _TABLE}


def of(role: str) -> Role:
    """Return the row of a role.

    A role without a row, of a newer tracer, pairs with itself and keeps its name. Its issuer, and
    whether it shadows, are those of its family.
    """
    known = ROLES.get(role)
    if known is not None:
        return known
    first, second, *_ = *role.split(".", 2), ""
    for name in (f"{first}.{second}", first):
        family = ROLES.get(name)
        if family is not None and family.is_family:
            return Role(role, role, family.issuer, role, role, shadows=family.shadows)
    return Role(role, role, role, role, role)


def pairing_class(role: str, model: int = 0, part: str | None = None) -> str:
    """Return the class that must agree between ranks for calls in this role.

    ``model`` is the ordinal of the DDP module (or ZeRO optimizer) on its group, from 0: two
    models on one group must not be confused. The user's own calls have none. ``part`` counts if the
    role's row says so.
    """
    row = of(role)
    name = f"{row.pairs}[{part}]" if part and row.by_part else row.pairs
    return f"{name}#{model}" if model else name


def is_shadow(role: str) -> bool:
    """Return whether ranks issue this role only after running out of inputs inside ``join()``."""
    return of(role).shadows


def shadows_framework(role: str) -> bool:
    """Return whether this is a shadow that only answers a framework's collectives.

    False for the script's own join hooks, which answer the script's own calls.
    """
    return is_shadow(role) and of(role).pairs != USER


def is_apart_from_ddp(role: str) -> bool:
    """Return whether it is known that neither DDP nor ``join()`` issues it."""
    return role != UNKNOWN and role.partition(".")[0] not in ("ddp", "join")


def short(role: str) -> str:
    """Return a few words for a table cell, or the role itself."""
    return of(role).short


def words(role: str) -> str:
    """Return a clause for a sentence, or the role itself."""
    return of(role).words
