"""Ranks that a condition on the rank led past a call, where nothing else leads past it.

As where one rank alone decides that the training is over, ``if rank == 0 and is_done(): break``.
The others cannot be led there, and the one has done what no other may: that decides a tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from collectrace.align.judging import choices, intervals
from collectrace.align.judging.by_rank import Place, is_whole, places, was_there
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.reading import chains, rank_tests, statements


@once
def led_by_rank(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The side that left out what it had always called, by a way that the rank alone opens.

    Nobody where a loop may have ended, another condition or a handler may have led past the call,
    or the way is open to a rank of the other side.
    """
    if candidate.unknown or not is_whole(case, candidate):
        return ()
    seq, found = places(case, candidate)
    if len(found) != 2:
        return ()
    led = [
        gone for gone, left in permutations(found, 2) if _is_led(case, candidate, seq, gone, left)
    ]
    return tuple(sorted(led[0].ranks)) if len(led) == 1 else ()


def _is_led(case: Case, candidate: Candidate, seq: int, gone: Place, left: Place) -> bool:
    """Whether one side went past the other's call by a way that the rank alone opens."""
    if left.call is None or not was_there(case, candidate, seq, gone.ranks[0], left.frames):
        return False
    around = (
        choices.of_call(case, left.frames, gone.frames)
        if gone.call is not None
        else choices.of_frames(case, left.frames, "")
    )
    if around is None:
        return False
    sites = [chains.site(frame) for frame in left.frames]
    known = ((_site_of(case, sites, line), line) for line in around)
    may_decide = [one for one in known if not _is_alike(case, gone, *one)]
    if len(may_decide) != 1:
        return False
    site, way = may_decide[0]
    return way in case.ways(site) and _opens_by_rank(case, site, way, gone.ranks, left.ranks)


def _site_of(case: Case, sites: Sequence[str], line: str) -> str:
    """The ``path:line`` that a statement is around, or a way past."""
    around = (site for site in sites if line in case.statements(site) or line in case.ways(site))
    return next(around, "")


def _is_alike(case: Case, gone: Place, site: str, line: str) -> bool:
    """Whether it is known not to have parted them: alike at each turn, or a loop not at its end."""
    if statements.code_of(line).startswith("for "):
        return _had_more(case, gone, f"{site.rpartition(':')[0]}:{statements.number_of(line)}")
    return intervals.is_by_turns(case, site, line)


def _had_more(case: Case, gone: Place, head: str) -> bool:
    """Whether the DataLoader of a loop had not come to its end on a rank that is out of it."""
    log = case.log(gone.ranks[0])
    until = gone.call.t if gone.call is not None else None
    batches = [one for one in (log.batches if log else ()) if until is None or one.t < until]
    loaders = [one.loader for one in batches if one.site == head]
    last = next((one for one in reversed(batches) if loaders and one.loader == loaders[-1]), None)
    return last is not None and not last.end


def _opens_by_rank(
    case: Case, site: str, way: str, gone: Sequence[int], left: Sequence[int]
) -> bool:
    """Whether a way asks for the rank and for more, and is open to all of some and none of others.

    What asks for the rank alone has led them past the call from the first.
    """
    _, head = statements.way_of(way)
    spelled = case.spelled_out(site, head)
    if not statements.tells_ranks_apart(spelled) or rank_tests.asks_alone(spelled):
        return False
    return not case.keeps_out(site, head, gone) and all(
        case.keeps_out(site, head, (rank,)) for rank in left
    )
