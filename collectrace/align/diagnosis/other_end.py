"""The line that meets a message elsewhere, where the rank that is waited for never came to it.

As where a stage hands its gradient back only if it has a stage before it, and takes the number of
the first one, 0, for none: between all others each receive at one line meets a send at one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from collectrace import words
from collectrace.align.diagnosis import conditions, decided, ways_past
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.wording import Reason, Wording
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.closing_send import in_circle
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.records import Call

_MOST: Final = 16
"""Messages of a channel that are looked at."""
_MOST_CHANNELS: Final = 256
"""Channels in which a like message is looked for."""


class OtherEnd(NamedTuple):
    """A message that nobody meets, and one that met its like of other ranks."""

    waiter: int
    call: Call
    """The message that is not met."""
    absent: int
    """Who has never sent, or received, there."""
    like: int
    """Who made ``met``, at the end where ``absent`` is missing."""
    met: Call
    beside: int
    """With whom it did: one who came from the same lines as the waiter."""


@once
def other_end(case: Case, candidate: Candidate) -> OtherEnd | None:
    """The first message of a candidate of which that is known.

    Its ends have never met before; or who is waited for has finished, and the last that others
    had from it at that line came from one from which it never had any for the one that waits.
    """
    source, cycle = candidate.source, candidate.cycle
    near = source.near if isinstance(source, ChannelIssue) else cycle and in_circle(case, cycle)
    if candidate.cause is not None or near:
        return None  # what nearly fits tells more
    found = (_of(case, *one) for one in _unmet(case, candidate))
    return next((one for one in found if one is not None), None)


def _unmet(case: Case, candidate: Candidate) -> Iterator[tuple[int, ChannelKey, Call]]:
    source = candidate.source
    if isinstance(source, ChannelIssue):
        call = source.recv or source.send
        end = source.channel.destination if source.recv is not None else source.channel.source
        if call is not None and source.attribute == "absent":
            yield end, source.channel, call
    for edge in candidate.cycle:
        made = waited_for(case, edge.waiting)
        if edge.waiting.channel is not None and made is not None:
            yield edge.waiting.rank, edge.waiting.channel, made


def _of(case: Case, waiter: int, channel: ChannelKey, call: Call) -> OtherEnd | None:
    if channel.source < 0 or waiter not in channel:
        return None
    absent = channel.source + channel.destination - waiter
    log = case.log(absent)
    if log is None:
        return None
    made = _made(log, channel)
    if made is None or (made and case.standings[absent].state != "finished"):
        return None
    way, met = (call.op, case.stack(waiter, call)), []
    is_sent = channel.source == absent
    known = {key for rank in case.standings for key in _keys(case, rank)} - {channel}
    alike = [k for k in known if k.source >= 0 and (k.group, k.tag) == (channel.group, channel.tag)]
    for key in sorted(alike)[:_MOST_CHANNELS]:
        ends = (key.source, key.destination) if is_sent else (key.destination, key.source)
        if not made or ends[0] == absent:
            met += list(_meetings(case, key, *ends, way))[-1 if made else 0 :]
    lines = {(theirs.op, case.stack(like, theirs)) for like, theirs, _ in met}
    if len(lines) != 1 or not met or lines & made:
        return None
    like, theirs, beside = min(met, key=lambda one: (one[0], one[1].seq))
    return OtherEnd(waiter, call, absent, like, theirs, beside)


def _made(log: RankLog, channel: ChannelKey) -> set[tuple[str, tuple[str, ...]]] | None:
    """By which lines a rank made the messages of a channel; None: not all of them were read."""
    rows = log.channel_rows(channel)
    if len(rows) < log.last_channel_seq.get(channel, 0):
        return None
    known = (rows.vocabulary.appearances[n] for n in set(rows.appearance))
    return {(one.op, one.where) for one in known}


def _keys(case: Case, rank: int) -> Iterator[ChannelKey]:
    log = case.log(rank)
    yield from log.last_channel_seq if log is not None else ()


def _meetings(
    case: Case, key: ChannelKey, one: int, two: int, way: tuple[str, tuple[str, ...]]
) -> Iterator[tuple[int, Call, int]]:
    """Messages of a channel that ``two`` made by such lines, with what ``one`` made for each."""
    logs = case.log(one), case.log(two)
    if logs[0] is None or logs[1] is None:
        return
    last = min(log.last_channel_seq.get(key, 0) for log in logs if log is not None)
    for seq in range(max(1, last - _MOST), last + 1):
        theirs, mine = logs[0].channel_call(key, seq), logs[1].channel_call(key, seq)
        if theirs is not None and mine is not None and (mine.op, case.stack(two, mine)) == way:
            yield one, theirs, two


def added(case: Case, candidate: Candidate, told: Wording) -> Wording:
    """What is told of a candidate, with that line, where nothing leads past it already."""
    found = other_end(case, candidate)
    if found is None or words.site(found.met.site or "") in told.cause:
        return told
    reason = _reason(case, found)
    return Wording(
        told.headline, f"{told.cause}{reason.cause}", f"{reason.fix}\n{told.fix}", told.notes
    )


def _reason(case: Case, found: OtherEnd) -> Reason:
    met = named(case, found.like, found.met, brief=True)
    stack = case.stack(found.like, found.met)
    ways = ways_past.few(case, stack[:1])
    around = conditions.innermost(case, found.like, found.met)
    led = ways_past.led(ways, f"rank {found.absent}")
    if not led and around is not None:
        led = decided.of_one(case, around).cause
    look = f": look at {around.quoted}" if around is not None and not ways else ""
    does = f"rank {found.like} does"
    if found.like == found.absent:
        does = f"it does for rank {found.beside}"
    return Reason(
        f" Between ranks {found.beside} and {found.like} a {found.call.op} from there meets "
        f"{closed(met)} to which rank {found.absent} never came for rank {found.waiter}.{led}",
        f"If rank {found.waiter} rightly waits: let rank {found.absent} make that {found.met.op}, "
        f"as {does}{look}.",
    )
