"""Decide the suspects from evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.evidence import ENOUGH, FACTS, Evidence, Speaks

Find = Callable[[Case, Candidate], Iterator[Evidence]]
"""Yields the evidence about one candidate."""


@dataclass(frozen=True, slots=True)
class Finder:
    """A function that finds evidence, and the facts that it can yield."""

    find: Find
    facts: tuple[str, ...]
    """Keys of ``FACTS``; either all for blame, or all against."""

    @property
    def most(self) -> int:
        """The weight of its heaviest fact."""
        return max(FACTS[fact].weight for fact in self.facts)

    @property
    def speaks(self) -> Speaks:
        """Whether its facts are for or against blame."""
        return FACTS[self.facts[0]].speaks


@dataclass(frozen=True, slots=True)
class Weighed:
    """The suspects, and the evidence that decided."""

    suspects: tuple[int, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    """The rows that decided: those against the suspects, or the vetoes."""


def weigh(rows: Sequence[Evidence]) -> Weighed:
    """Return the ranks with the most evidence, if it is enough and no others have as much.

    Suspects are exactly the ranks of a row: rows about more or fewer ranks support another answer.
    Facts that decide only together count only if no fact decides alone.
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
    """Return the joint weight of facts: the heaviest that decides alone, else their sum.

    Facts that decide alone usually show the same thing in several ways, so they do not add up.
    """
    weights = [FACTS[fact].weight for fact in facts]
    return max((one for one in weights if one >= ENOUGH), default=min(sum(weights), ENOUGH))


def _heaviest(facts: Iterable[str]) -> int:
    """Return the weight of the heaviest fact that decides alone; 0 if none does."""
    return max((w for fact in facts if (w := FACTS[fact].weight) >= ENOUGH), default=0)


def _forbids(veto: Evidence, row: Evidence) -> bool:
    """Whether a veto cancels a row: it vetoes the fact, and protects all its ranks."""
    return veto.fact in FACTS[row.fact].vetoed_by and {*row.ranks} <= {*veto.ranks}


def judge(case: Case, candidate: Candidate, finders: Mapping[type, Sequence[Finder]]) -> Weighed:
    """Run the finders for a candidate, heaviest first, and weigh their evidence.

    Finders that could not change the result are skipped, and so are vetoes that no row yields to.
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
