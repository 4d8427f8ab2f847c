"""Count the messages that the two ends of a channel made, by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from collectrace import words
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.judging.case import Case
from collectrace.align.judging.other_ends import other_ends
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import ChannelKey
from collectrace.ops import ANY_SOURCE
from collectrace.records import Call


def of_channel(case: Case, channel: ChannelKey) -> str:
    """Return ``Rank 0 sent 5 messages (a.py:3), rank 1 received 4 (a.py:9).``; empty: not known."""
    if channel.source < 0:
        return _of_any_source(case, channel)
    sent, received = _both(case, channel)
    if sent is None or received is None:
        return ""
    took = "received" if received.total() <= sent.total() else "expected"
    return (
        f"Rank {channel.source} sent {_counts(sent, 'message')}, rank {channel.destination} {took} "
        f"{_counts(received)}."
    )


def uneven(situation: Situation) -> Iterator[str]:
    """Yield sentences on channels between the ranks of a cycle that lack messages at one end.

    The messages that the cycle itself waits for do not count.
    """
    case, cycle = situation.case, situation.candidate.cycle
    ranks = {edge.waiting.rank for edge in cycle}
    awaited = {edge.waiting.channel for edge in cycle}
    logs = [log for rank in sorted(ranks) if (log := case.log(rank)) is not None]
    for channel in dict.fromkeys(key for log in logs for key in log.last_channel_seq):
        if channel.source < 0:
            told = _of_any_source(case, channel) if channel in awaited else ""
            if told:
                yield told
        elif channel not in awaited and {channel.source, channel.destination} <= ranks:
            sent, received = _both(case, channel)
            if sent is not None and received is not None and sent.total() != received.total():
                yield of_channel(case, channel)


def other_end(case: Case, edge: Edge) -> str:
    """Return a sentence on the line that makes the other end of such a message elsewhere, or ""."""
    channel, seq = edge.waiting.channel, edge.waiting.seq
    log = case.log(edge.waiting.rank)
    call = log.call(channel, seq) if log and channel is not None and seq else None
    return met_elsewhere(case, channel, call, edge.waiting.rank) if call and channel else ""


def met_elsewhere(case: Case, channel: ChannelKey, call: Call, rank: int) -> str:
    """Return a sentence on the line that makes the other end of such messages elsewhere.

    Empty if it is not exactly one.
    """
    met = {case.stack(*end) for end in other_ends(case, channel, call, rank)}
    if len(met) != 1:
        return ""
    frames = next(iter(met))
    came = " called at ".join(words.site(chains.site(frame)) for frame in frames[:2])
    ends = (channel.source, channel.destination)
    lacks = ends[0] if rank == ends[1] else ends[1]
    return f"Between other ranks it meets {came}, which rank {lacks} did not reach for this one."


def _of_any_source(case: Case, channel: ChannelKey) -> str:
    """Return what a rank received from any rank, and what each sent; empty: not known."""
    asked = _by_line(case, channel.destination, channel)
    sent = {rank: _by_line(case, rank, one) for rank, one in case.sent_to_any(channel).items()}
    if not asked or not sent or None in sent.values():
        return ""
    each = [f"rank {rank} sent {_counts(made)}" for rank, made in sent.items() if made]
    return (
        f"Rank {channel.destination} asked for {_counts(asked, 'message')} from any rank; "
        f"{words.listed(each)}."
    )


def _both(case: Case, channel: ChannelKey) -> tuple[Counter[str] | None, Counter[str] | None]:
    return _by_line(case, channel.source, channel), _by_line(case, channel.destination, channel)


def _by_line(case: Case, rank: int, channel: ChannelKey) -> Counter[str] | None:
    """Return how many messages a rank made from each line; None: its log was read in part.

    Receives from any source count for the rank that sent the message.
    """
    log = case.log(rank)
    if log is None or not log.scanned:
        return None
    rows = log.rows(channel)[0]
    known = rows.vocabulary.appearances
    seen = [known[n] for n in rows.appearance]
    from_any = channel._replace(source=ANY_SOURCE)
    if rank == channel.destination and from_any != channel:
        others, answers = log.rows(from_any)[0], log.answers.get(from_any, {})
        taken = {seq for seq, answer in answers.items() if answer.source == channel.source}
        seen += [
            known[n] for seq, n in zip(others.seq, others.appearance, strict=True) if seq in taken
        ]
    lines = Counter(chains.site(one.where[0]) if one.where else one.site for one in seen)
    if len(lines) == 1 and len({one.where for one in seen}) > 1:
        # If one helper sends everything, the lines that call it are more informative.
        depth = phrases.differing_depth([one.where for one in seen])
        lines = Counter(chains.site(one.where[min(depth, len(one.where) - 1)]) for one in seen)
    return lines


def _counts(lines: Counter[str], noun: str = "") -> str:
    """Return ``24 (20 at a.py:5, 4 at a.py:21)``, ``20 (a.py:31)``, ``none``."""
    total = words.counted(lines.total(), noun) if noun else f"{lines.total():,}"
    told = [(n, words.site(site) or "an unknown line") for site, n in lines.most_common(3)]
    if not told:
        return "none"
    if len(told) == 1:
        return f"{total} ({told[0][1]})"
    return f"{total} ({', '.join(f'{n:,} at {site}' for n, site in told)})"
