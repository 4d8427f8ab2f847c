"""Which causes apply to recorded runs of the case collection, and which win."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from unittest import mock

from collectrace.align.causes import choose, registry
from collectrace.align.causes.cause import Cause
from collectrace.align.causes.choose import Found
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Alignment, Kind
from tests.zoo import corpus
from tests.zoo.corpus import Entry


@dataclass(frozen=True)
class Applied:
    """The causes that apply to one finding, the winner first."""

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
    applied: Sequence[Applied]
    observed: tuple[str, ...]
    """Codes of what is observed beside the errors."""

    @property
    def applying(self) -> set[str]:
        return {code for one in self.applied for code in one.codes} | {*self.observed}

    @property
    def winning(self) -> set[str]:
        return {one.winner for one in self.applied if one.winner} | {*self.observed}


@contextmanager
def tried() -> Iterator[list[Applied]]:
    """Have every cause tried on whatever is judged meanwhile, behind the first that applies too."""
    found: list[Applied] = []

    def cause_of(situation: Situation) -> Found | None:
        those = list(choose.applying(situation))
        said = those[0].cause.words(situation, those[0].data) if those else None
        codes = tuple(one.cause.code for one in those)
        found.append(Applied(situation.kind, codes, said))
        return those[0] if those else None

    with mock.patch.object(choose, "cause_of", cause_of):
        yield found


def of_alignment(run: str, alignment: Alignment, applied: Sequence[Applied]) -> Causes:
    """Return the causes of a run that was judged while they were ``tried``."""
    codes = (finding.code for finding in alignment.findings if finding.code)
    observed = tuple(code for code in codes if registry.BY_CODE[code].is_observed)
    return Causes(run, applied, observed)


def of_run(entry: Entry) -> Causes:
    """Return the causes of a recorded run; every cause is tried on every finding."""
    with corpus.unpacked(entry.files()) as logs, tried() as applied:
        alignment = corpus.align(logs, entry.living)
    return of_alignment(entry.name, alignment, applied)


@cache
def above(code: str) -> frozenset[str]:
    """Return the codes that win over one, directly or through others."""
    direct = {*registry.winners(registry.BY_CODE[code])}
    return frozenset(direct.union(*(above(one) for one in direct)))


def undecided(causes: Causes) -> set[tuple[str, str]]:
    """Return pairs of causes that both apply, and do not say which yields."""
    return {
        (min(first, second), max(first, second))
        for one in causes.applied
        for n, first in enumerate(one.codes)
        for second in one.codes[n + 1 :]
        if first not in above(second)
    }


def in_use() -> list[Cause]:
    """Return the rows that are not retired."""
    return [one for one in registry.CAUSES if one.status != "retired"]
