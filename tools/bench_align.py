"""How long a verdict takes, and how much of the logs it reads: by digest and by full scan.

    python tools/bench_align.py [--ranks 64] [--calls 20000]

Fails if by digest more than a twentieth of the bytes is read, or if the two ways disagree.
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--calls", type=int, default=20_000)
    given = parser.parse_args()
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
