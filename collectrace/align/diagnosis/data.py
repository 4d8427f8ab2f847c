"""What makes ranks uneven and slow: data loading, samplers, a straggler. Never an error."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Final

from collectrace.align import hosts, pace, words
from collectrace.align.case import Case
from collectrace.align.evidence import RankLog
from collectrace.align.pace import Pace
from collectrace.findings import Finding

_FEWEST_ROWS: Final = 16
_FEWEST_TIMES: Final = 4
"""Delays that make a habit; a checkpoint is none."""
_SHARE_OF_DELAYS: Final = 0.5
"""Of all delays, what one rank must cause to be called the straggler."""
_SHARE_OF_TIME: Final = 0.05
"""Of the time, what its peers must have lost to it, beyond what they lost to any other."""
_LEAST: Final = 100_000_000
"""ns lost in all, below which nobody cares."""
_MOST_LINES: Final = 8


def waits(log: RankLog) -> tuple[int, int]:
    """Batches fetched, and ns spent waiting for them."""
    fetched = [batch for batch in log.batches if not batch.end]
    return len(fetched), sum(batch.wait for batch in log.batches)


def table(case: Case) -> tuple[str, ...]:
    """A line per rank: batches, and how long it waited; of many ranks the slowest."""
    told = _told(case)
    chosen = sorted(told, key=lambda rank: -told[rank][1])[:_MOST_LINES]
    more = len(told) - len(chosen)
    lines = [
        f"rank {rank}: {words.counted(told[rank][0], 'batch', 'batches')}, waited "
        f"{words.seconds(told[rank][1])} for data ({_ms(told[rank][1] / max(1, told[rank][0]))} "
        "each)"
        for rank in sorted(chosen)
    ]
    return (*lines, f"{more} more ranks waited less") if more > 0 else tuple(lines)


def _told(case: Case) -> dict[int, tuple[int, int]]:
    """What :func:`waits` says of each rank; nothing where logs were read in part."""
    logs = case.evidence.logs
    if not all(log.scanned and not log.rotated for log in logs.values()):
        return {}
    return {rank: waits(log) for rank, log in logs.items() if log.batches}


def straggler(case: Case) -> Finding | None:
    """One rank that keeps the others waiting."""
    clocks = hosts.align(case.evidence, case.comparison)
    if clocks.unknown:
        return None
    found = [p for p in pace.paces(case, clocks) if _is_lagging(p, clocks.uncertainty)]
    if not found:
        return None
    worst = max(found, key=lambda p: p.slowest.total)
    slow = worst.slowest
    agreed = case.comparison.agreed.get(worst.stream, 0)
    loading = _loading(case, slow.rank, slow.total * agreed / worst.rows)
    of = f"{worst.rows}" if worst.rows >= agreed - 1 else f"{worst.rows} (of {agreed} looked at)"
    site, _ = slow.sites.most_common(1)[0]
    where = f" It loses the time before {words.site(site)}." if site else ""
    cause = (
        f"Rank {slow.rank} waited {words.seconds(loading)} longer for data than the others did."
        if loading
        else f"Rank {slow.rank} takes longer than the others between two collectives.{where}"
    )
    return Finding(
        kind="straggler",
        severity="info",
        headline=(
            f"rank {slow.rank} is a straggler: it came last to {slow.last} of {of} "
            f"collectives, {_ms(slow.typical)} late, {words.seconds(slow.total)} of "
            f"{words.seconds(worst.span)} in all"
        ),
        cause=cause,
        fix=(
            "Make loading even: num_workers, prefetch_factor, DistributedSampler, samples of equal "
            "cost on every rank."
            if loading
            else "Profile that rank between these collectives; look at its host (other jobs, a "
            "slow disk, a throttled GPU)."
        ),
        group=case.comparison.groups.get(worst.stream.group),
        suspects=(slow.rank,),
        notes=(*_totals(worst), *table(case), *_synchronises(case), clocks.words()),
    )


def _is_lagging(found: Pace, uncertainty: int) -> bool:
    slow = found.slowest
    return (
        found.rows >= _FEWEST_ROWS
        and found.excess > max(_LEAST, _SHARE_OF_TIME * found.span)
        and slow.total > _SHARE_OF_DELAYS * found.total
        and slow.times >= _FEWEST_TIMES
        and slow.typical > 2 * uncertainty
    )


def _loading(case: Case, rank: int, total: float) -> int:
    """By how many ns a rank waited longer for data than the others, if that explains its delays."""
    told = {r: ns for r, (_, ns) in _told(case).items()}
    others = [ns for r, ns in told.items() if r != rank]
    if rank not in told or not others:
        return 0
    more = round(told[rank] - median(others))
    return more if more > total / 2 else 0


def _synchronises(case: Case) -> list[str]:
    """A line per rank that made its host wait for its device; the longest waits of many ranks."""
    spent = {r: sum(s.wait for s in log.syncs) for r, log in case.evidence.logs.items()}
    chosen = sorted((r for r in spent if spent[r]), key=lambda r: -spent[r])[:_MOST_LINES]
    return [
        f"rank {rank}: {words.counted(len(syncs), 'device synchronise')} "
        f"({words.listed(sorted({words.site(s.site) for s in syncs if s.site})[:2])}), "
        f"{words.seconds(spent[rank])} in all"
        for rank in sorted(chosen)
        if (syncs := case.evidence.logs[rank].syncs)
    ]


def _totals(found: Pace) -> list[str]:
    chosen = sorted(found.delays.values(), key=lambda d: -d.total)[:_MOST_LINES]
    return [
        f"rank {d.rank}: last {d.last} times, {words.seconds(d.total)} late in all"
        for d in chosen
        if d.total
    ]


def sampler_epoch(case: Case) -> Finding | None:
    """A shuffling DistributedSampler that is gone over again without ``set_epoch``."""
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
    """The most passes over one sampler that was never told an epoch, and from where."""
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


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.1f} ms" if ns < 1e9 else words.seconds(ns)
