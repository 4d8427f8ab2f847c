"""A send that may have gone to the wrong rank, or that closes a circle of waits.

What a receive lacks was nearly sent: to another rank, or by another one. Where the two also wait
for each other, through others, the send may be as it was meant, and only come too early.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.ranks.waitgraph import Cycle
from collectrace.align.reading import chains
from collectrace.align.reading.parsing import Block
from collectrace.records import Call

_ENDS: Final = ("destination", "source")
"""What a near miss differs in that may be a circle."""


def closes(issue: ChannelIssue, cycle: Cycle) -> bool:
    """Whether a circle leads through both the receive and the send that nearly fits it."""
    if issue.near is None or issue.near.differs not in _ENDS:
        return False
    awaited = {edge.waiting.channel for edge in cycle}
    return {issue.channel, issue.near.channel} <= awaited


def comes_later(case: Case, issue: ChannelIssue) -> Call | None:
    """What the sender of a near miss had sent till then to who lacks one now, if it is behind that.

    From a later line of the same function, in the same loops and in no other branch: so it has yet
    to come to it, and the send before it is another one. None where it is not seen to be so.
    """
    near, channel = issue.near, issue.channel
    if near is None or near.send is None or near.differs != "destination":
        return None
    log = case.log(channel.source)
    usual = log.channel_call(channel, issue.seq - 1) if log is not None else None
    if usual is None:
        return None
    here, *around = case.stack(channel.source, near.send) or ("",)
    there, *others = case.stack(channel.source, usual) or ("",)
    if not here or around != others or chains.scope(here) != chains.scope(there):
        return None
    mine, other = (case.code.around(chains.site(frame)) for frame in (here, there))
    parts = {id(one.statement): one.part for one in mine}
    is_other_branch = any(
        parts.get(id(one.statement), one.part) != one.part
        for one in other
        if isinstance(one.statement, ast.If)
    )
    is_behind = chains.line(there) > chains.line(here) and not is_other_branch
    return usual if is_behind and _loops(mine) == _loops(other) else None


def _loops(blocks: Sequence[Block]) -> list[int]:
    """Return the lines of the loops among blocks."""
    return [one.statement.lineno for one in blocks if isinstance(one.statement, _LOOPS)]


_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)


def in_circle(case: Case, cycle: Cycle) -> ChannelIssue | None:
    """The near miss that closes a circle of waits, if one does."""
    return next((issue for issue in case.comparison.channels if closes(issue, cycle)), None)
