"""What a rank was told since some call of it, and may have gone by in what it did next.

How much to exchange, or whether to, may be told in a few elements of any dtype, in numbers of any
count, or in what had never come before.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from collectrace import ops
from collectrace.align.judging.case import Case, once_of
from collectrace.align.matching import programs
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.align.reading.rows import Rows
from collectrace.findings import GroupInfo
from collectrace.records import Call
from collectrace.signature import is_user, numel

_STORE: Final = re.compile(r"\bstore\.(?:get|set|add|wait|check|multi_get)\b", re.IGNORECASE)
_FEW: Final = 8
"""Elements of a message that may tell one rank what to exchange."""


class Told(NamedTuple):
    """Calls of one kind that a rank made between two others."""

    key: programs.Key
    call: Call
    """An example."""
    where: tuple[str, ...]
    """The user's frames from the call outwards."""
    first: int
    """Where in its log the first call lies that it ever made from there."""
    times: int
    """How many it has made from there since then."""
    is_new: bool
    """None of them before those two."""
    is_of_one_size: bool
    """All between the two from that line are of one; else they are a model's parameters, say."""


def between(log: RankLog, begin: int = -1, end: int = sys.maxsize) -> Iterator[Told]:
    """What a rank called between two offsets of its log, one of each kind; or in all of it."""
    for key in programs.keys_of(log):
        rows = rows_of(log, key)
        seen, stop = rows.vocabulary.appearances, bisect_left(rows.offset, end)
        begun = bisect_right(rows.offset, begin)
        known = {n: seen[n].place for n in set(rows.appearance[:stop])}
        places = [known[n] for n in rows.appearance[:stop]]
        kinds = dict.fromkeys(zip(places[begun:], rows.meaning[begun:stop], strict=True))
        sizes, counts = Counter(place for place, _ in kinds), Counter(places)
        for place, meaning in kinds:
            at, call = places.index(place), rows.vocabulary.examples[meaning]
            yield Told(
                key, call, place[1], rows.offset[at], counts[place],
                is_new=at >= begun, is_of_one_size=sizes[place] == 1,
            )  # fmt: skip


def telling(
    log: RankLog, groups: Mapping[str, GroupInfo], since: Call, until: Call
) -> Iterator[Told]:
    """What came to a rank between two calls of it, and may have told it what to exchange."""
    for told in between(log, offset_of(log, since), offset_of(log, until)):
        if came_to(log.rank, told) and may_tell(told, groups[told.key.group].ranks):
            yield told


def may_be_told_since(
    log: RankLog, groups: Mapping[str, GroupInfo], since: Call | None, until: Call
) -> bool:
    """Whether a rank may have gone by a call that ended a round, or by what came to it since.

    True where that call is not known.
    """
    if since is None or (since.op not in ops.BARRIERS and carries_numbers(since)):
        return True
    return next(telling(log, groups, since, until), None) is not None


@once_of
def was_told(case: Case, rank: int) -> bool:
    """Whether a rank ever got what may tell of an order: numbers, or a few elements from a root.

    Messages are what it works on, and so are sums. True where its log is not there.
    """
    log, groups = case.log(rank), case.comparison.groups
    for told in between(log) if log is not None else ():
        if not came_to(rank, told) or not is_user(told.call):
            continue
        if carries_numbers(told.call):
            return True
        is_of_all = not isinstance(told.key, ChannelKey) and told.call.op != "all_reduce"
        if is_of_all and may_tell(told._replace(is_new=False), groups[told.key.group].ranks):
            return True
    return log is None


def may_be_by_store(case: Case) -> bool:
    """Whether a file of the job's uses a store, by which ranks tell what no record has."""
    files = {chains.file(frame) for frame in case.frames}
    return any(_STORE.search(line) for file in files for line in case.code.lines(file))


def rows_of(log: RankLog, key: programs.Key) -> Rows:
    """A rank's rows of a stream or channel."""
    return log.channel_rows(key) if isinstance(key, ChannelKey) else log.rows(key)[0]


def offset_of(log: RankLog, call: Call) -> int:
    """Where a call of a rank lies in its log; 0 where it was not read."""
    key: programs.Key = StreamKey(call.group, call.device)
    if call.op in ops.POINT_TO_POINT and call.peer is not None:
        ends = ops.ends(call.op, log.rank, call.peer)
        key = ChannelKey(call.group, call.device, *ends, call.tag or 0)
    rows = rows_of(log, key)
    at = rows.find(call.seq)
    return 0 if at is None else rows.offset[at]


def came_to(rank: int, told: Told) -> bool:
    """Whether a call brought a rank something of others."""
    key, call = told.key, told.call
    if isinstance(key, ChannelKey):
        return key.destination == rank
    if call.op in ops.BARRIERS or (call.op in ops.ROOTED and call.root == rank):
        return False
    return call.op not in ops.TO_ROOT


def may_tell(told: Told, ranks: Collection[int]) -> bool:
    """Whether a call may have told those that it came to what to exchange: see above.

    Args:
        told: the call.
        ranks: of its group; a collective may tell something of each.

    """
    call = told.call
    if carries_numbers(call):
        return True
    if not is_user(call) or not told.is_of_one_size or _is_sum_of_one(call):
        return False
    few = _FEW if isinstance(told.key, ChannelKey) else max(2 * _FEW, len(ranks))
    return told.is_new or sum(numel(call.out_shape or call.shape)) <= few


def carries_numbers(call: Call) -> bool:
    """Whether a call may tell of the size of something, rank by rank."""
    if call.void:
        return True
    if call.op == "barrier" or _is_sum_of_one(call):
        return False
    return call.dtype is None or "int" in str(call.dtype)


def is_small(call: Call) -> bool:
    """Whether a message has so few elements that they may say how many others follow."""
    return sum(numel(call.shape)) <= _FEW


def is_vector(call: Call) -> bool:
    """Whether a sum may tell ranks apart: of numbers, or of an element or so for each."""
    count = sum(numel(call.shape))
    return carries_numbers(call) or 1 < count <= 2 * _FEW


def _is_sum_of_one(call: Call) -> bool:
    """Whether it gives all ranks one and the same number, as a loss."""
    return call.op == "all_reduce" and numel(call.shape) == [1]
