"""One candidate for an error of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collectrace.align.judging.evidence import Evidence
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.align.ranks.waitgraph import Cycle
from collectrace.align.reading.evidence import GroupConflict, StreamKey
from collectrace.findings import GroupInfo, Kind, Severity, Side
from collectrace.records import Call


@dataclass(frozen=True, slots=True)
class IncompleteRow:
    """A call that every rank of its group has made and that does not complete."""

    stream: StreamKey
    seq: int
    calls: Mapping[int, Call | None]
    failed: tuple[int, ...] = ()
    """Ranks whose own call raised for a local reason, and so never reached the others."""
    late: Mapping[int, int] = field(default_factory=dict)
    """Ranks that called after others had given up, and their lateness behind the first rank, ns."""


Source = Divergence | ChannelIssue | GroupConflict | IncompleteRow | Cycle


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of a candidate."""

    kind: Kind
    severity: Severity
    suspects: tuple[int, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    """The facts that decided the suspects, or that there are none."""


@dataclass(slots=True, eq=False)
class Candidate:
    """A difference between ranks, with its judgement.

    Only ``judge`` sets ``verdict`` and ``cause``.
    """

    what: Kind
    """The kind of the difference; the verdict may change it to an absence."""
    source: Source
    group: GroupInfo | None
    t: int
    """When the first rank reached it, on the shared clock, ns."""
    stream: StreamKey | None = None
    seq: int | None = None
    sides: tuple[Side, ...] = ()
    is_warning: bool = False
    """The calls are compatible, but unusual."""
    verdict: Verdict | None = None
    cause: Candidate | None = None

    @property
    def kind(self) -> Kind:
        """The kind of its finding."""
        return self.what if self.verdict is None else self.verdict.kind

    @property
    def severity(self) -> Severity:
        """Its severity; "error" until it is judged."""
        return "error" if self.verdict is None else self.verdict.severity

    @property
    def suspects(self) -> tuple[int, ...]:
        """The ranks that are proven culprits."""
        return () if self.verdict is None else self.verdict.suspects

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The facts that decided the suspects."""
        return () if self.verdict is None else self.verdict.evidence

    @property
    def ranks(self) -> tuple[int, ...]:
        """Every rank that is known to be involved."""
        return tuple(r for side in self.sides for r in side.ranks)

    @property
    def present(self) -> tuple[int, ...]:
        """The ranks that made the call."""
        return tuple(r for r in self.ranks if r not in self.absent)

    @property
    def absent(self) -> tuple[int, ...]:
        """The ranks that did not make the call."""
        source = self.source
        if isinstance(source, GroupConflict):
            return tuple(r for ranks, asked in source.variants if asked is None for r in ranks)
        if isinstance(source, IncompleteRow):
            return source.failed
        return tuple(r for side in self.sides if side.call is None for r in side.ranks)

    @property
    def unknown(self) -> tuple[int, ...]:
        """Ranks of the group with evidence that ends before the candidate."""
        return self.source.unknown if isinstance(self.source, Divergence) else ()

    @property
    def cycle(self) -> Cycle:
        """The waits of a cycle, each for the next; empty for another candidate."""
        return self.source if isinstance(self.source, tuple) else ()

    @property
    def mark(self) -> str:
        """``root`` for the first difference of a stream, ``fatal`` for the second."""
        return self.source.mark if isinstance(self.source, Divergence) else "root"
