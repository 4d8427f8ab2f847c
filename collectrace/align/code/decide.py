"""Find the statements that can have decided that two ranks made different calls.

The input is the stack of the last call that both ranks made, and for each rank the stack of its next
call, or how it ended. The output is a list of decisions, each with what it depends on. It says what
the source allows, not what happened.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from collectrace.align.code import branches, calls
from collectrace.align.code.branches import TARGETS, Branch, Region
from collectrace.align.code.files import Gap
from collectrace.align.code.graph import Kind, Node, Outcome, Way, called_name
from collectrace.align.code.paths import Context, Edge, Level, Paths, Program, Stack


class Finished(NamedTuple):
    """The rank finished its program."""


class Raised(NamedTuple):
    """An exception ended the rank's program."""

    stack: Stack
    """Where it was raised, innermost first; a single frame if more is not known."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of two ranks, or of two sets of ranks that did the same."""

    rank: int
    last: Stack
    """The last call that both made; empty: they made none before."""
    next: Stack | Finished | Raised


class Strength(Enum):
    """How sure it is that a statement decided."""

    ONLY = "only"
    """The source shows no other statement that can have decided."""
    POSSIBLE = "possible"


class Site(NamedTuple):
    """A line of a file."""

    path: str
    line: int


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
    strength: Strength


@dataclass(frozen=True, slots=True)
class Answer:
    """The decisions between two next calls."""

    decisions: tuple[Decision, ...] = ()
    """In the order in which control reaches them after the last common call."""
    gaps: frozenset[Gap] = frozenset()
    """Why a decision may be missing from the list."""


def decide(program: Program, one: Side, two: Side) -> Answer:
    """Return the statements that can have decided between the next calls of two sides."""
    gaps: set[Gap] = set()
    if _is_different(program, one, two):
        return Answer(gaps=frozenset({Gap.DIFFERENT}))
    try:
        return _Question(program, one, two, gaps).answer()
    except (OverflowError, RecursionError):
        return Answer(gaps=frozenset({*gaps, Gap.TOO_LARGE}))


def _is_different(program: Program, one: Side, two: Side) -> bool:
    """Whether the two sides ran different text of a file on their stacks."""
    paths = {frame.path for side in (one, two) for frame in (*side.last, *_stack(side))}
    texts = [[program.files.file(side.rank, path) for side in (one, two)] for path in paths]
    return any(a is not b for a, b in texts)


def _stack(side: Side) -> Stack:
    match side.next:
        case Finished():
            return ()
        case Raised(stack):
            return stack
        case stack:
            return stack


class _Question:
    """The graph between the calls of two sides, and what is read off it."""

    def __init__(self, program: Program, one: Side, two: Side, gaps: set[Gap]) -> None:
        self._gaps = gaps
        self._sides = one, two
        last = [program.levels(side.rank, side.last, gaps) for side in self._sides]
        following = [program.levels(side.rank, _stack(side), gaps) for side in self._sides]
        self._begin: dict[int, int] = {}
        self._ends: dict[int, list[Edge]] = {}
        stacks = _from_common_root([*last, *following])
        self.is_known = bool(stacks)
        if not stacks:
            return
        self._paths = Paths(program, next(stack for stack in stacks if stack)[0])
        places = [self._paths.place(stack) for stack in stacks]
        root = self._paths.root
        begin = [*places[0], *places[1]] or [self._paths.number(root, root.graph.entry)]
        for n, step in enumerate(dict.fromkeys(begin)):
            self._begin[TARGETS[-1] + 1 + n] = step
        for side, target, steps in zip(self._sides, TARGETS, places[2:], strict=True):
            way = Way.RAISED if isinstance(side.next, Raised) else Way.CALLS
            if isinstance(side.next, Finished):
                steps = [self._paths.number(root, root.graph.exit)]
            for step in steps:
                edge = Edge(target, Outcome(way), False)
                self._ends.setdefault(step, []).append(edge)
        self._finishing = [
            target
            for side, target in zip(self._sides, TARGETS, strict=True)
            if isinstance(side.next, Finished)
        ]
        self.same = sorted(places[2]) == sorted(places[3]) and bool(places[2])

    def answer(self) -> Answer:
        """Return the decisions."""
        if not self.is_known:
            return Answer(gaps=frozenset({*self._gaps, Gap.UNREACHABLE}))
        region = branches.explore(self._edges, self._loops, self._begin)
        if not all(target in region.leads for target in TARGETS) and not self.same:
            self._gaps.add(Gap.UNREACHABLE)
        found: dict[Site, Decision] = {}
        for branch in branches.separating(region, same=self.same):
            for context, node in self._named(region, branch):
                decision = self._decision(region, branch, context, node)
                found.setdefault(decision.site, decision)
        return Answer(tuple(found.values()), frozenset(self._gaps))

    def _edges(self, step: int) -> Iterator[Edge]:
        """Return the edges of a step, with those to the next calls of the sides."""
        real = self._begin.get(step)
        if real is not None:
            if not self._is_certain(real):
                yield from self._ends.get(real, ())
            yield from self._paths.after(real)
            return
        yield from self._ends.get(step, ())
        _, node = self._paths.owner(step)
        if node.kind is Kind.CALL and not node.edges:  # it ends the process
            yield from (Edge(target, Outcome(Way.CALLS), False) for target in self._finishing)
        ends = {edge.outcome.way for edge in self._ends.get(step, ())}
        if ends != {Way.CALLS} or not self._is_certain(step):
            yield from self._paths.edges(step)

    def _is_certain(self, step: int) -> bool:
        """Whether a step makes one call each time."""
        _, node = self._paths.owner(step)
        return called_name(node.tree) in calls.COLLECTIVES

    def _real(self, step: int) -> int:
        return self._begin.get(step, step)

    def _loops(self, step: int) -> tuple[int, ...]:
        return self._paths.loops(self._real(step))

    def _named(self, region: Region, branch: Branch) -> Iterator[tuple[Context, Node]]:
        """Return the nodes by which a branch is called: its handlers, if it is an exception."""
        context, node = self._paths.owner(self._real(branch.step))
        if branch.by_exception or node.kind is Kind.DISPATCH:
            yield from self._handlers(region, branch)
            return
        if node.kind in (Kind.EXIT, Kind.YIELD, Kind.RAISED) and context.parent and context.call:
            yield context.parent, context.call
        else:
            yield context, node

    def _handlers(self, region: Region, branch: Branch) -> Iterator[tuple[Context, Node]]:
        """Return the handlers that an exception may reach first, if they differ from no exception."""
        edges = region.edges[branch.step]
        normal = 0
        for edge in edges:
            normal |= 0 if edge.is_exception else region.leads[edge.target]
        todo = deque(edge.target for edge in edges if edge.is_exception or not branch.by_exception)
        seen = set(todo)
        blocks: list[tuple[Context, Node]] = []
        found = False
        while todo:
            step = todo.popleft()
            if step in TARGETS:
                continue
            context, node = self._paths.owner(step)
            if node.kind is Kind.HANDLER:
                lead = region.leads[step]
                if lead != normal or lead == branches.BOTH:
                    found = True
                    yield context, node
                continue
            if node.kind is Kind.FINALLY:
                blocks.append((context, node))
            for edge in region.edges.get(step, ()):
                if edge.target not in seen:
                    seen.add(edge.target)
                    todo.append(edge.target)
        if not found:
            yield from blocks[:1]

    def _decision(self, region: Region, branch: Branch, context: Context, node: Node) -> Decision:
        line = _line(node)
        file = context.function.file
        outcomes = [_outcome(region, branch, node, mark) for mark in (branches.ONE, branches.TWO)]
        return Decision(
            Site(file.path, line), file.line(line), context.function.qualified,
            (outcomes[0], outcomes[1]), Strength.POSSIBLE,
        )  # fmt: skip


_COMPOUND = (
    ast.If,
    ast.While,
    ast.For,
    ast.AsyncFor,
    ast.With,
    ast.AsyncWith,
    ast.Match,
    ast.Assert,
)


def _line(node: Node) -> int:
    """Return the line by which a reader knows a node."""
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


def _from_common_root(stacks: Sequence[Sequence[Level]]) -> list[Sequence[Level]]:
    """Return the stacks from the outermost function that all of them are in.

    A stack of a record ends with its eighth frame, so the outermost frames of two may differ.
    """
    given = [stack for stack in stacks if stack]
    if not given:
        return []
    for level in given[0]:
        places = [
            next((n for n, one in enumerate(stack) if one.function.tree is level.function.tree), -1)
            for stack in given
        ]
        if -1 not in places:
            starts = iter(places)
            return [stack[next(starts) :] if stack else stack for stack in stacks]
    return []
