"""An exchange of a backward(), made in the place of one that the rank left out.

The backward of an all_to_all sends back what the forward had received: its sizes are the forward's,
the other way round. And autograd runs the backwards in the reverse order of the forwards. So the
sizes tell of which forward a call is the backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from collectrace.align.judging.backwards import autograd_function
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading import chains
from collectrace.records import Call


class LeftBackward(NamedTuple):
    """Ranks that are in the backward of an earlier forward than the others are."""

    ranks: tuple[int, ...]
    others: tuple[int, ...]
    due: Call
    """The forward of which the backward was due, as the first of ``ranks`` made it."""
    made: Call
    """The forward of which that rank made the backward."""
    calls: int
    """Backwards that it left out."""


@once
def left_backward(case: Case, candidate: Candidate) -> LeftBackward | None:
    """Who of an all_to_all in a backward() is in that of another forward; None: nobody, or unclear.

    Where forwards have one size, nothing tells them apart.
    """
    source = candidate.source
    if candidate.what != "split_mismatch" or not isinstance(source, Divergence):
        return None
    calls = {rank: call for rank, call in source.calls.items() if call is not None}
    open_ = {rank: _open(case, source, rank, call) for rank, call in calls.items()}
    depths = {rank: _depth(open_[rank], call) for rank, call in calls.items()}
    known = {rank: depth for rank, depth in depths.items() if depth is not None}
    ranks = tuple(rank for rank, depth in known.items() if depth)
    if len(known) < len(source.group.ranks) or len({known[rank] for rank in ranks}) != 1:
        return None
    others = tuple(rank for rank in known if rank not in ranks)
    if not others or {*ranks} != {*candidate.suspects}:
        return None
    forwards, depth = open_[ranks[0]], known[ranks[0]]
    return LeftBackward(ranks, others, forwards[-1], forwards[-1 - depth], depth)


def _open(case: Case, source: Divergence, rank: int, call: Call) -> Sequence[Call]:
    """The forwards whose backward is still to come, the latest last; empty: that is not known.

    It is known where each backward before was that of the latest forward, and there were some: of
    several losses they come in an order of their own.
    """
    function = autograd_function(case, rank, call)
    if not function.endswith(".backward"):
        return ()
    forward = function.removesuffix("backward") + "forward"
    found, backwards = list[Call](), 0
    for one in case.before(rank, source.stream, source.seq):
        if one is None:
            return ()
        if one.splits is None:
            continue
        if any(chains.function(frame).endswith(forward) for frame in case.stack(rank, one)):
            found.append(one)
        elif autograd_function(case, rank, one) == function:
            if not found or not _mirrors(found.pop(), one):
                return ()
            backwards += 1
    return found if backwards else ()


def _depth(forwards: Sequence[Call], call: Call) -> int | None:
    """How many forwards there are behind the latest that a call mirrors; None: it mirrors none."""
    depths = (n for n, one in enumerate(reversed(forwards)) if _mirrors(one, call))
    return next(depths, None)


def _mirrors(forward: Call, backward: Call) -> bool:
    if forward.splits is None or backward.splits is None:
        return False
    return tuple(map(tuple, forward.splits)) == tuple(map(tuple, reversed(backward.splits)))
