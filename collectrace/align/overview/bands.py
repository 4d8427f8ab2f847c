"""Pack the calls of all ranks: equal ranks as one band, equal groups as one stream."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from collectrace import words
from collectrace.align.judging.case import Case
from collectrace.align.overview.forms import Forms, Key, numbers
from collectrace.align.overview.repeats import Packer
from collectrace.align.reading.evidence import RankLog, StreamKey
from collectrace.overview import Band, Stream
from collectrace.records import Call

_MOST_CALLS: Final = 2_000_000
"""Calls that are read again to draw logs that were read in part."""

_MOST_READ: Final = 16
"""Ranks with logs that are read again for that."""

_MOST_CODES: Final = 120_000
"""Numbers that packed calls may take, over all streams: some 600 KB of a page. As many again are
for calls around a difference if that is not enough."""

_MOST_PLACES: Final = 20_000_000
"""Calls of one stream or channel, over all ranks that differ: four bytes each while it is packed.
Numbers in a log may claim any count."""

_WINDOW: Final = 200
"""Calls before and after a divergence that are kept if there is no room for all."""

_MOST_BANDS: Final = 1024
_MOST_CHANNELS: Final = 128
_MOST_STREAMS: Final = 400


class _Side(NamedTuple):
    """Ranks with equal calls, before they are packed."""

    ranks: tuple[int, ...]
    last: int
    calls: array[int]


def streams(case: Case) -> tuple[list[Call], list[Stream], list[str]]:
    """Return forms of calls, the streams of them, and sentences on what was omitted."""
    forms, told = Forms(), []
    logs, notes = _read_enough(case)
    drawn: dict[Key, Stream] = {}
    parted = {d.stream for d in case.comparison.divergences}
    order = sorted(
        case.comparison.streams, key=lambda s: (s not in parted, -len(case.comparison.streams[s]))
    )
    room = _MOST_CODES
    for key in order:
        ranks = case.comparison.streams[key]
        info = case.comparison.groups[key.group]
        alike_ranks = _by_lines(logs, key, ranks)
        if sum(logs[some[0]].last_seq[key] for some in alike_ranks) > _MOST_PLACES:
            told.append(words.group(info))
            continue
        sides = _sides(case, logs, key, alike_ranks, forms)
        if not sides:
            continue
        # Equal sister groups without a difference share one picture.
        alike: Key = (key,)
        if len(sides) == 1 and key not in parted and info.description:
            alike = (info.description, len(ranks), key.device, sides[0].calls.tobytes())
        first = drawn.get(alike)
        if first is not None:
            drawn[alike] = _joined(first, key.group, sides[0].ranks)
            continue
        if len(drawn) >= _MOST_STREAMS or room <= 0:
            told.append(words.group(info))
            continue
        bands, left = _packed(case, key, sides, room)
        room -= sum(len(band.codes) for band in bands)
        if left:
            notes.append(
                f"Of {words.ranks(left)}, the calls in {words.named_group(key.group)} that are far "
                "from where the ranks part and from their end."
            )
        drawn[alike] = Stream(
            group=key.group,
            description=info.description,
            backend=info.backend,
            device=key.device,
            ranks=tuple(ranks),
            agreed=case.comparison.agreed.get(key, 0),
            bands=tuple(bands),
        )
    channels, long = _channels(case, forms)
    for channel in channels:
        if room > 0:
            room -= sum(len(band.codes) for band in channel.bands)
            drawn[channel.group, channel.device, channel.channel] = channel
    if told:
        notes.append(f"The calls of {words.counted(len(told), 'group')}.")
    if long:
        notes.append(f"The messages of {words.counted(long, 'channel')}.")
    return forms.calls, list(drawn.values()), notes


def _joined(stream: Stream, group: str, ranks: Sequence[int]) -> Stream:
    (band,) = stream.bands
    both = tuple(sorted((*band.ranks, *ranks)))
    return replace(
        stream, alike=(*stream.alike, group), ranks=both, bands=(replace(band, ranks=both),)
    )


def _read_enough(case: Case) -> tuple[Mapping[int, RankLog], list[str]]:
    """Return the logs, with one rank of every kind read completely if that is fast enough."""
    evidence = case.evidence
    unread = [rank for rank, log in evidence.logs.items() if not log.scanned]
    if not unread or evidence.read_whole is None:
        return evidence.logs, []
    kinds: dict[Key, list[int]] = {}
    for rank in unread:
        log = evidence.logs[rank]
        kinds.setdefault(_kind(log), []).append(rank)
    chosen, calls = [], 0
    for ranks in sorted(kinds.values(), key=len, reverse=True)[:_MOST_READ]:
        count = sum(evidence.logs[ranks[0]].last_seq.values())
        if calls + count <= _MOST_CALLS:
            chosen.append(ranks[0])
            calls += count
    notes = []
    if chosen:
        whole = evidence.read_whole(chosen)
        notes.append(
            f"The logs are large: {words.ranks(chosen)} was read whole, the others where the "
            "digests say that they agree stand for it."
            if len(chosen) == 1
            else f"The logs are large: {words.ranks(chosen)} were read whole, and stand for the "
            "ranks whose digests are equal."
        )
        return whole.logs, notes
    return evidence.logs, ["The logs are large: of calls, what had to be read to judge."]


def _kind(log: RankLog) -> Key:
    """Return a key that ranks with equal calls share, from what was read of them."""
    return tuple(
        (stream, last, found.program if (found := log.digests(stream, last)) is not None else None)
        for stream, last in sorted(log.last_seq.items())
        if last
    )


def _by_lines(
    logs: Mapping[int, RankLog], stream: StreamKey, ranks: Sequence[int]
) -> Collection[Sequence[int]]:
    """Return the ranks of a stream, grouped by their digests or lines."""
    by_digest: dict[Key, list[int]] = {}
    is_whole = all(logs[rank].scanned for rank in ranks if rank in logs)
    for rank in ranks:
        log = logs.get(rank)
        if log is None or not log.last_seq.get(stream):
            continue
        last = log.last_seq[stream]
        found = None if is_whole else log.digests(stream, last)
        # Logs that were read completely have more than digests: the lines.
        rows, shift = log.rows(stream)
        key: Key = (last, shift)
        if found is not None and found.program is not None:
            key += ("digest", found.program)
        else:
            key += (rows.seq.tobytes(), rows.meaning.tobytes(), rows.appearance.tobytes())
        by_digest.setdefault(key, []).append(rank)
    return by_digest.values()


def _sides(
    case: Case,
    logs: Mapping[int, RankLog],
    stream: StreamKey,
    by_lines: Collection[Sequence[int]],
    forms: Forms,
) -> list[_Side]:
    joined: dict[tuple[int, bytes], list[int]] = {}
    texts: dict[tuple[int, bytes], array[int]] = {}
    for some in by_lines:
        best = max(some, key=lambda rank: len(logs[rank].rows(stream)[0]))
        calls = _calls(logs[best], stream, forms)
        same = len(calls), calls.tobytes()
        joined.setdefault(same, []).extend(some)
        texts[same] = calls
    joined = _by_prefix(joined, texts, case, logs, stream)
    return sorted(
        (_Side(tuple(sorted(some)), same[0], texts[same]) for same, some in joined.items()),
        key=lambda side: (-len(side.ranks), side.ranks),
    )


def _by_prefix(
    joined: dict[tuple[int, bytes], list[int]],
    texts: dict[tuple[int, bytes], array[int]],
    case: Case,
    logs: Mapping[int, RankLog],
    stream: StreamKey,
) -> dict[tuple[int, bytes], list[int]]:
    """Return ranks with the calls up to the last agreed one taken from a rank read completely.

    This concerns ranks that were read in part: up to there all ranks have equal calls.
    """
    whole = [key for key, some in joined.items() if any(logs[r].scanned for r in some)]
    if not whole or len(whole) == len(joined):
        return joined
    agreed = case.comparison.agreed.get(stream, 0)
    base = texts[max(whole)]
    out: dict[tuple[int, bytes], list[int]] = {}
    for key, some in joined.items():
        text = texts[key]
        if key not in whole:
            text = array("i", text)
            upto = min(agreed, len(text), len(base))
            text[:upto] = base[:upto]
        same = len(text), text.tobytes()
        texts[same] = text
        out.setdefault(same, []).extend(some)
    return out


def _calls(log: RankLog, stream: StreamKey, forms: Forms) -> array[int]:
    """Return the form of every call of a rank, by its position; UNREAD if it was not read."""
    return numbers(log, stream, log.last_seq.get(stream, 0), forms)


def _channels(case: Case, forms: Forms) -> tuple[list[Stream], int]:
    """Return point-to-point channels as streams of two bands, uneven ones first.

    Return also how many channels are too long for that.
    """
    logs = case.evidence.logs
    keys = {key for log in logs.values() for key in log.last_channel_seq if key.source >= 0}
    ends = {
        key: tuple(
            logs[rank].last_channel_seq.get(key, 0) if rank in logs else 0
            for rank in (key.source, key.destination)
        )
        for key in keys
    }
    long = {key for key in keys if sum(ends[key]) > _MOST_PLACES}
    found = []
    for key in sorted(keys - long, key=lambda k: (ends[k][0] == ends[k][1], k))[:_MOST_CHANNELS]:
        info = case.comparison.groups[key.group]
        bands: list[Band] = []
        packer = Packer(array("i"))
        for rank, last in zip((key.source, key.destination), ends[key], strict=True):
            if not last:
                continue
            calls = numbers(logs[rank], key, last, forms)
            done = logs[rank].dones.get(key)
            bands.append(
                Band(ranks=(rank,), last=last, done=done.seq if done is not None else 0,
                     codes=packer.pack(calls))
            )  # fmt: skip
            packer = Packer(calls)
        found.append(
            Stream(group=key.group, description=info.description,
                   backend=info.backend, device=key.device,
                   ranks=(key.source, key.destination), agreed=min(ends[key]),
                   bands=tuple(bands), channel=(key.source, key.destination, key.tag))
        )  # fmt: skip
    return found, len(long)


def _packed(
    case: Case, key: StreamKey, sides: Sequence[_Side], room: int
) -> tuple[list[Band], list[int]]:
    """Return the bands of a stream, and the ranks with room for only a part of their calls."""
    bands: list[Band] = []
    left: list[int] = []
    marks = [d.seq for d in case.comparison.divergences if d.stream == key]
    packer = Packer(array("i"))
    for side in sides:
        calls = side.calls
        codes = packer.pack(calls) if len(bands) < _MOST_BANDS else ()
        if len(codes) > room:
            left += side.ranks
            calls = _calls_near(side, marks)
            codes = packer.pack(calls) if room > -_MOST_CODES else ()
        room -= len(codes)
        if not bands:
            packer = Packer(calls)
        bands.append(_band(case, key, side, codes))
    return bands, sorted(left)


def _calls_near(side: _Side, marks: Sequence[int]) -> array[int]:
    """Return a rank's calls near divergences, and its last ones; other calls as unread."""
    calls = array("i", bytes(4 * len(side.calls)))
    for seq in (*marks, side.last):
        start, stop = max(0, seq - _WINDOW), seq + _WINDOW
        calls[start:stop] = side.calls[start:stop]
    return calls


def _band(case: Case, key: StreamKey, side: _Side, codes: tuple[int, ...]) -> Band:
    done: Counter[int] = Counter()
    times = []
    for rank in side.ranks:
        log = case.evidence.logs[rank]
        watermark = log.dones.get(key)
        done[watermark.seq if watermark is not None else 0] += 1
        call = log.call(key, side.last)
        if call is not None:
            times.append(case.clocks.when(rank, call.t))
    return Band(
        ranks=side.ranks,
        last=side.last,
        done=min(done, default=0),
        codes=codes,
        t=(min(times), max(times)) if times else None,
    )
