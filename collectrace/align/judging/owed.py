"""Who ended by itself and owed the message for which a receive from any rank waits.

As where a server hands out work, and takes the answers as they come. All others who have ever sent
there wait for the receiver: so none of them was about to.
"""

from __future__ import annotations

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import program_of
from collectrace.align.matching import habit
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.ranks import waitgraph


@once
def owed(case: Case, candidate: Candidate) -> int | None:
    """The one rank that raised, or died, where its round had always led to that message; or None.

    A rank that had ended before, and was got over, owed nothing.
    """
    issue = candidate.source
    if not isinstance(issue, ChannelIssue) or not issue.is_from_any or issue.send is not None:
        return None
    receiver, ended, others = issue.channel.destination, list[int](), list[int]()
    for rank in case.sent_to_any(issue.channel):
        standing = case.standings[rank]
        has_ended = standing.state == "died" or (
            standing.state == "raised" and not standing.by_peers
        )
        (ended if has_ended else others).append(rank)
    if len(ended) != 1 or not _is_due(case, ended[0], issue):
        return None
    waits = all(receiver in waitgraph.reachable(case.graph, rank) for rank in others)
    return ended[0] if waits else None


def _is_due(case: Case, rank: int, issue: ChannelIssue) -> bool:
    """Whether all that a rank did last was followed by such a message each time before."""
    program = program_of(case, rank)
    if program is None:
        return False
    steps = program.steps
    place = habit.expected(steps, len(steps))
    due = program.keys[program.sources[place]] if place is not None else None
    return due == issue.channel._replace(source=rank)
