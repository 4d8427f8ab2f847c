"""Runs the cases of join_cases.py traced, aligns each, and holds every verdict to what it must be.

Exit status: 0 if every verdict is as expected, 1 if one is not.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

CASES_SCRIPT: Final = Path(__file__).with_name("join_cases.py")


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
    behaved: bool
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
    def expected(self) -> bool:
        if not self.behaved:
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
    # Twice what the ranks need on an idle machine: half of it is gloo's own patience.
    options = ["--timeout", "30", "--barrier", case.barrier, "--log-dir", str(folder)]
    job = subprocess.run(
        [sys.executable, CASES_SCRIPT, str(case.number), *options],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(job.stdout, flush=True)
    behaved = job.returncode == 0
    ended = ", ".join(re.findall(r"^rank \d (\w+):", job.stdout, re.MULTILINE))
    answer = folder / "findings.json"
    aligner = [sys.executable, "-m", "collectrace.align", str(folder), "--json", str(answer)]
    subprocess.run(aligner, check=False)
    if not answer.exists():
        return Result(case, behaved, ended, "unusable", None)
    told = json.loads(answer.read_bytes())
    errors = [finding for finding in told["findings"] if finding["severity"] == "error"]
    return Result(case, behaved, ended, told["status"], errors[0] if errors else None)


def summary(results: Sequence[Result]) -> str:
    lines = [f"{'case':<8} {'ranks 0 and 1':<19} first finding"]
    for result in results:
        verdict = "as expected"
        if not result.behaved:
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
    home = Path(tempfile.mkdtemp(prefix="collectrace-demo-"))
    chosen = [case for case in CASES if not wanted or case.number in wanted]
    results = [run(case, home / case.name.replace(" ", "-")) for case in chosen]
    print(f"\n=== all cases\n\n{summary(results)}\n\nlogs: {home}")
    return 0 if all(result.expected for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
