"""The backward of an autograd function did not run on some ranks, nor its collectives.

What it means
    autograd runs the backward of a function only if the loss was computed from its output. A loss
    that leaves a term out, or new zeros in the place of a computation, cut it out of the graph.

Example
    ::

        spread = Sum.apply(out.var(0))      # Sum.backward() makes an all_reduce
        if pairs:
            loss = loss + spread.sum()      # not on rank 1

Not to be confused with
    CT505, if DDP did not send a bucket. CT511, if FSDP did not reduce the gradients of a module.

How to fix it
    Keep the output in the graph on every rank, times zero where it is not wanted.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace.align.causes import apart, backwards, deciders, phrases
from collectrace.align.causes.apart import Step
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.reading import chains
from collectrace.signature import is_user


class Cut(NamedTuple):
    """Who made the call of a backward, and who did not."""

    function: str
    maker: Step
    gone: Step


def find(situation: Situation) -> Cut | None:
    """Return the autograd function that did not run on some ranks."""
    both = apart.steps(situation)
    forms = {deciders.form(one) for one in situation.decisions}
    for maker, gone in (both, both[::-1]) if both is not None else ():
        if maker.call is None or not is_user(maker.call):
            continue
        function = backwards.autograd_function(situation.case, maker.stack)
        if not function or backwards.autograd_function(situation.case, gone.stack) == function:
            continue
        if forms & {"condition", "loop", "handler"}:
            continue
        return Cut(function, maker, gone)
    return _of_exchange(situation)


def _of_exchange(situation: Situation) -> Cut | None:
    """Return the exchange whose backward the suspects left out, as its sizes show."""
    sides, case = apart.at_finding(situation), situation.case
    if situation.kind != "split_mismatch" or not situation.suspects or len(sides) < 2:
        return None
    gone, maker = sides[:2]
    functions = {backwards.autograd_function(case, step.stack) for step in sides}
    if len(functions) > 1 or not all(functions):
        return None
    left = backwards.left_exchanges(situation, gone)
    return Cut(functions.pop(), maker, gone) if left else None


def words(situation: Situation, cut: Cut) -> Words:
    """Return the words for a function that was cut out of the graph."""
    call = phrases.call(cut.maker.call) if cut.maker.call is not None else "the call"
    runs = [f for f in cut.maker.stack if backwards.runs_backward(situation.case, f)]
    where = phrases.line(chains.site(runs[0])) if runs else ""
    return Words(
        f"{cut.gone.who} did not issue {call} in {cut.function}()",
        (
            (
                f"autograd runs {cut.function}() only if the loss was computed from its forward's "
                "output."
            ),
            f"On {cut.gone.who} that output was cut out of the graph of backward(){where}.",
        ),
        (
            (
                "Keep the output in the graph on every rank: add it times zero to the loss "
                "(loss + 0 * out.sum()), and use it times zero if there is nothing to compute."
            ),
        ),
    )
