"""What each rank exchanged in every round between two collectives of its group, by line."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.align.reading.vocabulary import CallPlace
from collectrace.records import Call


@dataclass(frozen=True)
class Message:
    """One end of a message."""

    offset: int
    """Where its line begins in the rank's file."""
    channel: ChannelKey
    seq: int
    place: CallPlace


@dataclass(frozen=True)
class RoundTally:
    """What one rank exchanged, round by round."""

    log: RankLog
    rounds: Sequence[Sequence[Message]]
    """Each in order of issue; the present one last."""

    @property
    def rank(self) -> int:
        """Whose it is."""
        return self.log.rank

    @property
    def now(self) -> Sequence[Message]:
        """Of the present round."""
        return self.rounds[-1]

    @cached_property
    def before(self) -> list[frozenset[CallPlace]]:
        """Where it exchanged something in each round before."""
        return [frozenset(one.place for one in made) for made in self.rounds[:-1]]

    @cached_property
    def places(self) -> frozenset[CallPlace]:
        """Where it exchanges something in the present round."""
        return frozenset(one.place for one in self.now)

    @cached_property
    def received_at(self) -> frozenset[CallPlace]:
        """Where it ever received something."""
        return frozenset(
            one.place
            for made in self.rounds
            for one in made
            if one.channel.destination == self.rank
        )

    @cached_property
    def by_channel(self) -> Mapping[ChannelKey, Sequence[Message]]:
        """The messages of the present round."""
        found: dict[ChannelKey, list[Message]] = {}
        for one in self.now:
            found.setdefault(one.channel, []).append(one)
        return found

    def count(self, channel: ChannelKey, without: Collection[CallPlace] = ()) -> int:
        """Its messages of a channel in the present round, but for those from some places."""
        return sum(one.place not in without for one in self.by_channel.get(channel, ()))

    def call(self, place: CallPlace) -> Call | None:
        """Its latest message from a place."""
        for made in reversed(self.rounds):
            for one in reversed(made):
                if one.place == place:
                    return self.log.channel_call(one.channel, one.seq)
        return None

    def latest(self, places: frozenset[CallPlace]) -> Sequence[Message]:
        """The latest round before in which it exchanged something just there; empty: none."""
        pairs = zip(reversed(self.before), reversed(self.rounds[:-1]), strict=True)
        return next((made for own, made in pairs if own == places), ())


def round_tally(log: RankLog, stream: StreamKey, row: int) -> RoundTally:
    """What a rank whose log is whole exchanged in the rounds up to a row of a stream."""
    rows, _ = log.rows(stream)
    bounds = rows.offset[: row - 1]
    rounds: list[list[Message]] = [[] for _ in range(row)]
    for channel in log.last_channel_seq:
        own = log.channel_rows(channel)
        seen = own.vocabulary.appearances
        for offset, seq, n in zip(own.offset, own.seq, own.appearance, strict=True):
            rounds[bisect_right(bounds, offset)].append(
                Message(offset, channel, seq, seen[n].place)
            )
    for made in rounds:
        made.sort(key=lambda one: one.offset)
    return RoundTally(log, rounds)


def is_of_messages_alone(log: RankLog, stream: StreamKey, row: int) -> bool:
    """Whether a rank has made no collective of another stream since the one before a row."""
    if row < 2:
        return False
    since = log.rows(stream)[0].offset[row - 2]
    return all(
        not len(own) or own.offset[-1] < since
        for own in (log.rows(key)[0] for key in log.last_seq if key != stream)
    )
