"""Groups that a program makes by itself, without ``init_process_group``, are recorded, too."""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d as c10d
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

import collectrace
from collectrace.align import align
from collectrace.records import Group
from tests.process.test_python_groups import Through
from tests.support import rank_file_checks
from tests.support.real_ranks import Ranks

LIMIT = datetime.timedelta(seconds=15)


def whole() -> Any:
    """A group of all ranks that torch.distributed knows nothing of."""
    from torch.distributed import _dist2

    return _dist2.new_group("gloo", LIMIT, "cpu")


def made_of(store: c10d.Store, rank: int, size: int) -> Any:
    """As torchft makes its own: first the group, then its backend."""
    group = dist.ProcessGroup(store, rank, size)
    backend = dist.ProcessGroupGloo(store, rank, size, LIMIT)
    group._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, backend)
    return group


def meeting() -> c10d.Store:
    store = next(iter(rendezvous("env://")))[0]
    assert isinstance(store, c10d.Store)
    return store


def trains() -> list[float]:
    group = whole()
    x = torch.ones(2)
    group.allreduce([x]).wait()
    dist.all_reduce(x, group=group)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(2, 1), process_group=group)
    model(torch.ones(1, 2)).sum().backward()
    found = [p.grad.sum().item() for p in model.parameters() if p.grad is not None]
    # Untraced, too, torch hangs at the end where the last reference to a group is the reducer's.
    kept.append(group)
    return [*x.tolist(), *found]


kept: list[Any] = []


@pytest.mark.slow
def test_ddp_on_a_group_of_the_programs_own(ranks: Ranks) -> None:
    bare = ranks.run(trains, init=False, trace=False)
    ran = ranks.run(trains, init=False)
    assert ran.result() == bare.result()
    assert ran.result(1) == bare.result(1)
    for file in rank_file_checks.read_run(ran.logs, 2):
        rank_file_checks.check_whole(file, 2)
        [group] = [record for record in file.records if isinstance(record, Group)]
        assert (group.phase, group.ranks, group.backend) == ("ready", [0, 1], "gloo")
        assert group.group == "ProcessGroup"
        assert [call.role for call in file.calls][:2] == ["user", "user"]
        assert file.calls[-1].role == "ddp.backward.bucket"
    alignment = align(ran.logs)
    assert (alignment.status, alignment.findings) == ("aligned", ())


def skips() -> None:
    group = whole()
    for n in range(4):
        if n != 2 or dist.get_node_local_rank() == 0:
            group.allreduce([torch.ones(n + 1)]).wait()


def test_what_went_wrong_in_one_is_found(ranks: Ranks) -> None:
    ran = ranks.run(skips, init=False, exits=(1, 1))
    first = align(ran.logs).findings[0]
    assert (first.severity, first.seq) == ("error", 3)


def never_calls() -> None:
    group = made_of(meeting(), int(os.environ["RANK"]), 2)
    if os.environ["RANK"] == "0":
        group.allreduce([torch.ones(1)], dist.AllreduceOptions()).wait()
    else:
        os._exit(0)


def test_a_rank_without_a_call_has_a_file(ranks: Ranks) -> None:
    ran = ranks.run(never_calls, init=False, exits=(1, 0))
    assert [log.path.name for log in ran.files] == ["rank00000.jsonl", "rank00001.jsonl"]
    assert len({log.header.run for log in ran.files}) == 1
    alignment = align(ran.logs)
    assert alignment.status != "aligned"


def python_group() -> None:
    store = meeting()
    rank = int(os.environ["RANK"])
    outer = Through(made_of(store, rank, 2))
    outer.broadcast([torch.ones(2)], dist.BroadcastOptions()).wait()
    outer.barrier().wait()


def test_a_group_written_in_python_and_the_one_inside(ranks: Ranks) -> None:
    ran = ranks.run(python_group, init=False)
    for rank in range(2):
        assert [(c.group, c.op) for c in ran.calls(rank)] == [
            ("Through", "broadcast"), ("ProcessGroup", "broadcast"),
            ("Through", "barrier"), ("ProcessGroup", "all_reduce"),
        ]  # fmt: skip
    assert align(ran.logs).status == "aligned"


def halves() -> None:
    store, rank = meeting(), int(os.environ["RANK"])
    half = made_of(c10d.PrefixStore(f"half{rank // 2}", store), rank % 2, 2)
    half.allreduce([torch.ones(1)]).wait()
    everyone = made_of(c10d.PrefixStore("all", store), rank, 4)
    everyone.allreduce([torch.ones(1)]).wait()


def test_a_group_whose_ranks_nobody_knows_is_told_and_left_out(ranks: Ranks) -> None:
    """Its own numbers are not those of the job: 0 and 1 in either half."""
    ran = ranks.run(halves, 4, init=False)
    assert len({log.path.parent for log in ran.files}) == 1
    for rank in range(4):
        log = ran.log(rank)
        assert log.header.world_size == 4
        assert [(c.group, c.seq) for c in log.calls] == [("ProcessGroup@2", 1)]
        said = [line for line in ran.output(rank).splitlines() if "collectrace:" in line]
        assert len(said) == 1
        assert "group ProcessGroup are not recorded: which 2 of the 4 ranks" in said[0]
    assert align(ran.logs).status == "aligned"


def then_the_usual_one() -> None:
    group = whole()
    group.allreduce([torch.ones(1)]).wait()
    dist.init_process_group("gloo", timeout=LIMIT)
    dist.all_reduce(torch.ones(2))
    group.allreduce([torch.ones(3)]).wait()
    dist.barrier()
    dist.destroy_process_group()


def test_init_process_group_begins_a_run_of_its_own(ranks: Ranks) -> None:
    ran = ranks.run(then_the_usual_one, init=False)
    runs: dict[Path, list[Any]] = {}
    for log in ran.files:
        runs.setdefault(log.path.parent, []).append(log)
    first, second = sorted(runs.values(), key=lambda logs: int(logs[0].header.wall))
    for log in first:
        assert [c.shape for c in log.calls] == [[1]]
        assert log.exit is not None
        assert log.exit.reason == "finished"
    for log in second:
        assert [(c.group, c.op) for c in log.calls] == [
            ("0", "all_reduce"), ("ProcessGroup", "all_reduce"), ("0", "barrier"),
        ]  # fmt: skip
    for logs in (first, second):
        assert align(logs[0].path.parent).status == "aligned"


def late() -> None:
    group = whole()
    group.allreduce([torch.ones(1)]).wait()
    collectrace.enable()
    dist.all_reduce(torch.ones(2), group=group)
    from collectrace.tracer import switch

    pid = os.fork()
    if pid == 0:
        # The store in it is the parent's connection.
        session = switch.current()
        assert session is not None
        assert session.recorder is None
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    dist.barrier(group=group)


def test_tracing_may_be_switched_on_when_the_group_is_there(ranks: Ranks) -> None:
    ran = ranks.run(late, init=False, trace=False)
    assert len(ran.files) == 2
    for rank in range(2):
        assert [(c.op, c.seq) for c in ran.calls(rank)] == [("all_reduce", 1), ("barrier", 2)]
    assert align(ran.logs).status == "aligned"
