"""Evidence by the source: who alone can have gone a way, and who went one by an exception."""

from __future__ import annotations

from collections.abc import Iterator

from collectrace.align.judging.alone import alone_by_rank
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.evidence import Evidence
from collectrace.align.judging.other_lines import counterparts


def by_rank(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Return who alone is where a condition on the rank leads, and nobody was before."""
    found = alone_by_rank(case, candidate)
    if found is not None:
        ranks = tuple(sorted(found.place.ranks))
        yield Evidence("rank_condition", ranks, (found.condition.site,), found)


def elsewhere(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Protect ranks that a condition on the rank let through if others can meet them elsewhere."""
    found = alone_by_rank(case, candidate)
    if found is not None and (sites := counterparts(case, found)):
        yield Evidence("other_line_for_others", tuple(sorted(found.place.ranks)), sites, found)
