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

Family = Literal["call", "group", "message", "together", "information"]
"""What a finding is about: a row of a stream, a process group, a message of a point-to-point
channel, what ranks do to each other as a whole; or something that is no error by itself."""


@dataclass(frozen=True, slots=True)
class KindRow:
    """What there is to know of one kind of finding."""

    family: Family
    meaning: str
    """One line, for the documentation of the format."""
    order: int = 0
    """Place among findings of one severity without a cause of their own, from the first told."""
    status: Status | None = None
    """Of an alignment with an error of this kind; None: it is never one."""
    attributes: tuple[str, ...] = ()
    """What differs in a row of a stream, where that makes it this kind."""
    is_absence: bool = False
    """Whether ranks are at fault that did not come."""
    is_passable: bool = False
    """Whether a rank may get past it, and be wrong ever after; at the others it stays."""


def _mismatch(meaning: str, *attributes: str) -> KindRow:
    return KindRow("call", meaning, 2, "diverged", attributes, is_passable=True)


KINDS: Final[dict[Kind, KindRow]] = {
    "op_mismatch": _mismatch("the ranks issued different collectives at one place", "op"),
    "dtype_mismatch": _mismatch("one collective, tensors of different dtypes", "dtype"),
    "shape_mismatch": _mismatch("other element counts; or only another shape", "count", "shape"),
    "reduce_op_mismatch": _mismatch("one collective, different reduce ops", "reduce_op"),
    "root_mismatch": _mismatch("one collective, different roots", "root"),
    "split_mismatch": _mismatch("an all_to_all whose sizes do not fit pair by pair", "split"),
    "role_mismatch": _mismatch("the same bytes, issued for different reasons", "role", "iteration"),
    "group_mismatch": KindRow(
        "group",
        "the ranks asked for different process groups",
        1,
        "diverged",
        is_passable=True,
    ),
    "missing_call": KindRow(
        "call", "some ranks never came to a collective", 5, "hung", ("absent",), is_absence=True
    ),
    "p2p_unmatched": KindRow(
        "message", "a send without its receive, or the reverse", 6, "hung", is_absence=True
    ),
    "p2p_mismatch": KindRow(
        "message", "a send and its receive differ in dtype or size", 3, "diverged", is_passable=True
    ),
    "deadlock": KindRow("together", "ranks wait for each other in a circle", 4, "hung"),
    "stall": KindRow("together", "every rank came, and nothing completes", 7, "hung"),
    "raised": KindRow("information", "ranks ended with an exception though their streams agree"),
    "uneven_inputs": KindRow("information", "ranks had different numbers of batches"),
    "straggler": KindRow("information", "one rank keeps the others waiting"),
    "config_skew": KindRow("information", "the ranks were not started alike"),
    "sampler_epoch": KindRow("information", "a shuffling sampler that is never told the epoch"),
    "unwaited_work": KindRow("information", "asynchronous work that nobody waited for"),
    "early_termination": KindRow("information", "join() ended the job, as it was asked to"),
    "evidence_gap": KindRow("information", "what would be needed to judge, and is not there"),
}
"""THE table of the kinds of finding."""

MISMATCHES: Final[frozenset[Kind]] = frozenset(
    kind for kind, row in KINDS.items() if row.family == "call" and not row.is_absence
)
"""Same place, different call."""

BY_ATTRIBUTE: Final[dict[str, Kind]] = {
    attribute: kind for kind, row in KINDS.items() for attribute in row.attributes
}

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
