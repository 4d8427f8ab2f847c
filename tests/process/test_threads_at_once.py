"""Threads with a group each, of which one differs; a process that ends in the midst of a call."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist

from collectrace.align import align
from tests.support import rank_file_checks
from tests.support.real_ranks import Ranks

GROUPS: Final = 4
CALLS: Final = 200
PLACE: Final = 120
"""Of the call that differs, in the second group made."""

OTHER: Final = 7
FAILED: Final = 8


def differs(how: str) -> list[float]:
    """Each thread has a group and its own numbers."""
    patience = timedelta(seconds=5)
    groups = [dist.new_group(timeout=patience) for _ in range(GROUPS)]
    results = [0.0] * GROUPS

    def work(n: int) -> None:
        for k in range(1, CALLS + 1):
            x = torch.tensor([float(k + n + dist.get_rank())])
            is_there = how != "nothing" and (n, k, dist.get_rank()) == (1, PLACE, 1)
            if is_there and how == "missing":
                continue
            most = dist.ReduceOp.MAX if is_there else dist.ReduceOp.SUM
            try:
                dist.all_reduce(x, most, group=groups[n])
            except RuntimeError:
                return  # the other rank has made one call less
            results[n] += x.item()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(GROUPS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize(
    ("how", "kind", "seq"),
    [
        ("nothing", None, None),
        ("reduce_op", "reduce_op_mismatch", PLACE),
        pytest.param("missing", "missing_call", None, marks=pytest.mark.slow),
    ],
)
def test_one_thread_of_one_rank_differs(
    how: str, kind: str | None, seq: int | None, ranks: Ranks
) -> None:
    bare = ranks.run(differs, 2, how, trace=False)
    ran = ranks.run(differs, 2, how)
    assert [ran.result(rank) for rank in range(2)] == [bare.result(rank) for rank in range(2)]
    for file in rank_file_checks.read_run(ran.logs, 2):
        assert (file.exit.failures, file.exit.dropped) == (0, 0)
    found = [f for f in align(ran.logs).findings if f.severity == "error"]
    assert [f.kind for f in found[:1]] == ([kind] if kind else [])
    for f in found[:1]:
        assert f.group is not None
        assert f.group.name == "2"
        assert seq in (None, f.seq)
        assert 0 not in f.suspects or set(f.suspects) == {0, 1}


class Ends:
    """Ends the process where it is pickled, in the midst of a call with objects."""

    def __reduce__(self) -> Any:
        os._exit(OTHER)


def ends(how: str) -> None:
    for _ in range(50):
        dist.all_reduce(torch.ones(3))
    here: list[Any] = [None, None]
    if dist.get_rank() == 0:
        # It comes only once the other one has ended, or waits for it meanwhile.
        try:
            dist.all_gather_object(here, 0)
        except RuntimeError:
            os._exit(FAILED)
    if how == "in a call":
        dist.all_gather_object(here, Ends())
    elif how == "in a thread":
        threading.Thread(target=lambda: os._exit(OTHER)).start()
        while True:
            dist.get_rank()
    elif how == "in a thread, the main one in a call":
        alone = dist.new_group([1], use_local_synchronization=True)
        threading.Timer(0.1, os._exit, (OTHER,)).start()
        while True:
            dist.all_reduce(torch.ones(1), group=alone)
    else:
        work = [dist.all_reduce(torch.ones(1), async_op=True) for _ in range(3)]
        assert work
        os._exit(OTHER)


@pytest.mark.parametrize(
    "how",
    [
        "in a call",
        pytest.param("in a thread", marks=pytest.mark.slow),
        "in a thread, the main one in a call",
        pytest.param("with works in flight", marks=pytest.mark.slow),
    ],
)
def test_a_process_ends_without_a_word(how: str, ranks: Ranks) -> None:
    ran = ranks.run(ends, 2, how, exits=(frozenset({FAILED, 1}), OTHER))
    for file in rank_file_checks.read_run(ran.logs, 2):
        assert not file.torn
    alignment = align(ran.logs)
    assert alignment.status != "aligned"
    assert [f.suspects for f in alignment.findings if 0 in f.suspects] == []
