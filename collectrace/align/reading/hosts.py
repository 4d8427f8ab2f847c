"""Count the hosts of a run's files, and the hosts without a file."""

from __future__ import annotations

from typing import Final

from collectrace.align.reading.evidence import RunEvidence

_MOST_NAMED: Final = 4


def by_host(evidence: RunEvidence) -> dict[str, list[int]]:
    """Return the ranks that left a file, by the name of their host, in rank order."""
    hosts: dict[str, list[int]] = {}
    for rank in sorted(evidence.logs):
        hosts.setdefault(evidence.logs[rank].header.host, []).append(rank)
    return hosts


def hosts_missing(evidence: RunEvidence) -> str:
    """Return a clause that says which whole hosts the missing ranks are; empty if they are not.

    Launchers number the ranks host by host. The clause needs two facts: every known host has
    equally many ranks, in one stretch, and the missing ranks form such stretches.
    """
    hosts = list(by_host(evidence).values())
    sizes = {len(ranks) for ranks in hosts}
    if not evidence.missing or len(sizes) != 1:
        return ""
    size = sizes.pop()
    blocks: dict[int, int] = {}
    for rank in evidence.missing:
        blocks[rank // size] = blocks.get(rank // size, 0) + 1
    is_by_host = all(ranks == list(range(ranks[0], ranks[0] + size)) for ranks in hosts)
    is_aligned = all(ranks[0] % size == 0 for ranks in hosts)
    if size < 2 or not (is_by_host and is_aligned) or set(blocks.values()) != {size}:
        return ""
    numbers = [str(n + 1) for n in sorted(blocks)]
    more = ", .." if len(numbers) > _MOST_NAMED else ""
    of = "host no." if len(numbers) == 1 else "each of the hosts no."
    which = f"{of} {', '.join(numbers[:_MOST_NAMED])}{more}"
    return f" (all {size} ranks of {which}, as launchers number them)"
