"""Build the whole overview of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, ParamSpec, TypeVar

from collectrace.align.judging.case import Case
from collectrace.align.observations import config_skew, straggler
from collectrace.align.overview import bands, times
from collectrace.align.overview.waiting import waits
from collectrace.align.reading.evidence import ChannelKey
from collectrace.align.reading.hosts import by_host
from collectrace.internal import Faults, sentence
from collectrace.overview import Channel, Overview, Setting, Stream, Waits
from collectrace.records import Call

P = ParamSpec("P")
T = TypeVar("T")

_MOST_CHANNELS: Final = 400


def build(case: Case) -> Overview:
    """Return the overview of a run. A part that fails is omitted, and the overview says so."""
    faults = Faults()

    def seen(otherwise: T, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return faults.attempt("overview", otherwise, work, *args, **kwargs)

    nothing = list[Call](), list[Stream](), list[str]()
    forms, streams, left_out = seen(nothing, bands.streams, case)
    channels = seen([], _channels, case)
    if len(channels) > _MOST_CHANNELS:
        left_out.append(
            f"{len(channels) - _MOST_CHANNELS} point-to-point channels, whose sides are even "
            "where not all that differ are shown."
        )
    overview = Overview(
        forms=tuple(forms),
        streams=tuple(streams),
        channels=tuple(channels[:_MOST_CHANNELS]),
        waits=seen(Waits(), waits, case),
        stacks=seen((), times.stacks, case),
        lateness=seen((), times.lateness, case),
        loading=seen((), times.loading, case),
        clocks=seen("", straggler.precision, case.clocks) if case.evidence.logs else "",
        hosts=seen((), _hosts, case),
        settings=seen((), _settings, case),
    )
    return replace(overview, left_out=(*left_out, *map(sentence, faults.found)))


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
    return tuple((host, tuple(ranks)) for host, ranks in by_host(case.evidence).items())


def _settings(case: Case) -> tuple[Setting, ...]:
    """Return the settings, different ones first, and last those that are meant to differ."""
    headers = {rank: log.header for rank, log in case.evidence.logs.items()}
    found = []
    for what, name, values, absent in config_skew.settings(headers):
        by_value = config_skew.ranks_by_value(values, headers, absent)
        listed = sorted(by_value.items(), key=lambda one: -len(one[1]))
        found.append(
            Setting(
                name=what,
                values=tuple((value, tuple(ranks)) for value, ranks in listed),
                own=len(listed) > 1 and config_skew.is_own(name, values, headers),
            )
        )
    return tuple(sorted(found, key=lambda s: (s.own, len(s.values) == 1)))
