"""Write the rank files of a job that never ran: ranks by calls, with one difference if wanted.

    python tools/make_logs.py logs --ranks 64 --calls 20000 --differ 13:15000:dtype

The lines, digests and checkpoints are those of the tracer; the loop is that of a DDP job with two
buckets and a loss that is averaged.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from collectrace.records import FORMAT, Alive, Call, Checkpoint, Exit, Group, Header, encode
from collectrace.signature import BASE, EMPTY, PRIME, program_text, stable_hash, wire_text

Kind = Literal["dtype", "count", "reduce_op", "extra", "missing", "role"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

CHECKPOINT_EVERY: Final = 64 * 1024
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


class _Template:
    """A call's line without time, number and digests, and its two steps."""

    def __init__(self, call: Call) -> None:
        self.body = encode(call).partition(b'"seq":0')[2].rstrip(b"}\n")
        self.wire = stable_hash(wire_text(call, "nccl"))
        self.program = stable_hash(program_text(call))


def make(
    folder: Path, ranks: int, calls: int, differ: Difference | None = None, *, finish: bool = True
) -> Path:
    """Write the files of a run; the run's folder."""
    run = folder / RUN
    run.mkdir(parents=True, exist_ok=True)
    templates: dict[int, _Template] = {}
    loop = [_LOOP[i % len(_LOOP)] for i in range(calls)]
    for rank in range(ranks):
        mine = list(loop)
        if differ is not None and differ.rank == rank:
            differ.apply(mine)
        with (run / f"rank{rank:05d}.jsonl").open("wb") as file:
            file.writelines(_lines(rank, ranks, mine, templates, finish=finish))
    return run


def _lines(
    rank: int, ranks: int, calls: list[Call], templates: dict[int, _Template], *, finish: bool
) -> Iterator[bytes]:
    t = (rank + 1) * 10**12
    yield encode(
        Header(t=t, format=FORMAT, run=RUN, rank=rank, world_size=ranks, local_rank=rank % 8,
               host=f"node{rank // 8}", pid=4000 + rank, wall=_START)
    )  # fmt: skip
    yield encode(Checkpoint(t=t))
    for phase in ("asked", "ready"):
        yield encode(
            Group(t=t, phase=phase, group="0", description="default_pg",
                  backend="cpu:gloo,cuda:nccl", ranks=list(range(ranks)))
        )  # fmt: skip
    digest = program = EMPTY
    size = 0
    for seq, call in enumerate(calls, 1):
        template = templates.get(id(call))
        if template is None:
            # The calls are the module's own, or held by the caller's list while it is written.
            template = _Template(call)
            if any(call is one for one in _LOOP):
                templates[id(call)] = template
        t += _STEP
        digest = (digest * BASE + template.wire) % PRIME
        program = (program * BASE + template.program) % PRIME
        line = b'{"kind":"call","t":%d,"seq":%d%b,"iteration":%d,"digest":%d,"program":%d}\n' % (
            t, seq, template.body, (seq - 1) // len(_LOOP) + 1, digest, program,
        )  # fmt: skip
        yield line
        size += len(line)
        if seq % HEARTBEAT_EVERY == 0:
            yield encode(Alive(t=t))
        if size >= CHECKPOINT_EVERY:
            size = 0
            row = ["0", "cuda", seq, digest, program, None]
            yield encode(Checkpoint(t=t, streams=[row]))
    if finish:
        yield encode(Exit(t=t + _STEP, reason="finished", calls=len(calls)))


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
