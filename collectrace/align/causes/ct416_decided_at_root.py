"""The ranks decided by a result that only the root of a collective got.

What it means
    ``reduce`` and ``gather`` give their result to one rank. On the others the tensor holds whatever
    it held before, so a condition that reads it goes another way.

Example
    ::

        dist.reduce(loss, dst=0)
        if loss.item() < best:      # true or false at random on ranks 1 and 2
            dist.barrier()

Not to be confused with
    CT102, if the condition reads the rank's own data by right.

How to fix it
    Use ``all_reduce`` or ``all_gather``, or broadcast the decision of the root.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace import ops
from collectrace import words as text
from collectrace.align.causes import collectives, deciders, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.findings import Decision
from collectrace.records import Call

_MOST_BARRIERS = 4
"""Barriers that may lie between: they carry nothing."""


class AtRoot(NamedTuple):
    """What decided, and the call that gave its result to the root only."""

    decision: Decision
    call: Call


def find(situation: Situation) -> AtRoot | None:
    """Return the condition that reads what only a root has got, just before."""
    first = deciders.ranked(situation)[0]
    if deciders.origin(first) != "root" or deciders.form(first) not in ("condition", "loop"):
        return None
    case, candidate = situation.case, situation.candidate
    calls = set()
    last = None
    for side in candidate.sides:
        made = case.before(side.ranks[0], candidate.stream, candidate.seq, _MOST_BARRIERS)
        last = next((c for c in reversed(made) if c is None or c.op not in ops.BARRIERS), None)
        calls.add((last.seq, last.op, last.root) if last is not None else None)
    if len(calls) != 1 or last is None or last.op not in ops.TO_ROOT or last.root is None:
        return None
    return AtRoot(first, last)


def words(situation: Situation, found: AtRoot) -> Words:
    """Return the words for a decision by what only the root holds."""
    decides, root = deciders.quoted(found.decision), found.call.root
    return Words(
        phrases.fitting(collectives.headline(situation)),
        (
            f"{text.upper(phrases.call(found.call))} gave its result to rank {root} only, the root "
            f"(dst {root}).",
            f"{decides} read it on every rank: each of the others holds a value of its own.",
            deciders.what_it_did(situation, found.decision),
        ),
        (
            f"Use all_reduce instead of {text.name(found.call)} (or all_gather instead of gather), "
            f"or broadcast what rank {root} decided, before {decides}.",
        ),
    )
