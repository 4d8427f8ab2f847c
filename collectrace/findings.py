"""The aligner's answer: findings, what every rank was doing, and how good the evidence is.

``python -m collectrace align --json FILE`` writes it as one JSON object. Skip kinds of findings and
fields that you do not know: new ones do not make a new version, and none changes its meaning.

Format history
==============

1. The first.
"""

# ``python -m collectrace schema --findings`` prints this docstring and the fields of the
# dataclasses, in this order.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from collectrace.overview import Overview
from collectrace.records import Call
from collectrace.tabular import Tabular

FORMAT: Final = 1

LEFT_OUT: Final[Mapping[str, bool]] = MappingProxyType({"left_out": True})
"""Metadata of a field that the JSON leaves out if it is None; other fields are null then."""

UNTOLD: Final[Mapping[str, bool]] = MappingProxyType({"untold": True})
"""Metadata of a field that is not part of the JSON."""

Status = Literal["aligned", "diverged", "hung", "unknown"]
Severity = Literal["error", "warning", "info"]
State = Literal[
    "finished", "raised", "blocked", "busy", "died", "silent", "running", "missing", "unknown"
]
Ended = Literal["exit", "signal", "gone", "alive", "unknown"]
Left = Literal["stall", "interrupt", "terminated", "fatal"]
"""Why a rank's stacks were written: a stall, Ctrl-C (SIGINT), SIGTERM, or a fatal error."""
Kind = Literal[
    # same place, different call
    "op_mismatch", "dtype_mismatch", "shape_mismatch", "reduce_op_mismatch", "root_mismatch",
    "split_mismatch", "role_mismatch", "lost_mismatch",
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
"""What a finding is about: a call of a stream, a process group, a message of a channel, ranks that
wait for each other, or something that is not an error by itself."""


@dataclass(frozen=True, slots=True)
class KindRow:
    """The properties of one kind of finding."""

    family: Family
    meaning: str
    """One line, for the documentation of the format."""
    order: int = 0
    """Order among findings of one severity that share no cause, from the first."""
    status: Status | None = None
    """Status of an alignment with an error of this kind; None: it is never an error."""
    attributes: tuple[str, ...] = ()
    """The attributes of a call whose difference makes a finding this kind."""
    is_absence: bool = False
    """Whether ranks are at fault that did not reach the call."""
    is_passable: bool = False
    """Whether ranks may continue after it, with wrong results; the other kinds block them."""


def _mismatch(meaning: str, *attributes: str) -> KindRow:
    return KindRow("call", meaning, 2, "diverged", attributes, is_passable=True)


KINDS: Final[dict[Kind, KindRow]] = {
    "op_mismatch": _mismatch("the ranks issued different operations as the same call", "op"),
    "dtype_mismatch": _mismatch("the ranks gave one collective different dtypes", "dtype"),
    "shape_mismatch": _mismatch(
        "the ranks gave one collective different sizes or shapes", "count", "shape"
    ),
    "reduce_op_mismatch": _mismatch(
        "the ranks gave one collective different reduce ops", "reduce_op"
    ),
    "root_mismatch": _mismatch("the ranks gave one collective different roots", "root"),
    "split_mismatch": _mismatch("the sizes of an all_to_all do not fit pair by pair", "split"),
    "role_mismatch": _mismatch(
        "the bytes fit, but the purposes of the calls differ", "role", "model"
    ),
    "lost_mismatch": _mismatch("digests prove a difference in calls with lost lines", "lost"),
    "group_mismatch": KindRow(
        "group",
        "the ranks created different process groups",
        1,
        "diverged",
        is_passable=True,
    ),
    "missing_call": KindRow(
        "call",
        "some ranks did not reach a call that others wait in",
        5,
        "hung",
        ("absent",),
        is_absence=True,
    ),
    "p2p_unmatched": KindRow(
        "message",
        "a send or receive has no partner, or lost its sender",
        6,
        "hung",
        is_absence=True,
    ),
    "p2p_mismatch": KindRow(
        "message", "a send and its receive differ in dtype or size", 3, "diverged", is_passable=True
    ),
    "deadlock": KindRow("together", "ranks wait for each other in a cycle", 4, "hung"),
    "stall": KindRow("together", "every rank reached a call, and it does not complete", 7, "hung"),
    "raised": KindRow("information", "ranks ended with an exception although their calls agree"),
    "uneven_inputs": KindRow("information", "ranks had different numbers of batches"),
    "straggler": KindRow("information", "one rank keeps the others waiting"),
    "config_skew": KindRow(
        "information", "the ranks differ in variables, versions or source texts"
    ),
    "sampler_epoch": KindRow("information", "a shuffling sampler is never given the epoch"),
    "unwaited_work": KindRow("information", "the program did not wait for asynchronous work"),
    "early_termination": KindRow(
        "information", "join() ended the job early, as the program requested"
    ),
    "evidence_gap": KindRow("information", "facts that a verdict needs are missing"),
}
"""The table of the kinds of finding."""

MISMATCHES: Final[frozenset[Kind]] = frozenset(
    kind for kind, row in KINDS.items() if row.family == "call" and not row.is_absence
)
"""Kinds in which ranks made different calls at the same position."""

BY_ATTRIBUTE: Final[dict[str, Kind]] = {
    attribute: kind for kind, row in KINDS.items() for attribute in row.attributes
}

EXIT_STATUS: Final[dict[Status, int]] = {"aligned": 0, "diverged": 1, "hung": 1, "unknown": 3}
"""Exit status of the command by status; 2 means unusable input."""

INTERNAL: Final = 4
"""Exit status of a command that an error inside collectrace ended."""

Part = Literal["suspects", "explanation", "decisions", "observations", "overview", "earlier"]
"""A part of an answer that can fail without the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """A process group, as reports and the JSON name it."""

    name: str
    """Its c10d name; ``name@n`` for its n-th use in the processes."""

    description: str
    """torch's ``group_desc``."""

    backend: str
    """``gloo``, or per device type ``cpu:gloo,cuda:nccl``."""

    ranks: tuple[int, ...]
    """Global ranks of its members, in group order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Ranks that did the same in a finding."""

    ranks: tuple[int, ...]
    """Which they are."""

    call: Call | None
    """What they called; null: they did not reach the call."""

    state: State
    """What they were doing when their evidence ends; a rank's own state says what it means."""

    stack: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    """``path:line function`` of the user's frames above the call, innermost first; left out where
    they were not recorded."""

    site: str | None = field(default=None, metadata=LEFT_OUT)
    """``path:line`` where they requested a process group, in a finding about one. In
    ``parted``, the outermost line that differs between the sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One position of a stream."""

    seq: int
    """Sequence number of its calls."""

    mark: Literal["", "parted", "root", "fatal"] = ""
    """``root`` is the first row that differs. ``fatal`` is the first with bytes that do not fit.
    ``parted`` is an earlier row, from which on ranks are at different lines."""

    cells: tuple[Call | None, ...]
    """A call per column; null: those ranks issued none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows around a difference, side by side."""

    columns: tuple[tuple[int, ...], ...]
    """Ranks with equal rows."""

    rows: tuple[TableRow, ...]
    """In the order of the stream; positions may be left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of the user's code, if the file could be read."""

    site: str
    """``path:line``, as calls name it."""

    text: str
    """The text of the line."""


Way = Literal[
    "next", "taken", "not_taken", "iterates", "ended", "case", "no_case", "handler", "no_handler",
    "raised", "calls", "calls_other", "value",
]  # fmt: skip
"""What a statement did. A condition was ``taken`` or ``not_taken``. A loop ``iterates`` or has
``ended``. A call that may call several functions ``calls`` this one, or ``calls_other``. ``value``:
it computed a value."""

DependsOn = Literal[
    "rank", "clock", "random", "files", "environment", "received", "root", "exception", "order",
    "state", "chosen", "data", "length", "unknown", "agreed",
]  # fmt: skip
"""What a statement depends on. ``root``: a result that only the root of a collective gets.
``order``: the order of a set. ``chosen``: a value that the rank selected, as in ``sizes[rank]`` or
``1 if rank == 0 else 2``. ``data``: batches or tensors of the rank. ``unknown``: the source does
not show it."""

Strength = Literal["only", "confirmed", "equal", "possible"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSide:
    """What one side of a finding did at a statement."""

    rank: int
    """The rank that represents the side."""

    did: Way | None
    """What the statement did there; null: the source allows several things."""

    name: str | None = field(default=None, metadata=LEFT_OUT)
    """The name of the function that it called, if it calls one of several."""

    line: int | None = field(default=None, metadata=LEFT_OUT)
    """The line of the handler or the case that it entered."""

    values: dict[str, Any] | None = field(default=None, metadata=LEFT_OUT)
    """The values of the names that the statement depends on, as in a ``values`` record. Left out if
    no value was read that is still the same."""


_CONTROL: Final = (
    "if", "elif", "else", "for", "while", "async", "match", "case", "try", "except", "finally",
    "with", "assert", "return", "raise", "break", "continue",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A statement that can have sent the two sides of a finding different ways.

    By the program's source, it is between the last call that both sides made and the next call of
    each. It can have led to the one or to the other.
    """

    site: str
    """``path:line``."""

    text: str
    """The line, without indentation."""

    function: str
    """Qualified name of the function it is in."""

    sides: tuple[DecisionSide, ...]
    """What it did on a rank of either side."""

    depends_on: tuple[DependsOn, ...]
    """What it depends on, the most informative first."""

    strength: Strength
    """``confirmed``: a value that it depends on differs between the ranks. ``only``: the source
    shows no other statement that can have decided, or all ways lead through it, and it did
    different things on the sides. ``equal``: all values of it that were read are
    equal, which does not clear it. ``possible``: nothing more is known."""

    library: str | None = field(default=None, metadata=LEFT_OUT)
    """The library that it is in; left out for the user's own code."""

    read_later: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    """Names that it depends on and that were read, but may have changed since; left out where there
    are none."""

    comes_from: SourceLine | None = field(default=None, metadata=LEFT_OUT)
    """The line at which the first of what it depends on comes in; left out where that is the
    statement itself, or is not known."""

    @property
    def is_control(self) -> bool:
        """Return whether the statement chooses what runs next, rather than computing a value."""
        return self.text.partition(" ")[0].rstrip(":") in _CONTROL

    @property
    def is_certain(self) -> bool:
        """Return whether it is known to have decided, alone or with others."""
        return self.strength in ("confirmed", "only")

    @property
    def is_with(self) -> bool:
        """Return whether it is a ``with`` statement: all ranks enter it, some leave it early."""
        return self.text.removeprefix("async ").startswith("with ")

    @property
    def cleans_up(self) -> bool:
        """Return whether it runs code when it is left early: ``with``, or ``try`` with finally."""
        return self.is_with or self.text.startswith("try:")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """A fact that speaks for or against blaming ranks."""

    fact: str
    """Name of the fact, as ``docs evidence`` lists it."""

    speaks: Literal["for", "against"]
    """Whether it supports blaming these ranks, or forbids it."""

    ranks: tuple[int, ...]
    """The ranks that it is about."""

    weight: int
    """How much it counts: a larger weight wins."""

    sites: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    """``path:line`` of the code that shows it; left out if there is none."""

    says: str | None = field(default=None, metadata=LEFT_OUT)
    """The fact in a sentence, as ``docs evidence`` has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcerptLine:
    """A line of the program that matters for a finding."""

    line: int
    """Its number."""

    text: str
    """The line, with its indentation below the function's."""

    what: Literal["decision", "loop", "call", "place", "between"]
    """``decision``: it can have sent the ranks different ways. ``loop``: a loop or a condition
    around the other lines. ``call``: a call that ranks made or wait in. ``place``: where a rank is
    or ended. ``between``: a line between two others."""

    notes: tuple[str, ...] = ()
    """What ranks did there, a phrase each: ``true on ranks 0,2``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The lines of one function that matter for a finding."""

    path: str
    """Of its file, as calls name it."""

    function: str
    """Qualified name of the function."""

    lines: tuple[ExcerptLine, ...]
    """In the order of the file."""

    library: str | None = field(default=None, metadata=LEFT_OUT)
    """The library that it is from; left out for the user's own code."""

    callers: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    """``path:line function`` of its callers without an excerpt, outermost first; left out if
    there are none."""

    callers_of: tuple[int, ...] | None = field(default=None, metadata=LEFT_OUT)
    """The ranks that came from these callers; left out where all did that came here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStack:
    """The stack of ranks that others wait for, when they were last seen."""

    ranks: tuple[int, ...]
    """Ranks with this stack."""

    frames: tuple[str, ...]
    """``path:line function``, from the innermost to the outermost of the user's own. Of functions
    of a library that called each other the first and the last are there."""

    left: Left
    """Why it was written."""

    held: float = 0.0
    """Seconds since the last call of these ranks, the longest; 0: not known."""

    waits_for: str | None = None
    """What they wait for outside of any call: ``file lock /data/a.lock, held by process 47``; null:
    not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth knowing."""

    kind: Kind
    """What is wrong, or worth knowing."""

    severity: Severity
    """Only an ``error`` makes a run diverged or hung."""

    caused_by: int | None = None
    """Index of the finding that led to it; null: none did."""

    group: GroupInfo | None = None
    """The process group; null: it is not about one group."""

    seq: int | None = None
    """Which call of the group's stream, or message of its channel."""

    sides: tuple[Side, ...] = ()
    """Who did what, grouped by ranks that did the same."""

    suspects: tuple[int, ...] = ()
    """Ranks that are probably wrong; empty: the evidence blames nobody."""

    headline: str
    """One line."""

    cause: str
    """What happened, in sentences."""

    fix: str
    """What to change, in sentences."""

    notes: tuple[str, ...] = ()
    """Observations that blame nobody: where in the loop it happened, what was repeated before."""

    table: Table | None = None
    """The calls around it."""

    sources: tuple[SourceLine, ...] = ()
    """The lines of code that the finding names."""

    repeats: int | None = field(default=None, metadata=LEFT_OUT)
    """Index of the finding with the same error in another group of one dimension, as in each pair
    of a mesh. Left out if there is none, or if this is the first."""

    parted: tuple[Side, ...] | None = field(default=None, metadata=LEFT_OUT)
    """What a rank of each side called in the earlier row from which on they are at different
    lines. The calls of that row still fitted. Left out if no such row is known."""

    skipped: Side | None = field(default=None, metadata=UNTOLD)
    """The call that suspects skipped, as they made it before."""

    decisions: tuple[Decision, ...] | None = field(default=None, metadata=LEFT_OUT)
    """The statements that can have led to it, in the order in which control reaches them; left out
    where none is known."""

    code: str | None = field(default=None, metadata=LEFT_OUT)
    """Code of the cause, as in ``collectrace explain CODE``."""

    fixes: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    """The parts of ``fix``: the first is the best, the others are alternatives."""

    evidence: tuple[EvidenceRow, ...] | None = field(default=None, metadata=LEFT_OUT)
    """The facts by which ``suspects`` was decided; left out where none was needed."""

    excerpt: tuple[Excerpt, ...] | None = field(default=None, metadata=LEFT_OUT)
    """The lines of the program that matter, callers before callees; left out where the source was
    not recorded."""

    stacks: tuple[RankStack, ...] | None = field(default=None, metadata=LEFT_OUT)
    """The stacks of ranks that others wait for; left out if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankState:
    """What one rank was doing when its evidence ends, and how it ended."""

    rank: int
    """Its global rank."""

    state: State
    """``blocked``: in a call, a wait or a group's creation. ``busy``: doing something else since
    its last call. ``raised``: an exception ended it. ``died``: it ended without a last line.
    ``silent``: its heartbeats stopped, and its process is not known to have ended. ``missing``: it
    left no file. ``unknown``: its file is incomplete, or cannot be read."""

    ended: Ended
    """How its process ended: by itself, by a signal, in an unknown way, or not at all.
    ``unknown``: its file is incomplete, or cannot be read."""

    last_call: Call | None = None
    """The last call that it issued."""

    detail: str = ""
    """A few words: the exception, what it is blocked in, for how long."""

    held: float | None = None
    """Seconds in that, or since its last call, at its last sign of life; null: it issued none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What was run, where and when, by what the rank files say."""

    script: str = ""
    """Its command line, as the lowest rank has it; empty where no file says."""

    hosts: tuple[str, ...] = ()
    """The machines, in the order of their ranks."""

    began: int | None = None
    """When the first rank's file was begun, ns since 1970; null: not known."""

    ended: int | None = None
    """When the last line was written, ns since 1970; null: not known."""

    attempt: int = 1
    """How often an elastic launcher has started it, this time included."""

    earlier: tuple[str, ...] = ()
    """How attempts before this one ended, as far as their logs lie beside it, in sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOfRanks:
    """A line of the user's code, and the ranks that were at it."""

    ranks: tuple[int, ...]
    """Which they are."""

    site: str
    """``path:line``, as calls name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLines:
    """Collectives that agree, and that ranks issued from different lines of the program.

    Legal, and wrong where two quantities have changed places.
    """

    group: str
    """Name of the process group."""

    count: int
    """How many there are."""

    seq: int
    """The first of them."""

    lines: tuple[LineOfRanks, ...]
    """The lines that the first was issued from; where that is one line, the innermost lines of its
    callers that differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindSpot:
    """Something that communicated past torch.distributed, and is not recorded."""

    name: str
    """What it is called."""

    ranks: tuple[int, ...]
    """The ranks on which it was noticed."""

    how: str
    """How it was noticed, as in ``deep_ep was loaded``."""

    what: str
    """What of it is not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalError:
    """An error inside collectrace that cost a part of the answer; the rest of it holds."""

    part: Part
    """What is missing: some ``suspects``, a part of an ``explanation`` or of the ``overview``, the
    ``decisions`` of a finding, ``observations`` beside the errors, how an ``earlier`` attempt
    ended."""

    error: str
    """Type of the exception."""

    site: str
    """``path:line`` in collectrace where it was raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the verdict rests on, and what was missing."""

    agreed: int = 0
    """Collectives on which all ranks of their groups agree, over all streams."""

    messages: int = 0
    """Point-to-point messages that met their other end, and fit it as far as it was compared."""

    other_lines: tuple[OtherLines, ...] | None = field(default=None, metadata=LEFT_OUT)
    """Per process group, the collectives that agree though their lines differ; left out where
    there are none, or not all rows were read."""

    blind_spots: tuple[BlindSpot, ...] | None = field(default=None, metadata=LEFT_OUT)
    """What the verdict does not cover, on any rank; left out where there is nothing."""

    missing_ranks: tuple[int, ...] = ()
    """Ranks that left no file that can be read."""

    damaged_lines: int = 0
    """Lines that could not be read."""

    dropped: int = 0
    """Records that the ranks could not write."""

    notes: tuple[str, ...] = ()
    """What else the logs do not show, in sentences."""

    imported: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    """Tools that wrote the traces from which the logs were made; left out for the tracer's own."""

    other_runs: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    """Ids of the other runs in the same folder, which were not read; left out if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment(Tabular):
    """The whole answer."""

    status: Status
    """The verdict; unknown: nothing wrong found, but the evidence cannot show that all is well."""

    run: str
    """Run id."""

    world_size: int
    """Ranks in the job."""

    findings: tuple[Finding, ...] = ()
    """The first is the root cause. A finding is followed by its consequences."""

    ranks: tuple[RankState, ...] = ()
    """Every rank of the job."""

    evidence: Evidence = field(default_factory=Evidence)
    """The evidence for the answer."""

    strict: bool | None = field(default=None, metadata=LEFT_OUT)
    """True if warnings count as errors (``--strict``); left out otherwise."""

    job: Job | None = field(default=None, metadata=LEFT_OUT)
    """What was run; left out where no rank's file says."""

    internal_errors: tuple[InternalError, ...] | None = field(default=None, metadata=LEFT_OUT)
    """Errors inside collectrace; left out if there were none, as there should be."""

    overview: Callable[[], Overview] | None = field(
        default=None, metadata=UNTOLD, compare=False, repr=False
    )
    """Makes what a picture of the run shows; it may read the logs again. None: there is none."""

    @property
    def warnings(self) -> int:
        """Return the number of warnings."""
        return sum(finding.severity == "warning" for finding in self.findings)

    @property
    def outcome(self) -> str:
        """Return the status as reports show it.

        ``crashed`` if ranks ended by themselves, whether or not others hang because of it.
        """
        errors = [finding for finding in self.findings if finding.severity == "error"]
        if self.status == "hung" and errors:
            absent = {r for side in errors[0].sides if side.call is None for r in side.ranks}
            guilty = set(errors[0].suspects) or absent
            states = {rank.state for rank in self.ranks if rank.rank in guilty}
            # Ranks of a deadlock raise after they have waited in vain.
            is_end = errors[0].kind != "deadlock" and states and states <= {"raised", "died"}
            return "crashed" if is_end else "hung"
        crashed = any(f.kind == "raised" and f.severity == "warning" for f in self.findings)
        return "crashed" if self.status == "aligned" and crashed else self.status

    @property
    def exit_status(self) -> int:
        """Return the exit status of the command."""
        status = EXIT_STATUS[self.status]
        if status or not self.strict:
            return status
        if self.warnings:
            return 1
        # A warning may be missing, so warnings cannot decide.
        are_told = all(one.part != "observations" for one in self.internal_errors or ())
        return status if are_told else INTERNAL


def is_proven(finding: Finding) -> bool:
    """Return whether calls, requests of groups or ends of ranks prove it, not time alone."""
    if finding.kind in MISMATCHES or finding.kind == "p2p_mismatch":
        return True
    absent = [side for side in finding.sides if side.call is None]
    if finding.kind == "group_mismatch":  # a side that requested a group has the line
        return all(side.site or side.state in _ENDED for side in absent)
    is_absence = KINDS[finding.kind].is_absence and bool(absent)
    return is_absence and all(side.state in _ENDED for side in absent)


_ENDED: Final = frozenset({"finished", "raised", "died"})


def cause_of(findings: Sequence[Finding], n: int) -> int | None:
    """Return the index of the finding that caused this one: an earlier one, so without cycles."""
    cause = findings[n].caused_by
    return cause if cause is not None and 0 <= cause < n else None


def root_errors(alignment: Alignment) -> list[int]:
    """Return the indices of the errors that no other finding caused."""
    found = alignment.findings
    return [
        n for n, one in enumerate(found) if one.severity == "error" and cause_of(found, n) is None
    ]


def proven_errors(alignment: Alignment, patience: float) -> list[int]:
    """Return the indices of the root errors that long work, such as an evaluation, cannot explain.

    ``patience``: seconds that a rank may be busy while others wait for it.
    """
    return [
        n
        for n in root_errors(alignment)
        if not _may_be_slow(alignment, alignment.findings[n], patience)
    ]


def _may_be_slow(alignment: Alignment, finding: Finding, patience: float) -> bool:
    """Whether ranks wait for others that may do long work."""
    absent = [side for side in finding.sides if side.call is None]
    if not KINDS[finding.kind].is_absence or not absent:
        return False
    if any(side.state not in ("busy", "running") for side in absent):
        return False
    if any(side.state == "raised" for side in finding.sides if side.call is not None):
        return False  # they have given up: however long the work takes, nobody waits for it
    there = {rank for side in finding.sides if side.call is not None for rank in side.ranks}
    waits = [one.held or 0.0 for one in alignment.ranks if one.rank in there]
    return max(waits, default=0.0) < patience


def is_repeated(findings: Sequence[Finding], n: int) -> bool:
    """Return whether a finding, or one that caused it, repeats another group's finding."""
    at: int | None = n
    while at is not None and findings[at].repeats is None:
        at = cause_of(findings, at)
    return at is not None
