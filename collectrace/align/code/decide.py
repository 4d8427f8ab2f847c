"""Find the statements that can have decided that two ranks made different calls.

The input is the stack of the last call that both ranks made, and for each rank the stack of its
next call, or how it ended. The output is a list of decisions, each with what it depends on. It says
what the source allows, not what happened.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from collectrace.align.code import branches, origins
from collectrace.align.code.between import Between, Side
from collectrace.align.code.branches import TARGETS, Branch, Region
from collectrace.align.code.conditions import condition_of
from collectrace.align.code.files import Gap
from collectrace.align.code.graph import Kind, Node, Outcome, Way
from collectrace.align.code.origins import Origin
from collectrace.align.code.paths import Context, Edge
from collectrace.align.code.places import Agreements, Nothing, Place, Site
from collectrace.align.code.program import Program
from collectrace.align.code.slices import Tracer
from collectrace.align.reading import rank_tests


class Strength(Enum):
    """How sure it is that a statement decided."""

    ONLY = "only"
    """The source shows no other statement that can have decided."""
    POSSIBLE = "possible"


@dataclass(frozen=True, slots=True)
class Decision:
    """A statement that can have sent two ranks different ways."""

    site: Site
    text: str
    """The line, without indentation."""
    function: str
    """Qualified name."""
    outcomes: tuple[Outcome | None, Outcome | None]
    """What it did on either side; None: it may have done several things."""
    origins: tuple[Origin, ...]
    """What it depends on, the most telling first."""
    strength: Strength = Strength.POSSIBLE

    @property
    def origin(self) -> Origin:
        """The most telling of what it depends on."""
        return self.origins[0] if self.origins else Origin.UNKNOWN


@dataclass(frozen=True, slots=True)
class Answer:
    """The decisions between two next calls."""

    decisions: tuple[Decision, ...] = ()
    """In the order in which control reaches them after the last common call."""
    dropped: tuple[Decision, ...] = ()
    """Branches between the calls that depend on agreed values alone. If nothing else is found, the
    ranks diverged before: one of them has made an iteration without a call."""
    gaps: frozenset[Gap] = frozenset()
    """Why a decision may be missing from the list."""


def decide(program: Program, one: Side, two: Side, agreements: Agreements | None = None) -> Answer:
    """Return the statements that can have decided between the next calls of two sides.

    Args:
        program: the functions of the run.
        one: a rank, with its last and its next call.
        two: another rank.
        agreements: knows which collectives gave both sides one result; None: nothing is known.

    """
    gaps: set[Gap] = set()
    if _is_different(program, one, two):
        return Answer(gaps=frozenset({Gap.DIFFERENT}))
    found = _Found()
    tracer = Tracer(program, agreements or Nothing())
    try:
        between = Between(program, (one, two), gaps)
        same = between.same
        for context, node in between.calls if same else ():
            found.add(_Arguments(tracer).decisions(context, node))
        for region in between.regions(gaps):
            naming = _Naming(between, region, tracer, (one.rank, two.rank))
            for branch in branches.separating(region, same=same):
                found.add(naming.decisions(branch))
    except LookupError:
        gaps.add(Gap.UNREACHABLE)
    except (OverflowError, RecursionError):
        gaps.add(Gap.TOO_LARGE)
    return found.answer(gaps)


def _is_different(program: Program, one: Side, two: Side) -> bool:
    """Whether the two sides ran different text of a file on their stacks."""
    paths = {frame.path for side in (one, two) for frame in (*side.last, *side.stack)}
    texts = ([program.files.file(side.rank, path) for side in (one, two)] for path in paths)
    return any(None not in both and both[0] is not both[1] for both in texts)


class _Found:
    """Collects decisions, one for each line."""

    def __init__(self) -> None:
        self._kept: dict[Site, Decision] = {}
        self._dropped: dict[Site, Decision] = {}

    def add(self, decisions: Iterable[Decision]) -> None:
        """Add decisions. Those of one line become one, with what any of them depends on."""
        for one in decisions:
            group = self._dropped if one.origins == (Origin.AGREED,) else self._kept
            known = group.setdefault(one.site, one)
            if known is not one:
                both = origins.sorted_by_weight({*known.origins, *one.origins})
                group[one.site] = replace(known, origins=both)

    def answer(self, gaps: set[Gap]) -> Answer:
        """Return the answer."""
        decisions = tuple(self._kept.values())
        dropped = tuple(one for site, one in self._dropped.items() if site not in self._kept)
        if dropped and not decisions:
            gaps.add(Gap.EARLIER)
        if len(decisions) == 1 and not gaps:
            decisions = (replace(decisions[0], strength=Strength.ONLY),)
        return Answer(decisions, dropped, frozenset(gaps))


class _Naming:
    """Names the statements of a region by which a reader knows its branches."""

    def __init__(
        self, between: Between, region: Region, tracer: Tracer, ranks: tuple[int, int]
    ) -> None:
        self._between = between
        self._region = region
        self._tracer = tracer
        self._ranks = ranks

    def decisions(self, branch: Branch) -> Iterator[Decision]:
        """Return the decisions that a branch stands for: its handlers, if it is an exception."""
        for context, node in self._named(branch):
            outcomes = [
                _outcome(self._region, branch, node, mark) for mark in (branches.ONE, branches.TWO)
            ]
            found = self._origins(context, node, branch)
            yield _decision(context, node, (outcomes[0], outcomes[1]), found)

    def _origins(self, context: Context, node: Node, branch: Branch) -> tuple[Origin, ...]:
        """Return what the outcome of a step depends on."""
        if node.kind in (Kind.HANDLER, Kind.FINALLY, Kind.UNWIND) or any(
            edge.outcome.way is Way.RAISED for edge in self._region.edges[branch.step]
        ):
            return (Origin.EXCEPTION,)
        condition = condition_of(node)
        if condition is None and isinstance(node.tree, ast.Call):
            condition = node.tree.func  # which function it calls
        place = Place(context.function, node, context)
        found = self._tracer.origins(condition, place) if condition is not None else ()
        if node.kind is Kind.CALL:
            return tuple(one for one in found if one is not Origin.AGREED) or (Origin.UNKNOWN,)
        if found == (Origin.RANK,) and node.kind is Kind.TEST and condition is not None:
            outcomes = {_of_rank(condition, rank) for rank in self._ranks}
            if len(outcomes) == 1 and None not in outcomes:
                return (Origin.AGREED,)
        return found or (Origin.UNKNOWN,)

    def _named(self, branch: Branch) -> Iterator[tuple[Context, Node]]:
        """Return the steps by which a branch is known."""
        context, node = self._between.owner(branch.step)
        if branch.by_exception or node.kind is Kind.DISPATCH:
            yield from self._handlers(branch)
        elif node.kind in (Kind.EXIT, Kind.YIELD, Kind.RAISED) and context.parent and context.call:
            yield context.parent, context.call
        else:
            yield context, node

    def _handlers(self, branch: Branch) -> Iterator[tuple[Context, Node]]:
        """Return the handlers that an exception may reach first, if that separates the sides."""
        edges = self._region.edges[branch.step]
        normal = 0
        for edge in edges:
            normal |= 0 if edge.is_exception else self._region.leads[edge.target]
        todo: deque[tuple[int, tuple[Context, Node] | None]] = deque(
            (edge.target, None) for edge in edges if edge.is_exception or not branch.by_exception
        )
        seen = set(todo)
        while todo:
            step, block = todo.popleft()
            if step in TARGETS:
                if block is not None:  # no handler, but a call on the way out
                    yield block
                continue
            context, node = self._between.owner(step)
            lead = self._region.leads[step]
            if node.kind is Kind.HANDLER:
                if lead not in (normal, 0) or lead == branches.BOTH:
                    yield context, node
                continue
            if node.kind in (Kind.FINALLY, Kind.UNWIND):
                block = block or (context, node)
            for edge in self._region.edges.get(step, ()):
                if (edge.target, block) not in seen:
                    seen.add((edge.target, block))
                    todo.append((edge.target, block))


class _Arguments:
    """Finds where the arguments of one call, made from one place, got different values."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def decisions(self, context: Context, node: Node) -> Iterator[Decision]:
        """Return the statements at which values come in that may differ between the sides."""
        operands = [node.tree]
        if isinstance(node.tree, ast.Call):
            operands = [*node.tree.args, *(one.value for one in node.tree.keywords)]
        computed = Outcome(Way.VALUE)
        for operand in operands:
            place = Place(context.function, node, context)
            for source in self._tracer.sources(operand, place):
                at = source.place
                if at.node is None or isinstance(at.node.tree, ast.Import | ast.ImportFrom):
                    continue
                if source.origin is not Origin.AGREED:
                    owner = at.context or context
                    if at.function is not owner.function:
                        continue
                    yield _decision(owner, at.node, (computed, computed), (source.origin,))


def _decision(
    context: Context,
    node: Node,
    outcomes: tuple[Outcome | None, Outcome | None],
    found: tuple[Origin, ...],
) -> Decision:
    line = _line(node)
    file = context.function.file
    site = Site(file.path, line)
    return Decision(site, file.line(line), context.function.qualified, outcomes, found)


def _of_rank(test: ast.AST, rank: int) -> bool | None:
    """Return the outcome of a test of the rank; None: it is not known."""
    line = f"1 if {ast.unparse(test)}:"
    if rank_tests.keeps_out(line, (), rank):
        return False
    return True if rank_tests.keeps_out(line, (), rank, is_guard=True) else None


_COMPOUND = (
    ast.If, ast.While, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith, ast.Match, ast.Assert
)  # fmt: skip


def _line(node: Node) -> int:
    """Return the line by which a reader knows a step."""
    if node.kind in (Kind.TEST, Kind.LOOP) and isinstance(node.head, _COMPOUND):
        return node.head.lineno
    return node.line


def _outcome(region: Region, branch: Branch, node: Node, mark: int) -> Outcome | None:
    """Return what a branch did on a side; None: several outcomes are possible."""
    possible = {
        _named_outcome(edge, node, branch)
        for edge in region.edges[branch.step]
        if region.leads[edge.target] & mark
    }
    return possible.pop() if len(possible) == 1 else None


def _named_outcome(edge: Edge, node: Node, branch: Branch) -> Outcome:
    if branch.by_exception:
        return Outcome(Way.HANDLER, line=node.line) if edge.is_exception else Outcome(Way.NEXT)
    return edge.outcome
