"""The types of the answer: what the aligner says, whatever then prints or draws it.

Their JSON (``python -m collectrace.align --json``) is relied upon from outside: fields may be
added, none may change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from collectrace.records import Call

FORMAT: Final = 1

Status = Literal["aligned", "diverged", "hung", "unknown"]
Severity = Literal["error", "warning", "info"]
State = Literal["finished", "raised", "blocked", "busy", "died", "silent", "running", "missing"]
Ended = Literal["exit", "signal", "gone", "alive"]
Kind = Literal[
    # same place, different call
    "op_mismatch", "dtype_mismatch", "shape_mismatch", "reduce_op_mismatch", "root_mismatch",
    "split_mismatch", "role_mismatch",
    # groups
    "group_mismatch",
    # absence
    "missing_call",
    # point to point
    "p2p_unmatched", "p2p_mismatch",
    # together
    "deadlock", "stall",
    # information
    "raised", "uneven_inputs", "straggler", "config_skew", "sampler_epoch", "unwaited_work",
    "early_termination", "evidence_gap",
]  # fmt: skip

EXIT_STATUS: Final[dict[Status, int]] = {"aligned": 0, "diverged": 1, "hung": 1, "unknown": 3}
"""Of the command; 2 is left for input that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """A process group, as people and programs are told about it."""

    name: str
    description: str
    backend: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Ranks that did the same at the place of a finding; no call: they did not come."""

    ranks: tuple[int, ...]
    call: Call | None
    state: State
    site: str | None = None
    """Where they asked for a process group, in a finding about one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One position of a stream: a call per column, None where those ranks issued none."""

    seq: int
    cells: tuple[Call | None, ...]
    mark: Literal["", "root", "fatal"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows around a difference, side by side. Columns are ranks whose rows are equal."""

    columns: tuple[tuple[int, ...], ...]
    rows: tuple[TableRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of the user's code, where the file could still be read."""

    site: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth knowing."""

    kind: Kind
    severity: Severity
    headline: str
    cause: str
    fix: str
    group: GroupInfo | None = None
    seq: int | None = None
    sides: tuple[Side, ...] = ()
    suspects: tuple[int, ...] = ()
    caused_by: int | None = None
    """Index into the list of findings."""
    notes: tuple[str, ...] = ()
    """Observations that blame nobody: where in the loop it happened, what was repeated before."""
    table: Table | None = None
    sources: tuple[SourceLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankState:
    """What one rank was doing when its evidence ends, and how it ended."""

    rank: int
    state: State
    ended: Ended
    last_call: Call | None = None
    detail: str = ""
    """A few words: the exception, what it is blocked in, for how long."""
    held: float | None = None
    """Seconds in that, or since its last call, at its last sign of life; None: it issued none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the verdict rests on, and what was missing."""

    agreed: int = 0
    """Collectives on which all ranks of their groups agree, over all streams."""
    missing_ranks: tuple[int, ...] = ()
    damaged_lines: int = 0
    dropped: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """The whole answer. The first finding is the root cause."""

    status: Status
    run: str
    world_size: int
    findings: tuple[Finding, ...] = ()
    ranks: tuple[RankState, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)

    @property
    def exit_status(self) -> int:
        """What the command exits with."""
        return EXIT_STATUS[self.status]
