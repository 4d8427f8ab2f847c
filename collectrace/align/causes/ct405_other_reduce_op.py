"""The ranks combined one tensor by different reductions, such as SUM and MAX.

What it means
    No backend compares the reduce op. Each rank combines with its own, so the results differ from
    rank to rank, and nothing fails.

Example
    ::

        op = dist.ReduceOp.MAX if rank == 1 else dist.ReduceOp.SUM
        dist.all_reduce(loss, op=op)

Not to be confused with
    CT413, if the ranks pass the same ops in another order.

How to fix it
    Pass the same op on every rank.
"""

from __future__ import annotations

from collectrace.align.causes import arguments
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.records import Call


def find(situation: Situation) -> bool | None:
    """Return whether the ops of one call differ."""
    return arguments.are_one_call(situation) or None


def _op(call: Call) -> str:
    return call.reduce_op or "no op"


def words(situation: Situation, found: bool) -> Words:
    """Return the words for reduce ops that differ."""
    return Words(
        arguments.headline(situation, _op),
        (
            f"The ranks reduce in different ways: {arguments.listed(situation, _op)}.",
            arguments.silent(situation),
            *arguments.why(situation),
        ),
        ("Pass the same op on every rank.", *arguments.fixes(situation)) if found else (),
        arguments.before(situation, _op),
        undecided=arguments.is_undecided(situation),
    )
