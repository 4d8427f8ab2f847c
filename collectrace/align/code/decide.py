"""Find the statements that can have decided that two ranks made different calls.

The input is the stack of the last call that both ranks made, and each rank's next call or end. The
output is a list of decisions with what each depends on. It shows what the source allows, not what
happened.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Final, Literal

from collectrace import ops
from collectrace.align.code import branches, origins
from collectrace.align.code.between import Between, Side
from collectrace.align.code.branches import TARGETS, Branch, Region
from collectrace.align.code.conditions import (
    OPPOSITE,
    condition_of,
    is_constant,
    is_negated,
)
from collectrace.align.code.controls import controls
from collectrace.align.code.decisions import (
    IMPORTS,
    Answer,
    Decision,
    Outcomes,
    Strength,
    at_line,
    compares_constant,
    is_item,
    line_of,
    merged,
    origin_site,
)
from collectrace.align.code.files import Function, Gap
from collectrace.align.code.graph import Kind, Node, Outcome, Way, called_name
from collectrace.align.code.origins import Origin
from collectrace.align.code.paths import BOTH, ONE, TWO, Context, Edge
from collectrace.align.code.places import Agreements, Asked, Place, Site
from collectrace.align.code.program import Program
from collectrace.align.code.rank_conditions import outcome_on
from collectrace.align.code.slices import Tracer

Differing = Literal["any", "data", "dtype", "others", "root", "tag", "peer"]


def decide(
    program: Program,
    one: Side,
    two: Side,
    agreements: Agreements | None = None,
    *,
    differing: Differing = "any",
    is_shared: Callable[[Function, ast.AST], bool] | None = None,
    is_skipped: bool = False,
) -> Answer:
    """Return the statements that can have decided between the next calls of two sides.

    Args:
        program: the functions of the run.
        one: a rank, with its last and its next call.
        two: another rank.
        agreements: knows which collectives gave both sides the same result; None: none is known.
        differing: the arguments that differ if both next calls are one: ``data``: the tensors;
            ``dtype``: their dtype; ``others``: the root or the like; ``tag`` and ``peer``: those of
            a message.
        is_shared: whether both sides are in the same iteration of a loop; None: not known.
        is_skipped: side one never made the call of side two, which was due after its last call, in
            the same iteration of the loops around both.

    """
    gaps: set[Gap] = set()
    if _is_different(program, one, two):
        return Answer(gaps=frozenset({Gap.DIFFERENT}))
    # Values that ranks agree on may still differ between two iterations of one rank.
    found = _Found(drops_agreed=one.rank != two.rank)
    tracer = Tracer(program, agreements or Agreements())
    try:
        between = Between(program, (one, two), gaps, is_shared, is_skipped=is_skipped)
        same = between.same
        for context, node in between.calls if same else ():
            found.add(_Arguments(tracer).decisions(context, node, differing))
        region = between.region(gaps)
        naming = _Naming(program, between, region, tracer, (one.rank, two.rank))
        for branch in branches.separating_branches(region, same=same):
            found.add(naming.decisions(branch))
    except LookupError:
        gaps.add(Gap.UNREACHABLE)
    except (OverflowError, RecursionError):
        gaps.add(Gap.TOO_LARGE)
    answer = found.answer(gaps)
    if is_shared is not None and not answer.decisions and not is_skipped:
        return decide(program, one, two, agreements, differing=differing)
    return answer


def _is_different(program: Program, one: Side, two: Side) -> bool:
    """Whether the two sides ran different versions of a file on their stacks."""
    paths = {frame.path for side in (one, two) for frame in (*side.last, *side.stack)}
    texts = ([program.files.file(side.rank, path) for side in (one, two)] for path in paths)
    return any(None not in both and both[0] is not both[1] for both in texts)


class _Found:
    """Collects decisions, one for each line."""

    def __init__(self, *, drops_agreed: bool) -> None:
        self._drops_agreed = drops_agreed
        self._kept: dict[Site, Decision] = {}
        self._dropped: dict[Site, Decision] = {}
        self._constant: dict[Site, Decision] = {}
        """Decisions on a constant that was not followed, so most probably equal on all ranks."""

    def add(self, decisions: Iterable[Decision]) -> None:
        """Add decisions, merging those of the same line."""
        for one in decisions:
            is_agreed = one.origins == (Origin.AGREED,)
            is_dropped = is_agreed and (self._drops_agreed or one.is_constant)
            group = self._dropped if is_dropped else self._kept
            if one.is_constant and {*one.origins} <= {Origin.UNKNOWN, Origin.AGREED}:
                group = self._dropped if is_dropped else self._constant
            known = group.setdefault(one.site, one)
            if known is not one:
                group[one.site] = merged(known, one)

    def answer(self, gaps: set[Gap]) -> Answer:
        """Return the collected decisions, with the reasons why one may be missing."""
        parts = self._constant
        decisions = tuple(
            merged(one, parts[site]) if site in parts else one
            for site, one in (self._kept or parts).items()
        )
        dropped = tuple(one for site, one in self._dropped.items() if site not in self._kept)
        if dropped and not decisions:
            gaps.add(Gap.EARLIER)
        if len(decisions) == 1 and not gaps:
            decisions = (replace(decisions[0], strength=Strength.ONLY),)
        return Answer(decisions, dropped, frozenset(gaps))


class _Naming:
    """Maps the branches of a region to the statements that a reader knows them by."""

    def __init__(
        self,
        program: Program,
        between: Between,
        region: Region,
        tracer: Tracer,
        ranks: tuple[int, int],
    ) -> None:
        self._program = program
        self._between = between
        self._region = region
        self._tracer = tracer
        self._ranks = ranks
        self._is_of_one_rank = ranks[0] == ranks[1]
        self._handled: set[int] = set()
        """Handlers that already have a decision."""

    def decisions(self, branch: Branch) -> Iterator[Decision]:
        """Return the decisions that a branch stands for; for an exception, its handlers."""
        context, node = self._between.owner(branch.step)
        if branch.by_exception or node.kind is Kind.DISPATCH:
            yield from self._by_exception(branch)
            return
        edges = self._region.edges[branch.step]
        parts = self._parts(branch.step)
        outcomes = [self._outcome(parts, one) for one in (ONE, TWO)]
        found, comes_from = self._origins(context, node, edges)
        by_rank = self._is_alike_by_rank(context, node, found)
        if by_rank:
            found, comes_from = (Origin.AGREED,), None
        caller, call = context.parent, context.call
        if node.kind in (Kind.EXIT, Kind.YIELD, Kind.RAISED) and caller is not None and call:
            # The caller of the function, or the generator's consumer, decides what follows.
            context, node, found, comes_from = caller, call, (Origin.UNKNOWN,), None
        if outcomes[0] == outcomes[1] and None not in outcomes and node.kind is Kind.TEST:
            return  # both sides took the same branch
        known = [
            outcome if self._is_entered(context, side) else None
            for side, outcome in enumerate(outcomes)
        ]
        decision = at_line(context.function, line_of(node), (known[0], known[1]), found, comes_from)
        is_certain = (
            outcomes[0] != outcomes[1]
            and None not in outcomes
            and any(map(self._region.must_pass, parts))
        )
        yield replace(
            decision,
            is_constant=by_rank or is_constant(condition_of(node)),
            strength=Strength.ONLY if is_certain else Strength.POSSIBLE,
        )

    def _is_entered(self, context: Context, side: int) -> bool:
        """Whether a side ran a function, as far as is known; its stacks may lack the function.

        It may not have if the call has several possible callees, or is under a condition that may
        have had another outcome on the side.
        """
        while context.call is not None and context.parent is not None:
            if context in self._between.entered[side]:
                return True
            parent = context.parent
            tests = controls(parent.function, parent.graph, [context.call])
            nodes = [one.node for one in tests if one.node is not None]
            if len(parent.children[context.call.number]) > 1 or any(
                self._may_differ(parent, node, (ONE, TWO)[side]) for node in nodes
            ):
                return False
            context = parent
        return True

    def _may_differ(self, context: Context, node: Node, mark: int) -> bool:
        """Whether a condition had an unknown outcome on a side, which may be the rank's own."""
        step = self._between.paths.number(context, node)
        edges = self._region.edges.get(step)
        if edges is None or self._outcome(self._parts(step), mark) is not None:
            return False
        found = self._origins(context, node, edges)[0]
        return found != (Origin.AGREED,) and not (self._is_of_one_rank and found == (Origin.RANK,))

    def _parts(self, step: int) -> Sequence[int]:
        """Return the steps that test the parts of one condition, such as ``a and b``."""
        context, node = self._between.owner(step)
        if node.kind is not Kind.TEST or not isinstance(node.head, _TESTING):
            return (step,)
        return [
            other
            for other in self._region.edges
            if (owner := self._between.owner(other))[0] is context
            and owner[1].head is node.head
            and owner[1].kind is Kind.TEST
        ]

    def _outcome(self, parts: Sequence[int], mark: int) -> Outcome | None:
        """Return the outcome of a branch on a side, or None if several are possible.

        A part of a condition counts only if no other part is evaluated after it.
        """
        found = set()
        for step in parts:
            context, node = self._between.owner(step)
            for edge in self._region.edges[step]:
                if edge.sides & mark and not self._goes_on(context, node, edge.target):
                    way = OPPOSITE.get(edge.outcome, edge.outcome)
                    found.add(way if is_negated(node) else edge.outcome)
        return found.pop() if len(found) == 1 else None

    def _goes_on(self, context: Context, node: Node, target: int) -> bool:
        """Whether the evaluation of the same condition continues at ``target``."""
        if target in TARGETS or not isinstance(node.head, _TESTING):
            return False
        where, other = self._between.owner(target)
        return where is context and any(one is other.tree for one in ast.walk(node.head.test))

    def _by_exception(self, branch: Branch) -> Iterator[Decision]:
        edges = self._region.edges[branch.step]
        normal = reduce(or_, (edge.sides for edge in edges if not edge.is_exception), 0)
        handlers = dict(self._handlers(branch, normal if branch.by_exception else 0))
        # Two different exceptions are considered only if no simpler explanation is left.
        if not branch.by_exception and handlers.keys() & self._handled:
            return
        self._handled.update(handlers)
        for step, lead in handlers.items():
            context, node = self._between.owner(step)
            outcomes = _handled(node, lead, normal)
            yield at_line(context.function, line_of(node), outcomes, (Origin.EXCEPTION,))

    def _origins(
        self, context: Context, node: Node, edges: Sequence[Edge]
    ) -> tuple[tuple[Origin, ...], Site | None]:
        """Return the origins of a step's outcome, and the line where the first one comes in."""
        if any(edge.outcome.way is Way.RAISED for edge in edges):
            return (Origin.EXCEPTION,), None
        condition = condition_of(node)
        if condition is None and isinstance(node.tree, ast.Call):
            condition = node.tree.func  # the choice of the called function
        place = Place(context.function, node, context)
        sources = self._tracer.sources(condition, place) if condition is not None else []
        found = origins.sorted_by_weight(one.origin for one in sources)
        if self._is_of_one_rank and found[1:]:  # its rank is the same in each iteration
            found = tuple(one for one in found if one is not Origin.RANK)
        if compares_constant(
            condition
        ):  # the loop that provides the item is the most informative place
            sources = [one._replace(inner=None) if is_item(one) else one for one in sources]
        if node.kind is Kind.LOOP and found:  # what decides how many items it has tells more
            counted = self._tracer.sources(condition, place, Asked.LENGTH)
            counts = origins.sorted_by_weight(one.origin for one in counted)
            if found[0] is not Origin.ORDER and counts == (Origin.AGREED,):
                return (Origin.AGREED,), None
            draws = found[0] is Origin.RANDOM and counts not in ((), (Origin.UNKNOWN,))
            if draws or (found == (Origin.AGREED,) and counts):
                found, sources = counts, counted  # which items there are is not how many
            sources = [*(one for one in counted if one.origin is found[0]), *sources]
        comes_from = origin_site(sources, found, line_of(node))
        if node.kind is Kind.CALL:
            found = tuple(one for one in found if one is not Origin.AGREED)
            return found or (Origin.UNKNOWN,), comes_from
        return found or (Origin.UNKNOWN,), comes_from

    def _is_alike_by_rank(self, context: Context, node: Node, found: Sequence[Origin]) -> bool:
        """Whether a test of the rank always has the same outcome on both sides."""
        condition = condition_of(node)
        if tuple(found) != (Origin.RANK,) or node.kind is not Kind.TEST or condition is None:
            return False
        place = Place(context.function, node, context)
        outcomes = {outcome_on(self._program, condition, place, one) for one in self._ranks}
        return len(outcomes) == 1 and None not in outcomes

    def _handlers(self, branch: Branch, normal: int) -> Iterator[tuple[int, int]]:
        """Return the first handlers of an exception, with the targets that each leads to.

        Only handlers that separate the sides count. A ``finally`` or ``with`` that leads to a
        target by itself counts as a handler.
        """
        edges = self._region.edges[branch.step]
        todo: deque[tuple[int, int | None]] = deque(
            (edge.target, None) for edge in edges if edge.is_exception or not branch.by_exception
        )
        seen = set(todo)
        while todo:
            step, block = todo.popleft()
            if step in TARGETS:
                if block is not None:  # no handler, but a call in a ``finally`` or ``with``
                    yield block, self._region.leads[step]
                continue
            _, node = self._between.owner(step)
            lead = self._region.leads[step]
            if node.kind is Kind.HANDLER:
                if lead not in (normal, 0) or lead == BOTH:
                    yield step, lead
                continue
            if node.kind in (Kind.FINALLY, Kind.UNWIND) and block is None:
                block = step
            for edge in self._region.edges.get(step, ()):
                if (edge.target, block) not in seen:
                    seen.add((edge.target, block))
                    todo.append((edge.target, block))


class _Arguments:
    """Finds where the arguments of the same call got different values."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def decisions(self, context: Context, node: Node, differing: Differing) -> Iterator[Decision]:
        """Return the statements that provide values which may differ between the sides."""
        operands = [node.tree]
        op = called_name(node.tree).partition("_object")[0]
        if differing == "root" and op not in ops.ROOTED:
            differing = "others"  # a function of a library, with arguments of its own
        if isinstance(node.tree, ast.Call):
            keywords = node.tree.keywords
            if differing in _OF_TENSORS:
                keywords = [one for one in keywords if one.arg not in _NO_DATA]
            operands = [*node.tree.args, *(one.value for one in keywords)]
        if differing == "others":  # the tensor or tensor list is the first argument
            operands = operands[1:] or operands
        if differing in _NAMED:
            operands = []
        if differing in _NAMED and isinstance(node.tree, ast.Call):
            names, position = _NAMED[differing]
            # gather and scatter have a list before the root.
            position += differing == "root" and op.startswith(("gather", "scatter"))
            named = [one.value for one in node.tree.keywords if one.arg in names]
            operands += [*named, *node.tree.args[position : position + 1]][:1]
        computed = Outcome(Way.VALUE)
        for operand in operands:
            place = Place(context.function, node, context)
            for at, sources in self._tracer.assignments(
                operand, place, _ASKED.get(differing, Asked.VALUE)
            ):
                line = line_of(at.node) if at.node is not None else at.line
                is_import = at.node is not None and isinstance(at.node.tree, IMPORTS)
                found = origins.sorted_by_weight(one.origin for one in sources)
                if line and not is_import and found != (Origin.AGREED,):
                    comes_from = origin_site(sources, found, line)
                    yield at_line(at.function, line, (computed, computed), found, comes_from)


_OF_TENSORS: Final = frozenset({"data", "dtype"})

_ASKED: Final = {"any": Asked.SIZE, "data": Asked.SIZE, "dtype": Asked.DTYPE}

_RANKS: Final = frozenset({"dst", "src", "group_dst", "group_src"})

_NAMED: Final[Mapping[str, tuple[frozenset[str], int]]] = {
    "tag": (frozenset({"tag"}), 3), "peer": (_RANKS, 1), "root": (_RANKS, 1),
}  # fmt: skip
"""Names and position of the argument that differs."""


_NO_DATA: Final = frozenset(
    {"op", "group", "src", "dst", "group_src", "group_dst", "tag", "async_op"}
)
"""Arguments of a call that do not decide its tensors."""

_TESTING = ast.If, ast.While, ast.Assert


def _handled(handler: Node, lead: int, normal: int) -> Outcomes:
    """Return whether each side entered a handler; None: possible but not certain."""
    way = Way.HANDLER if handler.kind is Kind.HANDLER else Way.RAISED
    entered = Outcome(way, line=handler.line)
    outcomes = [
        Outcome(Way.NO_HANDLER) if not lead & mark else None if normal & mark else entered
        for mark in (ONE, TWO)
    ]
    return outcomes[0], outcomes[1]
