"""Who issued a collective, and which roles may meet at one place of a stream.

A collective that a framework issues has a role: DDP's forward, its reducer, a join hook. Two
ranks inside ``join()`` issue the same bytes for different reasons, one because it still trains
and one because it shadows those that do, so roles are compared by their *pairing class*.

Sources: ``torch/distributed/algorithms/join.py`` and ``torch/nn/parallel/distributed.py``.
"""

from __future__ import annotations

from typing import Final

USER: Final = "user"
UNKNOWN: Final = "unknown"

PAIRING: Final[dict[str, str]] = {
    "ddp.forward.notify_join": "ddp.join_count",
    "join.count_nonjoined": "ddp.join_count",
    "ddp.forward.terminate_check": "ddp.terminate",
    "join.terminate": "ddp.terminate",
    "ddp.forward.sync_check": "ddp.sync_check",
    "join.sync_check": "ddp.sync_check",
    "ddp.forward.buffers_rank": "ddp.buffers_rank",
    "join.buffers_rank": "ddp.buffers_rank",
    "ddp.forward.sync_buffers": "ddp.buffers",
    "join.sync_buffers": "ddp.buffers",
    "ddp.forward.rebuild_buckets": "ddp.rebuild",
    "ddp.backward.bucket": "ddp.bucket",
    "join.bucket": "ddp.bucket",
    "ddp.backward.unused_params": "ddp.unused_params",
    "join.unused_params": "ddp.unused_params",
    "join.common_rank": "ddp.common_rank",
    "join.final_sync": "ddp.final_sync",
    "ddp.construct": "ddp.construct",
    "zero.step": "zero.step",
    USER: USER,
    UNKNOWN: UNKNOWN,
}
"""Role to pairing class; a role that is not listed pairs with itself."""

WORDS: Final[dict[str, str]] = {
    "ddp.forward.notify_join": "DDP forward() 1, telling join() that it still has inputs",
    "join.count_nonjoined": "join() counting the ranks that still have inputs",
    "ddp.forward.terminate_check": "DDP forward() asking whether a rank ran out of inputs",
    "join.terminate": "join() telling the others to stop",
    "ddp.forward.sync_check": "DDP forward() 2, announcing a gradient sync",
    "join.sync_check": "join() asking whether gradients will be synced",
    "ddp.forward.buffers_rank": "DDP forward() agreeing whose buffers count",
    "join.buffers_rank": "join() agreeing whose buffers count",
    "ddp.forward.sync_buffers": "DDP forward() broadcasting buffers",
    "join.sync_buffers": "join() receiving buffers",
    "ddp.forward.rebuild_buckets": "DDP agreeing on rebuilt buckets",
    "ddp.backward.bucket": "DDP backward(), a gradient bucket",
    "join.bucket": "join() shadowing a gradient bucket",
    "ddp.backward.unused_params": "DDP backward() exchanging which parameters were used",
    "join.unused_params": "join() exchanging which parameters were used",
    "join.common_rank": "join() choosing the rank whose model counts (_find_common_rank)",
    "join.final_sync": "join() broadcasting the final model",
    "ddp.construct": "DDP's constructor",
    "zero.step": "ZeroRedundancyOptimizer.step()",
}
"""What a role means, in words for a report."""

_SHORT: Final[dict[str, str]] = {
    "ddp.forward.notify_join": "DDP forward() 1",
    "join.count_nonjoined": "join() count nonjoined",
    "ddp.forward.terminate_check": "DDP forward() terminate?",
    "join.terminate": "join() terminate",
    "ddp.forward.sync_check": "DDP forward() 2",
    "join.sync_check": "join() check bwd grad sync",
    "ddp.forward.buffers_rank": "DDP forward() buffers rank",
    "join.buffers_rank": "join() buffers rank",
    "ddp.forward.sync_buffers": "DDP forward() buffers",
    "join.sync_buffers": "join() buffers",
    "ddp.forward.rebuild_buckets": "DDP rebuild buckets",
    "ddp.backward.bucket": "DDP backward()",
    "join.bucket": "join() hook",
    "ddp.backward.unused_params": "DDP backward() unused",
    "join.unused_params": "join() unused params",
    "join.common_rank": "_find_common_rank()",
    "join.final_sync": "sync final model",
    "ddp.construct": "DDP constructor",
    "zero.step": "ZeRO step()",
}


def pairing_class(role: str, model: int = 0) -> str:
    """The class that must agree between ranks for calls in this role.

    ``model`` is the ordinal of the DDP module (or ZeRO optimizer) on its group, from 0: two
    models on one group must not be taken for each other. Calls of a user's own have none.
    """
    name = PAIRING.get(role, role)
    return f"{name}#{model}" if model else name


def is_shadow(role: str) -> bool:
    """Whether a rank issues this role only after it ran out of inputs inside ``join()``."""
    return role.startswith("join.") and role not in ("join.common_rank", "join.final_sync")


def short(role: str) -> str:
    """A few words for a table cell; the role itself where nothing shorter is known."""
    return _SHORT.get(role, role)


def words(role: str) -> str:
    """A clause for a sentence; the role itself where nothing better is known."""
    return WORDS.get(role, role)
