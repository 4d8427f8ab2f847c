"""Whether the ranks make the same calls from a row on, in other orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.records import Call
from collectrace.signature import program_text

_MOST: Final = 64
"""Calls that a set or a dict may hold."""


@dataclass(frozen=True, slots=True)
class Permuted:
    """The same calls in several orders."""

    calls: tuple[Call, ...]
    """They, in the order of the ranks named first."""
    orders: tuple[tuple[int, ...], ...]
    """The ranks that made them in one order, most ranks first; two orders at least."""


@once
def permuted(case: Case, candidate: Candidate) -> Permuted | None:
    """The same calls in other orders on all ranks of a row; None: they are not, or it is not known.

    Behind them the ranks agree again, or permute the same calls once more. Calls that are merely
    turned, each round alike, are what a rank makes that has left one out of its loop; and where
    some ranks came to the end with one call less, one that they left out explains it as well.
    """
    if candidate.stream is None or candidate.absent or candidate.unknown:
        return None
    if not _may_be(case, candidate) or one_left_out(case, candidate):
        return None
    after = {rank: calls_from(case, rank, candidate) for rank in candidate.ranks}
    texts = {rank: [program_text(call) for call in calls] for rank, calls in after.items()}
    both = min(map(len, texts.values()), default=0)
    for count in range(2, min(both, _MOST) + 1):
        # Of a rank that is a step ahead the calls may fit by chance, and are not these.
        if len({_iterations(calls[:count]) for calls in after.values()}) > 1:
            continue
        if _is_permutation(list(texts.values()), count, both):
            by_order: dict[tuple[str, ...], list[int]] = {}
            for rank, text in texts.items():
                by_order.setdefault(tuple(text[:count]), []).append(rank)
            if len(by_order) < 2:
                return None
            orders = sorted((tuple(ranks) for ranks in by_order.values()), key=len, reverse=True)
            one = orders[0][0]
            if not all(_are_the_same(case, candidate, one, o[0], count) for o in orders[1:]):
                return None
            return Permuted(tuple(after[orders[0][0]][:count]), tuple(orders))
    return None


@once
def one_left_out(case: Case, candidate: Candidate) -> bool:
    """Whether some ranks made all that the others did from a row on but for one call.

    Where what follows agrees row by row as well, the one call less is all that tells, and ranks
    that may yet make it have not left it out.
    """
    makers: dict[tuple[str, ...], list[int]] = {}
    for rank in candidate.ranks:
        texts = tuple(map(program_text, calls_from(case, rank, candidate)))
        makers.setdefault(texts, []).append(rank)
    unlike = sorted(makers, key=len)
    if len(unlike) != 2 or len(unlike[0]) + 1 != len(unlike[1]):
        return False
    less, more = unlike
    at = next((n for n, text in enumerate(less) if text != more[n]), len(less))
    if less[at:] != more[at + 1 :]:
        return False
    return less[at + 1 :] != more[at + 1 : -1] or not any(
        _may_go_on(case, rank, candidate) for rank in makers[less]
    )


def _may_go_on(case: Case, rank: int, candidate: Candidate) -> bool:
    """Whether a rank may yet issue more in a candidate's stream: it was not at an end there."""
    standing = case.standings[rank]
    if standing.final:
        return False
    is_here = any(waiting.stream == candidate.stream for waiting in standing.waiting)
    return standing.ended == "alive" or is_here


def _are_the_same(case: Case, candidate: Candidate, one: int, two: int, count: int) -> bool:
    """Whether calls of two ranks that look alike are the same, by the lines that met before.

    A rank that left a call out makes the one after it, which may be of the same size.
    """
    rows = case.met((one, two), candidate.stream, candidate.seq)
    met = {(a, b) for (_, a), (_, b) in rows}
    known = {a for a, _ in met}, {b for _, b in met}
    lines = [
        {(program_text(c), case.stack(r, c)) for c in calls_from(case, r, candidate)[:count]}
        for r in (one, two)
    ]

    def may_be(a: Sequence[str], b: Sequence[str]) -> bool:
        return a == b or (a, b) in met or not (a in known[0] or b in known[1])

    return all(
        any(text == other and may_be(a, b) for other, b in lines[1]) for text, a in lines[0]
    ) and all(any(text == other and may_be(a, b) for other, a in lines[0]) for text, b in lines[1])


def _may_be(case: Case, candidate: Candidate) -> bool:
    """Whether those ranks make the same calls whose first ones differ: of many ranks a few."""
    unlike: dict[str, int] = {}
    for rank in candidate.ranks:
        for call in calls_from(case, rank, candidate, most=1):
            unlike.setdefault(program_text(call), rank)
    texts = [[program_text(c) for c in calls_from(case, r, candidate)] for r in unlike.values()]
    both = min(map(len, texts), default=0)
    return any(
        all(Counter(text[:count]) == Counter(texts[0][:count]) for text in texts)
        for count in range(2, min(both, _MOST) + 1)
    )


def _iterations(calls: Sequence[Call]) -> tuple[int, ...]:
    return tuple(sorted(call.iteration for call in calls if call.iteration is not None))


def calls_from(case: Case, rank: int, candidate: Candidate, most: int = 2 * _MOST) -> list[Call]:
    """A rank's calls from a candidate's row on, up to what it issued after one of them failed."""
    log, seq, stream = case.log(rank), candidate.seq, candidate.stream
    if log is None or seq is None or stream is None:
        return []
    failed = [done.t for done in case.failed(rank, stream) if done.seq >= seq]
    end = min(failed, default=None)
    found: list[Call] = []
    for call in log.calls(stream, seq, min(seq + most, log.last_seq.get(stream, seq) + 1)):
        if call is None or (end is not None and call.t > end):
            break
        found.append(call)
    return found


def _is_permutation(all_texts: Sequence[Sequence[str]], count: int, both: int) -> bool:
    one, *others = all_texts
    same = Counter(one[:count])
    if len(same) < 2 or any(Counter(text[:count]) != same for text in others):
        return False
    if all(text[count:both] == one[count:both] for text in others):
        return True
    turned = any(_is_turned(one[:count], text[:count]) for text in others)
    return not turned and all(
        Counter(text[start : start + count]) == Counter(one[start : start + count])
        for start in range(count, both, count)
        if start + count <= both
        for text in others
    )


def _is_turned(one: Sequence[str], two: Sequence[str]) -> bool:
    return one != two and any([*one[n:], *one[:n]] == list(two) for n in range(1, len(one)))
