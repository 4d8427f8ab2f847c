"""A receive from any rank took a message that was meant for another receive.

What it means
    A receive without a source takes whatever message comes first. Here it took a message of another
    rank, or of another kind, whose size or dtype differs.

Example
    ::

        source = dist.recv(name)          # from any rank
        dist.recv(score)                  # again from any rank: perhaps another one

Not to be confused with
    CT707, if the receive names its source.

How to fix it
    Name the source in the second receive, or give each kind of message a tag of its own.
"""

from __future__ import annotations

from collectrace import words as words_
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.ops import ANY_SOURCE


def find(situation: Situation) -> ChannelIssue | None:
    """Return the message that a receive from any rank took, and does not fit it."""
    issue = situation.candidate.source
    if not isinstance(issue, ChannelIssue) or issue.send is None or not issue.is_from_any:
        return None
    return issue if issue.attribute in ("dtype", "count") else None


def words(_: Situation, found: ChannelIssue) -> Words:
    """Return the words for a receive that took another message."""
    send, recv = found.send, found.recv
    assert send is not None
    assert recv is not None
    here, source = f"rank {found.channel.destination}", f"rank {found.channel.source}"
    line = phrases.line(recv.site)
    why = [
        f"The recv{line} names no source: it takes whatever comes first, from any rank.",
        (
            f"It took {source}'s {words_.tensors(send)}, sent{phrases.line(send.site)}, for "
            f"{words_.tensors(recv)}."
        ),
    ]
    which = "the rank (src=)"
    before = found.before
    if before is not None and before.recv is not None:
        first = phrases.line(before.recv.site)
        why.append(f"The recv before it{first} had taken a message of rank {before.source}.")
        which = f"the rank that the recv{first} returned as its source (src=)"
        if before.recv.peer != ANY_SOURCE:
            which = f"rank {before.recv.peer} as its source (src=), as the recv{first} does"
    return Words(
        f"{here} took a message of {source} in a recv{line} from any rank, which does not fit",
        tuple(why),
        (
            f"Name {which} in the recv{line}.",
            "Or give each kind of message a tag of its own, at both ends.",
        ),
    )
