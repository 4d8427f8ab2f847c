"""What is known of a finding before its cause is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from collectrace.align.causes import phrases
from collectrace.align.causes.difference import differences
from collectrace.align.deciding.sides import Pair
from collectrace.align.judging import departures
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.departures import Departure
from collectrace.align.matching.comparison import Divergence
from collectrace.align.ranks import waitgraph
from collectrace.align.ranks.standing import Standing
from collectrace.findings import KINDS, Decision, Kind, Side
from collectrace.records import Call


@dataclass(frozen=True)
class Situation:
    """A judged candidate, with the statements that can have decided."""

    case: Case
    candidate: Candidate
    decisions: tuple[Decision, ...] = ()
    pair: Pair | None = None
    """The two sides between which the statements decided; None: no statement was found."""
    again: tuple[Candidate, ...] = ()
    """The same error in other groups, or of other messages."""

    @property
    def kind(self) -> Kind:
        """The kind of the finding."""
        return self.candidate.kind

    @property
    def suspects(self) -> tuple[int, ...]:
        """The suspects, sorted; empty if the evidence blames nobody."""
        return tuple(sorted(self.candidate.suspects))

    @property
    def is_tie(self) -> bool:
        """Whether there are no suspects."""
        return not self.candidate.suspects

    @cached_property
    def called(self) -> list[tuple[Side, Call]]:
        """The sides that made a call, suspects first.

        Each call has the innermost line of its stack that differs between the sides.
        """
        found = [(side, side.call) for side in self.candidate.sides if side.call is not None]
        found.sort(key=lambda one: not set(one[0].ranks) & set(self.suspects))
        depth = phrases.differing_depth([side.stack or () for side, _ in found])
        return [(side, phrases.at_depth(call, side.stack or (), depth)) for side, call in found]

    @cached_property
    def departure(self) -> Departure | None:
        """How the suspects departed, or any side in a tie; None if the records do not show it.

        In order of preference: skipped iterations, extra calls after which the sides match again,
        departures from usual calls, and differences after the last common call.
        """
        found: list[Departure | None] = []
        case, candidate = self.case, self.candidate
        if isinstance(candidate.source, Divergence):
            found = [
                departures.skipped_iterations(case, candidate),
                departures.extra(case, candidate),
                departures.from_own(case, candidate),
            ]
        found += differences(case, self.pair) if self.pair is not None else []
        known = (one for one in found if one is not None)
        suspects = {*self.suspects}
        return next((one for one in known if not suspects or suspects & {*one.ranks}), None)

    @cached_property
    def others(self) -> tuple[int, ...]:
        """The ranks of all sides without suspects."""
        suspects = set(self.suspects)
        return tuple(sorted(r for s in self.candidate.sides for r in s.ranks if r not in suspects))

    @cached_property
    def culprits(self) -> tuple[Standing, ...]:
        """The suspects, or the ranks at the end of all waits in the wait-for graph."""
        case = self.case
        ends = self.suspects or waitgraph.follow(case.graph, case.standings, self.candidate.absent)
        return tuple(case.standings[rank] for rank in sorted(ends))

    @property
    def is_absence(self) -> bool:
        """Whether ranks did not make a call in which others wait."""
        return KINDS[self.kind].is_absence


Need = Literal["root", "early", "consequence", "decisions", "suspects"]
"""A fact that must hold before a cause is tried."""


NEEDS: Final[Mapping[Need, Callable[[Situation], bool]]] = {
    "root": lambda s: s.candidate.cause is None and s.candidate.severity != "info",
    "early": lambda s: s.candidate.cause is None and s.candidate.severity == "info",
    "consequence": lambda s: s.candidate.cause is not None,
    "decisions": lambda s: bool(s.decisions),
    "suspects": lambda s: bool(s.suspects),
}
"""The test of each fact; all are cheap."""
