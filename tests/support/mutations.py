"""Logs to which something has happened: lines are lost, damaged, doubled, moved, renumbered.

``healthy`` and ``different`` are small runs of each sort; ``mutations`` harms one file of a run.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from collectrace.align.alignment import align
from collectrace.align.reading.source import Folder
from collectrace.align.reading.unasked import LeftBlob
from collectrace.findings import Alignment
from tests.support.synthetic import Rank, Run

Files = Mapping[str, bytes]
"""The files of a run, by name."""

_SEQ: Final = re.compile(rb'"seq":(\d+)')
_CALL: Final = b'{"kind":"call"'


@dataclass(frozen=True)
class Sample:
    """A run, and what is known to be wrong with it."""

    name: str
    run: Run
    guilty: frozenset[int] | None = None
    """Ranks that may be blamed; None: the run is healthy."""

    def files(self) -> dict[str, bytes]:
        """Its files."""
        found: dict[str, bytes] = {}
        for rank in self.run:
            for n, data in self.run._file(rank).segments():
                found[f"rank{rank.rank:05d}{f'.{n:04d}' if n else ''}.jsonl"] = data
        return found


@dataclass(frozen=True)
class Mutation:
    """What was done to one file."""

    what: str
    at: int
    """The line, from 0."""
    data: bytes
    """What the file holds then."""


def aligned(files: Files, *, full: bool = True) -> Alignment:
    """What is said of the files of a run."""
    blobs = [LeftBlob(name, data) for name, data in sorted(files.items())]
    return align(Folder("logs", "run-1", list(blobs), None), full=full)


# -- runs ------------------------------------------------------------------------------------------


def _train(rank: Rank, steps: int, change: Mapping[int, Callable[[Rank], object]]) -> None:
    """A loop of four calls; ``change``: what a rank does otherwise at the n-th call, from 1."""
    n = 0
    for step in range(1, steps + 1):
        for op, fields in _LOOP:
            n += 1
            if n in change:
                change[n](rank)
            else:
                rank.call(op, iteration=step, **fields)
        if step % 3 == 0:
            rank.alive()
            rank.done(n)


_LOOP: Final[Sequence[tuple[str, dict[str, Any]]]] = (
    ("all_reduce", {"shape": [64], "role": "ddp.backward.bucket", "site": "train.py:11"}),
    ("all_reduce", {"shape": [32], "role": "ddp.backward.bucket", "site": "train.py:11"}),
    ("broadcast", {"shape": [4], "site": "train.py:12"}),
    ("barrier", {"site": "train.py:13"}),
)


def training(
    change: Mapping[int, Callable[[Rank], object]] | None = None, *, end: bool = True, **how: Any
) -> Run:
    """Three ranks, 24 calls; rank 1 may do something else."""
    run = Run(3, **how)
    for rank in run:
        _train(rank, 6, change or {} if rank.rank == 1 else {})
        if end:
            rank.exit()
    return run


def groups(op: str = "all_reduce") -> Run:
    """Two groups beside the default one; ``op`` is a call of rank 1 in the first of them."""
    run = Run(4)
    run.group("1", [0, 1])
    run.group("2", [2, 3])
    for n in range(5):
        run.all("all_reduce", shape=[8])
        for rank in run:
            mine = "1" if rank.rank < 2 else "2"
            rank.call(op if rank.rank == 1 and n == 2 else "all_reduce", mine, shape=[n])
            rank.call("all_gather_single", mine, shape=[2], out_shape=[4])
    run.finish()
    return run


def exchanges(wrong: int = 0) -> Run:
    """all_to_all of uneven sizes; ``wrong``: elements that rank 1 sends too many of, once."""
    run = Run(3)
    for n in range(6):
        for rank in run:
            mine = rank.rank
            sent = [n + mine + to for to in range(3)]
            expected = [n + source + mine for source in range(3)]
            if wrong and mine == 1 and n == 3:
                sent[2] += wrong
            rank.call("all_to_all_single", shape=[sum(sent)], splits=[sent, expected])
        run.all("all_reduce", shape=[2])
    run.finish()
    return run


def messages(wrong: str = "", *, any_source: bool = False, steps: int = 5, end: bool = True) -> Run:
    """A ring; rank 1 may send another dtype, or leave one out, for which rank 2 waits."""
    run = Run(3)
    for n in range(steps):
        for rank in run:
            to, source = (rank.rank + 1) % 3, (rank.rank - 1) % 3
            off = rank.rank == 1 and n == steps - 2
            if not (off and wrong == "lacks"):
                dtype = "int64" if off and wrong == "dtype" else "float32"
                rank.send(to, shape=[n + 1], dtype=dtype, tag=n % 2)
            is_any = any_source and rank.rank == 0
            got = rank.recv(-1 if is_any else source, shape=[n + 1], tag=n % 2)
            if is_any:
                rank.answer(got, source)
        if n % 2:
            run.all("all_reduce", shape=[3])
    if end:
        run.finish()
    return run


def hung_message() -> Run:
    """Rank 1 left without its last send, for which rank 2 waits."""
    run = messages(end=False)
    for rank in run:
        if rank.rank == 2:
            rank.stuck_in(rank.recv(1, tag=7))
        else:
            rank.exit()
    return run


def missing() -> Run:
    """Rank 1 left early; the others wait."""
    run = training(end=False)
    for rank in run:
        if rank.rank == 1:
            rank.exit()
        else:
            rank.stuck_in(rank.call("all_reduce", site="train.py:14"))
    return run


def died() -> Run:
    """Rank 1 was killed; the others wait."""
    run = training(end=False)
    for rank in run:
        if rank.rank != 1:
            rank.stuck_in(rank.call("all_reduce", site="train.py:14"))
    return run


def deadlock() -> Run:
    """Two ranks enter two groups in other orders."""
    run = Run(2)
    run.group("1", [0, 1])
    for _ in range(4):
        run.all("all_reduce")
        run.all("all_reduce", "1")
    run.rank(0).stuck_in(run.rank(0).call("all_reduce", site="a.py:1"))
    run.rank(1).stuck_in(run.rank(1).call("all_reduce", "1", site="b.py:1"))
    return run


def unknown_roles() -> Run:
    """Rank 1 does not know who issued some of its calls."""
    change = {n: (lambda rank: rank.call("broadcast", shape=[4], role="unknown")) for n in (7, 15)}
    return training(change)


def healthy() -> list[Sample]:
    """Runs in which nothing is wrong."""
    return [
        Sample("training", training()),
        Sample("checkpoints", training(checkpoint=900)),
        Sample("segments", training(checkpoint=700, segment=1700)),
        Sample("rotated", training(checkpoint=700, segment=1700, keep=3)),
        Sample("groups", groups()),
        Sample("exchanges", exchanges()),
        Sample("messages", messages()),
        Sample("any source", messages(any_source=True)),
        Sample("unknown roles", unknown_roles()),
        Sample("killed together", training(end=False)),
        Sample("nccl", training(backend="cpu:gloo,cuda:nccl", device="cuda")),
    ]


def different() -> list[Sample]:
    """Runs in which something is."""
    one = frozenset({1})

    def maximum(rank: Rank) -> None:
        rank.call("all_reduce", shape=[64], role="ddp.backward.bucket", site="train.py:11",
                  reduce_op="MAX")  # fmt: skip

    def extra(rank: Rank) -> None:
        rank.call("barrier", site="eval.py:3")
        rank.call("broadcast", shape=[4], site="train.py:12")

    return [
        Sample("reduce op", training({13: maximum}), one),
        Sample("reduce op, checkpoints", training({13: maximum}, checkpoint=900), one),
        Sample("extra call", training({11: extra}), one),
        Sample("op in a group", groups("broadcast"), frozenset({0, 1})),
        Sample("splits", exchanges(2), frozenset({1, 2})),
        Sample("message's dtype", messages("dtype"), frozenset({1, 2})),
        Sample("message's absence", hung_message(), one),
        Sample("left early", missing(), one),
        Sample("died", died(), one),
        Sample("deadlock", deadlock(), frozenset({0, 1})),
    ]


# -- harm ------------------------------------------------------------------------------------------


def mutations(data: bytes, random_: random.Random) -> Iterator[Mutation]:
    """Every line harmed in every way, where the damage is at random."""
    *lines, _ = data.split(b"\n")
    total = len(lines)

    def joined(those: Sequence[bytes]) -> bytes:
        return b"".join(line + b"\n" for line in those)

    def at(n: int, *instead: bytes) -> bytes:
        return joined([*lines[:n], *instead, *lines[n + 1 :]])

    for n, line in enumerate(lines):
        yield Mutation("delete", n, at(n))
        yield Mutation("zero", n, at(n, bytes(len(line))))
        for _ in range(3):
            where = random_.randrange(len(line))
            byte = random_.choice(b'abcdz019,:"{}[] \xff')
            damaged = line[:where] + bytes([byte]) + line[where + 1 :]
            yield Mutation("damage", n, at(n, damaged))
        yield Mutation("tear", n, at(n, line[: random_.randrange(len(line))]))
        yield Mutation("duplicate", n, at(n, line, line))
        yield Mutation("elsewhere too", n, joined([*lines, line]))
        if n + 1 < total:
            other = random_.randrange(n + 1, total)
            for what, with_ in (("swap", n + 1), ("swap far", other)):
                swapped = list(lines)
                swapped[n], swapped[with_] = swapped[with_], swapped[n]
                yield Mutation(what, n, joined(swapped))
            stop = random_.randrange(n + 1, min(total, n + 9) + 1)
            what = "delete range" if stop < total else "delete to the end"
            yield Mutation(what, n, joined(lines[:n] + lines[stop:]))
            yield Mutation("zero range", n, joined([*lines[:n], bytes(300), *lines[stop:]]))
        if n:
            yield Mutation("cut tail", n, joined(lines[:n]))
            yield Mutation("cut tail in a line", n, joined(lines[:n]) + line[: len(line) // 2])
        found = _SEQ.search(line)
        if found is not None and line.startswith(_CALL):
            seq = int(found[1])
            for other in (seq - 1, seq + 1, seq + 100, random_.randrange(1, 30)):
                if 0 < other != seq:
                    yield Mutation("renumber", n, at(n, _SEQ.sub(b'"seq":%d' % other, line, 1)))
            yield Mutation("newer kind", n, at(n, line.replace(b'"call"', b'"call2"', 1)))
            yield Mutation("newer field", n, at(n, line.replace(found[0], b'"seq":"x"', 1)))
    for old, new in ((b'"call"', b'"call2"'), (b'"seq":', b'"sequence":'), (b'"op":', b'"opp":')):
        newer = [line.replace(old, new, 1) if line.startswith(_CALL) else line for line in lines]
        yield Mutation("all newer", 0, joined(newer))
    yield Mutation("no call", 0, joined([line for line in lines if not line.startswith(_CALL)]))


def mutated(sample: Sample, seed: int = 0) -> Iterator[tuple[str, Mutation, dict[str, bytes]]]:
    """A sample with one file harmed in every way: its name, what was done, all files."""
    files = sample.files()
    random_ = random.Random(f"{sample.name} {seed}")
    for name, data in files.items():
        for mutation in mutations(data, random_):
            if mutation.data != data:
                yield name, mutation, {**files, name: mutation.data}


def everywhere(sample: Sample) -> Iterator[tuple[str, Mutation, dict[str, bytes]]]:
    """The same change of all call lines, in the files of all ranks."""
    files = sample.files()
    for new in (b'{"kind":"call2"', b'{"kind":"call","seq":"x"', b'{"Kind":"call"', b""):
        harmed = {
            name: b"".join(
                line.replace(_CALL, new, 1) if new or not line.startswith(_CALL) else b""
                for line in data.splitlines(keepends=True)
            )
            for name, data in files.items()
        }
        yield "all", Mutation("all newer, on all ranks", 0, new), harmed
