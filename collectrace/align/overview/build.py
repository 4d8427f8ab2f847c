"""Everything together."""

from __future__ import annotations

from typing import Final

from collectrace.align.judging.case import Case
from collectrace.align.observations import config_skew, straggler
from collectrace.align.overview import bands, times
from collectrace.align.overview.waiting import waits
from collectrace.align.reading.evidence import ChannelKey
from collectrace.overview import Channel, Overview, Setting

_MOST_CHANNELS: Final = 400


def build(case: Case) -> Overview:
    """The overview of a run."""
    forms, streams, left_out = bands.streams(case)
    channels = _channels(case)
    if len(channels) > _MOST_CHANNELS:
        left_out.append(
            f"{len(channels) - _MOST_CHANNELS} point-to-point channels, whose sides are even "
            "where not all that differ are shown."
        )
    return Overview(
        forms=tuple(forms),
        streams=tuple(streams),
        channels=tuple(channels[:_MOST_CHANNELS]),
        waits=waits(case),
        stacks=times.stacks(case),
        lateness=times.lateness(case),
        loading=times.loading(case),
        clocks=straggler.precision(case.clocks) if case.evidence.logs else "",
        hosts=_hosts(case),
        settings=_settings(case),
        left_out=tuple(left_out),
    )


def _channels(case: Case) -> list[Channel]:
    found: dict[ChannelKey, list[int]] = {}
    for rank, log in case.evidence.logs.items():
        for key, last in log.last_channel_seq.items():
            sides = found.setdefault(key, [0, 0])
            sides[0 if key.source == rank else 1] += last
    channels = [
        Channel(group=key.group, source=key.source, destination=key.destination, tag=key.tag,
                sent=sent, received=received)
        for key, (sent, received) in found.items()
    ]  # fmt: skip
    return sorted(channels, key=lambda c: (c.sent == c.received, c.group, c.source, c.destination))


def _hosts(case: Case) -> tuple[tuple[str, tuple[int, ...]], ...]:
    found: dict[str, list[int]] = {}
    for rank, log in case.evidence.logs.items():
        found.setdefault(log.header.host, []).append(rank)
    return tuple((host, tuple(sorted(ranks))) for host, ranks in found.items())


def _settings(case: Case) -> tuple[Setting, ...]:
    """What differs first; what is meant to differ last."""
    headers = {rank: log.header for rank, log in case.evidence.logs.items()}
    found = []
    for what, name, values, absent in config_skew.settings(headers):
        by_value: dict[str, list[int]] = {}
        for rank in headers:
            by_value.setdefault(values.get(rank, absent), []).append(rank)
        listed = sorted(by_value.items(), key=lambda one: -len(one[1]))
        found.append(
            Setting(
                name=what,
                values=tuple((value, tuple(ranks)) for value, ranks in listed),
                own=len(listed) > 1 and config_skew.is_own(name, values, headers),
            )
        )
    return tuple(sorted(found, key=lambda s: (s.own, len(s.values) == 1)))
