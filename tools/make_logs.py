"""Write the rank files of a job that never ran: ranks by calls, with one difference if wanted.

    python tools/make_logs.py logs --ranks 64 --calls 20000 --differ 13:15000:dtype

The lines, digests and checkpoints are those of the tracer; the loop is that of a DDP job with two
buckets and a loss that is averaged.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from collectrace.chain import Form, RankFile
from collectrace.records import FORMAT, Alive, Call, Exit, Group, Header, encode

Kind = Literal["dtype", "count", "reduce_op", "extra", "missing", "role"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

HEARTBEAT_EVERY: Final = 500
"""Calls between two heartbeats."""

RUN: Final = "made"
_START: Final = 1_760_000_000_000_000_000
_STEP: Final = 2_000_000

_LOOP: Final = (
    Call(seq=0, group="0", device="cuda", op="all_reduce", dtype="float32", shape=[7_087_872],
         reduce_op="SUM", async_=True, role="ddp.backward.bucket",
         site="/home/user/project/train.py:118"),
    Call(seq=0, group="0", device="cuda", op="all_reduce", dtype="float32", shape=[16_470_528],
         reduce_op="SUM", async_=True, role="ddp.backward.bucket",
         site="/home/user/project/train.py:118"),
    Call(seq=0, group="0", device="cuda", op="all_reduce", dtype="float32", shape=[],
         reduce_op="AVG", site="/home/user/project/train.py:124",
         via="/home/user/venv/lib/python3.11/site-packages/lightning/fabric/fabric.py:541"),
    Call(seq=0, group="0", device="cuda", op="barrier", site="/home/user/project/train.py:131"),
)  # fmt: skip


_CHANGES: Final[dict[str, dict[str, Any]]] = {
    "dtype": {"dtype": "bfloat16"},
    "count": {"shape": [7_087_871]},
    "reduce_op": {"reduce_op": "MAX"},
}


@dataclass(frozen=True, slots=True)
class Difference:
    """What one rank does otherwise at one call."""

    rank: int
    seq: int
    kind: Kind

    @classmethod
    def parse(cls, text: str) -> Difference:
        """``rank:seq:kind``."""
        rank, seq, name = text.split(":")
        for kind in KINDS:
            if kind == name:
                return cls(int(rank), int(seq), kind)
        raise ValueError(name)

    def apply(self, calls: list[Call]) -> None:
        """Change a rank's calls, given as they are issued."""
        at = self.seq - 1
        if self.kind == "extra":
            calls.insert(at, replace(_LOOP[3], site="/home/user/project/evaluate.py:57"))
        elif self.kind == "missing":
            del calls[at]
        elif self.kind == "role":
            calls[at] = replace(calls[at], role="join.bucket#other")
        else:
            at -= at % len(_LOOP)  # the gradient bucket of that iteration
            calls[at] = replace(calls[at], **_CHANGES[self.kind])


def make(
    folder: Path, ranks: int, calls: int, differ: Difference | None = None, *, finish: bool = True
) -> Path:
    """Write the files of a run; the run's folder.

    The text of one rank is made; the others differ from it in their header and their times.
    """
    run = folder / RUN
    run.mkdir(parents=True, exist_ok=True)
    loop = [_LOOP[i % len(_LOOP)] for i in range(calls)]
    usual = _text(ranks, loop, finish=finish)
    for rank in range(ranks):
        text = usual
        if differ is not None and differ.rank == rank:
            mine = list(loop)
            differ.apply(mine)
            text = _text(ranks, mine, finish=finish)
        text = text.replace(b'"t":%d' % _UPTIME, b'"t":%d' % (_UPTIME + rank))
        (run / f"rank{rank:05d}.jsonl").write_bytes(encode(_header(rank, ranks)) + text)
    return run


_UPTIME: Final = 100_000
"""How long the host of rank 0 has been up when it begins, in units of ``_UNIT``."""

_UNIT: Final = 10**12
"""Nanoseconds, more than a made job lasts: its times differ between ranks in their first digits."""


def _header(rank: int, ranks: int) -> Header:
    return Header(
        t=(_UPTIME + rank) * _UNIT, format=FORMAT, run=RUN, rank=rank, world_size=ranks,
        local_rank=rank % 8, host=f"node{rank // 8}", pid=4000 + rank, wall=_START,
    )  # fmt: skip


def _text(ranks: int, calls: list[Call], *, finish: bool) -> bytes:
    """Return what stands behind the header in the file of rank 0."""
    header = _header(0, ranks)
    file, t = RankFile(header), header.t
    for phase in ("asked", "ready"):
        file.add(
            Group(t=t, phase=phase, group="0", description="default_pg",
                  backend="cpu:gloo,cuda:nccl", ranks=list(range(ranks)))
        )  # fmt: skip
    forms: dict[int, Form] = {}  # by identity, which `calls` keeps
    for n, call in enumerate(calls):
        form = forms.get(id(call))
        if form is None:
            form = forms[id(call)] = file.chain.form(call)
        t += _STEP
        file.call(form, t, n // len(_LOOP) + 1)
        if (n + 1) % HEARTBEAT_EVERY == 0:
            file.add(Alive(t=t))
    if finish:
        file.add(Exit(t=t + _STEP, reason="finished", calls=len(calls)))
    ((_, text),) = file.segments()
    return text.removeprefix(encode(header))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--differ", type=Difference.parse, metavar="RANK:CALL:KIND",
                        help=f"kinds: {', '.join(KINDS)}")  # fmt: skip
    given = parser.parse_args()
    print(make(given.folder, given.ranks, given.calls, given.differ))


if __name__ == "__main__":
    main()
