"""Who issued a collective, and which roles may meet at one place of a stream.

A collective that a framework issues has a role: DDP's forward, its reducer, a join hook. Two
ranks inside ``join()`` issue the same bytes for different reasons, one because it still trains
and one because it shadows those that do, so roles are compared by their *pairing class*.

Sources: ``torch/distributed/algorithms/join.py`` and ``torch/nn/parallel/distributed.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

USER: Final = "user"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Role:
    """A role, what it pairs with, and how it is told.

    Some rows are families: a framework's part as a whole, whose name begins the names of its parts.
    No record bears the role of a family: a call that is inside it, and inside none of its parts,
    is the user's own.
    """

    name: str
    pairs: str
    """The pairing class: what must agree between the ranks."""
    issuer: str
    """What a headline calls whoever issued it."""
    short: str
    """A few words for a table cell."""
    words: str
    """A clause for a sentence."""
    precision: int = 4
    """Where parts of frameworks nest, the higher one names the role, and of equals the outer.

    1: a family. 2: what may run the user's code, or another part: a comm hook that the reducer runs
    on one rank and join()'s shadow on another keeps the role of the one that runs it. 3: a helper
    that other parts use, and that is told by what it does in them. 4: anything else.
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

    @property
    def is_family(self) -> bool:
        """Whether it stands for a framework's part as a whole."""
        return self.precision == 1


_FORWARD: Final = "DDP forward()"
_BACKWARD: Final = "DDP backward()"
_JOIN: Final = "join()"
_ZERO: Final = "ZeroRedundancyOptimizer.step()"

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
)  # fmt: skip

ROLES: Final[dict[str, Role]] = {role.name: role for role in _TABLE}


def of(role: str) -> Role:
    """The row of a role.

    One that has no row, of a newer tracer, pairs with itself and is told by its name; who issued
    it, and whether it shadows, is as in its family.
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
    """The class that must agree between ranks for calls in this role.

    ``model`` is the ordinal of the DDP module (or ZeRO optimizer) on its group, from 0: two
    models on one group must not be taken for each other. Calls of a user's own have none. ``part``
    counts where the role's row says so.
    """
    row = of(role)
    name = f"{row.pairs}[{part}]" if part and row.by_part else row.pairs
    return f"{name}#{model}" if model else name


def is_shadow(role: str) -> bool:
    """Whether a rank issues this role only after it ran out of inputs inside ``join()``."""
    return of(role).shadows


def shadows_framework(role: str) -> bool:
    """Whether this is a shadow that answers a framework's collectives, and no others.

    Not one of a join hook of the script's own, which is there to meet the script's own calls.
    """
    return is_shadow(role) and of(role).pairs != USER


def short(role: str) -> str:
    """A few words for a table cell; the role itself where nothing shorter is known."""
    return of(role).short


def words(role: str) -> str:
    """A clause for a sentence; the role itself where nothing better is known."""
    return of(role).words
