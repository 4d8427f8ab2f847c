"""Where the sides of a candidate parted in their programs before they did on the wire."""

from __future__ import annotations

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching import parting
from collectrace.align.matching.parting import Parting
from collectrace.align.reading import code_lines
from collectrace.align.reading.evidence import RankLog
from collectrace.findings import KINDS
from collectrace.records import Call
from collectrace.signature import is_user


@once
def parted(case: Case, candidate: Candidate) -> Parting | None:
    """The first row before a candidate's at which its sides were at different lines.

    One rank stands for each side: of the smallest and of the largest that came, or of those that
    did not come and those that did.
    """
    stream, seq = candidate.stream, candidate.seq
    if stream is None or seq is None or KINDS[candidate.what].family != "call":
        return None
    sides = sorted((side for side in candidate.sides if side.ranks), key=lambda s: len(s.ranks))
    if len(sides) < 2:
        return None
    one, two = (_log(case, side.ranks[0]) for side in (sides[0], sides[-1]))
    if one is None or two is None:
        return None
    return parting.find(one, two, stream, seq)


def _log(case: Case, rank: int) -> RankLog | None:
    return case.log(rank)


def condition(case: Case, call: Call) -> str | None:
    """The ``if`` around a call's line that asks for the rank, as ``number text``.

    None where there is none, or the source is not known. What was recorded counts more than the
    file as it is now.
    """
    if call.site is None or not is_user(call):
        return None
    recorded = case.evidence.sources.get(call.site)
    return code_lines.rank_condition(recorded or code_lines.enclosing(call.site))


def chosen_by_rank(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The ranks whose call, and no other's, stands under an ``if`` that asks for the rank."""
    called = [(side, side.call) for side in candidate.sides if side.call is not None]
    under = [side for side, call in called if condition(case, call) is not None]
    if len(under) != 1 or len(candidate.sides) < 2 or candidate.absent:
        return ()
    return tuple(sorted(under[0].ranks))


def extra_makers(case: Case, candidate: Candidate) -> tuple[int, ...]:
    """The ranks that alone made calls which the others never made, and went on as those after it.

    Proof enough where as many ranks stand on one side as on the other: calls from a place that
    no other rank ever came to, and behind them the same program, moved by their number.
    """
    found = parted(case, candidate)
    if found is None or found.extra is None or not found.extra.is_alone:
        return ()
    side = next((s for s in candidate.sides if found.extra.rank in s.ranks), None)
    return tuple(sorted(side.ranks)) if side is not None else ()
