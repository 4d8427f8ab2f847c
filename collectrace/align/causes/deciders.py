"""Rank the statements that can have decided, and put them into words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from collectrace import words
from collectrace.align.causes import collectives, phrases, structure
from collectrace.align.causes.situation import Situation
from collectrace.align.judging.departures import What
from collectrace.align.reading.rank_names import RANK
from collectrace.findings import Decision, DecisionSide, DependsOn, SourceLine, Way

Form = Literal["condition", "loop", "handler", "dispatch", "value", "items"]
"""The kind of statement that decided. ``items``: the items of a loop or a comprehension."""

MOST: Final = 3
"""Statements of one finding that the reasons name."""

_FORMS: Final[dict[Way, Form]] = {
    "taken": "condition", "not_taken": "condition", "case": "condition", "no_case": "condition",
    "iterates": "loop", "ended": "loop", "handler": "handler", "no_handler": "handler",
    "raised": "handler", "calls": "dispatch", "calls_other": "dispatch", "value": "value",
}  # fmt: skip

_FIRST: Final[tuple[DependsOn, ...]] = (
    "rank", "state", "exception", "clock", "random", "files", "environment", "received", "root",
    "order", "chosen", "data", "length", "unknown", "agreed",
)  # fmt: skip
"""Origins, the most informative first."""

ORIGINS: Final[dict[DependsOn, str]] = {
    "rank": "depends on the rank",
    "clock": "depends on a clock, which each rank reads at another moment",
    "random": "depends on random numbers, which each rank draws for itself",
    "files": "depends on the file system, which each rank reads at another moment, or on another "
    "host",
    "environment": "depends on the environment or the host of the rank",
    "received": "depends on what the rank received from another rank, thread or process",
    "root": "depends on a result that only the root of a collective gets",
    "exception": "depends on whether an exception was raised on the rank",
    "order": "depends on the order of a set, which differs between processes",
    "state": "depends on state that only some ranks changed",
    "chosen": "differs by rank",
    "data": "is computed from each rank's own data, so ranks can disagree",
    "length": "depends on a length, which can differ between ranks",
    "unknown": "",
    "agreed": "depends on values that are the same on all ranks",
}
"""Words on a statement by its origin, without a subject."""

OF_SOURCES: Final = ORIGINS | {"state": "ran on some ranks only"}
"""Words on the line from which an origin comes, without a subject."""

_CAN: Final[dict[DependsOn, str]] = {"chosen": "can differ by rank"}
"""The same if it is not known whether the statement decided."""

_SUBJECTS: Final[dict[Form, str]] = {
    "condition": "The condition", "loop": "The number of iterations", "handler": "That",
    "dispatch": "The choice", "value": "The result", "items": "What it goes through",
}  # fmt: skip


def form(decision: Decision) -> Form:
    """Return the kind of a decision's statement."""
    found = _form(decision)
    return "items" if found not in ("loop", "handler") and _loop_of(decision) else found


def _form(decision: Decision) -> Form:
    ways = {side.did for side in decision.sides} - {None, "next"}
    names = {side.name for side in decision.sides if side.name}
    if ways <= {"calls", "calls_other"} and ways:
        return "dispatch" if len(names) > 1 or len(ways) > 1 else "value"
    head = decision.text.split(" ", 1)[0].rstrip(":")
    if head == "while" or _COUNTS.match(decision.text):
        return "loop"
    for side in decision.sides:
        if side.did is not None and side.did != "next":
            return _FORMS[side.did]
    if head in ("if", "elif", "match", "case", "assert", "continue", "break") or (
        head == "return" and _CHOOSES.search(decision.text)
    ):
        return "condition"
    if head in ("for", "while", "async"):
        return "loop"
    return "handler" if head in ("except", "try", "with", "finally", "raise") else "value"


_CHOOSES: Final = re.compile(r"\b(if|and|or)\b")
"""Keywords with which an expression chooses what is evaluated."""

_CONSTANT: Final = re.compile(r"(if|elif|while) (not )?[A-Z][A-Z0-9_]*:")
"""A test of a constant as PEP 8 writes it, which is the same on all ranks."""

_BY_NAME: Final = re.compile(r"""([!=]=|\bin) [(\[{]?(["']|[A-Z_]+\b)""")
"""A comparison with a constant, as in ``if name == "forces":``."""

_COUNTS: Final = re.compile(r"for \w+ in range\(")
"""A loop over numbers, whose count decides."""

_GOES_THROUGH: Final = re.compile(
    r"^for |^(?!if |elif |while |assert ).*[\[({].*\w\(.*\bfor\b.+\bin\b(?! range\()"
)
"""A loop, or a comprehension that calls its items, as in ``[part.state() for part in parts]``."""


def _loop_of(decision: Decision) -> SourceLine | None:
    """Return the loop whose items a decision is about, or None."""
    source = decision.comes_from
    if source is not None and source.text.startswith("for ") and _BY_NAME.search(decision.text):
        return source
    is_one = _GOES_THROUGH.search(decision.text) is not None
    return SourceLine(site=decision.site, text=decision.text) if is_one else None


def first(situation: Situation, *forms: Form) -> Decision | None:
    """Return the most informative decision if it has one of these forms."""
    found = next(iter(ranked(situation)), None)
    return found if found is not None and form(found) in forms else None


def ranked(situation: Situation) -> list[Decision]:
    """Return the decisions, the most informative first.

    Values that differ come first, then statements with different outcomes on the sides. Ties are
    broken by origin, and by whether the code is the user's.
    """

    def order(one: Decision) -> tuple[object, ...]:
        ways = {side.did for side in one.sides}
        known = len(ways - {None}) if len(ways) > 1 else 0
        return (
            one.library is not None,
            # Of a model's parts all ranks have as many, unless nothing else can have decided.
            structure.OF_MODEL.search(one.text) is not None and not one.is_certain,
            form(one) == "value",
            not one.is_certain,
            one.strength == "equal",
            origin(one) == "agreed" or _CONSTANT.match(one.text) is not None,
            one.text.startswith(("for ", "async ")) and origin(one) == "unknown",
            origin(one) == "unknown" and structure.is_nested(situation, one),
            -known,
            _FIRST.index(origin(one)),
        )

    return sorted(situation.decisions, key=order)


def origin(decision: Decision) -> DependsOn:
    """Return the most informative origin of a decision."""
    return decision.depends_on[0] if decision.depends_on else "unknown"


def is_rank_test(decision: Decision) -> bool:
    """Whether a condition tests the rank, or a name that holds the outcome of such a test.

    A value that was selected by the rank, as in ``kept = loss if rank == 1 else None``, is data.
    """
    if origin(decision) != "rank" or RANK.search(decision.text):
        return origin(decision) == "rank"
    source = decision.comes_from.text if decision.comes_from is not None else ""
    return " if " not in source


def quoted(decision: Decision) -> str:
    """Return `` `if loss.isfinite():` (train.py:12)``."""
    return shown((_loop_of(decision) if form(decision) == "items" else None) or decision)


def quoted_origin(decision: Decision) -> str:
    """Return the line on which a decision depends, in the same form; empty if none is known."""
    return shown(decision.comes_from) if decision.comes_from is not None else ""


def shown(one: Decision | SourceLine) -> str:
    """Return a line as code, with its place."""
    return phrases.statement(one.text.partition("  #")[0], one.site)


def what_it_did(situation: Situation, decision: Decision) -> str:
    """Return one sentence on what the statement did, and which call it led to."""
    said = quoted(decision)
    match form(decision):
        case "condition":
            return _condition(situation, decision)
        case "loop":
            return _loop(situation, decision)
        case "handler":
            handled = entered(situation, decision)
            if handled:
                return f"{words.upper(handled)} handled an exception at {said}."
            left = may_have_left(situation) or structure.left_try(situation, decision)
            who = words.ranks(left) if left else "some ranks"
            return f"{words.upper(who)} may have handled an exception at {said}."
        case "dispatch":
            named = [f"{s.name}() {_on(who)}" for who, s in _named(situation, decision) if s.name]
            which = f": {' and '.join(named)}" if named else ""
            return f"{said} called different functions{which}."
        case "items":
            return f"{said} gave the ranks different items: their order differs, or the items do."
        case "value" if calls(decision):
            is_in = [structure.holds_call(situation, decision, side.stack or ())
                     for side, _ in situation.called]  # fmt: skip
            if is_in.count(True) != 1 or len(is_in) < 2:
                return f"{said} can have called other functions on some ranks."
            side, call = situation.called[is_in.index(True)]
            others = [r for s, _ in situation.called if s != side for r in s.ranks]
            made = words.upper(phrases.made(side.ranks, call))
            return f"{made} in {said}; {phrases.not_made(others, call)}."
        case "value":
            return f"The result of {said} can differ between the ranks."


def may_have_left(situation: Situation) -> tuple[int, ...]:
    """Return the suspects if an exception explains their departure; empty otherwise."""
    found = situation.departure
    is_early = found is not None and found.what is What.EXTRA
    return _skipping(situation) or (situation.suspects if is_early else ())


def _skipping(situation: Situation) -> tuple[int, ...]:
    """Return the suspects if it is they who skipped calls of the others; empty otherwise."""
    found, suspects = situation.departure, situation.suspects
    if situation.is_absence and {*suspects} <= {*situation.candidate.absent}:
        return suspects
    is_skip = found is not None and found.what in (What.SKIPPED, What.FEWER_ITERATIONS)
    return suspects if is_skip else ()


def calls(decision: Decision) -> bool:
    """Whether a statement decided by the function it called, not by a value."""
    return all(side.did != "value" for side in decision.sides)


def entered(situation: Situation, decision: Decision) -> str:
    """Return which ranks entered a handler; empty if it is not known.

    If nothing else can have decided and one side entered none, the other side did.
    """
    named = _named(situation, decision)
    ranks = [who for who, side in named if side.did in ("handler", "raised")]
    passed = [who for who, side in named if side.did == "no_handler"]
    if not ranks and len(passed) == 1 and decision.is_certain:
        ranks = [who for who, _ in named if who not in passed]
    return ranks[0] if len(ranks) == 1 else ""


def _condition(situation: Situation, decision: Decision) -> str:
    said, found = quoted(decision), structure.around(situation, decision)
    named = ((who, side.did) for who, side in _named(situation, decision))
    known = [(who, did) for who, did in named if did is not None and did in _TRUE]
    outcomes = " and ".join(f"{_TRUE[did]} {_on(who)}" for who, did in known)
    if found.branches > 1:
        made: dict[str, list[int]] = {}
        for side, call in found.inside:
            made.setdefault(phrases.call(call), []).extend(side.ranks)
        told = [f"{what} on {words.ranks(ranks)}" for what, ranks in made.items()]
        other = "make their calls in another order" if found.reorders else "make different calls"
        return f"The branches of {said} {other}: {words.listed(told)}."
    if found.inside:
        side, call = found.inside[0]
        inside = f"in the `else` of {said}" if found.is_else else f"inside {said}"
        others = [rank for one, _ in found.outside for rank in one.ranks]
        did_not = f"; {phrases.not_made(others, call)}" if found.outside else ""
        return f"{words.upper(phrases.made(side.ranks, call))} {inside}{did_not}."
    was = f"was {outcomes}" if outcomes else "can differ between the ranks"
    skipping = _skipping(situation) or structure.left_by_jump(situation, decision)
    if found.jump is not None and not outcomes and skipping:
        was = f"may have been {'false' if found.is_else else 'true'} on {words.ranks(skipping)}"
    if found.jump is not None and {did for _, did in known} == {"not_taken"}:
        took = next((who for who, side in _named(situation, decision) if side.did is None), "")
        may = "" if decision.is_certain else "may have been "
        was += f" and {may}true {_on(took)}" if took else ""
    if found.jump is not None:
        return f"{said} {was}, and its `{found.jump}` skips the calls after it."
    return f"{said} {was}."


def _loop(situation: Situation, decision: Decision) -> str:
    is_open = origin(decision) == "unknown" or bool(rest(situation, decision))
    one, two = _named(situation, decision)  # suspects first
    longer = one[1].did in _GOES_ON or two[1].did in _ENDS
    shorter = one[1].did in _ENDS or two[1].did in _GOES_ON
    is_known = None not in (one[1].did, two[1].did)
    said, had = quoted(decision), "may have had" if is_open and not is_known else "had"
    if longer is shorter:
        found = structure.around(situation, decision)
        if len(found.inside) == 1 == len(found.outside):
            (side, _), (gone, _) = found.inside[0], found.outside[0]
            return (
                f"The loop {said} ended earlier on {words.ranks(gone.ranks)}: "
                f"{words.ranks(side.ranks)} {words.verb(side.ranks, 'is', 'are')} still in it."
            )
        return f"The loop {said} may have had another number of iterations on {one[0]}."
    if shorter and situation.pair is not None and situation.pair.is_first_time:
        return f"The loop {said} ended {_on(one[0])}."
    how = "more" if longer else "fewer"
    return f"The loop {said} {had} {how} iterations {_on(one[0])} than {_on(two[0])}."


_GOES_ON: Final = ("iterates", "taken")
_ENDS: Final = ("ended", "not_taken")
"""Outcomes that end a loop; for ``while``, those of its condition."""

_TRUE: Final[dict[Way | None, str]] = {
    "taken": "true", "not_taken": "false", "case": "matched", "no_case": "not matched",
}  # fmt: skip


def _named(
    situation: Situation, decision: Decision
) -> tuple[tuple[str, DecisionSide], tuple[str, DecisionSide]]:
    """Return the two sides of a decision, each with its ranks in words."""
    one, two = decision.sides[0], decision.sides[-1]
    if one.rank == two.rank:
        who = f"rank {one.rank}"
        return (who, one), (_EARLIER, two)
    sides = {rank: side.ranks for side in situation.candidate.sides for rank in side.ranks}
    is_shorter = situation.is_tie and two.did == "ended"
    if (two.rank in situation.suspects and one.rank not in situation.suspects) or is_shorter:
        one, two = two, one
    names = [words.ranks(sides.get(side.rank, (side.rank,))) for side in (one, two)]
    if names[0] == names[1]:
        names = [f"rank {side.rank}" for side in (one, two)]
    return (names[0], one), (names[1], two)


_EARLIER: Final = "in earlier iterations"
"""Name of the second side if a rank is compared with itself."""


def _on(who: str) -> str:
    return who if who == _EARLIER else f"on {who}"


def depends(decision: Decision, subject: str = "", *, is_open: bool = False) -> str:
    """Return what a statement depends on, and the line of that; empty if it is not known.

    ``subject``: words for the statement; by default those for its kind. ``is_open``: another
    statement can have decided instead.
    """
    on, source = origin(decision), decision.comes_from
    if on == "unknown":
        return ""
    if source is not None and _loop_of(decision) == source:  # it is quoted already
        source = None
    kind = form(decision)
    own = "What it calls" if kind == "value" and calls(decision) else _SUBJECTS[kind]
    said = f"{subject or own} {_CAN.get(on, ORIGINS[on]) if is_open else ORIGINS[on]}"
    if source is None or (on == "rank" and not RANK.search(source.text)):
        return f"{said}."
    return f"{said}: {shown(source)}."


def reasons(situation: Situation, chosen: Sequence[Decision]) -> tuple[str, ...]:
    """Return sentences on what decided, at most three."""
    first = chosen[0]
    told = [what_it_did(situation, first)]
    handler = next((one for one in ranked(situation) if form(one) == "handler"), None)
    if handler is not None and structure.around(situation, first).jump == "raise":
        told[0] = f"{told[0][:-1]}; {quoted(handler)} handled it."
    if len(chosen) > 1 and {form(one) for one in chosen} == {"value"}:
        all_of_them = words.listed([quoted(one) for one in chosen[:MOST]])
        told = [f"The results of {all_of_them} can differ between the ranks."]
    elif form(first) == "value" and not calls(first) and origin(first) not in ("unknown", "agreed"):
        return (depends(first, f"The result of {quoted(first)}"), *collectives.silent(situation))
    elif len(chosen) > 1:
        others = words.listed([quoted(one) for one in chosen[1:MOST]])
        told.append(f"Or {others} decided: the logs do not show which did.")
    told += collectives.silent(situation)
    is_told = origin(first) not in ("unknown", "exception") or form(first) != "handler"
    if origin(first) not in ("unknown", "agreed") and is_told and len(told) < _MOST_SENTENCES:
        told.insert(1, depends(first, is_open=len(chosen) > 1))
    return tuple(told)


_MOST_SENTENCES: Final = 3


def rest(situation: Situation, chosen: Decision) -> list[Decision]:
    """Return the other statements that can have decided; empty if the chosen one is certain."""
    if chosen.is_certain or form(chosen) == "items":
        return []
    raises = structure.around(situation, chosen).jump == "raise"
    return [
        one
        for one in ranked(situation)
        if one is not chosen
        and one.strength != "equal"
        and not _is_same_explanation(one, chosen)
        and not (raises and form(one) == "handler")  # it catches what was raised
        and (
            structure.OF_MODEL.search(one.text) is None
            or structure.OF_MODEL.search(chosen.text) is not None
        )
        and origin(one) != "agreed"
        and (form(one) != "value" or form(chosen) == "value")
        and (form(one) != "loop" or origin(one) != "unknown" or origin(chosen) == "unknown")
    ]


def _is_same_explanation(one: Decision, chosen: Decision) -> bool:
    """Whether two statements are one explanation.

    They loop over or test the same, or the chosen one depends on the other.
    """
    source = chosen.comes_from.site if chosen.comes_from is not None else ""
    is_source = one.site == source and form(one) != "loop"
    return is_source or (one.function, one.text) == (chosen.function, chosen.text)
