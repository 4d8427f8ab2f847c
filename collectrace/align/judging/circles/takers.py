"""Two ranks that disagree about who takes part in a round, where the rounds before tell."""

from __future__ import annotations

from typing import NamedTuple

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import program_of
from collectrace.align.matching import habit
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.matching.programs import Program
from collectrace.align.reading.evidence import ChannelKey, StreamKey
from collectrace.records import Call


class Uneven(NamedTuple):
    """A round in which one rank waits for a message, and its peer is done with those of it."""

    rank: int
    """Who did otherwise than in the rounds before."""
    waiter: int
    call: Call
    """The message that it waits for."""
    hub: int
    """Its peer, which exchanges as many messages in each round, with changing ranks."""
    row: Call
    """The collective of all that ends a round."""
    usual: int
    """Messages of a round."""
    peers: tuple[int, ...]
    """Whom the peer exchanged messages with in this round; all came to its end."""
    rounds: int
    """Rounds before."""


@once
def uneven(case: Case, candidate: Candidate) -> Uneven | None:
    """Which of two disagrees about who takes part in a round, by how many did in each before.

    Most of the group have come to the collective that ends the round. Where their peer has
    exchanged as many messages as ever, the one that waits for another is one too many; where fewer,
    it is one short.
    """
    for edge in candidate.cycle:
        channel, hub = edge.waiting.channel, case.log(edge.target[0])
        if channel is None or channel.source < 0 or hub is None:
            continue
        for stream in hub.last_seq:
            found = _uneven(case, channel, edge.waiting.rank, hub.rank, stream)
            if found is not None:
                return found
    return None


def _uneven(
    case: Case, channel: ChannelKey, waiter: int, hub: int, stream: StreamKey
) -> Uneven | None:
    group, program = case.comparison.groups.get(stream.group), program_of(case, hub)
    log = case.log(waiter)
    if group is None or len(group.ranks) < CAN_OUTVOTE or program is None or log is None:
        return None
    row = log.last_seq.get(stream, 0) + 1
    logs = [one for rank in group.ranks if (one := case.log(rank)) is not None]
    came = {one.rank for one in logs if one.last_seq.get(stream, 0) >= row}
    call = case.call(hub, stream, row)
    message = log.channel_call(channel, log.last_channel_seq.get(channel, 0))
    if hub not in came or 2 * len(came) <= len(group.ranks) or call is None or message is None:
        return None
    *before, (step, peers) = _rounds(program, stream, row, channel)
    alike = [others for one, others in before if one == step]
    took_part = [waiter in others for others in alike]
    sizes = {len(others) for others in alike}
    if len(alike) < habit.ENOUGH or len(sizes) != 1 or len(set(took_part)) < 2:
        return None  # so many ranks, and not always the same, take part in a round
    if not {*peers} <= came:
        return None
    (usual,) = sizes
    if len(peers) > usual:
        return None
    rank = waiter if len(peers) == usual else hub
    return Uneven(rank, waiter, message, hub, call, usual, tuple(peers), len(alike))


def _rounds(
    program: Program, stream: StreamKey, row: int, channel: ChannelKey
) -> list[tuple[int, list[int]]]:
    """Per row of a stream, up to one: its step, and the peers of the messages since the row before.

    Of those messages that differ from a channel's in the peer alone.
    """
    way = 1 if channel.source == program.rank else 0
    found: list[tuple[int, list[int]]] = []
    peers: list[int] = []
    for step, which, seq in zip(program.steps, program.sources, program.rows, strict=False):
        key = program.keys[which]
        if key == stream:
            found.append((step, peers))
            peers = []
            if seq == row:
                break
        elif isinstance(key, ChannelKey) and _is_like(key, channel, way):
            peers.append((key.source, key.destination)[way])
    return found


def _is_like(key: ChannelKey, channel: ChannelKey, way: int) -> bool:
    """Whether two channels differ in one end alone: 0 in the source, 1 in the destination."""
    if way:
        return key._replace(destination=0) == channel._replace(destination=0)
    return key._replace(source=0) == channel._replace(source=0)
