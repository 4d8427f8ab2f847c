"""On some ranks, a computed value was not part of the loss, so a part of backward() did not run.

What it means
    backward() runs only what the loss was computed from. DDP reduces a bucket when all its
    parameters have gradients. A sharded model reduces the gradients of a module when they are
    computed. The backward of an autograd function makes its collectives when it runs. If the loss
    of a rank omits a term, or has new zeros in its place, none of these happen. The rank goes on,
    and the others wait. The same happens if the parameters of a sharded model's module are frozen
    on the rank.

Example
    ::

        loss = one.sum() if rank == 1 else one.sum() + two.sum()
        loss.backward()

Not to be confused with
    CT508, if the whole backward() was skipped. CT511, if a module was not run at all.

How to fix it
    Let every parameter contribute to the loss on every rank, multiplied by zero if it is not
    wanted. Or construct DDP with ``find_unused_parameters=True``.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from collectrace import roles
from collectrace import words as text
from collectrace.align.causes import apart, backwards, deciders, phrases, sharded
from collectrace.align.causes.apart import NextCall
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks import detail
from collectrace.align.reading import chains
from collectrace.records import Call
from collectrace.signature import is_user

Of = Literal["bucket", "function", "module"]

_UNUSED: Final = "Expected to have finished reduction in the prior iteration"
"""How DDP's own exception begins (torch 2.13, csrc/distributed/c10d/reducer.cpp)."""

_RUNS: Final[dict[Of, str]] = {
    "bucket": "DDP sends a gradient bucket when all its parameters have their gradients.",
    "function": "autograd runs {function}() only if the loss was computed from its forward's "
    "output.",
    "module": "A sharded model reduces the gradients of a module only if they come.",
}
_WHY: Final[dict[Of, str]] = {
    "bucket": "some of these took no part in the loss: they are not in the graph that backward() "
    "ran{line}",
    "function": "its forward took no part in the loss: it is not in the graph that backward() "
    "ran{line}",
    "module": "none came{line}: its parameters are frozen there, or took no part in the loss",
}
_ZERO: Final = (
    "Let what is computed there take part in the loss on every rank, times zero where it is not "
    "wanted (loss + 0 * out.sum())."
)
_FIXES: Final[dict[Of, tuple[str, ...]]] = {
    "bucket": (
        "Let every parameter take part in the loss on every rank.",
        "Or construct DDP with find_unused_parameters=True, on all ranks.",
    ),
    "function": (_ZERO,),
    "module": (
        "Freeze the same parameters on every rank. " + _ZERO,
        "Or, where gradients are accumulated, let every rank reduce them after the same number of "
        "micro-batches.",
    ),
}


class Left(NamedTuple):
    """Which ranks made a call of a backward, and which did not."""

    of: Of
    maker: NextCall
    gone: NextCall
    call: Call
    """The call of the ranks that made it."""
    function: str = ""
    """The autograd function that made it."""


def find(situation: Situation) -> Left | None:
    """Return the part of a backward() that did not run on some ranks."""
    both = apart.next_calls(situation)
    forms = {deciders.form(one) for one in situation.decisions}
    is_decided = bool(forms & {"condition", "loop", "handler"})
    for maker, gone in (both, both[::-1]) if both is not None else ():
        call = maker.call
        function = backwards.autograd_function(situation.case, maker.stack)
        is_own = function and backwards.autograd_function(situation.case, gone.stack) != function
        if call is not None and is_user(call) and is_own and situation.decisions and not is_decided:
            return Left("function", maker, gone, call, function)
        if call is None or call.role.startswith("join."):
            continue
        is_module = call.role in sharded.REDUCES
        if not is_module and not roles.of(call.role).is_bucket:
            continue
        if gone.call is not None and roles.of(gone.call.role).in_backward:
            continue
        says_so = gone.call is None and _UNUSED in situation.case.standings[gone.rank].message
        if says_so or (
            not is_decided
            and apart.has_gone_on(situation, gone)
            and backwards.has_skipped_backward(situation, maker, gone)
        ):
            return Left("module" if is_module else "bucket", maker, gone, call)
    return _of_exchange(situation) or _of_module(situation)


def _of_exchange(situation: Situation) -> Left | None:
    """Return the exchange whose backward the suspects skipped, judged by the sizes."""
    sides, case = apart.at_finding(situation), situation.case
    if situation.kind != "split_mismatch" or not situation.suspects or len(sides) < 2:
        return None
    gone, maker = sides[:2]
    functions = {backwards.autograd_function(case, step.stack) for step in sides}
    if len(functions) > 1 or not all(functions) or maker.call is None:
        return None
    is_left = backwards.skipped_exchanges(situation, gone) > 0
    return Left("function", maker, gone, maker.call, functions.pop()) if is_left else None


def _of_module(situation: Situation) -> Left | None:
    """Return the module of a sharded model whose gradients were not reduced."""
    found = sharded.different_modules(situation)
    if found is None or not found.in_backward or found.other.call is None:
        return None
    return Left("module", found.other, found.mine, found.other.call)


def words(situation: Situation, found: Left) -> Words:
    """Return the words for what took no part in the loss."""
    maker, gone = found.maker, found.gone
    runs = [f for f in maker.stack if backwards.runs_backward(situation.case, f)]
    line = phrases.line(chains.site(runs[0]) if runs else found.call.site)
    inside = f" in {found.function}()" if found.function else ""
    beyond = f" to {phrases.call(gone.call)}" if gone.call is not None else ""
    is_past = gone.call is None or not roles.of(gone.call.role).in_backward
    past = f"{text.upper(gone.subject)} had gone on{beyond} without it." if is_past else ""
    what = "send a gradient bucket in" if found.of == "bucket" else "issue"
    return Words.of(
        f"{gone.subject} did not {what} {phrases.call(found.call)}{inside}, {maker.subject} did",
        (
            _RUNS[found.of].format(function=found.function),
            f"On {gone.subject} {_WHY[found.of].format(line=line)}.",
            detail.without_gradient(situation.case.standings[gone.rank]) or past,
        ),
        _FIXES[found.of],
    )
