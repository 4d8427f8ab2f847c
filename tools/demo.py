"""Runs the cases of join_cases.py traced, aligns each, and holds every verdict to what it must be.

Exit status: 0 if every verdict is as expected, 1 if one is not, 3 if one is not and this machine
was too slow to say.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

TOO_SLOW: Final = 3
"""Exit status of join_cases.py where the machine may be why the ranks did something else."""

CASES_SCRIPT: Final = Path(__file__).with_name("join_cases.py")

LOGS: Final = Path(__file__).resolve().parents[1] / "demo-logs"
"""Where the cases record, a folder each; one that is run again begins anew."""

USUAL: Final = 10.0
"""Seconds that a case takes on two cores with nothing else to do, its report included."""


@dataclass(frozen=True, slots=True)
class Case:
    """A case, and the verdict that is right: the first finding's kind, and whom it suspects."""

    number: int
    barrier: str
    words: str
    kind: str | None
    suspects: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.number}" if self.barrier == "native" else f"{self.number} {self.barrier}"


CASES: Final = (
    Case(1, "native", "join()", None),
    Case(2, "native", "nothing against uneven inputs", "missing_call"),
    Case(3, "native", "a barrier every step", "missing_call"),
    Case(4, "native", "join() and a barrier every step", "op_mismatch", (1,)),
    Case(4, "zeros", "the same, barrier as NCCL's, holding 0", "role_mismatch", (1,)),
    Case(4, "ones", "the same, barrier as NCCL's, holding 1", "role_mismatch", (1,)),
    Case(5, "native", "a barrier after the loop", "op_mismatch"),
    Case(6, "native", "join(), then a barrier", None),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What a case came to."""

    case: Case
    job: int
    """Exit status of join_cases.py."""
    ended: str
    status: str
    first: dict[str, Any] | None

    @property
    def found(self) -> str:
        if self.first is None:
            return self.status
        suspects = "".join(f", rank {rank}" for rank in self.first["suspects"])
        seq = "" if self.first["seq"] is None else f" at call {self.first['seq']}"
        return f"{self.first['kind']}{seq}{suspects}"

    @property
    def was_too_slow(self) -> bool:
        """Whether the ranks did something else, on a machine that may be why."""
        return self.job == TOO_SLOW

    @property
    def expected(self) -> bool:
        if self.job != 0:
            return False
        if self.case.kind is None:
            return self.status == "aligned"
        return self.first is not None and (
            self.first["kind"] == self.case.kind
            and tuple(self.first["suspects"]) == self.case.suspects
        )


def run(case: Case, folder: Path) -> Result:
    """The two ranks, then the aligner on what they left; its report goes to our own output."""
    print(f"\n=== case {case.name}: {case.words}\n", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    # Twice what the ranks need once they have met, a third of it gloo's own patience.
    options = ["--timeout", "30", "--barrier", case.barrier, "--log-dir", str(folder)]
    job = subprocess.run(
        [sys.executable, CASES_SCRIPT, str(case.number), *options],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(job.stdout, flush=True)
    ended = ", ".join(re.findall(r"^rank \d (\w+):", job.stdout, re.MULTILINE))
    answer = folder / "findings.json"
    aligner = [sys.executable, "-m", "collectrace.align", str(folder), "--json", str(answer)]
    subprocess.run(aligner, check=False)
    if not answer.exists():
        return Result(case, job.returncode, ended, "unusable", None)
    told = json.loads(answer.read_bytes())
    errors = [finding for finding in told["findings"] if finding["severity"] == "error"]
    return Result(case, job.returncode, ended, told["status"], errors[0] if errors else None)


def summary(results: Sequence[Result]) -> str:
    lines = [f"{'case':<8} {'ranks 0 and 1':<19} first finding"]
    for result in results:
        verdict = "as expected"
        if result.was_too_slow:
            verdict = "this machine is too slow to say"
        elif result.job != 0:
            verdict = "NOT WHAT GLOO IS KNOWN TO DO"
        elif not result.expected:
            verdict = f"EXPECTED {result.case.kind or 'aligned'}"
        lines.append(f"{result.case.name:<8} {result.ended:<19} {result.found:<33} {verdict}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", type=int, metavar="CASE", help="1 to 6")
    wanted = parser.parse_args().cases
    if not set(wanted) <= {case.number for case in CASES}:
        parser.error("the cases are 1 to 6")
    chosen = [case for case in CASES if not wanted or case.number in wanted]
    print(
        f"{len(chosen)} cases, about {_minutes(USUAL * len(chosen))}, longer on a busy machine; "
        f"their logs: {LOGS}"
    )
    began, results = time.monotonic(), []
    for n, case in enumerate(chosen):
        if n:
            left = (time.monotonic() - began) / n * (len(chosen) - n)
            print(f"\n({n} of {len(chosen)} done, about {_minutes(left)} to go)")
        results.append(run(case, LOGS / case.name.replace(" ", "-")))
    print(f"\n=== all cases\n\n{summary(results)}\n")
    print(f"logs: {LOGS}; to read a report again: python -m collectrace align {_shown(LOGS)}/4")
    return verdict(results)


def verdict(results: Sequence[Result]) -> int:
    """The exit status."""
    if all(result.expected for result in results):
        return 0
    others = [result for result in results if not result.expected]
    if all(result.was_too_slow for result in others):
        print("this machine is too slow to show every case; try again when it is less busy")
        return TOO_SLOW
    return 1


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _shown(path: Path) -> str:
    """Relative to the working directory, where it lies below it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


if __name__ == "__main__":
    sys.exit(main())
