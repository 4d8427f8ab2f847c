"""What a stranger writes into the job's store, while it runs and while it explains itself."""

from __future__ import annotations

import itertools
import json
import random
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from collectrace import exchange
from collectrace.exchange import Announced, Ask, Keys, Left, Listing, Turn, Verdict
from collectrace.job_store import JobStore, StoreError
from collectrace.log_folder import is_source
from tests.process.test_online import BEGIN, heads
from tests.process.test_online_faults import ended
from tests.support.apart import Apart

pytestmark = pytest.mark.slow

ESCAPES = "\x1b[2J\x1b]0;owned\x07\u202eevil\nTraceback"


@cache
def bomb() -> bytes:
    return zlib.compress(bytes(64 << 20), 9)


RAW = [
    b"", b"\0", b"\xff" * 100, b"[" * 60_000, b"{}", b"null", b"1\n", b"9" * 5000,
    b"x" * (2 << 20), b"-1 -1 -1",
    b"999999999999999999 1 1", b"5 12345 67890", b'{"heartbeat":1' + b"0" * 400 + b"}",
]  # fmt: skip

BIG = (1 << 63) - 1

MESSAGES: list[Any] = [
    Announced("../../" + ESCAPES, 3, 0.5), Announced("x", BIG, float("inf")),
    Turn(BIG, ESCAPES, is_open=False), Turn(-5, "rank 0", is_open=True),
    Turn(999_999_999, ESCAPES, is_open=False), Turn(3, "rank 1", is_open=False),
    Ask(1, 0, -5, BIG), Ask(2, 0, BIG, -1), Ask(BIG, BIG, 0, 0), Ask(3, 0, 0, BIG),
    Listing(("../../../etc/passwd", "rank00000.jsonl", "rank00000.jsonl"), (5, BIG, -1)),
    Listing(("/rank00001.jsonl", "rank00001.stacks.txt"), (1 << 49, 1 << 49)),
    Verdict(1, ESCAPES, ESCAPES, ESCAPES * 20, ESCAPES, is_proven=False, also=(ESCAPES,) * 60),
]  # fmt: skip


def values(rank: int) -> list[bytes]:
    listing = exchange.pack(1, exchange.encode(Listing((f"rank{rank:05d}.jsonl",), (BIG,))))
    return [*RAW, b"1\n" + bomb(), *map(exchange.encode, MESSAGES), listing, *left(rank)]


def left(rank: int) -> list[bytes]:
    """What a rank might have left when it ended, and what none would."""
    name = f"rank{rank:05d}.jsonl"
    made_up = exchange.pack_left(
        Left("20260101-000000-abcdef", (name,), (9,), (0,), (0,), (9,)), [b'{"kind":"']
    )
    outside = exchange.pack_left(
        Left("x", (f"../../{ESCAPES}", "/etc/passwd"), (3, BIG), (0, 1), (0, BIG), (3, 3)),
        [b"abc", b"def"],
    )
    unfit = Left("x", (name,), (BIG,), (0, -1), (-BIG, BIG), (BIG, -BIG))
    return [made_up, outside, exchange.encode(unfit) + b"\n" + bomb()]


@contextmanager
def stranger(ranks: Apart, run: str, seed: int) -> Iterator[threading.Event]:
    """Write anything to any key, until the block is left; set once every value was written."""
    over, done = threading.Event(), threading.Event()
    chance, keys = random.Random(seed), Keys(run)

    def write() -> None:
        store = None
        for n in itertools.count():
            if over.wait(0.01):
                break
            rank, turn = chance.randrange(ranks.world), chance.choice([1, 1, 2, 3, 4])
            some = [
                exchange.ANNOUNCED, keys.turn, keys.card(turn, rank), keys.ask(turn, rank),
                keys.answer(turn, rank), keys.verdict(turn), keys.left(rank), *positions,
            ]  # fmt: skip
            with suppress(StoreError):
                store = store or JobStore("127.0.0.1", ranks.port, 5.0)
                store.set(some[n % len(some)], chance.choice(values(rank)))
            if n == 500:
                done.set()
        if store is not None:
            store.close()

    positions = [keys.position(name) for name in names(ranks)]
    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def names(ranks: Apart) -> set[str]:
    """The names of the streams, as the ranks themselves make them."""
    found = set[str]()
    for rank in range(ranks.world):
        for line in ranks.said(rank).splitlines():
            if line.startswith("stream "):
                found.add(line.split()[1])
    return found


LOOK = """
import collectrace.tracer.online.agreement as agreement
compare, seen = agreement.Agreement._compare, set()
def comparing(self, store, name, stream):
    if name not in seen:
        seen.add(name)
        print("stream", name, flush=True)
    return compare(self, store, name, stream)
agreement.Agreement._compare = comparing
init()
step = 0
go = torch.ones(1)
while go.item():
    dist.all_reduce(torch.zeros(1))
    go = torch.tensor([0.0 if os.path.exists("stop") else 1.0])
    dist.broadcast(go, 0)
    time.sleep(0.01)
"""


def run_of(ranks: Apart) -> str:
    ranks.wait_for(lambda: all(list(ranks.logs(r).glob("2*/rank*")) for r in range(ranks.world)))
    ranks.wait_for_words("stream ")
    return next(ranks.logs(0).glob("2*")).name


def look_over(ranks: Apart, folder: Path) -> None:
    """Nothing has been said that should not have been, and nothing lies where it should not."""
    for rank in range(ranks.world):
        text = ranks.said(rank)
        assert "Traceback (most recent" not in text
        assert "internal failure" not in text
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
        assert len(text) < 200_000
    known = {"train.py", "stop", "part", *(f"rank{r}" for r in range(3))}
    assert {file.name.removesuffix(".txt") for file in folder.iterdir()} <= known
    there = [file for file in folder.glob("rank*/**/*") if file.is_file()]
    files = [file.name for file in there if not is_source(file)]
    assert all(name.startswith(("rank0", "verdict.")) for name in files), files


@pytest.mark.parametrize("what", ["report", "raise"])
def test_a_healthy_job_goes_on(tmp_path: Path, what: str) -> None:
    script = BEGIN + LOOK + "dist.destroy_process_group()\n"
    with Apart(tmp_path, script, stall_after=1, heartbeat=0.2, on_divergence=what) as ranks:
        with stranger(ranks, run_of(ranks), 1) as done:
            ranks.wait_for(done.is_set)
            (tmp_path / "stop").touch()
            assert ended(ranks) == [0, 0]
        look_over(ranks, tmp_path)


def test_a_hanging_job_says_nothing_that_it_should_not(tmp_path: Path) -> None:
    script = BEGIN + LOOK + "dist.barrier() if rank else dist.broadcast(torch.zeros(1), 0)\n"
    with Apart(tmp_path, script, heartbeat=0.2) as ranks:
        with stranger(ranks, run_of(ranks), 2) as done:
            (tmp_path / "stop").touch()
            ranks.wait_for(done.is_set)
        look_over(ranks, tmp_path)


def test_a_verdict_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    # That it was made up nobody can tell, see docs/online.md.
    script = BEGIN + LOOK
    with Apart(tmp_path, script, on_divergence="raise") as ranks:
        keys = Keys(run_of(ranks))
        made_up = Verdict(7, "rank 9", "diverged", ESCAPES, "op_mismatch", is_proven=True)
        with closing(JobStore("127.0.0.1", ranks.port, 20.0)) as store:
            store.set(keys.verdict(7), exchange.encode(made_up))
            store.set(keys.turn, exchange.encode(Turn(7, "rank 9", is_open=False)))
            assert store.read("nothing") is None  # it has arrived
        ended(ranks)
        said = "".join(map(ranks.said, range(2)))
        assert "DivergenceError: " in said
        assert not {"\x1b", "\x07", "\u202e"} & set(said)


@pytest.mark.parametrize(
    "turn",
    [
        exchange.encode(Turn(BIG, "a stranger", is_open=False)),
        exchange.encode(Turn(999_999_999, "a stranger", is_open=False)),
        json.dumps({"number": 4, "by": "a stranger", "is_open": True}).encode(),  # with blanks
        b"garbage",
    ],
    ids=["too large", "the last", "otherwise written", "garbage"],
)
def test_any_turn_is_followed_by_another(tmp_path: Path, turn: bytes) -> None:
    script = BEGIN + LOOK + "dist.barrier() if rank else dist.broadcast(torch.zeros(1), 0)\n"
    with Apart(tmp_path, script) as ranks:
        keys = Keys(run_of(ranks))
        with closing(JobStore("127.0.0.1", ranks.port, 20.0)) as store:
            store.set(keys.turn, turn)
            store.set(exchange.ANNOUNCED, b"garbage")
            assert store.read("nothing") is None
        (tmp_path / "stop").touch()
        ranks.wait_for(lambda: heads(ranks))
        [elected] = heads(ranks)
        ranks.wait_for_words("(details: output of rank", 1 - elected)
