"""Which causes apply to recorded runs of the case collection, and which win."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from collectrace.align import alignment
from collectrace.align.causes import choose, registry
from collectrace.align.causes.cause import Cause
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.deciding import named
from collectrace.align.judging.case import build
from collectrace.align.judging.judge import judge
from collectrace.align.observations.collect import information
from collectrace.align.reading import run_reader
from collectrace.findings import Kind
from tests.zoo import corpus
from tests.zoo.corpus import Entry


@dataclass(frozen=True)
class Applied:
    """The causes that apply to one finding of a run, the winner first."""

    run: str
    number: int
    """Of the finding."""
    kind: Kind
    codes: tuple[str, ...]
    said: Words | None
    """Words of the winner."""

    @property
    def winner(self) -> str | None:
        return self.codes[0] if self.codes else None


@dataclass(frozen=True)
class Causes:
    """All findings of a run."""

    run: str
    applied: tuple[Applied, ...]
    observed: tuple[str, ...]
    """Codes of what is observed beside the errors."""

    @property
    def applying(self) -> set[str]:
        return {code for one in self.applied for code in one.codes} | {*self.observed}

    @property
    def winning(self) -> set[str]:
        return {one.winner for one in self.applied if one.winner} | {*self.observed}


def of_run(entry: Entry) -> Causes:
    """Return the causes of a recorded run; every cause is tried on every finding."""
    with tempfile.TemporaryDirectory(prefix="causes-") as name:
        logs = corpus.unpack(entry.files(), Path(name))
        evidence = run_reader.read(logs)
        if entry.living:
            evidence = replace(evidence, still_exists=lambda log: log.rank in entry.living)
        case = build(alignment.compared(evidence))
        candidates = judge(case)
        found = []
        for n, (candidate, decided) in enumerate(
            zip(candidates, named.find_decisions(case, candidates), strict=True)
        ):
            situation = Situation(case, candidate, decided.decisions, decided.pair)
            found.append(_applied(entry.name, n, situation))
        observed = tuple(f.code or "" for f in information(case, candidates))
    return Causes(entry.name, tuple(found), observed)


def _applied(run: str, number: int, situation: Situation) -> Applied:
    those = list(choose.applying(situation))
    said = those[0].cause.words(situation, those[0].data) if those else None
    codes = tuple(one.cause.code for one in those)
    return Applied(run, number, situation.kind, codes, said)


@cache
def above(code: str) -> frozenset[str]:
    """Return the codes that win over one, directly or through others."""
    direct = {*registry.winners(registry.BY_CODE[code])}
    return frozenset(direct.union(*(above(one) for one in direct)))


def undecided(runs: Mapping[str, Causes]) -> Iterator[tuple[str, str, str]]:
    """Return pairs of causes that both apply, and do not say which yields; with a run of each."""
    seen = set()
    for causes in runs.values():
        for one in causes.applied:
            for n, first in enumerate(one.codes):
                for second in one.codes[n + 1 :]:
                    pair = min(first, second), max(first, second)
                    if first not in above(second) and pair not in seen:
                        seen.add(pair)
                        yield *pair, one.run


def in_use() -> list[Cause]:
    """Return the rows that are not retired."""
    return [one for one in registry.CAUSES if one.status != "retired"]
