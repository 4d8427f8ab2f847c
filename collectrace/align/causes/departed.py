"""How a rank of a wait cycle, or at an end of a message, departed from what it usually does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from collectrace.align.causes.situation import Situation
from collectrace.align.deciding import habits, timeline
from collectrace.align.deciding.timeline import Entry
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case
from collectrace.align.judging.departures import Against, Departure, What
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.matching.deviations import Deviation
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import ChannelKey, StreamKey
from collectrace.ops import ANY_SOURCE
from collectrace.records import Call

Key = StreamKey | ChannelKey

_MOST: Final = 64
"""Calls that one departure is about."""

_WHAT: Final[Mapping[str, What]] = {
    "missing": What.SKIPPED, "extra": What.EXTRA, "swapped": What.SWAPPED,
    "other group": What.OTHER_ARGUMENTS, "ended": What.ENDED, "longer": What.MORE_ITERATIONS,
}  # fmt: skip


def find(situation: Situation) -> Departure | None:
    """Return the departure that led to a finding; None: no rank is seen to have departed.

    Of several that of a suspect, then the one between whose sides the statements decided.
    """
    verdict = situation.candidate.verdict
    for row in verdict.evidence if verdict is not None else ():
        if isinstance(row.shown_by, Departure):
            return row.shown_by
    of_kind = _of_kind(situation)
    if of_kind is not None:
        return of_kind
    own = list(_own(situation))
    if situation.suspects:
        found = _out_of_step(situation) or _of_suspects(situation, own)
        found = found or _across(situation) or _awaited(situation)
        return replace(found, ranks=situation.suspects) if found is not None else None
    return _in_tie(situation, own)


def _out_of_step(situation: Situation) -> Departure | None:
    """Return the call of others that met another call of the suspects before, and fitted it."""
    case, suspects = situation.case, set(situation.suspects)
    for key, _ in _places(situation):
        for one in case.comparison.other_lines:
            sides = {line.site: line.ranks for line in one.lines}
            others = [ranks for ranks in sides.values() if not suspects & {*ranks}]
            if not isinstance(key, StreamKey) or one.group != key.group or len(sides) != 2:
                continue
            call = case.call(others[0][0], key, one.seq) if len(others) == 1 else None
            if call is not None and any(c and c.site == call.site for c in _waiting(situation)):
                return Departure(
                    What.SKIPPED, Against.OTHERS, situation.suspects, others[0], key, one.seq,
                    (call,),
                )  # fmt: skip
    return None


def _of_suspects(situation: Situation, own: Sequence[Departure]) -> Departure | None:
    """Return how a suspect departed; None if it skipped other calls than those that others make."""
    awaited = {call.site for call in _waiting(situation) if call is not None and call.peer is None}
    for one in own:
        if not {*one.ranks} <= {*situation.suspects}:
            continue
        made = {entry.stack[0] for entry in _made(situation.case, one.ranks[0]) if entry.stack}
        is_known = {chains.site(frame) for frame in made} & awaited
        skipped = {call.site for call in one.calls}
        if one.what is not What.SKIPPED or one.calls[0].peer is not None or not is_known:
            return one
        if skipped & awaited:
            return one
    return None


def _awaited(situation: Situation) -> Departure | None:
    """Return that suspects wait in a message that the others do not make, or skipped theirs."""
    calls = dict(zip(situation.candidate.cycle, _waiting(situation), strict=False))
    mine = [call for edge, call in calls.items() if edge.waiting.rank in situation.suspects]
    for edge, call in calls.items():
        if edge.target[0] in situation.suspects and call is not None:
            if call.peer is None and mine and mine[0] is not None and mine[0].peer is not None:
                return Departure(
                    What.EXTRA, Against.OTHERS, situation.suspects, (edge.waiting.rank,),
                    calls=(mine[0],),
                )  # fmt: skip
            return Departure(
                What.SKIPPED, Against.OTHERS, situation.suspects, (edge.waiting.rank,),
                calls=(_other_end(call, edge.waiting.rank),),
            )  # fmt: skip
    return None


def _other_end(call: Call, rank: int) -> Call:
    """Return the call that another rank lacks: of a message its other end."""
    if call.peer is None:
        return call
    op = "send" if call.op == "recv" else "recv"
    return replace(call, op=op, api=None, peer=rank, site=None, stack=None)


def _waiting(situation: Situation) -> list[Call | None]:
    """Return the calls in which the ranks of a cycle wait."""
    return [waited_for(situation.case, edge.waiting) for edge in situation.candidate.cycle]


def _in_tie(situation: Situation, own: Sequence[Departure]) -> Departure | None:
    """Return the only departure after which others wait for what the rank usually did.

    What several ranks did alike is none.
    """
    keys = {key for key, _ in _places(situation)}
    sites = Counter(one.expected[0].site for one in own if one.expected)
    found = [
        one
        for one in own
        if one.expected and _key(one.expected[0], one.ranks[0]) in keys
        if sites[one.expected[0].site] == 1
    ]
    pair = situation.pair
    decided = [one for one in found if pair is not None and one.ranks[0] in pair.ranks]
    return next(iter(decided or found), None)


def _key(call: Call, rank: int) -> Key:
    """Return the stream or channel of a rank's call."""
    if call.peer is None:
        return StreamKey(call.group, call.device)
    ends = (rank, call.peer) if call.op == "send" else (call.peer, rank)
    return ChannelKey(call.group, call.device, *ends, call.tag or 0)


def _of_kind(situation: Situation) -> Departure | None:
    """Return how ranks left the program that most ranks of their kind went on with."""
    places = _places(situation)
    for one in situation.case.deviations:
        if set(one.ranks) != set(situation.suspects):
            continue
        if any(seq >= rows.get(key, seq + 1) for rows in one.rows.values() for key, seq in places):
            return _told(one)
    return None


def _told(one: Deviation) -> Departure:
    calls, expected = one.calls, ()
    if one.what == "other group":
        calls, expected = one.calls[:1], one.calls[1:]
    return Departure(
        _WHAT[one.what], Against.OTHERS, one.ranks, one.others, calls=calls, expected=expected
    )


def _places(situation: Situation) -> list[tuple[Key, int]]:
    """Return the streams and channels of a finding, each with the call that is awaited there."""
    candidate = situation.candidate
    if isinstance(candidate.source, ChannelIssue):
        return [(candidate.source.channel, candidate.source.seq)]
    waits = (edge.waiting for edge in candidate.cycle)
    found = ((w.channel or w.stream, w.seq or 0) for w in waits)
    return [(key, seq) for key, seq in found if key is not None]


def _across(situation: Situation) -> Departure | None:
    """Return how suspects departed from ranks that run the same code, if the records show it."""
    both, pair = situation.difference, situation.pair
    if both is None or pair is None or pair.is_of_one_rank:
        return None
    for one, other in (both, both[::-1]):
        if one.rank in situation.suspects and one.what in ("skipped", "extra"):
            maker = other.rank if one.what == "skipped" else one.rank
            calls = tuple(filter(None, (_like(situation.case, maker, p) for p in one.places)))
            if calls:
                what = What.SKIPPED if one.what == "skipped" else What.EXTRA
                return Departure(
                    what, Against.OTHERS, situation.suspects, (other.rank,), calls=calls
                )
    return None


def _like(case: Case, rank: int, place: tuple[str, tuple[str, ...]]) -> Call | None:
    """Return the last call of a rank from a place."""
    made = _made(case, rank)
    return next((_call(case, rank, e) for e in reversed(made) if e.place == place), None)


def _own(situation: Situation) -> Iterator[Departure]:
    """Return how ranks departed from their own earlier iterations, those first that are awaited."""
    case, candidate = situation.case, situation.candidate
    awaited: list[tuple[int, Key]] = []
    if isinstance(candidate.source, ChannelIssue):
        channel = candidate.source.channel
        awaited += [(rank, channel) for rank in candidate.absent]
    for edge, (key, _) in zip(candidate.cycle, _places(situation), strict=False):
        awaited.append((edge.target[0], key))
    awaited += [(rank, key) for rank in situation.suspects for key, _ in _places(situation)]
    seen = set()
    for rank, key in awaited:
        found = departure(case, rank, key)
        if found is not None and rank not in seen:
            seen.add(rank)
            yield found
    for edge in candidate.cycle:
        made = _made(case, edge.waiting.rank)
        if made and edge.waiting.rank not in seen and _is_new(made):
            found = _extra(case, edge.waiting.rank, made, len(made) - 1)
            if found is not None:
                yield found


def _is_new(made: Sequence[Entry]) -> bool:
    """Whether a rank's last call is its first from that place, and it had repeated others."""
    places = [one.place for one in made]
    return places[-1] not in places[:-1] and len(set(places)) < len(places) - 1


def departure(case: Case, rank: int, key: Key) -> Departure | None:
    """Return how a rank that others wait for departed from its own earlier iterations."""
    if isinstance(key, ChannelKey) and rank != key.destination:
        key = key._replace(source=rank)
    made = _made(case, rank)
    last = max((n for n, one in enumerate(made) if one.key == key), default=-1)
    found = habits.departure(made, last, key) if last >= 0 else None
    if found is None:
        return None
    at, usual = found
    did, earlier = made[at + 1], made.index(usual)
    now, before = made[at + 1 :][:_MOST], made[earlier : earlier + _MOST]
    resumed = _index(now, usual)
    is_new = did.place not in [one.place for one in made[: at + 1]]
    if is_new or (resumed is not None and _index(before, did) is None):
        return _extra(case, rank, made, at + 1, resumed, usual)
    skipped = _due(case, rank, before[: _index(before, did) or 1])
    if not skipped:
        return _extra(case, rank, made, at + 1, resumed, usual)
    return _departure(case, What.SKIPPED, rank, made, at, skipped, usual)


def _due(case: Case, rank: int, entries: Sequence[Entry]) -> list[Entry]:
    """Return those calls that others have made, or asked for, and a rank has not."""
    left: dict[Key, int] = {}
    found = []
    for one in entries:
        left.setdefault(one.key, _ahead(case, rank, one.key))
        if left[one.key] > 0:
            found.append(one)
            left[one.key] -= isinstance(one.key, ChannelKey)
    return found


def _ahead(case: Case, rank: int, key: Key) -> int:
    """Return how many calls of a stream or channel others have made more than a rank."""
    log = case.log(rank)
    if log is None:
        return 0
    if isinstance(key, StreamKey):
        logs = (case.log(r) for r in case.comparison.streams.get(key, ()))
        return max(one.last_seq.get(key, 0) for one in logs if one) - log.last_seq.get(key, 0)
    peer = case.log(key.source + key.destination - rank) if key.source >= 0 else None
    if peer is None or key._replace(source=ANY_SOURCE) in peer.last_channel_seq:
        return 1
    made = (one.last_channel_seq.get(key, 0) + one.taken(key) for one in (peer, log))
    return next(made) - next(made)


def _extra(
    case: Case,
    rank: int,
    made: Sequence[Entry],
    first: int,
    count: int | None = None,
    usual: Entry | None = None,
) -> Departure | None:
    usual = usual or next((made[n + 1] for n in habits.alike(made, first - 1)), None)
    stop = first + count if count is not None else len(made)
    return _departure(case, What.EXTRA, rank, made, first - 1, made[first:stop], usual)


def _departure(
    case: Case,
    what: What,
    rank: int,
    made: Sequence[Entry],
    at: int,
    calls: Sequence[Entry],
    usual: Entry | None,
) -> Departure | None:
    known = tuple(filter(None, (_call(case, rank, one) for one in calls)))
    expected = _call(case, rank, usual) if usual is not None else None
    if not known:
        return None
    alike = 0
    if usual is not None:
        alike = sum(made[n + 1].place == usual.place for n in habits.alike(made, at))
    others = _others(case, rank, calls[0], more=what is What.SKIPPED)
    return Departure(
        what, Against.OWN, (rank,), others, key=calls[0].key, calls=known,
        expected=(expected,) if expected is not None else (), alike=alike,
    )  # fmt: skip


def _others(case: Case, rank: int, entry: Entry, *, more: bool) -> tuple[int, ...]:
    """Return who made a call of a place more often than a rank; else who made it less often."""
    counts = {
        other: sum(one.place == entry.place for one in _made(case, other))
        for other in list(case.evidence.logs)[:_MOST]
    }
    mine = counts.pop(rank, 0)
    if more:
        return tuple(sorted(other for other, n in counts.items() if n > mine))
    return tuple(sorted(other for other, n in counts.items() if n < mine))


def _index(those: Sequence[Entry], wanted: Entry) -> int | None:
    """Return how many calls come before one from the same place and stream; None: it is none."""
    for n, one in enumerate(those):
        if (one.place, one.key) == (wanted.place, wanted.key):
            return n or None
    return None


def _made(case: Case, rank: int) -> list[Entry]:
    """Return the calls of a rank's main thread."""
    log = case.log(rank)
    return [one for one in timeline.before(log) if not one.beside] if log is not None else []


def _call(case: Case, rank: int, entry: Entry) -> Call | None:
    log = case.log(rank)
    if log is not None and isinstance(entry.key, ChannelKey):
        return log.channel_call(entry.key, entry.seq)
    return case.call(rank, entry.key, entry.seq) if isinstance(entry.key, StreamKey) else None
