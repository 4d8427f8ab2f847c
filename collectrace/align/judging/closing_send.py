"""A send that may have gone to the wrong rank, or that closes a circle of waits.

What a receive lacks was nearly sent: to another rank, or by another one. Where the two also wait
for each other, through others, the send may be as it was meant, and only come too early.
"""

from __future__ import annotations

from typing import Final

from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.ranks.waitgraph import Cycle

ENDS: Final = ("destination", "source")
"""What a near miss differs in if a rank named another peer; such a send may close a circle."""


def closes(issue: ChannelIssue, cycle: Cycle) -> bool:
    """Whether a circle leads through both the receive and the send that nearly fits it."""
    if issue.near is None or issue.near.differs not in ENDS:
        return False
    awaited = {edge.waiting.channel for edge in cycle}
    return {issue.channel, issue.near.channel} <= awaited


def in_circle(case: Case, cycle: Cycle) -> ChannelIssue | None:
    """The near miss that closes a circle of waits, if one does."""
    return next((issue for issue in case.comparison.channels if closes(issue, cycle)), None)
