"""Fixes for a statement that decided, which name what it tests."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import Final

from collectrace import words
from collectrace.align.causes import collectives, deciders, phrases, structure
from collectrace.align.causes.deciders import Form, form, origin, quoted
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.code.graph import called_name
from collectrace.align.reading import chains
from collectrace.align.reading.rank_names import RANK
from collectrace.findings import Decision, DependsOn, SourceLine
from collectrace.records import Call

_LONGEST: Final = 50
"""Longest code that a sentence names, characters."""


def explained(situation: Situation, found: Decision) -> Words:
    """Return the words for a statement that decided."""
    return Words(
        collectives.headline(situation),
        deciders.reasons(situation, [found, *deciders.rest(situation, found)]),
        fixes(situation, found),
    )


def fixes(situation: Situation, chosen: Decision) -> tuple[str, ...]:
    """Return fixes for a statement that decided, and for others that can have decided."""
    others = deciders.rest(situation, chosen)[: deciders.MOST - 1]
    first = fix(situation, chosen)
    if origin(chosen) == "root" and form(chosen) in ("condition", "loop"):
        first = (
            f"Decide together before {quoted(chosen)}: use all_reduce instead of reduce (or "
            "all_gather instead of gather), or broadcast what the root decided."
        )
    more = [(one, fix(situation, one)) for one in others if form(one) != form(chosen)]
    return (
        first,
        *(f"If {quoted(o)} decided: {_of_it(o, said)}" for o, said in more if said != first),
    )


def _of_it(decision: Decision, said: str) -> str:
    """Return the fix for a statement that the sentence has named."""
    name = quoted(decision)
    return words.lower(said.replace(f"the loop {name}", "it", 1).replace(name, "it", 1))


def fix(situation: Situation, decision: Decision) -> str:
    """Return the fix for one statement."""
    said, kind, on = quoted(decision), form(decision), origin(decision)
    if kind in ("condition", "loop", "value") and on == "order":
        return f"Use the same order on every rank: sort what {said} goes through."
    if kind == "condition" and deciders.is_rank_test(decision):
        return _of_rank(situation, decision)
    if kind == "condition" and on in _ONE_DECIDES and (on != "random" or _draws(decision)):
        own = f" If each host has its own files, all_reduce {tested(decision)} with MIN instead."
        return (
            f"Let one rank {_ONE_DECIDES[on]} and broadcast the result before {said}, so that "
            f"every rank takes the same branch.{own if on == 'files' else ''}"
        )
    if kind in ("condition", "loop") and (away := structure.blocked_elsewhere(situation, decision)):
        who = f"{words.ranks(away)} {words.verb(away, 'does', 'do')} not reach {said}"
        what = "iterations" if kind == "loop" else "calls"
        return (
            f"Decide together before the branch that separates the ranks: {who}. Every rank must "
            f"make the same number of {what}."
        )
    if kind == "handler" and structure.is_waited_in(situation, decision):
        return (
            "Share an error flag with all ranks (all_reduce with MAX) after what can raise, before "
            f"the collectives that follow in the `try` block, not after {said}: ranks that wait in "
            "the block do not reach it. Then let every rank make the same calls."
        )
    kind = "dispatch" if kind == "value" and deciders.calls(decision) else kind
    if kind == "dispatch" and (callback := _callback(situation, decision)):
        return (
            f"Make what {callback}() returns the same on every rank (all_reduce it): {said} "
            "decides by it how often to call it."
        )
    if kind == "condition" and on == "state" and decision.comes_from is not None:
        return (
            f"Run {deciders.shown(decision.comes_from)} on every rank, or broadcast what it "
            f"changes: then {said} is the same on all of them."
        )
    if kind == "condition":
        return together(situation, decision)
    return _FIXES[kind].format(said, **_named(decision))


def _callback(situation: Situation, decision: Decision) -> str:
    """Return the function that a line passes to a library, and that made the call of one side."""
    match _parsed(decision)[1]:
        case ast.Expr(value=ast.Call() as call) | ast.Assign(value=ast.Call() as call):
            passed = {getattr(one, "attr", getattr(one, "id", "")) for one in call.args}
        case _:
            return ""
    stacks = [side.stack or () for side, _ in situation.called]
    made = [
        chains.method(inner)
        for stack in stacks
        for inner, frame in pairwise(stack)
        if chains.site(frame) == decision.site
    ]
    return made[0] if len(made) == 1 and made[0] in passed else ""


def together(situation: Situation, condition: Decision) -> str:
    """Return how to make all ranks take the same branch of a condition.

    What comes first is safe: the guarded code runs only if the condition lets all ranks run it.
    """
    found = structure.around(situation, condition)
    way = "makes the call" if found.inside else _JUMPS.get(found.jump, "takes the branch")
    skips = not found.inside and found.jump is not None
    # Who leaves behind its call has more to do than the call.
    is_first = (skips or found.leaves) and not (skips and _asks_all(condition))
    ways = ("if one does", "only if all do") if is_first else ("only if all do", "if one does")
    ops = ("MAX", "MIN") if is_first != found.is_else else ("MIN", "MAX")
    if skips and (name := _empty(condition)):
        return (
            f"Let a rank with nothing in {name} make the calls after {quoted(condition)}, too, "
            f"with empty tensors or zeros. Or decide together before it: all_reduce "
            f"{tested(condition)} with MIN, so that every rank {way} only if all do."
        )
    first = (
        f"Decide together before {quoted(condition)}: all_reduce {tested(condition)} with {ops[0]},"
        f" so that every rank {way} {ways[0]}"
    )
    has_tensor = bool(found.inside and found.inside[0][1].shape)
    zeros = "; a rank that has nothing passes zeros" if has_tensor else ""
    return f"{first} ({ops[1]}: {ways[1]}{zeros})."


def _empty(decision: Decision) -> str:
    """Return what a condition finds empty, as code: the list, or the tensor; or an empty string."""
    head, node = _parsed(decision)
    match node:
        case ast.If(test=ast.UnaryOp(ast.Not(), ast.Name() | ast.Attribute() as tested)):
            known = [(side.values or {}).get(_text(head, tested)) for side in decision.sides]
            is_known = any(isinstance(one, dict) and "len" in one for one in known)
            return _code(head, tested) if is_known else ""
        case ast.If(
            test=ast.UnaryOp(ast.Not(), size)
            | ast.Compare(left=size, ops=[ast.Eq()], comparators=[ast.Constant(value=0)])
        ):
            measured = _measured(size)
            return _code(head, measured) if measured is not None else ""
        case _:
            return ""


def _measured(size: ast.expr) -> ast.expr | None:
    """Return the list or tensor whose size is asked: ``x`` of ``len(x)`` and ``x.shape[0]``."""
    match size:
        case ast.Call(func=ast.Name("len"), args=[tested]):
            return tested
        case ast.Call(func=ast.Attribute(value=tested, attr="numel" | "size")):
            return tested
        case ast.Subscript(value=ast.Attribute(value=tested, attr="shape")):
            return tested
        case _:
            return None


def _asks_all(decision: Decision) -> bool:
    """Whether a condition is true if all of something are: so it must be of the other ranks."""
    match _parsed(decision)[1]:
        case ast.If(test=ast.Call() as test):
            return called_name(test) == "all"
        case _:
            return False


def _draws(decision: Decision) -> bool:
    """Whether a condition depends on one random number, and not on tensors of random data."""
    source = decision.comes_from
    return _NUMBER.search(decision.text + (source.text if source is not None else "")) is not None


_NUMBER: Final = re.compile(
    r"\brandom\.(random|randint|randrange|uniform|choice|gauss|rand)\("
    r"|\brand\((1\b|\)|\(1?,?\))|\brandint\([^()]*\(1?,?\)|\bmultinomial\("
)
"""A call that draws one number, as Python's, NumPy's and torch's generators do."""


_JUMPS: Final[dict[structure.Jump | None, str]] = {
    "break": "leaves the loop in the same iteration", "continue": "skips the rest of the iteration",
    "return": "returns", "raise": "raises",
}  # fmt: skip


_FIXES: Final[dict[Form, str]] = {
    "loop": "Give the loop {} the same number of iterations on every rank. {length}.",
    "handler": "Share an error flag with all ranks after {} (all_reduce with MAX). Then let every "
    "rank make the same calls.",
    "dispatch": "Make what {} calls the same on every rank: decide together which function it is.",
    "value": "Compute {result} in {} in the same way on every rank.",
    "items": "Go through the same items in the same order on every rank in {}, {order}.",
}


def tested(decision: Decision) -> str:
    """Return what a condition tests, `` `loss.isfinite()` ``, or `the condition` if too long."""
    return _named(decision)["test"]


def computed(decision: Decision) -> str:
    """Return how to compute a value equally; empty if the statement assigns no name."""
    name = _named(decision)["result"]
    return _FIXES["value"].format(quoted(decision), result=name) if name != _RESULT else ""


_RESULT: Final = "the result"

_SHORTEST: Final = "with MIN, or with MAX and zeros from ranks that have no more"


def _parsed(one: Decision | SourceLine) -> tuple[str, ast.stmt]:
    """Return a statement as code without its body, and its tree; ``pass`` if it is cut short."""
    head = one.text.removeprefix("el").partition("  #")[0]
    try:
        [node] = ast.parse(f"{head} pass" if head.endswith(":") else head).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        node = ast.Pass()
    return head, node


def _named(decision: Decision) -> dict[str, str]:
    """Return what a statement tests, what its length depends on, and what it computes."""
    test, result = "the condition", _RESULT
    length = f"Agree on the length first: all_reduce it {_SHORTEST}"
    head, node = _parsed(decision)
    match node:
        case ast.If(test=tested) if code := _code(head, tested):
            test = code
        case ast.While(test=tested) if code := _code(head, tested):
            length = (
                f"Decide together in each iteration: all_reduce {code} with MIN, so that all ranks "
                "stop if one does (MAX: only if all do)"
            )
        case ast.For(iter=ast.Call(func=ast.Name("range"), args=[start, end, *_])) if (
            not isinstance(start, ast.Constant)
            and (code := _code(head, start))
            and (isinstance(end, ast.Constant) or _differs(decision, _text(head, start)))
        ):
            length = (
                f"Agree on the start first: broadcast {code} from one rank, with the state that "
                "belongs to it, as of a checkpoint"
            )
        case ast.For(
            iter=ast.Call(func=ast.Name("range"), args=[end] | [ast.Constant(), end, *_])
        ) if code := _code(head, end):
            length = f"Agree on the length first: all_reduce {code} {_SHORTEST}"
        case ast.For(iter=ast.Call(func=ast.Attribute(attr="batch_isend_irecv"), args=[ops])) if (
            code := _code(head, ops)
        ):
            length = f"Put every message into {code} that another rank expects"
        case ast.For(iter=ast.Call(func=ast.Name("range")) as items) if code := _code(head, items):
            length = f"Broadcast what {code} is made of from one rank"
        case ast.For(iter=items) if _has_keys(items) and (code := _code(head, _unwrapped(items))):
            length = (
                f"Give {code} the same items on every rank, with a default where a rank has none: "
                "the same number of them would not be enough"
            )
        case ast.For(iter=items) if code := _code(head, _unwrapped(items)):
            # If the rank decides, each may have a part of its own, as it should be.
            is_part = deciders.origin(decision) in ("chosen", "rank")
            same = f"Give {code} the same items in the same order, or agree on their number"
            part = f"Agree on the number of items of {code}"
            length = f"{part if is_part else same} before the loop: all_reduce it with MIN"
        case ast.Assign(targets=[target]) if code := _code(head, target):
            result = code
        case _:
            pass
    loop = decision.comes_from
    is_sorted = "sorted(" in decision.text + (loop.text if loop is not None else "")
    order = "sorted by what all ranks have in common" if is_sorted else "for example sorted"
    return {"test": test, "length": length, "result": result, "order": order}


def _has_keys(items: ast.expr) -> bool:
    """Whether a loop goes through keys or names, of which each rank may have others."""
    called = {called_name(one) for one in ast.walk(items) if isinstance(one, ast.Call)}
    return not called.isdisjoint({"sorted", "items", "keys", "values", "set"})


def _unwrapped(items: ast.expr) -> ast.expr:
    """Return what a loop goes through without ``enumerate`` or the like around it."""
    while isinstance(items, ast.Call) and items.args and called_name(items) in _SAME_LENGTH:
        items = items.args[0]
    return items


_SAME_LENGTH: Final = frozenset(
    {"enumerate", "reversed", "sorted", "list", "tuple", "iter", "tqdm"}
)


def _differs(decision: Decision, name: str) -> bool:
    """Whether a name is known to have had different values on the two sides of a decision."""
    known = [side.values[name] for side in decision.sides if side.values and name in side.values]
    return len(known) > 1 and known[0] != known[1]


def _text(head: str, tree: ast.expr) -> str:
    return ast.get_source_segment(head, tree) or ""


def _code(text: str, tree: ast.expr) -> str:
    """Return an expression as code in a sentence; empty if it is too long."""
    found = _text(text, tree)
    return f"`{found}`" if 0 < len(found) <= _LONGEST else ""


_ONE_DECIDES: Final[dict[DependsOn, str]] = {
    "clock": "read the clock", "random": "draw the number", "files": "look at the file system",
    "environment": "read the environment",
}  # fmt: skip


def moved(decision: Decision, call: str, through: SourceLine | None) -> str:
    """Return how to take a call out of a condition on the rank, and nothing else.

    ``through``: the line under the condition that leads to the call; None: the call's own.
    """
    where = _unless_rank(decision)
    if through is not None and isinstance(_parsed(through)[1], _USES_RESULT):
        return (
            f"Run {deciders.shown(through)} on every rank{where}. Keep under {quoted(decision)} "
            f"only what one rank does alone. Or leave {call} out of it."
        )
    if through is not None:
        return (
            f"Let every rank call {call}{where}: take it out of {deciders.shown(through)}, "
            f"which only some ranks run under {quoted(decision)}. Leave the rest there."
        )
    return f"Move {call} out of {quoted(decision)}: make the call on every rank{where}, or on none."


_USES_RESULT: Final = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)


def everywhere(decision: Decision, what: str) -> str:
    """Return how to let every rank run something that is under a condition on the rank."""
    return (
        f"Run {what} on every rank{_unless_rank(decision)}: take it out of {quoted(decision)}, "
        "and leave the rest there."
    )


def _met_at(situation: Situation, rank: int, call: Call) -> str:
    """Return the line at which other ranks made the call that this one met; empty if none."""
    case, candidate = situation.case, situation.candidate
    for other in situation.others[:1]:
        for (mine, _), (theirs, _) in case.met((rank, other), candidate.stream, candidate.seq):
            if mine.site == call.site and theirs.site not in (None, call.site):
                return words.site(theirs.site)
    return ""


def _unless_rank(decision: Decision) -> str:
    """Return `` if `step % 4 == 3` ``, what ``if step % 4 == 3 and rank == 0:`` tests beside it."""
    head, node = _parsed(decision)
    match getattr(node, "test", None):
        case ast.BoolOp(ast.And(), values):
            parts = [ast.get_source_segment(head, one) or "" for one in values]
        case _:
            return ""
    kept = [one for one in parts if one and not RANK.search(one)]
    code = " and ".join(kept)
    return f" if `{code}`" if len(kept) < len(parts) and 0 < len(code) <= _LONGEST else ""


def _of_rank(situation: Situation, decision: Decision) -> str:
    said, found = quoted(decision), structure.around(situation, decision)
    if found.branches > 1:
        return f"Make the same calls in the same order in all branches of {said}, on every rank."
    if found.inside:
        side, call = found.inside[0]
        through = structure.calling_line(situation, decision, side.stack or ())
        line = _met_at(situation, side.ranks[0], call)
        if through is not None and line:
            return (
                f"Run {deciders.shown(through)} on every rank{_unless_rank(decision)}, and not "
                f"only under {quoted(decision)}: there {phrases.call(call)} meets the call of the "
                f"other ranks at {line}. Or make neither of the two there."
            )
        return moved(decision, phrases.call(call), through)
    if found.jump is not None and found.outside:
        more = ""
        tests_more = " and " in decision.text or not RANK.search(decision.text)
        if decision.depends_on[1:] or tests_more:
            more = (
                f" If only some ranks may `{found.jump}` there, decide together first: all_reduce "
                f"the result of the test with MAX, and let every rank `{found.jump}` if one does."
            )
        return (
            f"Make the calls after {said} on every rank: move them before it, or make them on "
            f"none.{more}"
        )
    return f"Let every rank take the same branch of {said}."
