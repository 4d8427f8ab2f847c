"""Where the sides of a candidate parted in their programs before they did on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from collectrace.align.judging import intervals, sisters
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.one_loop import part_in_one_loop
from collectrace.align.matching import habit, parting
from collectrace.align.matching.parting import Parting
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import RankLog, StreamKey
from collectrace.findings import KINDS, Side


@once
def parted(case: Case, candidate: Candidate) -> Parting | None:
    """The first row before a candidate's at which its sides were at different lines.

    One rank stands for each side: of the smallest and of the largest that came, or of those that
    did not come and those that did.
    """
    return _find(case, candidate, 0)


def _find(case: Case, candidate: Candidate, further: int) -> Parting | None:
    """The same, looking so many rows further."""
    stream, seq, logs = candidate.stream, candidate.seq, _logs(case, candidate)
    if stream is None or seq is None or logs is None:
        return None
    return parting.find(*logs, stream, seq + further)


def _logs(case: Case, candidate: Candidate) -> tuple[RankLog, RankLog] | None:
    """Those of the ranks that stand for the sides."""
    sides = sorted((side for side in candidate.sides if side.ranks), key=lambda s: len(s.ranks))
    if KINDS[candidate.what].family != "call" or len(sides) < 2:
        return None
    one, two = (case.log(side.ranks[0]) for side in (sides[0], sides[-1]))
    return (one, two) if one is not None and two is not None else None


@once
def passed_by(case: Case, candidate: Candidate) -> Parting | None:
    """The first row at which a side was at a line of its own, and the other at one of both.

    Also where they were together again before the candidate's row: see :func:`parting.passing`.
    """
    stream, seq, logs = candidate.stream, candidate.seq, _logs(case, candidate)
    if stream is None or seq is None or logs is None:
        return None
    return parting.passing(*logs, stream, seq)


@once
def parted_here(case: Case, candidate: Candidate) -> Parting | None:
    """The same where they part at a candidate's own row: it brought the sides to one line before.

    None where they were apart already, or have always come to that place from lines of their own.
    """
    found = _find(case, candidate, 1)
    return found if found is not None and found.seq == candidate.seq else None


@once
def have_met(case: Case, candidate: Candidate) -> bool:
    """Whether the two sides of a row have come to a row before from the very lines of this one."""
    sides = [(side.ranks[0], side.stack) for side in candidate.sides if side.call is not None]
    if len(sides) != 2 or not all(stack for _, stack in sides):
        return False
    here = [stack for _, stack in sides]
    rows = case.met([rank for rank, _ in sides], candidate.stream, candidate.seq)
    return any([stack for _, stack in row] == here for row in rows)


def around(case: Case, side: Side) -> Sequence[str]:
    """The statements around a side's call, as ``number text``; empty where that is not known.

    In a project where a helper makes the calls these are those around the helper's caller.
    """
    return case.statements(side.call.site if side.call is not None else None)


def alone_in_loop(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The ranks that are at a line to which no rank ever came, in the loop that the others are in.

    The others are where they have been before. A line behind the loop would prove nothing: then
    the loop may have ended too early on one side, or too late on the other; nor one that is come to
    at intervals.
    """
    stream, seq = candidate.stream, candidate.seq
    called = [side for side in candidate.sides if side.call is not None]
    if stream is None or seq is None or len(called) != 2 or candidate.absent or candidate.unknown:
        return ()
    logs = [case.log(rank) for rank in case.comparison.streams.get(stream, ())]
    if any(log is None or not log.scanned or parting.has_lost(log) for log in logs):
        return ()
    sites = {site for log in logs if log is not None for site in _sites(log, stream, seq)}
    found = []
    for side, others in (called, called[::-1]):
        mine, theirs = (s.call.site if s.call is not None else None for s in (side, others))
        if mine in sites or theirs not in sites or not _is_usual(logs, stream, seq, theirs):
            continue
        if _are_in_one_loop(case, side, others):
            if intervals.decides(case, _frames(side), _frames(others)):
                return ()
            found.append(side)
    if any(s.call and sisters.voted(case, candidate, s.call) for s in found):
        return ()  # ranks of other groups were there
    return tuple(sorted(found[0].ranks)) if len(found) == 1 else ()


def _is_usual(
    logs: Sequence[RankLog | None], stream: StreamKey, seq: int, site: str | None
) -> bool:
    """Whether all ranks had come to a line in several turns: in the first ones all is new."""
    for log in logs:
        if log is not None:
            made, known = _before(log, stream, seq), log.rows(stream)[0].vocabulary.appearances
            there = {n for n in set(made) if known[n].site == site}
            if sum(1 for _ in islice((n for n in made if n in there), habit.ENOUGH)) < habit.ENOUGH:
                return False
    return True


def _are_in_one_loop(case: Case, side: Side, others: Side) -> bool:
    """Whether a side's line, or that of its caller, is in the innermost loop around the others'.

    That of a caller only of one rank, by conditions alone that do not ask for it: else others may
    have a part of their own for that.
    """
    if calls_in_one_loop(case, side, others):
        return True
    mine, theirs = side.stack or (), others.stack or ()
    if len(side.ranks) > 1 or not part_in_one_loop(case, mine, theirs):
        return False
    apart = [chains.site(frame) for frame in mine[: len(mine) - chains.shared(mine, theirs)]]
    conditions = [(n, line) for n in apart for line in statements.branches(case.statements(n))]
    return (
        bool(conditions)
        and not any(statements.tells_ranks_apart(case.spelled_out(*one)) for one in conditions)
        and not any(case.ways(site) for site in apart)
    )


def is_kept_out(case: Case, side: Side, others: Sequence[Side]) -> bool:
    """Whether by what is written of a condition of its own a side could not be under it.

    Then a name in it has been given something else, and which side's is wrong is not known.
    """
    foreign = {line for other in others for _, line in case.branches(_frames(other))}
    return any(
        line not in foreign and case.keeps_out(site, line[1], side.ranks)
        for site, line in case.branches(_frames(side))
    )


def _frames(side: Side) -> Sequence[str]:
    """The user's frames above a side's call; its line, where they are not known."""
    return side.stack or ((side.call.site or "",) if side.call is not None else ())


def _sites(log: RankLog, stream: StreamKey, before: int) -> set[str]:
    """The lines from which a rank issued the calls before a row."""
    known = log.rows(stream)[0].vocabulary.appearances
    return {known[n].site for n in set(_before(log, stream, before))}


def _before(log: RankLog, stream: StreamKey, row: int) -> Sequence[int]:
    """How a rank's calls before a row look, as ids of the vocabulary."""
    rows, shift = log.rows(stream)
    return rows.appearance[: rows.position(row - shift)]


def calls_in_one_loop(case: Case, side: Side, others: Side) -> bool:
    """Whether the innermost loop around one call's own line is around the other's, too."""
    mine, theirs = around(case, side), around(case, others)
    sites = [s.call.site.rpartition(":")[0] for s in (side, others) if s.call and s.call.site]
    loop = statements.innermost_loop(theirs)
    return len(set(sites)) == 1 and loop is not None and loop in mine[:-1]


def extra_makers(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The ranks that alone made calls which the others never made, and went on as those after it.

    Proof enough where as many ranks stand on one side as on the other: calls from a place that
    no other rank ever came to, and behind them the same program, moved by their number. Not where
    they are made at intervals: the others may come there at other times.
    """
    found = parted(case, candidate)
    if found is None or found.extra is None or not found.extra.is_alone:
        return ()
    stacks = {r: case.stack(r, call) for r, call in zip(found.ranks, found.calls, strict=True)}
    others = next((stack for rank, stack in stacks.items() if rank != found.extra.rank), ())
    if intervals.decides(case, stacks.get(found.extra.rank, ()), others):
        return ()
    side = next((s for s in candidate.sides if found.extra.rank in s.ranks), None)
    return tuple(sorted(side.ranks)) if side is not None else ()
