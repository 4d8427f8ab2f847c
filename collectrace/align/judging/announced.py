"""What a rank was told since some call of it, and may have gone by in what it did next.

How much to exchange, or whether to, may be told in a few elements of any dtype, in numbers of any
count, or in what had never come before.
"""

from __future__ import annotations

import ast
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from collectrace import ops
from collectrace.align.code.graph import called_name
from collectrace.align.judging.case import Case
from collectrace.align.matching import programs
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.align.reading.rows import Rows
from collectrace.records import Call
from collectrace.signature import is_user, numel

_STORE: Final = frozenset({"get", "set", "add", "wait", "check", "multi_get"})
"""Methods of a store that tell others something, or wait for it."""
_FEW: Final = 8
"""Elements of a message that may tell one rank what to exchange."""


class Told(NamedTuple):
    """Calls of one kind that a rank made between two others."""

    key: programs.Key
    call: Call
    """An example."""
    where: tuple[str, ...]
    """The user's frames from the call outwards."""
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
        sizes = Counter(place for place, _ in kinds)
        for place, meaning in kinds:
            at, call = places.index(place), rows.vocabulary.examples[meaning]
            yield Told(
                key, call, place[1],
                is_new=at >= begun, is_of_one_size=sizes[place] == 1,
            )  # fmt: skip


def was_told(case: Case, rank: int, until: Call | None = None) -> bool:
    """Whether a rank got what may tell of an order: numbers, or a few elements from a root.

    Before a call, or ever. Messages are what it works on, and so are sums. True if its log is not
    there.
    """
    log, groups = case.log(rank), case.comparison.groups
    if log is None:
        return True
    for told in between(log, end=offset_of(log, until) if until is not None else sys.maxsize):
        if not came_to(rank, told) or not is_user(told.call):
            continue
        if carries_numbers(told.call):
            return True
        is_of_all = not isinstance(told.key, ChannelKey) and told.call.op != "all_reduce"
        if is_of_all and may_tell(told._replace(is_new=False), groups[told.key.group].ranks):
            return True
    return False


def may_be_by_store(case: Case, rank: int) -> bool:
    """Whether a file that a rank ran uses a store, by which ranks tell what no record has."""
    paths = {chains.file(frame) for frame in case.frames}
    files = (case.program.files.file(rank, path) for path in paths)
    return any(
        isinstance(one, ast.Call)
        and called_name(one) in _STORE
        and called_name(getattr(one.func, "value", one)).lower().endswith("store")
        for file in files
        if file is not None
        for one in ast.walk(file.tree)
    )


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


def _is_sum_of_one(call: Call) -> bool:
    """Whether it gives all ranks one and the same number, as a loss."""
    return call.op == "all_reduce" and numel(call.shape) == [1]
