"""Names by which programs and frameworks ask which rank, or which process, they are."""

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
"""Words before ``rank`` in a name of a process's: ``low_rank`` and ``mean_rank`` are none."""

_AFTER: Final = "zero one main only first last id idx index no is info safe group local global node"
"""Words behind it: ``rank_loss``, ``ranking`` and ``rank_size`` are none."""

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
"""A process by its device, in torch's ImageNet example (``args.gpu == 0``) and those after it."""

RANK: Final = re.compile(rf"\b({'|'.join(name for name, _ in _NAMES)})\b|\b{_GPU}", re.IGNORECASE)
"""Finds one in a condition."""


WORLD: Final = re.compile(r"_*(get_|self_)?world(_?size)?_*")
"""How programs call the number of ranks, which is one for ever."""


def is_variable(tree: ast.AST) -> bool:
    """Whether an expression is an environment variable that tells the rank: ``os.getenv("RANK")``.

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
    """Whether what a name is given is the rank, or the outcome of a test of it.

    Not what is only picked or computed by it, as in ``batches[rank]``: that is data.
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
            # ``writer = Writer() if rank == 0 else None``: asked for by ``if writer:``.
            return any(isinstance(n, ast.Constant) and not n.value for n in (one, other)) and (
                _asks(test)
            )
        case _:
            return False
