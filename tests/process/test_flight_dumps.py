"""Dumps that torch's own Flight Recorder writes in real gloo processes, as torch and as JSON."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from collectrace.align import align
from tests.support.real_ranks import Ranks

RECORDING = {"TORCH_FR_BUFFER_SIZE": "30"}
WORLD = 3


def leave(pending: int = 0) -> None:
    """Dump as torch does, in both forms; all have dumped when this returns.

    ``pending``: how many calls of this rank have not completed.
    """
    from torch._C import _distributed_c10d as c10d

    # gloo retires a call in its own thread, soon after the waiting one has gone on.
    dump = c10d._dump_fr_trace  # type: ignore[attr-defined]
    while sum(not e["retired"] for e in pickle.loads(dump())["entries"]) > pending:
        time.sleep(0.01)
    folder = Path(os.environ["DUMPS"])
    rank = dist.get_rank()
    for form, data in (
        ("pickle", dump()),
        ("json", c10d._dump_fr_trace_json()),  # type: ignore[attr-defined]
    ):
        (folder / form).mkdir(parents=True, exist_ok=True)
        (folder / form / f"nccl_trace_rank_{rank}").write_bytes(data)
    # Who exits before that takes what others have not received yet along.
    (folder / f"dumped{rank}").touch()
    while len(list(folder.glob("dumped*"))) < WORLD:
        time.sleep(0.01)


def steps(count: int) -> None:
    for _ in range(count):
        dist.all_reduce(torch.ones(4))


def healthy() -> None:
    steps(5)
    dist.broadcast(torch.ones(2), 1)
    dist.barrier()
    leave()


def wrapped() -> None:
    steps(70)
    leave()


def other_dtype() -> None:
    steps(5)
    # As wide as the others': gloo ends a process that receives more bytes than it awaits.
    dtype = torch.int32 if dist.get_rank() == 1 else torch.float32
    dist.all_reduce(torch.ones((), dtype=dtype), async_op=True)
    leave(pending=1)
    os._exit(0)


def other_op() -> None:
    steps(50)
    if dist.get_rank() == 2:
        dist.all_gather([torch.ones(4) for _ in range(WORLD)], torch.ones(4), async_op=True)
    else:
        dist.all_reduce(torch.ones(4), async_op=True)
    leave(pending=1)
    os._exit(0)


def never_enqueued() -> None:
    steps(19)
    if dist.get_rank() != 1:
        dist.all_reduce(torch.ones(4), async_op=True)
    leave(pending=int(dist.get_rank() != 1))
    os._exit(0)


@pytest.mark.parametrize("form", ["pickle", pytest.param("json", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("body", "kind", "suspects"),
    [
        (healthy, None, ()),
        pytest.param(wrapped, None, (), marks=pytest.mark.slow),
        (other_dtype, "dtype_mismatch", (1,)),
        (other_op, "op_mismatch", (2,)),
    ],
)
def test_dump(
    ranks: Ranks, body: Any, kind: str | None, suspects: tuple[int, ...], form: str, tmp_path: Path
) -> None:
    ranks.run(body, WORLD, trace=False, env=RECORDING | {"DUMPS": str(tmp_path)})
    found = align(tmp_path / form)
    errors = [f for f in found.findings if f.severity == "error"]
    assert [f.kind for f in errors[:1]] == ([] if kind is None else [kind])
    assert not errors or errors[0].suspects == suspects
    if errors and form == "pickle":
        sites = {side.call.site for side in errors[0].sides if side.call is not None}
        assert all(site is not None and site.startswith(__file__) for site in sites)
    if kind is None and body is healthy:
        assert found.evidence.agreed == 7


def test_dumps_without_times_name_the_rank_that_never_enqueued_the_call(
    ranks: Ranks, tmp_path: Path
) -> None:
    ranks.run(never_enqueued, WORLD, trace=False, env=RECORDING | {"DUMPS": str(tmp_path)})
    for form in ("pickle", "json"):
        for file in (tmp_path / form).iterdir():
            os.utime(file)  # now, as a copy has it
        young = [f for f in align(tmp_path / form).findings if f.severity == "error"]
        assert not young  # a file of now shows that the dump is young
        for file in (tmp_path / form).iterdir():
            os.utime(file, (0, 0))
        first = align(tmp_path / form).findings[0]
        assert (first.kind, first.severity, first.suspects) == ("missing_call", "error", (1,))
        assert first.seq == 20
