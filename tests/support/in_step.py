"""Programs of collectives, and what ranks leave that run them: in step, until some wait for ever.

    job = Job(3, {"0": (0, 1, 2)}, {rank: calls for rank in range(3)})
    job.run(checkpoint=300).write(folder)       # rank files
    job.dumps().write(folder)                   # Flight Recorder dumps

A collective is over when every rank of its group has come to a call of the same number there,
whatever that call is. A rank that waits for one that is never over stays in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from tests.support import flight_rings
from tests.support.synthetic import Run


@dataclass(frozen=True)
class Step:
    """One call of a program."""

    line: int
    op: str = "all_reduce"
    group: str = "0"
    size: int = 4
    dtype: str = "float32"


Program = Sequence[Step]


@dataclass(frozen=True)
class Job:
    """What each rank is to call."""

    world: int
    groups: Mapping[str, tuple[int, ...]]
    programs: Mapping[int, Program]

    @cached_property
    def issued(self) -> dict[int, int]:
        """How many calls of its program each rank comes to."""
        at = dict.fromkeys(range(self.world), 0)
        numbers: dict[int, list[int]] = {rank: _numbers(p) for rank, p in self.programs.items()}
        came: dict[int, Counter[str]] = {rank: Counter() for rank in at}
        for rank, program in self.programs.items():
            if program:
                at[rank], came[rank][program[0].group] = 1, 1
        moved = True
        while moved:
            moved = False
            for rank, program in self.programs.items():
                while 0 < at[rank] < len(program) and self._is_over(rank, at[rank], numbers, came):
                    came[rank][program[at[rank]].group] += 1
                    at[rank] += 1
                    moved = True
        return at

    def _is_over(
        self, rank: int, issued: int, numbers: Mapping[int, Sequence[int]],
        came: Mapping[int, Counter[str]],
    ) -> bool:  # fmt: skip
        group = self.programs[rank][issued - 1].group
        number = numbers[rank][issued - 1]
        return all(came[other][group] >= number for other in self.groups[group])

    @cached_property
    def stuck(self) -> frozenset[int]:
        """The ranks that stay in their last call."""
        numbers = {rank: _numbers(program) for rank, program in self.programs.items()}
        came = {
            rank: Counter(step.group for step in program[: self.issued[rank]])
            for rank, program in self.programs.items()
        }
        return frozenset(
            rank
            for rank, issued in self.issued.items()
            if issued and not self._is_over(rank, issued, numbers, came)
        )

    def calls(self, rank: int) -> Program:
        """Return the calls that a rank comes to."""
        return self.programs[rank][: self.issued[rank]]

    def differences(self) -> set[tuple[str, int]]:
        """Return per group the first call that its ranks do not all make, or not alike."""
        found = set()
        for group, ranks in self.groups.items():
            streams = [[_wire(s) for s in self.calls(r) if s.group == group] for r in ranks]
            for n in range(max(map(len, streams))):
                if len({stream[n] if n < len(stream) else None for stream in streams}) > 1:
                    found.add((group, n + 1))
                    break
        return found

    def run(self, **how: Any) -> Run:
        """Return the ranks' files."""
        run = Run(self.world, **how)
        for name, ranks in self.groups.items():
            if name != "0":
                run.group(name, ranks)
        for rank in run:
            call = None
            for step in self.calls(rank.rank):
                rooted: dict[str, Any] = {}
                if step.op in _ROOTED:
                    rooted["root"] = self.groups[step.group][0]
                call = rank.call(
                    step.op, step.group, shape=[step.size], dtype=step.dtype,
                    site=f"train.py:{step.line}", **rooted,
                )  # fmt: skip
            if call is not None and rank.rank in self.stuck:
                rank.stuck_in(call)
            else:
                rank.exit()
        return run

    def dumps(self) -> flight_rings.Job:
        """Return the ranks' Flight Recorder dumps."""
        job = flight_rings.Job(self.world)
        for name, ranks in self.groups.items():
            if name != "0":
                job.group(name, ranks)
        for ring in job:
            calls = self.calls(ring.rank)
            for n, step in enumerate(calls, 1):
                waits = n == len(calls) and ring.rank in self.stuck
                ring.call(
                    step.op, [step.size], group=step.group, line=step.line,
                    dtype={"float32": "Float", "int64": "Long"}[step.dtype],
                    state="started" if waits else "completed",
                )  # fmt: skip
        return job


_ROOTED: Final = ("broadcast", "reduce")


def _numbers(program: Program) -> list[int]:
    """Return of each call which of its group it is, from 1."""
    seen: Counter[str] = Counter()
    numbers = []
    for step in program:
        seen[step.group] += 1
        numbers.append(seen[step.group])
    return numbers


def _wire(step: Step) -> tuple[str, int, str]:
    return step.op, step.size, step.dtype
