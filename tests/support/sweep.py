"""A whole run of two ranks, of which one's tracer fails at one step; and what must hold then."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import random
import re
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]
from torch.distributed import _functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import collectrace
from collectrace.align import align
from collectrace.records import Call, Exit
from tests.process.test_python_groups import through
from tests.support import trainings
from tests.support.real_ranks import Ranks, read_log
from tests.support.striking import ERRORS, Step, seen, struck

VICTIM: Final = 1


def work() -> Any:
    """A bit of everything that is patched; what it came to."""
    rank = dist.get_rank()
    group, inner = through()
    dist.all_reduce(torch.ones(2), group=group)
    results: list[Any] = []
    data = TensorDataset(torch.arange(12.0).reshape(6, 2))
    sampler: Any = DistributedSampler(data, shuffle=True)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(2, 1))
    model.register_comm_hook(Counter(), trainings.own_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        with model.join():
            for (batch,) in DataLoader(data, batch_size=1 + rank, sampler=sampler):
                collectrace.step()
                model(batch).sum().backward()
                optimizer.step()
        with model.no_sync():
            model(torch.ones(1, 2)).sum().backward()
    with contextlib.suppress(RuntimeError):
        torch.accelerator.synchronize()
    x = torch.full((3,), float(rank))
    pending = dist.all_reduce(x, async_op=True)
    assert pending is not None
    pending.wait()
    results.append(functional.all_reduce(x, "sum", dist.group.WORLD).tolist())
    objects: list[Any] = [None, None]
    dist.all_gather_object(objects, rank, group=inner)
    send = dist.isend(x, 1 - rank)
    dist.recv(x, None if rank else 1)
    assert send is not None
    send.wait()
    try:
        dist.broadcast(x, 7)
    except RuntimeError as problem:
        results.append(str(problem))
        dist.all_reduce(x)  # while an exception is handled
    with ThreadPoolExecutor(1) as executor:
        executor.submit(dist.all_reduce, x).result()
    thread = threading.Thread(target=dist.barrier)
    thread.start()
    thread.join()
    alone = dist.new_group([0])
    if rank == 0:
        dist.all_reduce(x, group=alone)
    dist.all_reduce(x.sum().reshape(1))
    dist.barrier()
    dist.destroy_process_group(group)
    return [*results, x.tolist(), objects, trainings.state(model)]


KINDS: Final[dict[str, dict[str, Any]]] = {
    "plain": {"heartbeat": 0.05, "stall_after": 60},
    "stalls": {"heartbeat": 0.05, "stall_after": 0.2, "report": True},
    "online": {"heartbeat": 0.05, "stall_after": 60, "online": True},
    "rotates": {"heartbeat": 0.05, "stall_after": 60, "max_bytes": 1 << 20},
}


def job(kind: str, store: Any, folder: str) -> Any:
    """One run from its begin to its end."""
    rank = int(os.environ["RANK"])
    collectrace.enable(folder, **KINDS[kind])
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=8)
    )
    result = work()
    if kind == "stalls":
        if rank == 0:
            time.sleep(0.6)
        dist.barrier()
    if kind == "online":
        time.sleep(0.15)
        dist.barrier()
    if kind == "rotates":
        for n in range(1500):
            dist.all_reduce(torch.ones(1 + n % 3))
    return result


def leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
    collectrace.disable()


def _store() -> Any:
    rank = int(os.environ["RANK"])
    return TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), 2, rank == 0,
        timeout=timedelta(seconds=60),
    )  # fmt: skip


def steps_of(kind: str, folder: str) -> list[list[Any]]:
    """The steps of the victim, and how often each is taken."""
    store = _store()
    job(kind, PrefixStore("warm", store), f"{folder}/warm")  # imports, caches
    leave()
    with seen() as found:
        job(kind, PrefixStore("seen", store), f"{folder}/seen")
        leave()
    return [[asdict(step), count] for step, count in list(found.items())]


def strike_each(kind: str, folder: str, listed: str) -> list[dict[str, Any]]:
    """What came of each strike in a list of them: a file of rows (number, step, nth, error)."""
    rank = int(os.environ["RANK"])
    store = _store()
    expected = job(kind, PrefixStore("warm", store), f"{folder}/warm")
    leave()
    results = []
    for number, fields, nth, error in json.loads(Path(listed).read_text()):
        step = Step(**fields)
        faulthandler.dump_traceback_later(100, exit=True)
        print(f"--- {number}", flush=True)
        said = {"number": number, "same": None, "raised": None, "struck": None}
        with contextlib.ExitStack() as stack:
            if rank == VICTIM:
                strike = stack.enter_context(struck(step, nth, ERRORS[error]))
            try:
                found = job(kind, PrefixStore(str(number), store), f"{folder}/{number}")
                until = time.monotonic() + 1.5
                while rank == VICTIM and not step.is_main and not strike.has_struck:
                    if time.monotonic() > until:
                        break
                    time.sleep(0.02)
                if not step.is_main:
                    dist.barrier()
                leave()
                said["same"] = found == expected
            except BaseException:  # noqa: BLE001 - whatever it is, it is reported
                said["raised"] = traceback.format_exc()
            if rank == VICTIM:
                said["struck"] = strike.has_struck
        if said["raised"]:
            try:
                leave()
            except BaseException:  # noqa: BLE001 - whatever it is, it is reported
                said["raised"] += "\nthen " + traceback.format_exc()
        print(f"--- over {number}", flush=True)
        sys.stdout.flush()
        Path(f"{folder}/said{rank}.{number}.json").write_text(json.dumps(said))
        results.append(said)
        store.set(f"over {number} {rank}", "raised" if said["raised"] else "fine")
        store.wait([f"over {number} {1 - rank}"], timedelta(seconds=60))
        if said["raised"] or store.get(f"over {number} {1 - rank}") == b"raised":
            break  # what torch knows of its groups is not the same on both any more
    faulthandler.cancel_dump_traceback_later()
    store.set(f"left {rank}", "1")
    if rank == 0:  # whose process the store is in
        store.wait(["left 1"], timedelta(seconds=60))
    return results


# -- from outside -------------------------------------------------------------------------------

AT_ONCE: Final = 80
"""Strikes of one process."""

NOISE: Final = re.compile(r"Traceback|Exception ignored|Error in sys")
WARNING: Final = re.compile(r"internal failure|cannot write|not traced|not switched off")


@dataclass(frozen=True)
class Struck:
    """What came of one strike."""

    step: Step
    error: str
    was_reached: bool
    status: str
    problems: tuple[str, ...]
    """What must not be."""


def steps(ranks: Ranks, folder: Path, kind: str, *events: str) -> list[Step]:
    """The steps of such a run that something of ours is around, in an order of their own."""
    ran = ranks.run(steps_of, 2, kind, str(folder / "steps"), trace=False, init=False)
    found = [Step(**fields) for fields, _ in ran.result(VICTIM)]
    return sorted(step for step in found if step.event in events and not step.is_outermost)


def sweep(
    ranks: Ranks, folder: Path, kind: str, chosen: list[Step], error: str
) -> Iterator[Struck]:
    """Make each of some steps fail in a run of its own, and look at what that left."""
    numbered = list(enumerate(chosen))
    while numbered:
        some = numbered[:AT_ONCE]
        listed = folder / "listed.json"
        listed.write_text(json.dumps([(n, asdict(step), 1, error) for n, step in some]))
        try:
            ran = ranks.run(
                strike_each, 2, kind, str(folder), str(listed), trace=False, init=False,
                fails=None, limit=600,
            )  # fmt: skip
            outputs = [ran.output(rank) for rank in range(2)]
        except AssertionError as problem:  # it hung, or died
            outputs = [str(problem)] * 2
        done = [n for n, _ in some if (folder / f"said{VICTIM}.{n}.json").exists()] or [-1]
        reached = [(n, step) for n, step in some if n <= done[-1]]
        for n, step in reached or some[:1]:
            yield _judge(folder, n, step, error, outputs)
        numbered = numbered[len(reached) or 1 :]


def sample(steps: list[Step], count: int, seed: int) -> list[Step]:
    """Some of them."""
    return random.Random(seed).sample(steps, min(count, len(steps)))


def _judge(folder: Path, number: int, step: Step, error: str, outputs: list[str]) -> Struck:
    answers = [folder / f"said{rank}.{number}.json" for rank in range(2)]
    if not all(answer.exists() for answer in answers):
        return Struck(step, error, True, "hung", (f"no answer: {outputs[VICTIM][-2000:]}",))
    problems = []
    said = [json.loads(answer.read_text()) for answer in answers]
    for rank, one in enumerate(said):
        if one["raised"]:
            problems.append(f"rank {rank} raised {one['raised']}")
        elif not one["same"]:
            problems.append(f"rank {rank} has other results")
        marks = rf"^--- {number}\n(.*?)^--- over {number}$"
        found = re.search(marks, outputs[rank], re.MULTILINE | re.DOTALL)
        text = found[1] if found else ""
        if NOISE.search(text) or len(WARNING.findall(text)) > (rank == VICTIM):
            problems.append(f"rank {rank} said {text}")
    alignment = align(folder / str(number))
    problems += [
        f"told: {f.headline}"
        for f in alignment.findings
        if f.severity == "error" or (f.suspects and f.kind != "straggler")
    ]
    logs = [read_log(path) for path in (folder / str(number)).glob(f"2*/rank{VICTIM:05}*.jsonl")]
    void = [call for log in logs for call in log.of(Call) if call.void]
    if void and not sum(end.failures for log in logs for end in log.of(Exit)):
        problems.append("calls are void, and no failure is counted")
    return Struck(step, error, bool(said[VICTIM]["struck"]), alignment.status, tuple(problems))
