"""Sends and receives of a channel, counted by line: where a step too many was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from collectrace import words
from collectrace.align.diagnosis.callers import telling_depth, telling_line
from collectrace.align.judging.case import Case
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import ChannelKey
from collectrace.ops import ANY_SOURCE


def of_channel(case: Case, channel: ChannelKey) -> str:
    """One sentence, such as ``Rank 0 sent 24 (20 from a.py:5, 4 from a.py:21), rank 1 ...``.

    Empty where a log was read in part, or where none met: then there is nothing to compare.
    """
    if channel.source < 0:
        return ""
    sent, received = (
        _by_line(case, rank, channel) for rank in (channel.source, channel.destination)
    )
    if not sent or not received:
        return ""
    took = "received" if received.total() <= sent.total() else "asked for"
    return words.upper(
        f"rank {channel.source} sent {_counts(sent)}, rank {channel.destination} {took} "
        f"{_counts(received)}."
    )


def uneven(case: Case, cycle: Collection[Edge]) -> list[str]:
    """The channels between the ranks of a circle with more sends than receives, by line.

    What the circle waits for is one short on either side, which is its consequence.
    """
    ranks = {edge.waiting.rank for edge in cycle}
    awaited = {edge.waiting.channel for edge in cycle}
    found = [told for c in awaited if c is not None and (told := of_any_source(case, c))]
    for channel in sorted({c for r in ranks if (log := case.log(r)) for c in log.last_channel_seq}):
        ends = channel.source, channel.destination
        if channel in awaited or not set(ends) <= ranks:
            continue
        sent, received = (_by_line(case, rank, channel) for rank in ends)
        if sent is None or received is None or sent.total() == received.total():
            continue
        if _has_any_source(case, channel):
            continue  # it may have received them all, from whoever came first
        found.append(
            f"rank {ends[0]} sent rank {ends[1]} {_counts(sent)}, rank {ends[1]} received "
            f"{_counts(received)}"
        )
    return found


def of_any_source(case: Case, channel: ChannelKey) -> str:
    """What a rank that awaits a message of any source has been sent by each; empty: not known."""
    asked = _by_line(case, channel.destination, channel) if channel.source < 0 else None
    sent = {rank: _by_line(case, rank, one) for rank, one in case.sent_to_any(channel).items()}
    if not asked or not sent or None in sent.values():
        return ""
    each = words.listed([f"rank {rank} sent {_counts(n)}" for rank, n in sent.items() if n])
    return f"rank {channel.destination} asked for {_counts(asked)} of any rank, and {each}"


def _has_any_source(case: Case, channel: ChannelKey) -> bool:
    """Whether the receiver has asked for messages of any source, with this tag."""
    log = case.log(channel.destination)
    return log is not None and channel._replace(source=ANY_SOURCE) in log.last_channel_seq


def _by_line(case: Case, rank: int, channel: ChannelKey) -> Counter[str] | None:
    """How many messages of one side of a channel came from each line; None: not known.

    Those that the receiver took by receives from any source are among them. Of messages that a
    helper sends, the lines that call it.
    """
    log = case.log(rank)
    if log is None or not log.scanned:
        return None
    rows, from_any = log.channel_rows(channel), channel._replace(source=ANY_SOURCE)
    known = rows.vocabulary.appearances
    seen = [known[appearance] for appearance in rows.appearance]
    if rank == channel.destination and from_any != channel:
        others, answers = log.channel_rows(from_any), log.answers.get(from_any, {})
        seen += [
            known[appearance]
            for seq, appearance in zip(others.seq, others.appearance, strict=True)
            if (answer := answers.get(seq)) is not None and answer.source == channel.source
        ]
    lines = Counter(telling_line(case, one) for one in seen)
    if len(lines) > 1:
        return lines
    depth = telling_depth(list({one.where for one in seen}))
    return Counter(chains.site(one.where[depth]) for one in seen) if depth else lines


def _counts(lines: Counter[str]) -> str:
    """``24 (20 from a.py:5, 4 from a.py:21)``; ``20 (from a.py:31)``; ``none``."""
    if not lines:
        return "none"
    told = [(n, words.site(site) or "an unknown line") for site, n in lines.most_common()]
    if len(told) == 1:
        return f"{lines.total():,} (from {told[0][1]})"
    return f"{lines.total():,} ({', '.join(f'{n:,} from {site}' for n, site in told)})"
