"""How a rank ends, as its file tells it: interrupted, in a worker, in a thread, in trace()."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import collectrace
from collectrace.align.alignment import align
from collectrace.records import HANDLED, Call, Raised, Stall
from tests.support.real_ranks import Ranks, read_log

CRASHES = """
import sys, types, torch, torch.distributed as dist
import collectrace
collectrace.enable()
sys.modules["deep_ep"] = types.ModuleType("deep_ep")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(1))
# Ends gloo's threads: one that still frees a tensor while the interpreter ends aborts the process
# (ProcessGroupGloo::runLoop of torch 2.13, untraced as well).
dist.destroy_process_group()
raise {what}
"""


@pytest.mark.parametrize(
    ("what", "said", "code"),
    [("ValueError('nan')", "ended with ValueError", 1),
     pytest.param(
         "KeyboardInterrupt", "was interrupted", -signal.SIGINT, marks=pytest.mark.slow
     ),
     pytest.param("SystemExit(3)", None, 3, marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_crash_says_how_to_ask(ranks: Ranks, what: str, said: str | None, code: int) -> None:
    ran = ranks.script(CRASHES.replace("{what}", what), exits=code)
    [log] = ran.files
    last = "".join(ran.output().splitlines()[-1:]).removeprefix("[rank0]: ")  # by torch's hook
    if said is None:
        assert "collectrace" not in ran.output()
    else:
        folder = log.path.parent
        assert (
            last
            == f"collectrace: rank 0 {said}. To see why, run: python -m collectrace align {folder}"
        )
    (spot,) = align(ran.logs).evidence.blind_spots or ()
    assert (spot.name, spot.ranks, spot.how) == ("deep_ep", (0,), "was loaded")


class Corrupt(Dataset[Any]):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 3:
            raise ValueError(f"corrupt JPEG: sample {index}")
        return torch.zeros(1)

    def __len__(self) -> int:
        return 8


def catches() -> None:
    for loader in (DataLoader(Corrupt()), DataLoader(Corrupt())):
        with contextlib.suppress(ValueError):
            for batch in loader:
                dist.all_reduce(batch)
    with contextlib.suppress(TypeError, ValueError):
        dist.all_reduce("no tensor")
    with contextlib.suppress(RuntimeError):
        torch.autograd.backward(torch.zeros(1))
    dist.barrier()


def test_what_was_caught_is_recorded(ranks: Ranks) -> None:
    ran = ranks.run(catches, 2)
    for rank in range(2):
        found = [(r.what, r.error) for r in ran.log(rank).of(Raised)]
        assert found[:2] == [("batch", "ValueError")] * 2
        assert [what for what, _ in found[2:]] == ["all_reduce", "backward"]
        assert ran.log(rank).of(Raised)[0].message == "corrupt JPEG: sample 3"
    assert align(ran.logs).status == "aligned"


class Refuses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if len(batch) > 2:
            raise MemoryError("a long batch")
        out: torch.Tensor = self.layer(batch).sum()
        return out


def catches_in_forward() -> None:
    model = DistributedDataParallel(Refuses())
    for size in (1, 3, 2):
        with contextlib.suppress(MemoryError):
            model(torch.ones(size, 2)).backward()


def test_what_leaves_a_forward_of_ddp_is_recorded(ranks: Ranks) -> None:
    ran = ranks.run(catches_in_forward, 2)
    for rank in range(2):
        (found,) = ran.log(rank).of(Raised)
        assert (found.what, found.error, found.message) == (
            "forward", "MemoryError", "a long batch",
        )  # fmt: skip
    assert align(ran.logs).status == "aligned"


def calls_while_handling() -> None:
    def fails() -> None:
        raise LookupError("no sample 7")

    for _ in range(2):
        try:
            fails()
        except LookupError:
            dist.barrier()
            dist.all_reduce(torch.zeros(1))
        dist.all_reduce(torch.zeros(1))
    with contextlib.suppress(OSError):
        try:
            Path("/nonexistent/file").read_text()
        finally:
            dist.barrier()
    dist.barrier()


def test_what_is_handled_while_a_call_is_made_is_recorded_once(ranks: Ranks) -> None:
    ran = ranks.run(calls_while_handling, 2)
    first = calls_while_handling.__code__.co_firstlineno
    for rank in range(2):
        records = [r for r in ran.log(rank).records if isinstance(r, Call | Raised)]
        told = [r for r in records if isinstance(r, Raised)]
        assert {r.what for r in told} == {HANDLED}
        assert [r.error for r in told] == ["LookupError", "LookupError", "FileNotFoundError"]
        lines = [int((r.site or "").rpartition(":")[2]) - first for r in told]
        assert lines == [2, 2, 13]
        # Before the call that was made meanwhile, and no later one.
        at = [n for n, r in enumerate(records) if isinstance(r, Raised)]
        assert at == [0, 4, 8]
        assert all(records[n].t <= records[n + 1].t for n in at)
    assert align(ran.logs).status == "aligned"


def load(name: str) -> None:
    raise KeyError(name)


def in_trace(folder: str) -> None:
    with contextlib.suppress(RuntimeError), collectrace.trace(folder):
        dist.all_reduce(torch.zeros(1))
        try:
            load("weight")
        except KeyError:
            raise RuntimeError("the checkpoint does not fit") from None
    with contextlib.suppress(RuntimeError), collectrace.trace(folder):
        try:
            load("weight")
        except KeyError as problem:
            raise RuntimeError("the checkpoint does not fit") from problem


def test_an_exception_that_leaves_trace(ranks: Ranks, tmp_path: Path) -> None:
    ranks.run(in_trace, 1, str(tmp_path), trace=False)
    first, second = sorted(
        (read_log(path).exit for path in tmp_path.rglob("*.jsonl")),
        key=lambda leaving: leaving.t if leaving is not None else 0,
    )
    for leaving in (first, second):
        assert leaving is not None
        assert (leaving.reason, leaving.error) == ("exception", "RuntimeError")
        assert leaving.message == "the checkpoint does not fit"
        assert (leaving.site or "").startswith(__file__)
    assert first is not None
    assert first.causes == []
    assert second is not None
    assert second.causes == ["KeyError: 'weight'"]


def leaves_on_sigterm() -> None:
    if dist.get_rank() == 1:
        time.sleep(12)
        os._exit(1)
    signal.signal(signal.SIGTERM, lambda *_: os.sys.exit(0))  # type: ignore[attr-defined]
    threading.Timer(8, os.kill, [os.getpid(), signal.SIGTERM]).start()
    dist.barrier()


def test_a_handler_that_leaves_a_wait(ranks: Ranks) -> None:
    ran = ranks.run(leaves_on_sigterm, 2, exits=(0, 1))
    zero = align(ran.logs).ranks[0]
    assert zero.state == "blocked"


class Slow(Dataset[Any]):
    def __getitem__(self, index: int) -> int:
        time.sleep(0.5)
        return index

    def __len__(self) -> int:
        return 20


def busy_with_batches() -> None:
    dist.barrier()
    if dist.get_rank() == 1:
        for _ in DataLoader(Slow()):
            pass
    dist.barrier()


def test_a_rank_that_others_wait_for_has_its_stack_taken(ranks: Ranks) -> None:
    ran = ranks.run(busy_with_batches, 2)
    [stall, *_] = ran.log(1).of(Stall)
    stack = next(lines for name, lines in stall.stacks.items() if name.startswith("MainThread"))
    assert any("busy_with_batches" in line for line in stack)
    assert "has been in batch" not in ran.output(1)
