"""Find one rank that keeps the others waiting. Never an error."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.judging.case import Case
from collectrace.align.observations import delays, loading
from collectrace.align.observations.delays import StreamDelays
from collectrace.align.ranks.clocks import Clocks
from collectrace.findings import Finding

_FEWEST_ROWS: Final = 16
"""Compared rows that are needed to distinguish a pattern from chance."""
_FEWEST_TIMES: Final = 4
"""Delays of typical size that make a pattern; one checkpoint does not."""
_SHARE_OF_DELAYS: Final = 0.5
"""Share of all delays that one rank must cause to be called the straggler."""
_SHARE_OF_TIME: Final = 0.05
"""Share of the job's time that peers must have lost to it beyond what they lost to any other."""
_LEAST: Final = 100_000_000
"""Least loss in all that is reported, ns."""
_MOST_LINES: Final = 8


def straggler(case: Case) -> Finding | None:
    """Return a finding on the rank that regularly delays the others; None if no single one does."""
    if case.clocks.unknown:
        return None
    found = [d for d in delays.of_streams(case) if _has_straggler(d, case.clocks.uncertainty)]
    if not found:
        return None
    worst = max(found, key=lambda d: d.slowest.total)
    slow = worst.slowest
    agreed = case.comparison.agreed.get(worst.stream, 0)
    waited = loading.extra_wait(case, slow.rank, slow.total * agreed / worst.rows)
    of = f"{worst.rows}" if worst.rows >= agreed - 1 else f"{worst.rows} (of {agreed} looked at)"
    site, _ = slow.sites.most_common(1)[0]
    where = f" It loses the time before {words.site(site)}." if site else ""
    cause = (
        f"Rank {slow.rank} waited {words.seconds(waited)} longer for data than the others did."
        if waited
        else f"Rank {slow.rank} takes longer than the others between two collectives.{where}"
    )
    return Finding(
        kind="straggler",
        severity="info",
        headline=(
            f"rank {slow.rank} is a straggler: it came last to {slow.last} of {of} "
            f"collectives, {words.milliseconds(slow.typical)} late, {words.seconds(slow.total)} of "
            f"{words.seconds(worst.span)} in all"
        ),
        cause=cause,
        fix=(
            "Make loading even: num_workers, prefetch_factor, DistributedSampler, samples of equal "
            "cost on every rank."
            if waited
            else "Profile that rank between these collectives; look at its host (other jobs, a "
            "slow disk, a throttled GPU)."
        ),
        group=case.comparison.groups.get(worst.stream.group),
        suspects=(slow.rank,),
        notes=(*_totals(worst), *loading.table(case), *_synchronises(case), precision(case.clocks)),
    )


def precision(clocks: Clocks) -> str:
    """Return a sentence on how exactly the times of different ranks can be compared."""
    if len(clocks.hosts) < 2:
        return "All ranks ran on one host, by one clock."
    if clocks.unknown:
        return f"Nothing ties the clock of {', '.join(clocks.unknown)} to the others'."
    return (
        f"Clocks of {len(clocks.hosts)} hosts, up to {clocks.apart / 1e6:.1f} ms apart, were "
        f"aligned by the collectives to within {clocks.uncertainty / 1e6:.2f} ms."
    )


def _has_straggler(found: StreamDelays, uncertainty: int) -> bool:
    """Return whether one rank of a stream is regularly late; ``uncertainty`` of clocks in ns."""
    slow = found.slowest
    return (
        found.rows >= _FEWEST_ROWS
        and found.excess > max(_LEAST, _SHARE_OF_TIME * found.span)
        and slow.total > _SHARE_OF_DELAYS * found.total
        and slow.times >= _FEWEST_TIMES
        and slow.typical > 2 * uncertainty
    )


def _synchronises(case: Case) -> list[str]:
    """Return a line per rank with host waits for its device; of many ranks, the longest."""
    spent = {r: sum(s.wait for s in log.syncs) for r, log in case.evidence.logs.items()}
    chosen = sorted((r for r in spent if spent[r]), key=lambda r: -spent[r])[:_MOST_LINES]
    return [
        f"rank {rank}: {words.counted(len(syncs), 'device synchronise')} "
        f"({words.listed(sorted({words.site(s.site) for s in syncs if s.site})[:2])}), "
        f"{words.seconds(spent[rank])} in all"
        for rank in sorted(chosen)
        if (syncs := case.evidence.logs[rank].syncs)
    ]


def _totals(found: StreamDelays) -> list[str]:
    chosen = sorted(found.by_rank.values(), key=lambda d: -d.total)[:_MOST_LINES]
    return [
        f"rank {d.rank}: last {d.last} times, {words.seconds(d.total)} late in all"
        for d in chosen
        if d.total
    ]
