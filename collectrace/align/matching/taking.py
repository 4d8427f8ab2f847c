"""Determine the messages that a rank's receives took, if some take them from any source.

Messages from one rank under one tag are taken in the order in which they were sent (gloo keeps a
queue per pair and slot). The order of receives is certain as long as one thread makes them and only
one waits at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from collectrace.align.matching.comparison import Before, ChannelIssue
from collectrace.align.matching.inbox import Inbox, difference, fits
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.ops import ANY_SOURCE
from collectrace.records import Call


class Taken(NamedTuple):
    """A receive, and the sender of the message that it took, or waits for."""

    source: int
    key: ChannelKey
    seq: int
    meaning: int
    """Id of the awaited message's form, in the vocabulary of the run."""


class _Row(NamedTuple):
    offset: int
    key: ChannelKey
    at: int
    """Index in the rows of the channel."""


def in_order(log: RankLog, keys: Sequence[ChannelKey]) -> Iterator[Taken]:
    """Yield the receives on channels that share a tag, as far as their order is certain.

    Yield nothing if the log was read in part, or if some receives are not known.
    """
    sides = {key: log.rows(key)[0] for key in keys}
    if not log.scanned or log.void_count or any(len(s) != s.last() for s in sides.values()):
        return
    rows = sorted(
        _Row(offset, key, at) for key, of in sides.items() for at, offset in enumerate(of.offset)
    )
    times = [sides[row.key].t[row.at] for row in rows]
    if times != sorted(times):
        return  # lines are out of order
    failed = {(d.group, d.device, d.peer, d.tag or 0, d.seq) for d in log.failed if d.op == "recv"}
    thread = None
    for row, after in pairwise([*rows, None]):
        assert row is not None
        _, key, at = row
        of = sides[key]
        seq, seen = of.seq[at], of.vocabulary.appearances[of.appearance[at]]
        thread = seen.receiver if thread is None else thread
        if seen.receiver != thread or (*key[:3], key.tag, seq) in failed:
            return
        answer = log.answers.get(key, {}).get(seq) if key.source == ANY_SOURCE else None
        source = answer.source if answer is not None else key.source
        if source == ANY_SOURCE:
            return
        yield Taken(source, key, seq, of.meaning[at])
        is_over = answer is not None and (after is None or answer.offset < after.offset)
        if not seen.blocks and not is_over:
            return


def taken_wrongly(inbox: Inbox, log: RankLog) -> ChannelIssue | None:
    """Return the issue of the first message that does not fit the receive that took it."""
    sent = {source: side.meanings() for source, side in inbox.sends.items()}
    met, by_any = Counter[int](), Counter[int]()
    before: Taken | None = None
    fitting: set[tuple[int, int]] = set()
    for taken in in_order(log, [side.key for side in inbox.recvs.values()]):
        source, is_any = taken.source, taken.key.source == ANY_SOURCE
        met[source] += 1
        pair = sent.get(source, {}).get(met[source], -1), taken.meaning
        if pair[0] >= 0 and pair not in fitting:
            # Thousands of messages have only a few forms.
            side = inbox.sends[source]
            send, recv = side.call(met[source]), log.call(taken.key, taken.seq)
            if send is None or recv is None:
                return None
            if not fits(send, recv):
                return ChannelIssue(
                    side.key, inbox.group, met[source], send, recv, difference(send, recv),
                    before=_before(inbox, log, before, met, recv)
                    if is_any and before is not None and before.source != source
                    else None,
                    taken=by_any[source],
                )  # fmt: skip
            fitting.add(pair)
        by_any[source] += is_any
        before = taken
    return None


def _before(
    inbox: Inbox, log: RankLog, before: Taken, met: Mapping[int, int], recv: Call
) -> Before:
    """Return the receive before one from any source, and its sender's next message.

    ``met``: messages taken so far, by sender.
    """
    source = before.source
    side, seq = inbox.sends.get(source), met[source] + 1
    after = side.log.call(side.key, seq) if side is not None else None
    is_meant = after is not None and not after.void and fits(after, recv)
    return Before(source, log.call(before.key, before.seq), after if is_meant else None)
