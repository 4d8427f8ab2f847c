"""Harm logs whose verdict is known, and look for answers that are wrong.

    python tools/fuzz.py --count 10000             # prints a table, and each failure
    python tools/fuzz.py --seconds 600 --jobs 2    # as many as there is time for
    python tools/fuzz.py --cuts                    # small logs, cut at every byte
    python tools/fuzz.py --seed 3 --only 4711      # one input again, with what was done to it
    python tools/fuzz.py --seed 3 --only 4711 --save DIR   # its log, as small as it can be made

The samples are recorded runs and their correct twins, made-up runs, Flight Recorder dumps and rank
files that were made of them. Of each harmed log the answer must be the verdict, or one that says
what is missing, or unknown. It must never be a traceback, aligned over a difference, blame of a
rank that nothing shows, a cause that lost lines cannot show, and never take more than 20 s or 1 GB.

same       the verdict of the log as it was
as told    another one, for a changed line says so that nothing contradicts
gap        another one, and it says what is missing
unknown    no verdict, or the log cannot be used
failure    anything else
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.fuzz_parts import inputs
from tools.fuzz_parts.answers import Class
from tools.fuzz_parts.inputs import Input, Outcome

_MOST_SHOWN: Final = 3
"""Failures of one sort that are printed in full."""

_PROGRESS: Final = 10.0
"""Seconds between two lines on standard error that say how far it is."""

_STUCK: Final = 3 * inputs.SECONDS
"""Seconds after which a worker that no signal reaches is killed."""


def numbered(args: argparse.Namespace) -> Iterator[tuple[int, Input]]:
    """Yield the inputs that are asked for."""
    if args.cuts is not None:
        yield from enumerate(inputs.cuts(args.cuts))
        return
    first = args.first
    numbers = itertools.count(first) if args.seconds else range(first, first + args.count)
    yield from ((n, inputs.make(args.seed, n)) for n in numbers)


# -- workers ---------------------------------------------------------------------------------


def work(pipe: Connection) -> None:
    """Judge inputs, one after the other, until there are no more."""
    inputs.bound_memory()
    while (one := pipe.recv()) is not None:
        pipe.send(inputs.judge(one))


@dataclass
class Worker:
    """A process, and the input that it is at."""

    process: BaseProcess
    pipe: Connection
    number: int = 0
    one: Input | None = None
    since: float = 0.0

    @classmethod
    def start(cls) -> Worker:
        """Return a new one."""
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def give(self, number: int, one: Input) -> None:
        """Hand over an input."""
        self.number, self.one, self.since = number, one, time.monotonic()
        self.pipe.send(one)

    def take(self) -> Outcome:
        """Return what became of the input; the process may have died over it."""
        assert self.one is not None
        try:
            return self.pipe.recv()  # type: ignore[no-any-return]
        except (EOFError, ConnectionError):
            self.process.join()
            return Outcome(self.one.kind, "failure", f"died: {self.process.exitcode}")


def outcomes(todo: Iterator[tuple[int, Input]], jobs: int) -> Iterator[tuple[int, Input, Outcome]]:
    """Yield what becomes of inputs, as it is known."""
    busy: list[Worker] = []
    for _, (number, one) in zip(range(jobs), todo, strict=False):
        busy.append(Worker.start())
        busy[-1].give(number, one)
    while busy:
        ready = wait([worker.pipe for worker in busy], timeout=1.0)
        for worker in list(busy):
            if worker.pipe not in ready:
                if time.monotonic() - worker.since > _STUCK:
                    worker.process.kill()
                continue
            outcome, number, judged = worker.take(), worker.number, worker.one
            if not worker.process.is_alive():
                busy[busy.index(worker)] = fresh = Worker.start()
                worker = fresh
            following = next(todo, None)
            if following is None:
                worker.pipe.send(None)
                busy.remove(worker)
            else:
                worker.give(*following)
            assert judged is not None
            yield number, judged, outcome


# -- telling ---------------------------------------------------------------------------------


@dataclass
class Tally:
    """What has become of all inputs."""

    counts: dict[str, Counter[Class]] = field(default_factory=lambda: defaultdict(Counter))
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> bool:
        """Count one; return whether it is a failure that should be printed in full."""
        self.counts[outcome.kind][outcome.found] += 1
        if outcome.failure is None:
            return False
        self.failures[outcome.failure] += 1
        return self.failures[outcome.failure] <= _MOST_SHOWN

    def table(self) -> str:
        """Return the counts by kind of mutation, as Markdown."""
        classes = get_args(Class)
        rows = [["harmed", "inputs", *classes]]
        total = sum(self.counts.values(), Counter[Class]())
        for kind, counts in [*sorted(self.counts.items()), ("all", total)]:
            numbers = (counts.total(), *(counts[one] for one in classes))
            rows.append([kind, *(f"{number:,}" for number in numbers)])
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def again(args: argparse.Namespace, number: int, one: Input) -> str:
    """Return the command that judges an input again."""
    if one.cut is not None:
        return f"python tools/fuzz.py --cuts {args.cuts} --only {number}"
    return f"python tools/fuzz.py --seed {args.seed} --only {number}"


def repeat(args: argparse.Namespace) -> int:
    """Judge one input again and print all about it."""
    if args.cuts is not None:
        one = next(itertools.islice(inputs.cuts(args.cuts), args.only, None))
    else:
        one = inputs.make(args.seed, args.only)
    found = inputs.judge(one)
    print(one, *found.told, f"{found.found}: {found.failure}", sep="\n")
    if args.save is not None:
        log = inputs.harmed(one)[0]
        if found.failure is not None:
            one, log = inputs.minimised(one, found.failure)
        args.save.mkdir(parents=True)
        path = inputs.lay_out(log.files, args.save, one.packing, one.damage)
        print(one, path, sep="\n")
    return 1 if found.failure else 0


def main() -> int:
    """Return 0 if no answer was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000, help="how many inputs")
    parser.add_argument("--seconds", type=float, help="as many inputs as are judged in this time")
    parser.add_argument("--seed", type=int, default=0, help="inputs of a seed are always the same")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument(
        "--cuts", type=int, nargs="?", const=1, metavar="STRIDE",
        help="cut small logs at every byte, or at one of so many",
    )  # fmt: skip
    parser.add_argument("--only", type=int, metavar="N", help="judge the input of this number")
    parser.add_argument("--save", type=Path, metavar="DIR", help="with --only: write its log")
    args = parser.parse_args()
    if args.only is not None:
        return repeat(args)
    tally, began = Tally(), time.monotonic()
    shown, judged = began, 0
    with suppress(KeyboardInterrupt):  # what was judged until then is printed all the same
        for judged, (number, one, outcome) in enumerate(outcomes(numbered(args), args.jobs), 1):
            if time.monotonic() - shown > _PROGRESS:
                shown = time.monotonic()
                failed = tally.failures.total()
                print(f"{judged:,} inputs, {failed:,} failures", file=sys.stderr, flush=True)
            if tally.add(outcome):
                print(f"{outcome.failure}\n  {one.sample}: {'; '.join(outcome.told)}")
                print(f"  {again(args, number, one)}", flush=True)
            if args.seconds and time.monotonic() - began > args.seconds:
                break
    took = time.monotonic() - began
    print(tally.table())
    for failure, count in tally.failures.most_common():
        print(f"{count:6} {failure}")
    print(f"{judged} inputs in {took:.0f} s, {judged / took:.0f} a second", file=sys.stderr)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "100")
    raise SystemExit(main())
