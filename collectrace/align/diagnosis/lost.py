"""A difference that digests prove, in calls whose lines are lost."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.wording import Wording
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import Divergence


def explain(_: Case, candidate: Candidate) -> Wording:
    """Say between which calls the ranks differ; nobody is to blame."""
    source = candidate.source
    assert isinstance(source, Divergence)
    assert source.gap is not None
    first, last = source.gap
    one = first == last
    what = f"call {first}" if one else f"calls {first} to {last}"
    lost = source.unknown
    others = [rank for rank in source.group.ranks if rank not in lost]
    whose = f"those of {words.ranks(lost)} are not those of {words.ranks(others)}"
    return Wording(
        f"the ranks differ in {what} of {words.group(source.group)}, which the "
        f"{words.verb(lost, 'log', 'logs')} of {words.ranks(lost)} "
        f"{words.verb(lost, 'has', 'have')} lost",
        f"The digests before and after {'it' if one else 'them'} prove it"
        f"{f': {whose}' if others else ''}. The lines themselves are lost, so nobody is to blame. "
        "Differences in later calls may follow from this one.",
        "Look for a copy of the lost lines, such as another copy of the log. If there is none, run "
        f"the job again and look at {what}: which ranks make {'it' if one else 'them'}, and with "
        "which arguments.",
    )
