"""Find what other ranks may have sent to a rank that explains its next calls.

Sizes and commands can be sent in a few elements of any dtype, in integer tensors of any size, or in
a call that is new.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from collectrace import ops
from collectrace.align.judging.case import Case
from collectrace.align.reading.evidence import ChannelKey, Key, RankLog, key_of
from collectrace.records import Call
from collectrace.signature import is_user, numel

_FEW: Final = 8
"""Most elements of a message that counts as a command or size."""


class EqualCalls(NamedTuple):
    """Equal calls that a rank made between two of its calls."""

    key: Key
    call: Call
    """One of them."""
    where: tuple[str, ...]
    """The user's frames above the call, innermost first."""
    is_new: bool
    """The rank made none of them before."""
    is_of_one_size: bool
    """All calls from that line have the same size; else they may be the parameters of a model."""


def calls_between(log: RankLog, begin: int = -1, end: int = sys.maxsize) -> Iterator[EqualCalls]:
    """Return the distinct calls of a rank between two offsets of its log."""
    for key in log.counts:
        rows, _ = log.rows(key)
        seen, stop = rows.vocabulary.appearances, bisect_left(rows.offset, end)
        begun = bisect_right(rows.offset, begin)
        known = {n: seen[n].place for n in set(rows.appearance[:stop])}
        places = [known[n] for n in rows.appearance[:stop]]
        kinds = dict.fromkeys(zip(places[begun:], rows.meaning[begun:stop], strict=True))
        sizes = Counter(place for place, _ in kinds)
        for place, meaning in kinds:
            at, call = places.index(place), rows.vocabulary.examples[meaning]
            yield EqualCalls(
                key, call, place[1],
                is_new=at >= begun, is_of_one_size=sizes[place] == 1,
            )  # fmt: skip


def may_have_command(case: Case, rank: int, until: Call | None = None) -> bool:
    """Whether a rank got what may be a command: integers, or a few elements from a root.

    Other messages and sums count as data. True if the rank has no log. ``until``: only calls before
    it count; None: all calls.
    """
    log, groups = case.log(rank), case.comparison.groups
    if log is None:
        return True
    for told in calls_between(log, end=offset_of(log, until) if until is not None else sys.maxsize):
        if not brought_data(rank, told) or not is_user(told.call):
            continue
        if carries_numbers(told.call):
            return True
        is_of_all = not isinstance(told.key, ChannelKey) and told.call.op != "all_reduce"
        if is_of_all and may_be_command(told._replace(is_new=False), groups[told.key.group].ranks):
            return True
    return False


def offset_of(log: RankLog, call: Call) -> int:
    """Return the offset of a call in the rank's log; 0 if it was not read."""
    rows, _ = log.rows(key_of(log.rank, call))
    at = rows.find(call.seq)
    return 0 if at is None else rows.offset[at]


def brought_data(rank: int, told: EqualCalls) -> bool:
    """Whether a call brought data from other ranks to a rank."""
    key, call = told.key, told.call
    if isinstance(key, ChannelKey):
        return key.destination == rank
    if call.op in ops.BARRIERS or (call.op in ops.ROOTED and call.root == rank):
        return False
    return call.op not in ops.TO_ROOT


def may_be_command(told: EqualCalls, ranks: Collection[int]) -> bool:
    """Return whether a call may have sent to its receivers what to exchange (see the module).

    Args:
        told: the call.
        ranks: the members of its group; a collective may carry one element for each.

    """
    call = told.call
    if carries_numbers(call):
        return True
    if not is_user(call) or not told.is_of_one_size or _is_sum_of_one(call):
        return False
    few = _FEW if isinstance(told.key, ChannelKey) else max(2 * _FEW, len(ranks))
    return told.is_new or sum(numel(call.out_shape or call.shape)) <= few


def carries_numbers(call: Call) -> bool:
    """Whether a call may carry sizes of tensors, one for each rank."""
    if call.void:
        return True
    if call.op == "barrier" or _is_sum_of_one(call):
        return False
    return call.dtype is None or "int" in str(call.dtype)


def is_small(call: Call) -> bool:
    """Whether a message is small enough to contain only the number of messages that follow."""
    return sum(numel(call.shape)) <= _FEW


def _is_sum_of_one(call: Call) -> bool:
    """Whether it gives all ranks the same single number, such as a loss."""
    return call.op == "all_reduce" and numel(call.shape) == [1]
