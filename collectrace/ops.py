"""The table of collective and point-to-point ops.

An op has the name of torch's public function (``torch/distributed/distributed_c10d.py``, 2.15). A
batch of several, which only torch itself issues, has that name with ``_coalesced``. The tap's table
(``tracer/tap/arguments.py``) has the names of torch's dispatcher.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

Form = Literal["collective", "barrier", "all_to_all", "point-to-point"]


@dataclass(frozen=True, slots=True)
class Op:
    """The properties of one op; the defaults hold for an op without a row."""

    name: str
    aliases: tuple[str, ...] = ()
    """Names torch has given up: older torch, and older rank files, use them."""
    form: Form = "collective"
    """A barrier carries no values; an all_to_all agrees pair by pair; a point-to-point op is
    numbered per channel, and a group's digests do not cover it."""
    counted: Literal["input", "output", "nothing"] = "input"
    """Which tensors show the element counts that all ranks must agree in: what goes in, or what
    comes out. The list all_gather is agreed on its slots, scatter and reduce_scatter_single on
    each rank's share."""
    root: Literal["src", "dst"] | None = None
    """What torch calls the rank that the op starts from or ends at; None: there is no such rank."""
    reduces: bool = False
    """Whether values of the ranks are combined by a ReduceOp."""
    op_at: int | None = None
    """Position of the argument ``op``, the ReduceOp, of the public function; it defaults to SUM.
    None where there is no such argument, or no such function."""
    in_place: bool = False
    """Whether on every rank the result takes the place of the values in the caller's tensors.

    gloo and NCCL then write to the tensor without counting it in the tensor's version, so that
    only the caller's own writes do. (A reduce has a result on one rank.)
    """
    holds: bool = False
    """Whether it returns only when every rank has reached it, if the host waits for it at all.

    Its result on every rank needs something of every rank. An all_to_all does not hold: a rank
    waits only for those that send it something. A monitored_barrier does not hold either, because
    it gives up on late ranks. A program may then go on without them, so a rank that has passed it
    proves nothing.
    """
    shaped: bool = False
    """Whether it pairs values by position in one tensor: another shape of the same element count
    pairs other values."""
    waits_in: tuple[str, ...] = ()
    """Point-to-point: the public functions that wait for it themselves. The operator does not say
    whether the caller gets a Work."""


_TABLE: Final = (
    Op("all_reduce", reduces=True, op_at=1, in_place=True, holds=True, shaped=True),
    Op("all_reduce_coalesced", reduces=True, op_at=1, in_place=True, holds=True),
    Op("broadcast", root="src", in_place=True, shaped=True),
    Op("reduce", root="dst", reduces=True, op_at=2, shaped=True),
    Op("all_gather", counted="output", holds=True),
    Op("all_gather_single", ("all_gather_into_tensor",), holds=True),
    Op("all_gather_coalesced", counted="output", holds=True),
    Op("all_gather_single_coalesced", ("all_gather_into_tensor_coalesced",), holds=True),
    Op("gather", root="dst"),
    Op("gather_single", ("gather_into_tensor",), root="dst"),
    Op("scatter", counted="output", root="src"),
    Op("reduce_scatter", reduces=True, op_at=2, holds=True),
    Op(
        "reduce_scatter_single", ("reduce_scatter_tensor",),
        counted="output", reduces=True, op_at=2, holds=True,
    ),
    Op(
        "reduce_scatter_single_coalesced", ("reduce_scatter_tensor_coalesced",),
        counted="output", reduces=True, holds=True,
    ),
    Op("all_to_all", form="all_to_all", counted="nothing"),
    Op("all_to_all_single", form="all_to_all", counted="nothing"),
    Op("barrier", form="barrier", counted="nothing", holds=True),
    Op("monitored_barrier", form="barrier", counted="nothing"),
    Op("send", form="point-to-point", waits_in=("send", "send_object_list")),
    Op("recv", form="point-to-point", waits_in=("recv", "recv_object_list")),
)  # fmt: skip

OPS: Final[dict[str, Op]] = {op.name: op for op in _TABLE}
"""Op by its current name."""

_ROWS: Final[dict[str, Op]] = {name: op for op in _TABLE for name in (op.name, *op.aliases)}

NAMES: Final = tuple(_ROWS)
"""Every name of every op, the ones torch has given up included."""


def of(name: str) -> Op:
    """Return the row of an op, by its current name or an earlier one.

    An op without a row, of a newer torch, counts as a collective counted by its input.
    """
    return _ROWS.get(name) or Op(name)


def canonical_op(name: str) -> str:
    """Return the current name of an op; an op without a row keeps its name."""
    return of(name).name


ANY_SOURCE: Final = -1
"""The peer of a receive that takes a message from any rank."""


def ends(op: str | None, me: int, peer: int) -> tuple[int, int]:
    """Return source and destination of a message of rank ``me``: to ``peer`` if it is a send.

    The peer of a receive may be ``ANY_SOURCE``.
    """
    return (me, peer) if op == "send" else (peer, me)


def _names(has: Callable[[Op], object]) -> frozenset[str]:
    return frozenset(name for name, op in _ROWS.items() if has(op))


# For fast look-ups: the names of all ops with a property, earlier names included.
POINT_TO_POINT: Final = _names(lambda op: op.form == "point-to-point")
ALL_TO_ALL: Final = _names(lambda op: op.form == "all_to_all")
BARRIERS: Final = _names(lambda op: op.form == "barrier")
ROOTED: Final = _names(lambda op: op.root)
TO_ROOT: Final = _names(lambda op: op.root == "dst")
IN_PLACE: Final = _names(lambda op: op.in_place)
HOLDING: Final = _names(lambda op: op.holds)
SHAPED: Final = _names(lambda op: op.shaped)
