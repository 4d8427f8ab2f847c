#!/usr/bin/env python3
"""Break the tracer, or kill its rank, in whole runs of two ranks; print what must not be.

    python tools/faults.py sweep [--kinds plain stalls online rotates] [--events call return c_call]
                                 [--errors RuntimeError MemoryError OSError] [--count 100]
    python tools/faults.py kills [--count 200] [--online]

``sweep`` makes each function of ours, and each C function that one of ours calls, raise once in a
run of its own. ``kills`` kills a rank at a random moment of its life. Exit status: 1 if the results
of the job changed, if more than one warning was printed, or if anybody was blamed.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support import kills, striking, sweep
from tests.support.real_ranks import Ranks
from tests.zoo.runner import shared


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=1)
    parts = parser.add_subparsers(dest="part", required=True)
    swept = parts.add_parser("sweep", help="an exception at every step of the tracer")
    swept.add_argument("--kinds", nargs="+", choices=sweep.KINDS, default=[*sweep.KINDS])
    events = (striking.CALL, striking.RETURN, striking.C_CALL)
    swept.add_argument("--events", nargs="+", choices=events, default=[striking.CALL])
    swept.add_argument("--errors", nargs="+", choices=striking.ERRORS, default=["RuntimeError"])
    swept.add_argument("--count", type=int, default=1_000_000, help="steps of each kind of run")
    killed = parts.add_parser("kills", help="a rank is killed at a random moment")
    killed.add_argument("--count", type=int, default=200)
    killed.add_argument("--online", action="store_true", help="while ranks compare digests")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        folder = Path(name)
        ranks = Ranks(shared(), folder)
        if given.part == "kills":
            return _kill(ranks, folder, given)
        return sum(
            _sweep(ranks, folder / f"{kind}.{event}.{error}", kind, event, error, given)
            for kind in given.kinds
            for event in given.events
            for error in given.errors
        ) and 1  # fmt: skip


def _sweep(
    ranks: Ranks, folder: Path, kind: str, event: str, error: str, given: argparse.Namespace
) -> int:
    folder.mkdir()
    chosen = sweep.sample(sweep.steps(ranks, folder, kind, event), given.count, given.seed)
    statuses: Counter[str] = Counter()
    bad = 0
    for one in sweep.sweep(ranks, folder, kind, chosen, error):
        statuses[one.status if one.was_reached else "not reached"] += 1
        bad += bool(one.problems)
        for problem in one.problems:
            print(f"  {one.step}: {problem}", flush=True)
    print(f"{kind} {event} {error}: {len(chosen)} strikes, {dict(statuses)}, {bad} bad", flush=True)
    return bad


def _kill(ranks: Ranks, folder: Path, given: argparse.Namespace) -> int:
    chance = random.Random(given.seed)
    found: Counter[str] = Counter()
    bad = 0
    for n in range(given.count):
        one = kills.kill_once(ranks, folder / f"notes{n}", chance, online=given.online)
        found[" ".join((one.status, *one.kinds))] += 1
        bad += bool(one.problems)
        for problem in one.problems:
            print(f"  kill {n}: {problem}", flush=True)
    print(f"{given.count} kills: {dict(found)}, {bad} bad")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
