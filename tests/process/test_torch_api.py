"""A torch that the tracer does not know in all its parts: it records, and says what it guesses."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

import collectrace
from collectrace.align import align
from collectrace.records import Unfamiliar
from collectrace.tracer.tap import wire
from collectrace.tracer.tap.arguments import OPERATORS
from tests.support.real_ranks import Ranks


def newer() -> None:
    """As if this torch had got one operator, and lost a function."""
    tap: Any = wire
    tap.OPERATORS = {name: row for name, row in OPERATORS.items() if name != "broadcast_"}
    work: Any = dist.Work
    del work.get_future_result
    collectrace.enable()
    dist.init_process_group("gloo")
    dist.broadcast(torch.ones(2), 0)
    dist.all_reduce(torch.ones(2))
    dist.destroy_process_group()


def test_one_line_says_what_is_guessed_and_what_was_not_found(ranks: Ranks) -> None:
    ran = ranks.run(newer, trace=False, init=False)
    for log in ran.files:
        told = log.of(Unfamiliar)  # again where the provisional file becomes the run's
        assert told
        for one in told:
            assert one.ops == ["broadcast_"]
            assert one.targets == ["distributed.Work.get_future_result"]
        assert [call.op for call in log.calls] == ["broadcast", "all_reduce"]
        assert log.exit is not None
        assert (log.exit.reason, log.exit.failures) == ("finished", 0)
    alignment = align(ran.logs)
    assert alignment.status == "aligned"
    (note,) = alignment.evidence.notes
    assert note == (
        f"torch {torch.__version__} is not known in all its parts: what broadcast_ does is "
        "guessed from its arguments; not found, and not followed: "
        "distributed.Work.get_future_result"
    )


def test_a_torch_that_is_known_is_not_told_of(ranks: Ranks) -> None:
    ran = ranks.run(dist.barrier)
    assert [list(log.of(Unfamiliar)) for log in ran.files] == [[], []]
    assert align(ran.logs).evidence.notes == ()
