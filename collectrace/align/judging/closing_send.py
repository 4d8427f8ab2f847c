"""Find a send that may have reached the wrong rank, or that closes a wait cycle.

The sends that nearly match a receive went to another rank, or came from another one. If its two
ends also wait for each other, the send may be correct and only too early.
"""

from __future__ import annotations

from typing import Final

from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.ranks.waitgraph import Cycle

ENDS: Final = ("destination", "source")
"""What a near miss differs in if a rank named another peer; such a send may close a cycle."""


def closes_cycle(issue: ChannelIssue, cycle: Cycle) -> bool:
    """Whether a cycle contains both the receive and the send that nearly matches it."""
    if issue.near is None or issue.near.differs not in ENDS:
        return False
    awaited = {edge.waiting.channel for edge in cycle}
    return {issue.channel, issue.near.channel} <= awaited


def find_in_cycle(case: Case, cycle: Cycle) -> ChannelIssue | None:
    """Return the near miss that closes a wait cycle, or None."""
    found = (issue for issue in case.comparison.channels if closes_cycle(issue, cycle))
    return next(found, None)
