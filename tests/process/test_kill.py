"""kill -9 at any moment: the file holds every collective that another rank saw complete."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from collectrace.align import align
from collectrace.errors import DamagedRecord
from collectrace.records import Call, Record, decode
from tests.support import kills
from tests.support.real_ranks import Ran, Ranks

ROUNDS = 400


def killed(folder: str, size: int, after: float) -> None:
    """Rank 1 is killed in the middle of this; each rank notes what it has seen complete."""
    rank = dist.get_rank()
    dist.all_reduce(torch.ones(1))
    noted = os.open(f"{folder}/noted{rank}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(noted, b"all_reduce\n")
    if rank == 1:
        kills.kill_after(f"{folder}/noted{rank}", size, after)
    tensors = [torch.ones(n) for n in (1, 7, 1000)]
    try:
        for n in range(ROUNDS):
            dist.all_reduce(tensors[n % 3])
            os.write(noted, b"all_reduce\n")
            dist.all_reduce(tensors[n % 3], async_op=True).wait()
            os.write(noted, b"all_reduce\n")
            if rank == 0:
                dist.recv(tensors[0], 1)
                os.write(noted, b"recv\n")
            else:
                dist.send(tensors[0], 0)
                os.write(noted, b"send\n")
            dist.barrier()
            os.write(noted, b"barrier\n")
    except RuntimeError:
        os._exit(7)  # the other one is gone
    os.kill(os.getpid(), signal.SIGKILL)


def read_torn(path: Path) -> tuple[list[Record], bytes]:
    """Every line but the last must be a record; the last may be cut off."""
    *lines, rest = path.read_bytes().split(b"\n")
    found = [decode(line) for line in lines]
    assert None not in found
    return [record for record in found if record is not None], rest


def check(ran: Ran, folder: Path) -> int:
    """How many calls of the victim were on record."""
    records, torn = read_torn(next(ran.logs.glob("2*/rank00001.jsonl")))
    if torn:
        with pytest.raises(DamagedRecord):
            decode(torn)
    calls = [record for record in records if isinstance(record, Call)]
    collectives = [call for call in calls if call.op != "send"]
    assert [call.seq for call in collectives] == list(range(1, len(collectives) + 1))
    sends = [call.seq for call in calls if call.op == "send"]
    assert sends == list(range(1, len(sends) + 1))
    for rank in range(2):
        completed = (folder / f"noted{rank}").read_text().split()
        messages = sum(op in ("send", "recv") for op in completed)
        assert len(sends) >= messages
        assert len(collectives) >= len(completed) - messages
    return len(calls)


def kill_often(ranks: Ranks, tmp_path: Path, times: int) -> None:
    chance = random.Random(times)
    seen = set()
    for n in range(times):
        folder = tmp_path / f"notes{n}"
        folder.mkdir()
        size, after = chance.randrange(10_000), chance.uniform(0, 0.01)
        ran = ranks.run(killed, 2, str(folder), size, after, exits=(7, -signal.SIGKILL))
        seen.add(check(ran, folder))
        blamed = {
            rank for f in align(ran.logs).findings if f.severity == "error" for rank in f.suspects
        }
        assert 0 not in blamed
    assert len(seen) > times // 3, "they were killed at different moments"


def test_killed_at_a_random_moment(ranks: Ranks, tmp_path: Path) -> None:
    kill_often(ranks, tmp_path, 5)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_a_hundred_moments(ranks: Ranks, tmp_path: Path) -> None:
    kill_often(ranks, tmp_path, 100)


def kill_through_life(ranks: Ranks, tmp_path: Path, times: int, *, online: bool = False) -> None:
    chance = random.Random(times)
    found = [
        kills.kill_once(ranks, tmp_path / f"life{n}", chance, online=online) for n in range(times)
    ]
    assert [one.problems for one in found if one.problems] == []
    assert len({one.calls for one in found}) > times // 4, "they were killed at different moments"


def test_killed_at_any_moment_of_its_life(ranks: Ranks, tmp_path: Path) -> None:
    kill_through_life(ranks, tmp_path, 4)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("online", [False, True])
def test_killed_at_two_hundred_moments_of_its_life(
    ranks: Ranks, tmp_path: Path, online: bool
) -> None:
    kill_through_life(ranks, tmp_path, 200, online=online)
