"""Find two groups of the same ranks that two lines use interchanged on some ranks.

Every call meets one that fits it, in either group, and nothing fails: one quantity is combined with
another. It shows only if both lines occur in both groups, each on the ranks that have the other
line in the other group.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading.evidence import RankLog, StreamKey
from collectrace.findings import GroupInfo, OtherLines


def crossed(
    other_lines: Mapping[StreamKey, OtherLines],
    groups: Mapping[str, GroupInfo],
    logs: Mapping[int, RankLog],
) -> list[Divergence]:
    """Return a warning for each such pair, at the first row of the first group."""
    found = []
    for (one, here), (two, there) in combinations(other_lines.items(), 2):
        group = groups[one.group]
        if group.ranks != groups[two.group].ranks or one.device != two.device:
            continue
        sites = {line.site: line.ranks for line in here.lines}
        if len(sites) != 2 or {line.site for line in there.lines} != sites.keys():
            continue
        first, second = sites
        others = {line.site: line.ranks for line in there.lines}
        if sites[first] != others[second] or sites[second] != others[first]:
            continue
        calls = {
            rank: call
            for rank in group.ranks
            if rank in logs and (call := logs[rank].call(one, here.seq))
        }
        found.append(
            Divergence(
                stream=one, group=group, seq=here.seq, mark="root", attribute="role", calls=calls,
                swapped=True, crosses=two.group,
            )
        )  # fmt: skip
    return found
