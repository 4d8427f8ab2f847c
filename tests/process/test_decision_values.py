"""A hang whose finding has the statement that decided, with what its names held on either rank."""

from __future__ import annotations

import importlib
import io
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import collectrace
from collectrace.align import align
from collectrace.findings import Decision
from collectrace.report import verbose as report
from tests.support.real_ranks import Ran, Ranks


class Trainer:
    """Reduces its gradient if the loss is finite, on each rank by its own loss."""

    def __init__(self) -> None:
        self.flag = torch.zeros(1)
        self.group: Any = dist.new_group([0, 1])

    def train(self) -> None:
        for step in range(3):
            gradient = torch.ones(2)
            diverges = step == 2 and dist.get_rank() == 1
            loss = torch.tensor(float("nan") if diverges else 1.0)
            self.update(loss, gradient)

    def update(self, loss: torch.Tensor, gradient: torch.Tensor) -> None:
        if torch.isfinite(loss):
            dist.all_reduce(gradient)
        dist.all_reduce(self.flag, group=self.group)


def skips_where_the_loss_is_nan() -> None:
    Trainer().train()


def rebinds_the_loss() -> None:
    flag = torch.zeros(1)
    group = dist.new_group([0, 1])
    for step in range(3):
        loss = torch.tensor(float("nan") if step == 2 and dist.get_rank() == 1 else 1.0)
        if torch.isfinite(loss):
            dist.all_reduce(torch.ones(2))
        loss = torch.tensor(2.0)
        dist.all_reduce(flag, group=group)
    assert loss


def only(ran: Ran) -> Decision:
    """The decision of the only error."""
    alignment = align(ran.logs)
    assert alignment.internal_errors is None
    finding = alignment.findings[0]
    [decision] = finding.decisions or ()
    return decision


def numbers(decision: Decision, name: str) -> dict[int, Any]:
    """What a name held, by rank, as far as that is known."""
    found = {side.rank: (side.values or {}).get(name) for side in decision.sides}
    return {rank: value["value"] for rank, value in found.items() if value is not None}


def test_the_values_confirm_what_decided(ranks: Ranks) -> None:
    ran = ranks.run(skips_where_the_loss_is_nan, limit=12, exits=(None, None))
    decision = only(ran)
    assert decision.text == "if torch.isfinite(loss):"
    assert decision.function == "Trainer.update"
    assert {side.rank: side.did for side in decision.sides} == {0: "taken", 1: "not_taken"}
    assert numbers(decision, "loss") == {0: 1.0, 1: "nan"}
    assert decision.strength == "confirmed"
    out = io.StringIO()
    report.write(align(ran.logs), out)
    assert "rank 1: false; `loss` is nan" in out.getvalue()
    assert "rank 0: true; `loss` is 1.0" in out.getvalue()
    assert "  values\n          rank 0  rank 1\n    loss  1.0     nan\n" in out.getvalue()


def test_a_value_that_was_bound_again_confirms_nothing(ranks: Ranks) -> None:
    decision = only(ranks.run(rebinds_the_loss, limit=12, exits=(None, None)))
    assert decision.text == "if torch.isfinite(loss):"
    # Rank 1 has bound it again since; rank 0 is still in the call below the condition.
    assert numbers(decision, "loss") == {0: 1.0}
    assert decision.read_later == ("loss",)
    assert decision.strength == "only"


FRAMEWORK = """\
def run(hook, states):
    for state in states:
        hook(state)
"""


def trains_through_a_framework(folder: str) -> None:
    collectrace.enable(library=[folder])
    dist.init_process_group("gloo")
    sys.path.insert(0, folder)
    framework = importlib.import_module("framework")
    framework.run(lambda state: dist.all_reduce(state), [torch.ones(1)] * (3 - dist.get_rank()))
    dist.barrier()


def test_a_loop_of_a_library_is_named(ranks: Ranks, tmp_path: Path) -> None:
    folder = tmp_path / "trainers"
    folder.mkdir()
    (folder / "framework.py").write_text(FRAMEWORK)
    ran = ranks.run(
        trains_through_a_framework, 2, str(folder), trace=False, init=False, limit=12,
        exits=(None, None),
    )  # fmt: skip
    shutil.rmtree(folder)  # its text is in the log
    alignment = align(ran.logs)
    assert alignment.internal_errors is None
    found = {one.text: one for one in alignment.findings[0].decisions or ()}
    loop = found["for state in states:"]
    assert loop.library == "trainers"
    assert loop.function == "run"
    out = io.StringIO()
    report.write(alignment, out)
    assert "(in trainers)" in out.getvalue()
