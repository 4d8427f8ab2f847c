"""Decides by evidence who is to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.evidence import ENOUGH, FACTS, Evidence, Speaks

Find = Callable[[Case, Candidate], Iterator[Evidence]]
"""Looks at one candidate, and returns what it finds."""


@dataclass(frozen=True, slots=True)
class Finder:
    """A function that finds evidence, and the facts that it can find."""

    find: Find
    facts: tuple[str, ...]
    """Keys of ``FACTS``; all of them for, or all of them against."""

    @property
    def most(self) -> int:
        """What its heaviest fact weighs."""
        return max(FACTS[fact].weight for fact in self.facts)

    @property
    def speaks(self) -> Speaks:
        """Whether it finds what speaks for blame, or against."""
        return FACTS[self.facts[0]].speaks


@dataclass(frozen=True, slots=True)
class Weighed:
    """Who is to blame, and by what."""

    suspects: tuple[int, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    """The rows that decided: those for blaming the suspects, or those that forbid to."""


def weigh(rows: Sequence[Evidence]) -> Weighed:
    """Return the ranks for which most evidence speaks, if it is enough and no others have as much.

    Blame goes to exactly the ranks of a row: rows about other ranks, be they more or fewer,
    speak for another answer. Facts that decide only together do so only if nothing does.
    """
    vetoes = [row for row in rows if FACTS[row.fact].speaks == "against"]
    counting: dict[tuple[int, ...], dict[str, Evidence]] = {}
    forbidding: list[Evidence] = []
    for row in rows:
        if FACTS[row.fact].speaks == "against" or not row.ranks:
            continue
        against = [veto for veto in vetoes if _forbids(veto, row)]
        if against:
            forbidding += against
        else:
            counting.setdefault(row.ranks, {}).setdefault(row.fact, row)
    scores = {ranks: score(facts) for ranks, facts in counting.items()}
    most = max(scores.values(), default=0)
    best = [ranks for ranks, one in scores.items() if one == most]
    is_disputed = len(best) > 1 or (len(scores) > 1 and not _heaviest(counting[best[0]]))
    if most < ENOUGH or is_disputed:
        return Weighed((), tuple(dict.fromkeys(forbidding)))
    (suspects,) = best
    return Weighed(suspects, tuple(counting[suspects].values()))


def score(facts: Iterable[str]) -> int:
    """Return what facts weigh together: as the heaviest that decides alone, else their sum.

    Facts that decide alone mostly see one thing in several ways, so they do not add up.
    """
    weights = [FACTS[fact].weight for fact in facts]
    return max((one for one in weights if one >= ENOUGH), default=min(sum(weights), ENOUGH))


def _heaviest(facts: Iterable[str]) -> int:
    """Return the weight of the heaviest fact that decides alone; 0: none does."""
    return max((w for fact in facts if (w := FACTS[fact].weight) >= ENOUGH), default=0)


def _forbids(veto: Evidence, row: Evidence) -> bool:
    """Whether a row does not count: its fact yields to the veto, which protects all its ranks."""
    return veto.fact in FACTS[row.fact].vetoed_by and {*row.ranks} <= {*veto.ranks}


def judge(case: Case, candidate: Candidate, finders: Mapping[type, Sequence[Finder]]) -> Weighed:
    """Ask the finders for what disagrees, the heaviest first, and weigh their evidence.

    Finders that could not outweigh what is known are not asked, nor those of vetoes that no row
    yields to.
    """
    asked = sorted(finders[type(candidate.source)], key=lambda one: -one.most)
    vetoes = [one for one in asked if one.speaks == "against"]
    rows: list[Evidence] = []
    found = Weighed()
    for finder in (one for one in asked if one.speaks == "for"):
        if found.suspects and _heaviest(row.fact for row in found.evidence) > finder.most:
            break
        new = [*finder.find(case, candidate)]
        yielding = {veto for row in new for veto in FACTS[row.fact].vetoed_by}
        for veto in [one for one in vetoes if yielding & {*one.facts}]:
            vetoes.remove(veto)
            new += veto.find(case, candidate)
        rows += new
        found = weigh(rows)
    return found
