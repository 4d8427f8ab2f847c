"""Processes that a traced one starts are traced, and what each of them ends with is told."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from collectrace.config import Config
from collectrace.records import Batch, Epoch, Exit
from collectrace.tracer.life.children import ChildSetup
from tests.support.real_ranks import Log, Ran, Ranks

SCRIPT: Final = """
import multiprocessing, os, sys, torch, torch.distributed as dist, torch.multiprocessing
from torch.utils.data import DataLoader

def work(rank, name):
    meeting = f"file://{os.getcwd()}/{name}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    dist.all_reduce(torch.ones(2))
    if (name, rank) == ("spawn", 0):
        for _ in DataLoader(range(4), num_workers=1, multiprocessing_context="spawn"):
            pass
    dist.barrier()
    if rank == 1:
        if name == "spawn":
            raise ValueError("its own")
        if name == "forkserver":
            sys.exit(5)
        if name == "fork":
            raise SystemExit("last words")

class Own(multiprocessing.get_context("fork").Process):
    def __init__(self, rank):
        super().__init__()
        self.rank = rank
    def run(self):
        work(self.rank, "own")
        raise KeyError(self.rank)

def joined(children):
    for child in children:
        child.start()
    for child in children:
        child.join()
    return [child.exitcode for child in children]

if __name__ == "__main__":
    if "enable" in sys.argv:
        import collectrace
        collectrace.enable()
    try:
        torch.multiprocessing.spawn(work, args=("spawn",), nprocs=2)
    except torch.multiprocessing.ProcessRaisedException as problem:
        assert "its own" in str(problem)
    for method in ("fork", "forkserver"):
        process = multiprocessing.get_context(method).Process
        print(joined([process(target=work, args=(rank, method)) for rank in range(2)]))
    print(joined([Own(rank) for rank in range(2)]))
"""


def by_run(ran: Ran) -> dict[str, list[Log]]:
    """Files by the folder they lie in."""
    found = defaultdict(list)
    for log in ran.files:
        found[log.path.parent.name].append(log)
    return dict(found)


@pytest.mark.parametrize(
    ("argument", "launch"),
    [
        ("enable", ()),
        ("", ("-m", "collectrace", "run")),
    ],
)
@pytest.mark.slow
def test_however_they_are_started(argument: str, launch: tuple[str, ...], ranks: Ranks) -> None:
    ran = ranks.script(SCRIPT, argument, launch=launch)
    statuses = [line for line in ran.output().splitlines() if line.startswith("[")]
    assert statuses == ["[0, 1]", "[0, 5]", "[1, 1]"]
    runs = [runs for _, runs in sorted(by_run(ran).items(), key=lambda r: r[1][0].header.wall)]
    assert [[log.path.name for log in run] for run in runs] == [
        ["rank00000.jsonl", "rank00001.jsonl"]
    ] * 4
    pids = {log.header.pid for run in runs for log in run}
    assert len(pids) == 8
    for run in runs:
        for log in run:
            assert [(c.op, c.seq) for c in log.calls] == [("all_reduce", 1), ("barrier", 2)]
            assert log.calls[0].site == f"{ran.folder}/script.py:8"
            assert log.header.world_size == 2
            assert log.header.run == log.path.parent.name
    (_, spawned), (_, forked), (_, served), own = runs
    assert [told(log) for log in (spawned, served, forked, *own)] == [
        ("exception", None, "ValueError", "its own", "script.py:15"),
        ("finished", 5, None, None, None),
        # Since 3.13 its words are printed, and forgotten, before anything of ours runs.
        ("finished", 1, None, "last words" if sys.version_info < (3, 13) else None, None),
        ("exception", None, "KeyError", "0", "script.py:27"),
        ("exception", None, "KeyError", "1", "script.py:27"),
    ]
    assert {told(run[0]) for run in runs[:3]} == {("finished", None, None, None, None)}
    assert [b.batch for b in runs[0][0].of(Batch)] == [1, 2, 3, 4, 4]


def told(log: Log) -> tuple[Any, ...]:
    """What a file says of the end, the site without its folder."""
    end = log.exit
    assert end is not None
    assert log.records[-1] is end
    site = end.site and Path(end.site).name
    return end.reason, end.code, end.error, end.message, site


CHILD: Final = """
import multiprocessing, pickle, sys
pickle.loads(bytes.fromhex(sys.argv[1]))
print(sorted({"torch", "collectrace", "wrapt"} & set(sys.modules)))
child = multiprocessing.Process(target=print, args=("ran",))
print(child._bootstrap())
"""


def test_a_child_that_cannot_import_collectrace_runs_all_the_same(tmp_path: Path) -> None:
    carried = pickle.dumps(ChildSetup(Config(log_dir=tmp_path))).hex()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", CHILD, carried],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert done.stdout.splitlines() == ["[]", "ran", "0"]
    assert done.stderr.startswith("collectrace: child not traced: No module named")


# -- forks of a rank that is under way ------------------------------------------------------


def alone(folder: str, name: str) -> None:
    """A job of one process."""
    meeting = f"file://{folder}/{name}"
    dist.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
    for _ in range(3):
        dist.broadcast(torch.ones(1), 0)
    dist.destroy_process_group()


def forks_and_loads(folder: str) -> list[int]:
    rank = dist.get_rank()
    for _ in range(2):
        dist.all_reduce(torch.ones(1))
    pid = os.fork()
    if pid == 0:
        # What a forked child does with its parent's group stays out of the parent's file.
        dist.distributed_c10d._world.pg_map.clear()
        dist.distributed_c10d.GroupMember.WORLD = None
        alone(folder, f"child{rank}")
        sys.exit(4)
    _, status = os.waitpid(pid, 0)
    data = [torch.ones(1) * i for i in range(6)]
    sampler: Any = torch.utils.data.distributed.DistributedSampler(data, shuffle=False)  # type: ignore[arg-type]
    loader: Any = DataLoader(data, sampler=sampler, num_workers=2)  # type: ignore[arg-type]
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for _ in loader:
            dist.all_reduce(torch.ones(1))
    return [os.waitstatus_to_exitcode(status), os.getpid()]


def test_a_forked_child_begins_anew_and_workers_leave_nothing(ranks: Ranks, tmp_path: Path) -> None:
    ran = ranks.run(forks_and_loads, 2, str(tmp_path))
    runs = by_run(ran)
    assert sorted(map(len, runs.values())) == [1, 1, 2]
    for folder, logs in runs.items():
        for log in logs:
            assert log.header.run == folder
    for rank in range(2):
        status, pid = ran.result(rank)
        assert status == 4
        [parent] = [log for log in ran.files if log.header.pid == pid]
        assert [c.seq for c in parent.calls] == list(range(1, 9))
        assert told(parent)[:2] == ("finished", None)
        assert [e.epoch for e in parent.of(Epoch)] == [0, 0, 1, 1]
        assert [e.set for e in parent.of(Epoch)] == [True, False] * 2
        batches = parent.of(Batch)
        assert [b.batch for b in batches] == [1, 2, 3, 3] * 2
        assert [b.end for b in batches] == [None, None, None, True] * 2
        assert all(b.wait > 0 for b in batches)
        assert [b.length for b in batches if b.batch == 1] == [3, 3]
    children = [logs[0] for logs in runs.values() if len(logs) == 1]
    for child in children:
        assert [(c.op, c.seq) for c in child.calls] == [("broadcast", n) for n in (1, 2, 3)]
        assert told(child)[:2] == ("finished", 4)
        assert child.exit is not None
        assert child.exit.calls == 3


# -- ends -----------------------------------------------------------------------------------


def an_exception() -> None:
    try:
        torch.ones(2) @ torch.ones(3)
    except RuntimeError as problem:
        raise ValueError("shapes") from problem


def caught() -> None:
    try:
        sys.exit(3)
    except SystemExit:
        dist.barrier()


def in_a_handler() -> None:
    try:
        os.environ["NOTHING_AT_ALL"]
    except KeyError:
        sys.exit(0)


def more_work() -> None:
    """Groups destroyed, a new one made; and what happens afterwards is another run's."""
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()
    sys.exit(2)


ENDS: Final[dict[str, Callable[[], Any]]] = {
    "normal": lambda: None,
    "exception": an_exception,
    "exit 0": lambda: sys.exit(0),
    "exit 3": lambda: sys.exit(3),
    "exit text": lambda: sys.exit("for a reason"),
    "quit": lambda: exit(6),
    "caught": caught,
    "in a handler": in_a_handler,
    "more work": more_work,
    "os._exit": lambda: os._exit(9),
}


def ends(how: str) -> None:
    dist.barrier()
    ENDS[how]()


@pytest.mark.parametrize(
    ("how", "status", "expected"),
    [
        ("normal", 0, [("finished", None, None, None)]),
        ("exception", 1, [("exception", None, "ValueError", "shapes")]),
        ("exit 0", 0, [("finished", 0, None, None)]),
        ("exit 3", 3, [("finished", 3, None, None)]),
        ("exit text", 1, [("finished", 1, None, "for a reason")]),
        ("quit", 6, [("finished", 6, None, None)]),
        ("caught", 0, [("finished", None, None, None)]),
        ("in a handler", 0, [("finished", 0, None, None)]),
        ("more work", 2, [("finished", None, None, None), ("finished", 2, None, None)]),
        ("os._exit", 9, []),
    ],
)
def test_how_it_ended(how: str, status: int, expected: list[tuple[Any, ...]], ranks: Ranks) -> None:
    ran = ranks.run(ends, 1, how, exits=(status,))
    logs = sorted(ran.files, key=lambda log: log.header.wall)
    assert [told(log)[:4] for log in logs if log.exit] == expected
    assert len({log.header.run for log in logs}) == len(logs)
    if how == "exception":
        assert told(logs[0])[4] == f"test_children.py:{an_exception.__code__.co_firstlineno + 4}"
    for log in logs:
        assert len(log.of(Exit)) == (log.exit is not None)
