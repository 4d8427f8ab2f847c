"""What the table of ops says about the ends of calls, on real ranks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from collectrace import ops
from collectrace.ops import canonical_op
from tests.support import torch_names
from tests.support.real_ranks import Ran, Ranks
from tests.zoo.runner import Server

RANKS: Final = 3


def _one(*shape: int) -> torch.Tensor:
    return torch.ones(*shape)


def _each(*shape: int) -> list[torch.Tensor]:
    return [torch.ones(*shape) for _ in range(RANKS)]


def _at_root(value: Any) -> Any:
    return value if dist.get_rank() == 0 else None


def _coalesced(call: Callable[[], Any]) -> None:
    with c10d._coalescing_manager():
        call()
        call()


HOLDING: Final[dict[str, Callable[[], Any]]] = {
    "all_reduce": lambda: dist.all_reduce(_one(2)),
    "all_reduce_coalesced": lambda: _coalesced(lambda: dist.all_reduce(_one(2))),
    "all_gather": lambda: dist.all_gather(_each(2), _one(2)),
    "all_gather_single": lambda: torch_names.all_gather_single(_one(2 * RANKS), _one(2)),
    "all_gather_coalesced": lambda: c10d.all_gather_coalesced(
        [[_one(2), _one(3)] for _ in range(RANKS)], [_one(2), _one(3)]
    ),
    "all_gather_single_coalesced": lambda: _coalesced(
        lambda: torch_names.all_gather_single(_one(2 * RANKS), _one(2))
    ),
    "reduce_scatter": lambda: dist.reduce_scatter(_one(2), _each(2)),
    "reduce_scatter_single": lambda: torch_names.reduce_scatter_single(_one(2), _one(2 * RANKS)),
    "reduce_scatter_single_coalesced": lambda: _coalesced(
        lambda: torch_names.reduce_scatter_single(_one(2), _one(2 * RANKS))
    ),
    "barrier": lambda: dist.barrier(),
}


PASSING: Final[dict[str, tuple[Callable[[], Any], int, int]]] = {
    "broadcast": (lambda: dist.broadcast(_one(2), 0), 2, 1),
    "reduce": (lambda: dist.reduce(_one(2), 0), 2, 0),
    "gather": (lambda: dist.gather(_one(2), _at_root(_each(2))), 2, 1),
    "scatter": (lambda: dist.scatter(_one(2), _at_root(_each(2))), 2, 1),
}
"""Per op a rank, and another that it need not wait for on gloo."""


def come_in_turn() -> dict[str, list[bool]]:
    """Per op that holds, and rank that comes last: whether it had come when the op returned."""
    store = c10d._get_default_store()
    me = dist.get_rank()
    found: dict[str, list[bool]] = {}
    for name, call in HOLDING.items():
        found[name] = []
        for late in range(RANKS):
            key = f"{name}/{late}"
            dist.barrier()
            if me == late:
                time.sleep(0.1)  # so that the others get as far as they can
                store.set(key, "came")
            call()
            found[name].append(store.check([key]))
    for name, (call, early, late) in PASSING.items():
        dist.barrier()
        if me == late:
            store.wait([name])  # for ever, if the op held
        call()
        if me == early:
            store.set(name, "returned")
    return found


@pytest.fixture(scope="module")
def ran(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ranks(server, tmp_path_factory.mktemp("ops")).run(come_in_turn, RANKS)


@pytest.mark.parametrize("op", HOLDING)
def test_an_op_that_holds_returns_only_when_every_rank_has_come(ran: Ran, op: str) -> None:
    assert any(canonical_op(call.op) == op and not call.async_ for call in ran.calls())
    assert [ran.result(rank)[op] for rank in range(RANKS)] == [[True] * RANKS] * RANKS


def test_an_op_that_does_not_hold_lets_a_rank_pass(ran: Ran) -> None:
    # Gloo has no gather_single.
    assert PASSING.keys() == ops.ROOTED - {"gather_single", "gather_into_tensor"}
    assert PASSING.keys() <= {call.op for call in ran.calls()}


def test_every_op_that_holds_was_tried() -> None:
    assert {op.name for op in ops.OPS.values() if op.holds} == HOLDING.keys()
