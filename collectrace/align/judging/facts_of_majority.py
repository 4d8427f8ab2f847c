"""Evidence from what most ranks did, in the group or in groups of the same kind; its vetoes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from collectrace import ops
from collectrace.align.code.origins import Origin
from collectrace.align.judging import departures, sisters, threads
from collectrace.align.judging.absence import never_created
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.evidence import Evidence, sites_of
from collectrace.align.judging.exchanged import changed_senders, size_exchange
from collectrace.align.judging.facts_of_code import between
from collectrace.align.judging.own_number import by_own_number
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading.evidence import GroupConflict
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.roles import is_apart_from_ddp, shadows_framework
from collectrace.signature import is_user, program_text

_MOST: Final = 64
"""Calls that ranks may make in different orders."""

_MOST_BARRIERS: Final = 4
"""Barriers that may lie between: they carry no data."""


def _called(candidate: Candidate) -> list[Side]:
    return [side for side in candidate.sides if side.call is not None]


def _all_but(candidate: Candidate, right: Side) -> tuple[int, ...]:
    return tuple(sorted(r for side in _called(candidate) if side is not right for r in side.ranks))


def outvoted(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that called something else than most ranks of the group, or than sister groups."""
    source, called = candidate.source, _called(candidate)
    if candidate.what == "missing_call" or not isinstance(source, Divergence):
        return
    if source.gap is not None or source.attribute == "split":
        return
    size = len(candidate.group.ranks) if candidate.group is not None else 0
    right = next((side for side in called if 2 * len(side.ranks) > size), None)
    if right is not None:
        yield Evidence("outvoted", _all_but(candidate, right))
        return
    right = sisters.side_of_sisters(case, candidate, called)
    if right is not None:
        yield Evidence("unlike_sister_groups", _all_but(candidate, right))


def intruding(case: Case, candidate: Candidate) -> Iterator[Evidence]:  # noqa: ARG001
    """Find ranks that made their own call where ``join()`` shadows the calls of others."""
    called = _called(candidate)
    calls = [(side, side.call) for side in called if side.call is not None]
    strange = [side for side, call in calls if is_apart_from_ddp(call.role)]
    if any(shadows_framework(call.role) for _, call in calls):
        yield Evidence("call_within_join", tuple(sorted(r for s in strange for r in s.ranks)))


def fewer(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the minority: either the ranks that finished without a call, or those that made it.

    Ranks without evidence count for both sides.
    """
    if candidate.what != "missing_call" or not candidate.absent:
        return
    if any(case.standings[rank].state != "finished" for rank in candidate.absent):
        return
    absent, present, unknown = candidate.absent, candidate.present, len(candidate.unknown)
    for some, more in ((absent, present), (present, absent)):
        if len(some) + unknown < len(more):
            yield Evidence("fewer_finished", tuple(sorted(some)))


def of_kind(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that left the program that most ranks of the same kind continued."""
    found = departures.from_kind(case, candidate)
    if found is not None:
        sites = sites_of(found.calls)
        yield Evidence("left_program_of_kind", found.ranks, sites, found)


def asked_otherwise(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that created another group than more than half of the ranks concerned."""
    source = candidate.source
    if not isinstance(source, GroupConflict) or source.own or never_created(case, candidate):
        return
    variants = [ranks for ranks, _ in source.variants]
    everybody = sorted(rank for ranks in variants for rank in ranks)
    right = next((ranks for ranks in variants if 2 * len(ranks) > len(everybody)), None)
    if right is not None:
        yield Evidence("asked_otherwise", tuple(r for r in everybody if r not in right))


def sizes(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks with sizes of an all_to_all that do not match."""
    source = candidate.source
    if not isinstance(source, Divergence) or source.attribute != "split" or source.gap is not None:
        return
    pairs = source.bad_pairs
    yield Evidence("sizes_changed", changed_senders(case, candidate))
    common = set.intersection(*map(set, pairs)) if pairs else set()
    # If sizes were exchanged, a receiver is not to blame: with a capacity several senders may have
    # dropped elements for it.
    receives = not any(sender in common for sender, _ in pairs) and size_exchange(case, candidate)
    if len(common) == 1 and not receives:
        yield Evidence("in_every_pair", tuple(common))


# -- vetoes ----------------------------------------------------------------------------------


def _all(candidate: Candidate) -> tuple[int, ...]:
    group = candidate.group
    return tuple(sorted({*candidate.ranks, *(group.ranks if group is not None else ())}))


def own_number(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Protect ranks that may each have computed a root from their own number."""
    if by_own_number(case, candidate):
        yield Evidence("root_by_own_number", _all(candidate))


def sharing(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Protect ranks that use one group from several threads."""
    found = threads.sharing_threads(case, candidate)
    if found:
        yield Evidence("threads_share_group", _all(candidate), (), found)


def permuted(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Protect ranks that make the same calls from here on, in more orders than there are sides.

    Ranks that agree in this call disagree in the next ones.
    """
    stream, seq = candidate.stream, candidate.seq
    if stream is None or seq is None or candidate.absent or candidate.unknown:
        return
    # A failed call ends what is compared of its rank, and that moment is its own.
    failed = {rank for rank in candidate.ranks if case.failed(rank, stream)}
    alike = case.alike([rank for rank in candidate.ranks if rank not in failed], stream)
    texts = {rank: _texts(case, rank, candidate) for rank in (*(a[0] for a in alike), *failed)}
    both = min(map(len, texts.values()), default=0)
    for count in range(2, min(both, _MOST) + 1):
        orders = {tuple(text[:count]) for text in texts.values()}
        if len({frozenset(Counter(order).items()) for order in orders}) == 1:
            rest = {tuple(text[count:both]) for text in texts.values()}
            if len(orders) > len(_called(candidate)) and len(rest) == 1:
                yield Evidence("same_calls_in_other_orders", _all(candidate))
            return


def _texts(case: Case, rank: int, candidate: Candidate) -> Sequence[str]:
    """Return the calls of a rank from a call on, until one of them failed."""
    log, seq, stream = case.log(rank), candidate.seq, candidate.stream
    if log is None or seq is None or stream is None:
        return ()
    failed = [done.t for done in case.failed(rank, stream) if done.seq >= seq]
    last = min(seq + 2 * _MOST, log.last_seq.get(stream, seq) + 1)
    calls: Sequence[Call | None] = log.calls(stream, seq, last)
    end = min(failed, default=None)
    known = (call for call in calls if call is not None and (end is None or call.t <= end))
    return [program_text(call) for call in known]


def at_the_root(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Protect all ranks but the root of a collective if its result decided their next step.

    ``reduce`` and ``gather`` give the result only to the root; the others used what they held.
    """
    if not isinstance(candidate.source, Divergence) or not candidate.ranks:
        return
    rank = candidate.ranks[0]
    before = case.before(rank, candidate.stream, candidate.seq, _MOST_BARRIERS)
    call = next((c for c in reversed(before) if c is None or c.op not in ops.BARRIERS), None)
    if call is None or call.op not in ops.TO_ROOT or call.root is None or not is_user(call):
        return
    _, decisions = between(case, candidate)
    if decisions and all(Origin.ROOT in one.origins for one in decisions):
        site = f"{decisions[0].site.path}:{decisions[0].site.line}"
        protected = tuple(one for one in _all(candidate) if one != call.root)
        yield Evidence("root_alone_had_value", protected, (site,), decisions[0])
