"""How long a verdict takes, and how much of the logs it reads: by digest and by full scan.

    python tools/bench_align.py [--ranks 64] [--calls 20000]
    python tools/bench_align.py --large [--ranks 4096]

Fails if by digest more than a twentieth of the bytes is read, or if the two ways disagree.
``--large`` runs `align` as a whole process on large jobs, without a difference and with one rank
that skips a call, and fails where one takes more CPU time or memory than its limit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from collectrace.align.alignment import compared
from collectrace.align.matching.comparison import Comparison
from collectrace.align.reading.run_reader import read
from tools.bench_flight import measure as run
from tools.make_logs import Difference, make

_SHARE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    """One way through one set of logs."""

    comparison: Comparison
    seconds: float
    bytes_read: int
    total: int

    @property
    def share(self) -> float:
        return self.bytes_read / self.total

    def line(self, name: str) -> str:
        found = [(d.seq, d.attribute) for d in self.comparison.divergences]
        return (
            f"  {name:10} {self.seconds:6.2f} s  {self.bytes_read / 1e6:8.1f} MB"
            f"  {100 * self.share:6.2f} %  {found or 'agrees'}"
        )


def measure(folder: Path, *, full: bool) -> Measured:
    """Read and compare once."""
    total = sum(path.stat().st_size for path in folder.iterdir())
    began = time.perf_counter()
    evidence = read(folder, full=full, small=0)
    comparison = compared(evidence)
    seconds = time.perf_counter() - began
    return Measured(
        comparison, seconds, sum(log.bytes_read for log in evidence.logs.values()), total
    )


@dataclass(frozen=True, slots=True)
class Large:
    """A large job, and what a verdict may cost: seconds of CPU, and MiB."""

    ranks: int
    calls: int
    seconds: float
    peak: float


LARGE: Final = (
    Large(64, 20_000, 2, 300),
    Large(64, 200_000, 2, 300),
    Large(4096, 1000, 6, 300),
    Large(16_384, 1000, 30, 1000),
)


def large(job: Large) -> int:
    """Run `align` on a job; how many of its limits do not hold."""
    failures = 0
    for differ in (None, Difference(job.ranks // 3, job.calls * 3 // 4, "missing")):
        with tempfile.TemporaryDirectory() as where:
            folder = make(Path(where), job.ranks, job.calls, differ)
            ran = run("-m", "collectrace.align", str(folder))
        is_well = ran.cpu <= job.seconds and ran.peak <= job.peak and ran.status == bool(differ)
        failures += not is_well
        print(
            f"{job.ranks:6,} x {job.calls:7,} {'one call skipped' if differ else 'all agree':16}"
            f" {ran.seconds:6.1f} s, {ran.cpu:6.1f} s of CPU (at most {job.seconds:g}),"
            f" {ran.peak:5.0f} MiB (at most {job.peak:g}), exit {ran.status}"
            f"{'' if is_well else '  FAILED'}",
            flush=True,
        )
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--large", action="store_true", help="large jobs, as whole processes")
    given = parser.parse_args()
    if given.large:
        return min(1, sum(large(job) for job in LARGE if given.ranks in (None, job.ranks)))
    given.ranks = given.ranks or 64
    planted = [None] + [
        Difference(given.ranks // 3, given.calls * 3 // 4, kind)
        for kind in ("dtype", "extra", "role")
    ]
    failures = 0
    for differ in planted:
        with tempfile.TemporaryDirectory() as where:
            began = time.perf_counter()
            run = make(Path(where), given.ranks, given.calls, differ)
            print(f"{differ or 'no difference'}, written in {time.perf_counter() - began:.1f} s")
            by_digest, by_scan = measure(run, full=False), measure(run, full=True)
            print(by_digest.line("by digest"), by_scan.line("full scan"), sep="\n")
            print(f"  ratio      {by_scan.seconds / by_digest.seconds:6.1f} times as fast")
            same = by_digest.comparison.divergences == by_scan.comparison.divergences
            if not same or by_digest.share > _SHARE:
                failures += 1
                print("  FAILED:", "too much read" if same else "the verdicts differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
