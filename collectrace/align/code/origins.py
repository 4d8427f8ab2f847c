"""The table of what a value depends on, by the names in the source.

A row gives the origin of a function's, method's or attribute's result, and the library that defines
the name. A name without a row is unknown, and may differ between ranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from collectrace.align.reading.rank_names import RANK


class Origin(Enum):
    """What a value depends on, most informative first; the values are those of ``DependsOn``."""

    RANK = "rank"
    STATE = "state"
    CLOCK = "clock"
    RANDOM = "random"
    FILES = "files"
    ENVIRONMENT = "environment"
    RECEIVED = "received"
    ROOT = "root"
    EXCEPTION = "exception"
    ORDER = "order"
    CHOSEN = "chosen"
    DATA = "data"
    LENGTH = "length"
    UNKNOWN = "unknown"
    AGREED = "agreed"


class Rule(Enum):
    """How a result depends on its operands: the arguments, and the object of a method."""

    ALONE = "does not"
    THROUGH = "is agreed if they are, and else has this origin, too"
    ONLY = "is agreed if they are, and else has this origin alone"
    RESULT = "is agreed if the collective at this line was"
    STARTED = "is agreed if all ranks were started with the same command line"


@dataclass(frozen=True, slots=True)
class Row:
    """The origin of the results of some names."""

    names: str
    """Separated by spaces. ``time.time``: a module's function. ``.shape``: an attribute of
    any object; ``.item()``: a method. ``torch.rand*``: all names with this prefix."""
    origin: Origin
    where: str
    """The library that defines the names."""
    rule: Rule = Rule.ALONE


_TABLE: Final = (
    Row("time.* datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today "
        "datetime.date.today", Origin.CLOCK, "standard library"),
    Row("torch.cuda.Event .elapsed_time()", Origin.CLOCK, "torch.cuda"),
    Row("random.* secrets.* uuid.uuid1 uuid.uuid4 os.urandom", Origin.RANDOM, "standard library"),
    Row("numpy.random.*", Origin.RANDOM, "NumPy"),
    Row("torch.rand torch.randn torch.randint torch.randperm torch.rand_like torch.randn_like "
        "torch.randint_like torch.bernoulli torch.multinomial torch.normal torch.initial_seed "
        "torch.seed .random_() .bernoulli_() .uniform_() .normal_()", Origin.RANDOM, "torch"),
    Row("os.path.* os.listdir os.scandir os.stat os.walk os.access glob.* shutil.* open tempfile.* "
        "pathlib.Path.cwd", Origin.FILES, "standard library"),
    Row(".exists() .is_file() .is_dir() .iterdir() .glob() .rglob() .stat() "
        ".read_text() .read_bytes() .unlink()", Origin.FILES, "pathlib"),
    Row("torch.load torch.distributed.checkpoint.load", Origin.FILES, "torch"),
    Row("ray.train.get_checkpoint", Origin.FILES, "Ray Train"),
    Row("transformers.trainer_utils.get_last_checkpoint", Origin.FILES, "Transformers"),
    Row("os.environ os.environ.* os.getenv os.cpu_count os.getpid os.uname socket.* platform.* "
        "sys.platform resource.* getpass.* signal.*", Origin.ENVIRONMENT, "standard library"),
    Row("sys.argv .parse_args() .parse_known_args()", Origin.ENVIRONMENT,
        "standard library", Rule.STARTED),
    Row("psutil.*", Origin.ENVIRONMENT, "psutil"),
    Row("torch.cuda.* torch.version.* torch.backends.* torch.get_num_threads", Origin.ENVIRONMENT,
        "torch"),
    Row("len .numel() .nelement() .size() .shape .ndim .dim() .batch_size .__len__()",
        Origin.LENGTH, "built-in, torch.Tensor", Rule.THROUGH),
    Row(".sync_gradients .end_of_dataloader .remainder", Origin.LENGTH,
        "Accelerate: by the number of batches of the rank"),
    Row("torch.utils.data.*", Origin.DATA, "torch: a loader gives each rank batches of its own"),
    Row("datasets.*", Origin.DATA, "Hugging Face datasets"),
    Row("next", Origin.DATA, "built-in: the next batch of the rank", Rule.ONLY),
    Row(".item() .tolist() .numpy() .requires_grad .data .grad .is_sparse .dtype .isnan() .isinf() "
        ".isfinite() .any() .all() .nonzero() .norm() .max() .min() .mean() .sum() .argmax() "
        ".argmin() .abs() .unique() .backward", Origin.DATA, "built-in, torch.Tensor",
        Rule.THROUGH),
    Row("torch.isnan torch.isinf torch.isfinite torch.any torch.all torch.allclose torch.equal "
        "torch.nonzero torch.unique torch.nn.utils.clip_grad_norm_ torch.where torch.bincount "
        "math.isnan math.isinf math.isfinite", Origin.DATA, "torch, standard library",
        Rule.THROUGH),
    Row(".should_stop .should_training_stop .should_epoch_stop .should_evaluate .early_stop",
        Origin.DATA, "Lightning Trainer, Transformers TrainerControl: each rank sets its own"),
    Row(".get_scale() ._found_inf .found_inf .overflow", Origin.DATA,
        "torch.amp.GradScaler, DeepSpeed: of the gradients of the rank"),
    Row("set frozenset .intersection() .union() .difference() .symmetric_difference()",
        Origin.ORDER, "built-in: strings hash to other values in each process", Rule.THROUGH),
    Row("hash id", Origin.ORDER, "built-in"),
    Row("torch.distributed.recv torch.distributed.irecv torch.distributed.recv_object_list",
        Origin.RECEIVED, "torch.distributed"),
    Row("store.get store.add store.wait store.check store.compare_set store.multi_get",
        Origin.RECEIVED, "torch.distributed.Store"),
    Row(".get_nowait() .qsize() .empty() .poll() .is_set() queue.*", Origin.RECEIVED,
        "standard library: queues and events of other threads and processes"),
    Row("ray.get ray.wait", Origin.RECEIVED, "Ray"),
    Row("requests.* urllib.* http.*", Origin.RECEIVED, "the network"),
    Row("torch.distributed.reduce torch.distributed.gather torch.distributed.gather_object",
        Origin.ROOT, "torch.distributed: the destination alone gets the result"),
    Row("torch.distributed.get_rank torch.distributed.get_node_local_rank .get_rank() "
        ".get_local_rank() .get_group_rank() .get_coordinate()", Origin.RANK,
        "torch.distributed, DeviceMesh"),
    Row("lightning.pytorch.utilities.rank_zero_only.rank", Origin.RANK, "Lightning"),
    Row("torch.utils.data.get_worker_info", Origin.RANK, "torch: the worker of a loader"),
    Row("torch.distributed.get_world_size .get_world_size() .world_size .num_processes "
        ".get_local_world_size() torch.distributed.is_initialized torch.distributed.is_available "
        "torch.distributed.get_backend torch.distributed.is_nccl_available",
        Origin.AGREED, "torch.distributed, Accelerate, Ray Train: constant in a job"),
    Row("torch.distributed.all_reduce torch.distributed.broadcast torch.distributed.all_gather "
        "torch.distributed.all_gather_into_tensor torch.distributed.all_gather_object "
        "torch.distributed.broadcast_object_list torch.distributed.barrier "
        "torch.distributed.monitored_barrier", Origin.AGREED, "torch.distributed", Rule.RESULT),
    Row("torch.distributed.nn.functional.all_reduce torch.distributed.nn.functional.broadcast "
        "torch.distributed.nn.functional.all_gather "
        "torch.distributed._functional_collectives.all_reduce "
        "torch.distributed._functional_collectives.all_gather_tensor "
        "torch.distributed._functional_collectives.broadcast", Origin.AGREED,
        "torch.distributed", Rule.RESULT),
    Row("accelerator.gather accelerator.gather_for_metrics accelerator.reduce "
        "accelerate.utils.gather accelerate.utils.reduce accelerate.utils.broadcast "
        "accelerate.utils.gather_object accelerate.utils.broadcast_object_list "
        "accelerator.check_trigger", Origin.AGREED, "Accelerate", Rule.RESULT),
    Row("self.all_gather fabric.all_gather fabric.all_reduce fabric.broadcast strategy.reduce "
        "strategy.broadcast strategy.all_gather strategy.reduce_boolean_decision",
        Origin.AGREED, "Lightning", Rule.RESULT),
    Row("deepspeed.comm.all_reduce deepspeed.comm.broadcast deepspeed.comm.all_gather",
        Origin.AGREED, "DeepSpeed", Rule.RESULT),
    Row("self._nested_gather", Origin.AGREED, "Transformers Trainer", Rule.RESULT),
    Row("torch.float64 torch.double torch.float32 torch.float torch.float16 torch.half "
        "torch.bfloat16 torch.int64 torch.long torch.int32 torch.int torch.int16 torch.int8 "
        "torch.uint8 torch.bool", Origin.AGREED, "torch: dtypes"),
    Row("True False None NotImplemented Ellipsis __debug__ __name__ __file__ range",
        Origin.AGREED, "built-in", Rule.THROUGH),
)  # fmt: skip

_FUNCTIONS: Final = """
abs bool int float str bytes tuple list dict min max sum round sorted reversed enumerate zip map
filter any all isinstance issubclass type divmod pow repr format iter slice getattr hasattr callable
ceil floor sqrt prod fsum islice chain product count cycle takewhile partial deque Counter
defaultdict OrderedDict tensor as_tensor ones zeros full ones_like zeros_like arange empty cat stack
Tensor
"""

_OF_OBJECTS: Final = """
keys values items get copy split join strip lower upper startswith endswith replace index format
count cpu cuda to float double half int long bool clone detach contiguous view reshape flatten
squeeze unsqueeze transpose t eq ne gt lt ge le logical_and logical_or logical_not div mul add sub
bit_length total_seconds result
"""

TRANSPARENT: Final = frozenset(_FUNCTIONS.split())
"""Functions whose results depend only on their arguments: built-in ones, those of itertools, math
and collections, and torch's constructors of tensors."""

TRANSPARENT_METHODS: Final = frozenset(_OF_OBJECTS.split())
"""Methods whose results depend only on their object and arguments."""


def _indexed() -> tuple[dict[str, Row], dict[str, Row], dict[str, Row]]:
    """Return the rows by whole name, by method or attribute, and by prefix."""
    whole: dict[str, Row] = {}
    methods: dict[str, Row] = {}
    prefixes: dict[str, Row] = {}
    for row in _TABLE:
        for name in row.names.split():
            if name.startswith("."):
                methods[name[1:]] = row
            elif name.endswith("*"):
                prefixes[name[:-1]] = row
            else:
                whole[name] = row
    return whole, methods, prefixes


_WHOLE, _METHODS, _PREFIXES = _indexed()


def row_of(name: str, *, is_imported: bool = True, is_called: bool = True) -> Row | None:
    """Return the row of a dotted name with its imports resolved: ``torch.distributed.recv``.

    The object in front of a method may be any variable: ``loss.item``. ``is_imported``: the first
    part is a module: a variable may be called ``queue``, too. ``is_called``: its result is asked
    for: ``cfg.dim`` is no ``x.dim()``.
    """
    found = _WHOLE.get(name)
    if found is not None:
        return found
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        found = _PREFIXES.get(".".join(parts[:n]) + ".")
        if found is not None and n < len(parts) and is_imported:
            return found
    if parts[0] == "torch" and parts[-1] in TRANSPARENT:
        return None  # ``torch.empty`` makes a tensor; ``.empty`` in the table is a queue's method
    if len(parts) > 1:
        method = _METHODS.get(f"{parts[-1]}()") if is_called else None
        return _WHOLE.get(".".join(parts[-2:])) or _METHODS.get(parts[-1]) or method
    return None


def is_rank(name: str) -> bool:
    """Whether a name is one that programs use for the rank, by its last part."""
    return RANK.fullmatch(name) is not None


def rows() -> Iterable[Row]:
    """Return all rows."""
    return _TABLE


def sorted_by_weight(found: Iterable[Origin]) -> tuple[Origin, ...]:
    """Return the origins of a value, the most informative first; AGREED only if it is alone."""
    kept = set(found)
    if kept - {Origin.AGREED}:
        kept.discard(Origin.AGREED)
    if kept - {Origin.UNKNOWN}:
        kept.discard(Origin.UNKNOWN)
    return tuple(one for one in Origin if one in kept)
