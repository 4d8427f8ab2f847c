"""Find the two sides of a finding: their last common call, and what each did next.

The sides are usually two ranks. The ends of a message, and ranks that wait for each other, run
different code by design. There a rank is compared with its own earlier iteration, and with ranks
that run the same code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple

from collectrace import findings
from collectrace.align.code.between import Finished, Raised, Side
from collectrace.align.code.places import Site
from collectrace.align.code.program import Stack
from collectrace.align.deciding import frames, timeline
from collectrace.align.deciding.endings import find_ending
from collectrace.align.deciding.habits import earlier_same_calls, find_departure
from collectrace.align.deciding.timeline import Entry
from collectrace.align.judging import departures, places
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.departures import Departure, What
from collectrace.align.judging.other_ends import other_ends
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.ranks.standing import Waiting
from collectrace.align.reading.evidence import ChannelKey, GroupConflict, StreamKey
from collectrace.records import Call, Group

_MOST_PEERS: Final = 2
"""Ranks that a rank is compared with, most similar first."""

_MOST_GAPS: Final = 3
"""Latest calls of a rank after which a message that it never sent is sought."""

_MOST_ENDS: Final = 16
"""Messages between other ranks that show where such a message is made."""

_MOST_RANKS: Final = 16
"""Ranks of a long wait cycle that are examined, and ranks among which similar ones are searched."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides, and the earlier calls of each."""

    one: Side
    two: Side
    made: tuple[Sequence[Entry], Sequence[Entry]]
    """By side, the calls in program order, up to the last one that both made."""
    times: tuple[int | None, int | None]
    """By side, when it made its next call, ns of its clock; None: it made none."""
    about: frozenset[Site] | None = None
    """The conditions of a line that the first side never reached, or not in that iteration; None:
    its next call differs."""

    @property
    def ranks(self) -> tuple[int, int]:
        """The ranks of both sides."""
        return self.one.rank, self.two.rank

    @property
    def is_of_one_rank(self) -> bool:
        """Whether a rank is compared with itself."""
        return self.one.rank == self.two.rank

    @property
    def is_skipped(self) -> bool:
        """Whether the first side never reached the line of the second."""
        return self.about is not None and self.one.stack != self.two.stack

    @property
    def is_first_time(self) -> bool:
        """Whether a rank is compared with itself that never before did what it does next."""
        if not self.is_of_one_rank:
            return False
        stacks = {one.stack for one in self.made[0]}
        return all(frames.parse_stack(stack) != self.one.next for stack in stacks)


class Next(NamedTuple):
    """What a rank did next."""

    where: Stack | Finished | Raised
    call: str = ""
    """The op of that call."""
    t: int | None = None
    """When it made that call, ns of its clock; None: it ended instead."""


def _at(entry: Entry) -> Next | None:
    """Return a call as the next action; None if its stack is not known."""
    stack = frames.parse_stack(entry.stack)
    return Next(stack, entry.place[0], entry.t) if stack else None


Key = StreamKey | ChannelKey


class End(NamedTuple):
    """A rank, and its call in which the sides differ; None: it did not make the call."""

    rank: int
    call: Call | Group | None


def _is_of_other_thread(end: End) -> bool:
    return isinstance(end.call, Call) and end.call.thread is not None


def pairs(case: Case, candidate: Candidate) -> Iterator[Pair]:
    """Yield pairs of sides of a finding, the most informative first."""
    found = _Sides(case)
    source, ends = candidate.source, _ends(case, candidate)
    if not isinstance(source, ChannelIssue | tuple):
        own = sorted(ends or (), key=lambda one: one.rank not in candidate.suspects)
        is_blamed = len(own) == 2 and own[0].rank in candidate.suspects
        if is_blamed and found.usually_differ(*own):
            yield from found.unusual_call(own[0])
        yield from found.across(ends)
        for end in own:
            if end.call is None:
                yield from found.missing_call(end.rank, candidate.stream)
            else:
                yield from found.unusual_call(end)
        yield from found.first_different_line(ends, candidate.stream)
        return
    for row in candidate.verdict.evidence if candidate.verdict is not None else ():
        shown = row.shown_by
        if isinstance(shown, Entry):
            yield from found.after(row.ranks[0], shown)
        elif isinstance(shown, Departure) and shown.what is What.OTHER_CALL and shown.calls:
            yield from found.unusual_call(End(row.ranks[0], shown.calls[0]))
    yield from found.across(_at_one_line(case, candidate))
    for rank, key in _awaited(candidate)[:_MOST_RANKS]:
        yield from found.missing_call(rank, key)
    for side in candidate.sides if isinstance(source, ChannelIssue) else ():
        if side.call is not None:
            yield from found.unusual_call(End(side.ranks[0], side.call))
    yield from found.across(ends)


def across(case: Case, candidate: Candidate) -> Iterator[Pair]:
    """Yield the two sides of a stream or group difference, from their last common call on."""
    yield from _Sides(case).across(_ends(case, candidate))


def _at_one_line(case: Case, candidate: Candidate) -> tuple[End, End] | None:
    """Return a rank that others wait for and one of them, if both wait at one line in two groups.

    Suspects come first. None: there are no such ranks.
    """
    waits: dict[object, Waiting] = {edge.waiting.rank: edge.waiting for edge in candidate.cycle}
    found = [
        (theirs, edge.waiting)
        for edge in candidate.cycle
        for target in edge.target
        if (theirs := waits.get(target)) is not None
        and (theirs.op, theirs.site) == (edge.waiting.op, edge.waiting.site)
        and theirs.group != edge.waiting.group
    ]
    found.sort(key=lambda both: both[0].rank not in candidate.suspects)
    ends = [
        End(one.rank, case.call(one.rank, one.stream, one.seq or 0))
        for one in (found[0] if found else ())
        if one.stream is not None
    ]
    is_known = len(ends) > 1 and not any(_is_stack_lost(case, *end) for end in ends)
    return (ends[0], ends[1]) if is_known else None


def _awaited(candidate: Candidate) -> list[tuple[int, Key]]:
    """Return the ranks that others wait for, with the awaited stream or channel; suspects first."""
    found: list[tuple[int, Key]] = []
    if isinstance(candidate.source, ChannelIssue):
        keys: list[Key | None] = [candidate.source.channel]
        found += [(rank, candidate.source.channel) for rank in candidate.absent]
    else:
        keys = [edge.waiting.channel or edge.waiting.stream for edge in candidate.cycle]
        found += [
            (edge.target[0], key)
            for edge, key in zip(candidate.cycle, keys, strict=True)
            if key is not None
        ]
    found += [(rank, key) for rank in candidate.suspects for key in keys if key is not None]
    found = [(rank, _of_rank(rank, key)) for rank, key in found]
    return sorted(dict.fromkeys(found), key=lambda one: one[0] not in candidate.suspects)


def _of_rank(rank: int, key: Key) -> Key:
    """Return the key with the rank as source, if a message from any rank is awaited."""
    if isinstance(key, ChannelKey) and rank != key.destination:
        return key._replace(source=rank)
    return key


def _ends(case: Case, candidate: Candidate) -> tuple[End, End] | None:
    """Return one rank of each side, with the first call in which the sides differ.

    None if the stack of such a call is lost: any of its callers may have decided.
    """
    found = _differing(case, candidate)
    is_known = found is not None and not any(_is_stack_lost(case, *end) for end in found)
    return found if is_known else None


def _is_stack_lost(case: Case, rank: int, call: Call | Group | None) -> bool:
    return call is not None and call.stack is not None and not case.stack(rank, call)


def _differing(case: Case, candidate: Candidate) -> tuple[End, End] | None:
    first = departures.skipped_iterations(case, candidate)
    if first is not None and candidate.stream is not None:
        ahead = first.ranks[0]
        call = case.call(ahead, candidate.stream, first.seq or 0)
        return End(first.others[0], first.calls[0]), End(ahead, call)
    earlier = places.first_difference(case, candidate)
    if earlier is not None:
        (one, two), (mine, theirs) = earlier.ranks, earlier.calls
        return End(one, mine), End(two, theirs)
    if isinstance(candidate.source, GroupConflict):
        asked = [End(ranks[0], group) for ranks, group in candidate.source.variants if ranks]
        return (asked[0], asked[-1]) if len(asked) > 1 else None

    def is_innocent(side: findings.Side) -> bool:
        return not {*candidate.suspects}.intersection(side.ranks)

    found = (side for side in candidate.sides if side.ranks)
    sides = sorted(found, key=lambda side: (is_innocent(side), len(side.ranks)))
    if len(sides) < 2:
        return None
    rank = sides[0].ranks[0]
    return End(rank, sides[0].call), _Sides(case).most_similar_rank(rank, sides[-1])


class _Sides:
    """Finds pairs of sides in the records of one run."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._known: dict[tuple[int, int | None, bool | None], Sequence[Entry]] = {}

    def across(self, ends: tuple[End, End] | None) -> Iterator[Pair]:
        """Yield the sides of two ranks, from their last common call on."""
        if ends is None:
            return
        # A rank that lacks the call would have made it in the same kind of thread, or would have
        # handed it to such a thread between the calls of its other threads.
        in_thread = any(map(_is_of_other_thread, ends))
        for beside in (True, None) if in_thread else (False,):
            calls = [self._before(end, beside=beside) for end in ends]
            at = _last_common(*calls)
            following = [
                self._made(end.rank, end.call)
                if end.call is not None
                else self._next(end.rank, made, n)
                for end, made, n in zip(ends, calls, at, strict=True)
            ]
            # There may be calls of other groups between the last common call and the end's call.
            direct = all(
                end.call is None or n == len(made) - 1
                for end, made, n in zip(ends, calls, at, strict=True)
            )
            yield from _pair((ends[0].rank, ends[1].rank), calls, at, following, is_direct=direct)

    def first_different_line(
        self, ends: tuple[End, End] | None, stream: StreamKey | None
    ) -> Iterator[Pair]:
        """Yield the sides at the first call of a stream that two ranks made elsewhere."""
        if ends is None:
            return
        calls = [self._before(end) for end in ends]
        rows = [{one.seq: n for n, one in enumerate(made) if one.key == stream} for made in calls]
        for seq in sorted(rows[0].keys() & rows[1].keys()):
            one, two = (row[seq] for row in rows)
            if calls[0][one].place != calls[1][two].place:
                at = _last_common(calls[0][:one], calls[1][:two])
                following = [_at(calls[0][one]), _at(calls[1][two])]
                if min(at) >= 0:  # otherwise they run different code from the start
                    ranks, direct = (ends[0].rank, ends[1].rank), at == (one - 1, two - 1)
                    yield from _pair(ranks, calls, at, following, is_direct=direct)
                return

    def missing_call(self, rank: int, key: Key | None) -> Iterator[Pair]:
        """Yield the sides of a rank that lacks a call: what it did, and what it usually did."""
        made = self._before(End(rank, None))
        last = max((n for n, one in enumerate(made) if one.key == key), default=-1)
        if last >= 0:
            at, usual = find_departure(made, last, key) or (len(made) - 1, made[last])
            following = [self._next(rank, made, at), _at(usual)]
            yield from _pair((rank, rank), (made, made), (at, at), following)
        elif isinstance(key, ChannelKey):
            yield from self._other_end(rank, made, key)
        for peer in self._peers(rank, made):
            yield from self._at_new_place(rank, made, peer)

    def _other_end(self, rank: int, made: Sequence[Entry], key: ChannelKey) -> Iterator[Pair]:
        """Yield the sides of a rank without a message and of one that makes such a message."""
        case, waiter = self._case, key.source + key.destination - rank
        log = case.log(waiter)
        call = log.call(key, log.last_channel_seq.get(key, 0)) if log is not None else None
        found = other_ends(case, key, call, waiter) if call is not None else ()
        ends = {end.rank: end for end in islice(found, _MOST_ENDS)}.values()
        around = [self._around(end.rank, case.stack(end.rank, end.call)) for end in ends]
        for end in ends:
            theirs = self._before(End(*end))
            for n in range(len(made) - 1, max(-1, len(made) - 1 - _MOST_GAPS), -1):
                following = [self._next(rank, made, n), self._made(*end)]
                at = n, len(theirs) - 1
                for pair in _pair((rank, end.rank), (made, theirs), at, following):
                    # The question is why the rank did not go on to that line after its own call.
                    two = replace(pair.two, last=pair.one.last)
                    yield replace(pair, two=two, about=frozenset.intersection(*around))

    def _around(self, rank: int, stack: Sequence[str]) -> frozenset[Site]:
        """Return the conditions on the lines of a stack."""
        return frozenset(
            Site(one.function.file.path, one.line)
            for frame in stack
            for one in places.conditions(self._case, rank, frame)
        )

    def unusual_call(self, end: End) -> Iterator[Pair]:
        """Yield the sides of a rank with a next call that differs from its usual one there."""
        made = self._before(end)
        if end.call is None or not made:
            return
        here = self._made(end.rank, end.call)
        last = len(made) - 1
        key, before = made[last].key, earlier_same_calls(made, last)
        call = (
            self._case.call(end.rank, key, made[last].seq) if isinstance(key, StreamKey) else None
        )
        if call is not None and call.api is not None and last:
            # One of several calls of a function, such as broadcast_object_list: the same of them.
            before = (n for n in before if n and made[n - 1].place == made[last - 1].place)
        usual = next((_at(made[n + 1]) for n in before), None)
        yield from _pair((end.rank, end.rank), (made, made), (last, last), [here, usual])

    def usually_differ(self, end: End, other: End) -> bool:
        """Return whether two ranks usually make the call that one lacks from different lines.

        Then the condition behind these lines held in earlier iterations too, and explains nothing.
        """
        made, theirs = self._before(end), self._before(other)
        if not isinstance(other.call, Call) or not made:
            return False
        here = tuple(self._case.stack(other.rank, other.call))
        rows: dict[tuple[Key, int], Entry] = {
            (one.key, one.seq): one for one in theirs if isinstance(one.key, StreamKey)
        }
        usual = next((made[n + 1] for n in earlier_same_calls(made, len(made) - 1)), None)
        met = rows.get((usual.key, usual.seq)) if usual is not None else None
        return usual is not None and met is not None and met.stack == here != usual.stack

    def after(self, rank: int, entry: Entry) -> Iterator[Pair]:
        """Yield the sides of a rank that deviated after ``entry`` from what it did before."""
        made = self._before(End(rank, None))
        at = next((n for n, one in enumerate(made[:-1]) if one == entry), -1)
        nexts = (_at(made[n + 1]) for n in earlier_same_calls(made, at)) if at >= 0 else ()
        here = _at(made[at + 1]) if at >= 0 else None
        usual = next(
            (one for one in nexts if here is None or (one and one.where != here.where)), None
        )
        yield from _pair((rank, rank), (made, made), (at, at), [here, usual])

    def most_similar_rank(self, rank: int, side: findings.Side) -> End:
        """Return the rank of a side that shares most lines with ``rank``, and its call.

        The ranks of a side may make the call from different lines, as the root of a collective
        does.
        """
        call, first = side.call, End(side.ranks[0], side.call)
        if not isinstance(call, Call) or call.peer is not None:
            return first
        stream = StreamKey(call.group, call.device)
        found = {one: self._case.call(one, stream, call.seq) for one in side.ranks[:_MOST_RANKS]}
        own = {one: made for one, made in found.items() if made is not None}
        if len({self._case.stack(one, made) for one, made in own.items()}) < 2:
            return first
        made = self._before(End(rank, None))
        peer = max(own, key=lambda one: (self._shared_lines(made, one), one != call.root))
        return End(peer, own[peer])

    def _shared_lines(self, made: Sequence[Entry], other: int) -> int:
        """Return how many places of these calls another rank has called from."""
        theirs = {one.place for one in self._before(End(other, None))}
        return len(theirs.intersection(one.place for one in made))

    def _peers(self, rank: int, made: Sequence[Entry]) -> Sequence[int]:
        """Return the ranks that have most call places in common with a rank."""
        alike = {
            other: self._shared_lines(made, other)
            for other in list(self._case.evidence.logs)[:_MOST_RANKS]
            if other != rank
        }
        return sorted((r for r in alike if alike[r]), key=lambda r: -alike[r])[:_MOST_PEERS]

    def _at_new_place(self, rank: int, made: Sequence[Entry], peer: int) -> Iterator[Pair]:
        """Yield the sides of a rank and of a peer that called from a place new to the rank."""
        theirs = self._before(End(peer, None))
        mine = {one.place for one in made}
        known = {(one.key, one.seq): n for n, one in enumerate(made)}
        for n in range(len(theirs) - 1, 0, -1):
            if theirs[n].place in mine:
                continue
            common = (
                (known[one.key, one.seq], m)
                for m, one in reversed(list(enumerate(theirs[:n])))
                if isinstance(one.key, StreamKey) and (one.key, one.seq) in known
            )
            at = next(common, None)
            if at is None:
                return
            at = _last_same_place(made, theirs, *at)
            if at[1] < n:
                following = [self._next(rank, made, at[0]), self._next(peer, theirs, at[1])]
                yield from _pair((rank, peer), (made, theirs), at, following)
                return

    def _before(self, end: End, *, beside: bool | None = False) -> Sequence[Entry]:
        """Return the calls of a rank before the end's call, in the thread that made it.

        ``beside``: use threads other than the main one if the rank made no such call; None: use
        the calls of all threads.
        """
        log = self._case.log(end.rank)
        beside = beside if end.call is None or beside is None else _is_of_other_thread(end)
        key = end.rank, end.call.t if end.call is not None else None, beside
        if key not in self._known and log is not None:
            made = timeline.calls_before(log, key[1])
            self._known[key] = [one for one in made if beside is None or one.beside == beside]
        return self._known.get(key, ())

    def _made(self, rank: int, call: Call | Group) -> Next | None:
        """Return a call as the next action, with only its line if it has no stack.

        None if its stack is lost.
        """
        if _is_stack_lost(self._case, rank, call):
            return None
        stack = frames.parse_stack(self._case.stack(rank, call))
        stack = stack or frames.parse_sites([call.site or ""])
        op = call.op if isinstance(call, Call) else ""
        return Next(stack, op, call.t) if stack else None

    def _next(self, rank: int, made: Sequence[Entry], last: int) -> Next | None:
        """Return what a rank did after its call ``last``: the next call, or how it ended."""
        if last + 1 < len(made):
            return _at(made[last + 1])
        standing = self._case.standings.get(rank)
        found = find_ending(standing) if standing is not None else None
        return Next(found) if found is not None else None


def _last_common(one: Sequence[Entry], two: Sequence[Entry]) -> tuple[int, int]:
    """Return the positions of the last call that both ranks made; -1 if there is none.

    Calls of a common stream match by number. After the last match, calls in any group match by
    place. Without a match, the same place for the same time is one.
    """
    places = {(call.key, call.seq): n for n, call in enumerate(two)}
    for n in range(len(one) - 1, -1, -1):
        there = places.get((one[n].key, one[n].seq))
        if isinstance(one[n].key, StreamKey) and there is not None:
            return _last_same_place(one, two, n, there)
    turns = {turn: n for n, turn in enumerate(_turns(two))}
    return next(
        ((n, turns[turn]) for n, turn in reversed([*enumerate(_turns(one))]) if turn in turns),
        (-1, -1),
    )


def _turns(made: Sequence[Entry]) -> Iterator[tuple[Hashable, int]]:
    """Yield by call its place, and how many calls a rank had made from there."""
    seen: Counter[Hashable] = Counter()
    for one in made:
        seen[one.place] += 1
        yield one.place, seen[one.place]


def _last_same_place(
    one: Sequence[Entry], two: Sequence[Entry], first: int, second: int
) -> tuple[int, int]:
    """Advance both positions past the following calls that both made from the same places."""
    while first + 1 < len(one) and second + 1 < len(two):
        if one[first + 1].place != two[second + 1].place:
            break
        first, second = first + 1, second + 1
    return first, second


def _pair(
    ranks: tuple[int, int],
    calls: Sequence[Sequence[Entry]],
    at: tuple[int, int],
    following: Sequence[Next | None],
    *,
    is_direct: bool = True,
) -> Iterator[Pair]:
    """Yield the pair of sides, unless it is not known what one of them did next.

    ``is_direct``: neither side made another call in between.
    """
    one, two = following
    if one is None or two is None:
        return
    last = [
        frames.parse_stack(made[n].stack) if n >= 0 else ()
        for made, n in zip(calls, at, strict=True)
    ]
    before = calls[0][: at[0] + 1], calls[1][: at[1] + 1]
    first, second = (
        Side(rank, stack, what.where, what.call, is_direct)
        for rank, stack, what in zip(ranks, last, (one, two), strict=True)
    )
    yield Pair(first, second, before, (one.t, two.t))
