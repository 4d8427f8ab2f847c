"""A rank left before a message that it had begun to send arrived.

What it means
    ``isend`` only begins to send. The message is lost if the process ends, or destroys the group,
    before ``wait()`` has returned. The receiver then raises an error.

Example
    ::

        dist.isend(summary, dst=0)
        dist.destroy_process_group()    # nobody waited for the message

Not to be confused with
    CT704, if the message was never begun.

How to fix it
    Keep the work that ``isend`` returns, and call ``wait()`` on it. Or use ``send``.
"""

from __future__ import annotations

from dataclasses import dataclass

from collectrace import words as words_
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.undelivered import Begun, senders
from collectrace.align.matching.comparison import ChannelIssue


@dataclass(frozen=True, slots=True)
class Lost:
    """A message that was lost, and who left so."""

    issue: ChannelIssue
    senders: tuple[Begun, ...]


def find(situation: Situation) -> Lost | None:
    """Return the message that was lost because its sender left."""
    issue = situation.candidate.source
    if not isinstance(issue, ChannelIssue) or issue.attribute != "undelivered":
        return None
    return Lost(issue, tuple(senders(situation.case, issue)))


def words(_: Situation, found: Lost) -> Words:
    """Return the words for a message that was lost."""
    send, recv, channel = found.issue.send, found.issue.recv, found.issue.channel
    assert send is not None
    assert recv is not None
    who = sorted(one.rank for one in found.senders)
    api, line = send.api or "isend", phrases.line(send.site)
    counts = [
        f"rank {one.rank} had begun {words_.counted(one.count, 'message')}" for one in found.senders
    ]
    return Words(
        f"{words_.ranks(who)} left without waiting for {words_.verb(who, 'its', 'their')} "
        f"{api}{line}",
        (
            (
                f"{api} only begins to send: {words_.listed(counts)} to rank "
                f"{channel.destination}, and did not wait for them."
            ),
            (
                f"Rank {channel.destination} asked for the {words_.ordinal(found.issue.seq)} "
                f"message later (recv{phrases.line(recv.site)}), which was lost when its sender "
                "ended."
            ),
        ),
        (
            (
                f"Keep the work that {api} returns, and call wait() on it before the process ends "
                "or calls destroy_process_group(). Or use send()."
            ),
            "Or call barrier() on all ranks before destroy_process_group().",
        ),
    )
