"""Find shuffling samplers that repeat the order of their first epoch. Never an error."""

from __future__ import annotations

from collections.abc import Mapping

from collectrace import words
from collectrace.align.judging.case import Case
from collectrace.align.reading.evidence import RankLog
from collectrace.findings import Finding


def sampler_epoch(case: Case) -> Finding | None:
    """Return a finding on a shuffling DistributedSampler that was reused without ``set_epoch``.

    Source: ``DistributedSampler.__iter__`` in torch/utils/data/distributed.py (2.13).
    """
    stale = {
        rank: found
        for rank, log in case.evidence.logs.items()
        if (found := _stale_passes(log)) is not None
    }
    if not stale:
        return None
    site = next((site for _, site in stale.values() if site), None)
    passes = max(n for n, _ in stale.values())
    at = f" at {words.site(site)}" if site else ""
    return Finding(
        kind="sampler_epoch",
        severity="info",
        headline=(
            f"set_epoch was never called: {words.ranks(stale)} went over the same order "
            f"{passes} times"
        ),
        cause=(
            f"A DistributedSampler with shuffle=True{at} shuffles by its epoch; without set_epoch "
            "every epoch has the order of the first."
        ),
        fix="Call sampler.set_epoch(epoch) at the beginning of every epoch.",
    )


def _stale_passes(log: RankLog) -> tuple[int, str | None] | None:
    """Return how often a sampler without any ``set_epoch`` was iterated, and its site.

    Of several samplers, the one with the most passes; None if none has more than one.
    """
    told = {e.sampler for e in log.epochs if e.set}
    passes: dict[int, int] = {}
    sites: Mapping[int, str | None] = {e.sampler: e.site for e in log.epochs}
    for epoch in log.epochs:
        if not epoch.set and epoch.shuffle and epoch.sampler not in told:
            passes[epoch.sampler] = passes.get(epoch.sampler, 0) + 1
    again = {sampler: n for sampler, n in passes.items() if n > 1}
    if not again:
        return None
    most = max(again, key=lambda sampler: again[sampler])
    return again[most], sites.get(most)
