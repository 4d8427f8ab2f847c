"""One candidate for what is wrong with a run."""

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
    """A row that every rank of its group has reached and that does not complete."""

    stream: StreamKey
    seq: int
    calls: Mapping[int, Call | None]
    failed: tuple[int, ...] = ()
    """Ranks whose own call raised for a reason of its own: it never reached the others."""
    late: Mapping[int, int] = field(default_factory=dict)
    """Ranks that came when others had given up already, and ns by which, after the first came."""


Source = Divergence | ChannelIssue | GroupConflict | IncompleteRow | Cycle


@dataclass(frozen=True, slots=True)
class Verdict:
    """What has been found of a candidate."""

    kind: Kind
    severity: Severity
    suspects: tuple[int, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    """The facts that decided who is to blame, or that nobody is."""


@dataclass(slots=True, eq=False)
class Candidate:
    """Something that disagrees, and what has been found of it.

    ``verdict`` and ``cause`` are set by ``judge`` and by nobody else.
    """

    what: Kind
    """What disagrees; the verdict may find that it is an absence."""
    source: Source
    group: GroupInfo | None
    t: int
    """When the first rank came to it, on the shared clock, ns."""
    stream: StreamKey | None = None
    seq: int | None = None
    sides: tuple[Side, ...] = ()
    is_warning: bool = False
    """The bytes agree, and it looks odd all the same."""
    verdict: Verdict | None = None
    cause: Candidate | None = None

    @property
    def kind(self) -> Kind:
        """Of the finding that it becomes."""
        return self.what if self.verdict is None else self.verdict.kind

    @property
    def severity(self) -> Severity:
        """How bad it is; an error until it is judged."""
        return "error" if self.verdict is None else self.verdict.severity

    @property
    def suspects(self) -> tuple[int, ...]:
        """Who is to blame, as far as that is proven."""
        return () if self.verdict is None else self.verdict.suspects

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What decided who is to blame."""
        return () if self.verdict is None else self.verdict.evidence

    @property
    def ranks(self) -> tuple[int, ...]:
        """Every rank that is known to be part of it."""
        return tuple(r for side in self.sides for r in side.ranks)

    @property
    def present(self) -> tuple[int, ...]:
        """The ranks that came."""
        return tuple(r for r in self.ranks if r not in self.absent)

    @property
    def absent(self) -> tuple[int, ...]:
        """The ranks that did not."""
        source = self.source
        if isinstance(source, GroupConflict):
            return tuple(r for ranks, asked in source.variants if asked is None for r in ranks)
        if isinstance(source, IncompleteRow):
            return source.failed
        return tuple(r for side in self.sides if side.call is None for r in side.ranks)

    @property
    def unknown(self) -> tuple[int, ...]:
        """Ranks of the group whose evidence does not reach this place."""
        return self.source.unknown if isinstance(self.source, Divergence) else ()

    @property
    def cycle(self) -> Cycle:
        """The waits of which each is for the next; none where it is no circle."""
        return self.source if isinstance(self.source, tuple) else ()

    @property
    def mark(self) -> str:
        """``fatal`` for the second row of a stream."""
        return self.source.mark if isinstance(self.source, Divergence) else "root"
