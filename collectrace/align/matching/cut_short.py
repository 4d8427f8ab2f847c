"""Find logs that have lost their end.

A log has lost its end if it stops within a line, or before a call that its rank must have issued. A
collective that waits for all ranks returns and completes only when all have issued it. A receive
returns only when its message was sent. So calls of other ranks prove the loss.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final

from collectrace.align.matching.comparison import Unproven
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.align.reading.rows import Rows
from collectrace.findings import GroupInfo
from collectrace.ops import ANY_SOURCE, BARRIERS, HOLDING

_LOOK_BACK: Final = 64
"""Rows at the end of a stream or channel that are examined."""


def cut_short(
    groups: Mapping[str, GroupInfo], logs: Mapping[int, RankLog], torn: Collection[int]
) -> list[Unproven]:
    """Return the ranks with logs that have lost their end, and the proof for each.

    ``groups``: those whose members the ranks agree on. In others, a call may have met any other.
    ``torn``: ranks with a last line that is torn, or of an unknown kind.
    """
    found = {rank: Unproven(rank, "torn") for rank in torn}
    endless = {
        rank
        for rank, log in logs.items()
        if log.exit is None and log.imported is None and rank not in found
    }
    for log in logs.values() if endless else ():
        latest = _latest(log)
        for stream, seq in _collectives(log, latest):
            if stream.group not in groups:
                continue
            for rank in endless.intersection(groups[stream.group].ranks) - {log.rank}:
                if logs[rank].last_seq.get(stream, 0) < seq:
                    found.setdefault(rank, Unproven(rank, "cut", stream, seq, log.rank))
        for channel, seq in _receives(log, latest):
            rank = channel.source
            if (
                channel.group in groups
                and rank in endless
                and logs[rank].last_channel_seq.get(channel, 0) < seq
            ):
                found.setdefault(rank, Unproven(rank, "cut", channel, seq, log.rank))
    return [found[rank] for rank in sorted(found)]


def _latest(log: RankLog) -> int:
    """Return the offset of the main thread's latest call: it returned from those before."""
    every = [log.rows(key)[0] for key in log.counts]
    latest = ((rows, next(_of_main(rows), None)) for rows in every)
    return max((rows.offset[at] for rows, at in latest if at is not None), default=0)


def _of_main(rows: Rows) -> Iterator[int]:
    """Yield the indices of the main thread's latest rows, the last one first."""
    seen = rows.vocabulary.appearances
    mine = (at for at in reversed(range(len(rows))) if not seen[rows.appearance[at]].beside)
    return islice(mine, _LOOK_BACK)


def _collectives(log: RankLog, latest: int) -> Iterator[tuple[StreamKey, int]]:
    """Yield per stream the latest call that returned and needs all ranks."""
    failed = {(done.group, done.device, done.seq) for done in log.failed if done.peer is None}
    for stream in log.last_seq:
        rows, shift = log.rows(stream)
        done = log.dones.get(stream)
        # A failed Work is complete too, and so are later calls of its group.
        may_have_failed = log.exit is None or not log.exit.is_regular
        if done is not None and done.seq >= log.last_seq[stream] and may_have_failed:
            done = None
        for at in _of_main(rows):
            seq = rows.seq[at] + shift
            is_done = done is not None and seq <= done.seq
            is_over = rows.offset[at] < latest and rows.holds(at)
            if (
                (is_done or is_over)
                and (*stream, seq) not in failed
                and _held(log, stream, seq, is_done=is_done)
            ):
                yield stream, seq
                break


def _held(log: RankLog, stream: StreamKey, seq: int, *, is_done: bool) -> bool:
    """Return whether a call was over only after all ranks had issued it.

    ``is_done``: it has completed; otherwise its rank has made a later call. The first call from a
    line may have waited although this one did not.
    """
    call = log.call(stream, seq)
    if call is None:
        return False
    if is_done:
        return call.op in HOLDING
    return not call.async_ and (call.device == "cpu" or call.op in BARRIERS)


def _receives(log: RankLog, latest: int) -> Iterator[tuple[ChannelKey, int]]:
    """Yield per channel the latest receive that returned, if the message that it took is known."""
    failed = {(d.group, d.device, d.peer, d.tag or 0, d.seq) for d in log.failed if d.op == "recv"}
    for channel in log.last_channel_seq:
        is_any = channel._replace(source=ANY_SOURCE) in log.last_channel_seq
        if channel.destination != log.rank or is_any:
            continue
        rows, _ = log.rows(channel)
        for at in _of_main(rows):
            seen, key = (
                rows.vocabulary.appearances[rows.appearance[at]],
                (*channel[:3], channel.tag),
            )
            is_over = rows.offset[at] < latest
            if is_over and seen.blocks and (*key, rows.seq[at]) not in failed:
                yield channel, rows.seq[at]
                break
