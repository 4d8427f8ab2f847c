"""What is not recorded is said next to the verdict."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from collectrace.records import Blind
from collectrace.report import machine, terminal
from tests.support.judging import aligned
from tests.support.synthetic import Run


def verdict(run: Run, where: Path) -> str:
    out = io.StringIO()
    terminal.render(aligned(run, where), Console(file=out, width=500))
    return " ".join(out.getvalue().partition("\n\n")[2].split())


def test_the_verdict_says_how_far_it_goes(tmp_path: Path) -> None:
    run = Run(3)
    run.all("all_reduce")
    for rank in run:
        rank.record(Blind(name="deep_ep", what="dispatch"))
        rank.record(Blind(name="deep_ep", what="dispatch"))  # at the head of a segment, again
    run.rank(1).record(Blind(name="a CUDA graph with collectives in it", how="was captured"))
    run.finish()
    assert verdict(run, tmp_path / "a") == (
        "aligned, as far as torch.distributed goes; a CUDA graph with collectives in it was "
        "captured on rank 1 and is not recorded; deep_ep was loaded on ranks 0-2 and is not "
        "recorded: 1 collective on 3 ranks agree. Exit status 0."
    )
    told = machine.as_dict(aligned(run, tmp_path / "b"))["evidence"]["blind_spots"]
    assert told[1] == {
        "name": "deep_ep", "ranks": [0, 1, 2], "how": "was loaded", "what": "dispatch"
    }  # fmt: skip


def test_a_difference_is_one_whatever_else_there_was(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(0).call("all_reduce")
    run.rank(1).call("barrier")
    run.rank(0).record(Blind(name="mpi4py"))
    run.finish()
    assert "note: mpi4py was loaded on rank 0 and is not recorded" in verdict(run, tmp_path)
