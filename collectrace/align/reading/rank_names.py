"""The names by which programs and frameworks query the rank, or the number of the process."""

from __future__ import annotations

import ast
import re
from typing import Final

_BEFORE: Final = (
    "local global node group role world host machine server gpu device dp ddp hsdp fsdp tp pp cp "
    "ep sp mp etp edp data tensor pipeline pipe model parallel context expert sequence seq virtual "
    "stage shard replica replicate mesh embedding my self this own cur curr current get is first "
    "last prev previous next zero main master root chief leader coordinator driver src source dst "
    "dest owner save saving log logging metrics print writer sender receiver proc process "
    "worker trainer actor client dist distributed torch comm mpi ompi pmi pmix mv2 horovod hvd "
    "slurm nccl inter intra ring attn attention ulysses rollout learner engine"
)
"""Words before ``rank`` in the name of a process's rank: not ``low_rank`` or ``mean_rank``."""

_AFTER: Final = "zero one main only first last id idx index no is info safe group local global node"
"""Words after ``rank`` in such a name: not ``rank_loss``, ``ranking`` or ``rank_size``."""

_OF_A_PROCESS: Final = (
    rf"_*(({_BEFORE.replace(' ', '|')})_*)*ranks?"
    rf"(_*(\d+|{_AFTER.replace(' ', '|')})|_in_\w*(group|node|world|mesh|host|machine))*_*"
)

_NAMES: Final = (
    (_OF_A_PROCESS, "torch.distributed, Megatron, vLLM (is_last_rank), DeepSpeed, torchtune"),
    (r"(is|if)_(local_)?main(_process)?", "Accelerate, detectron2, mmengine, SpeechBrain, NeMo"),
    (r"main_proc(ess)?", "scripts"),
    (r"(is_)?master_proc(ess)?", "nanoGPT, nanochat, pycls, SlowFast"),
    (r"is_(node_)?master", "fairseq, open_clip, ColossalAI"),
    (r"is_root_proc(ess)?", "SlowFast"),
    (r"is_((local|global)_)?primary", "timm"),
    (r"is_global_zero", "Lightning"),
    (r"is_(world|local)_process_zero", "transformers"),
    (r"args\.should_(save|log)", "transformers: TrainingArguments"),
    (r"(local_)?process_index", "Accelerate, transformers, JAX"),
    (r"is_last_process", "Accelerate, ColossalAI"),
    (r"is_first_worker", "Paddle, retrieval trainers after ANCE"),
    (r"is_driver(_worker)?", "vLLM"),
    (r"is_leader", "scripts"),
    (r"is_coordinator", "torch.distributed.checkpoint"),
    (r"is_chief", "TensorFlow"),
)
"""Patterns of whole names, and who uses them."""

_GPU: Final = r"(\w+\.)*(local_)?gpu(_(id|idx|index))? ?[=!]= ?0(?![\w.])"
"""A process by its device, as in torch's ImageNet example (``args.gpu == 0``) and its
descendants."""

RANK: Final = re.compile(rf"\b({'|'.join(name for name, _ in _NAMES)})\b|\b{_GPU}", re.IGNORECASE)
"""Finds a rank's name in a condition."""


WORLD: Final = re.compile(r"_*(get_|self_)?world(_?size)?_*")
"""The names by which programs refer to the number of ranks, which never changes."""


def is_variable(tree: ast.AST) -> bool:
    """Return whether an expression reads the rank from the environment: ``os.getenv("RANK")``.

    ``torchrun``, Slurm and MPI set it in each process.
    """
    match tree:
        case ast.Subscript(
            value=ast.Attribute(attr="environ"), slice=ast.Constant(value=str(name))
        ):
            return RANK.fullmatch(name) is not None
        case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Constant(value=str(name)), *_]):
            return attr in ("get", "getenv") and RANK.fullmatch(name) is not None
        case ast.Call(func=ast.Name(id="getenv"), args=[ast.Constant(value=str(name)), *_]):
            return RANK.fullmatch(name) is not None
        case _:
            return False


def is_asked(value: str) -> bool:
    """Return whether the value of a name is the rank, or the result of a test of it.

    A value that the rank only selects or computes, as in ``batches[rank]``, is data and does not
    count.
    """
    try:
        return _asks(ast.parse(value.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _asks(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return RANK.fullmatch(name) is not None
        case ast.Subscript() | ast.Call() if is_variable(node):
            return True
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return _asks(inner)
        case ast.Call(func=inner) | ast.UnaryOp(operand=inner):
            return _asks(inner)
        case ast.BinOp(op=ast.Mod() | ast.FloorDiv(), left=inner):
            return _asks(inner)
        case ast.BoolOp(values=parts):
            return any(map(_asks, parts))
        case ast.Compare(left=left, comparators=others):
            return any(map(_asks, (left, *others)))
        case ast.IfExp(test=test, body=one, orelse=other):
            # ``writer = Writer() if rank == 0 else None``: ``if writer:`` tests the rank.
            return any(isinstance(n, ast.Constant) and not n.value for n in (one, other)) and (
                _asks(test)
            )
        case _:
            return False
