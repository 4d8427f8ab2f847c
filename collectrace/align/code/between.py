"""The paths between the last common call of two sides and their next calls.

An exception that ends the program needs care. Its line is known, and on its way out it passes
``finally`` blocks and exits of ``with`` blocks, which may make calls. So each step exists twice: in
normal flow, and while that exception propagates.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from collectrace.align.code import branches, calls
from collectrace.align.code.branches import TARGETS, Region
from collectrace.align.code.files import Function, Gap
from collectrace.align.code.graph import (
    NEXT,
    NOT_TAKEN,
    TAKEN,
    Kind,
    Node,
    Outcome,
    Way,
    called_name,
)
from collectrace.align.code.paths import ONE, TWO, Context, Edge, Paths
from collectrace.align.code.places import Place
from collectrace.align.code.program import Level, Program, Stack
from collectrace.align.code.rank_conditions import outcome_on

_UNWINDING: Final = (1 << 50, 1 << 51)
"""Bits added to a step's number while the final exception of side one or two propagates."""

_ANY: Final = sum(_UNWINDING)

_RAISES: Final = Outcome(Way.RAISED)


class Finished(NamedTuple):
    """The rank finished its program."""


class Raised(NamedTuple):
    """An exception ended the rank's program."""

    stack: Stack
    """Where it was raised, innermost first; a single frame if only that is known."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of two ranks, or of two sets of ranks that did the same."""

    rank: int
    last: Stack
    """The last call that both sides made; empty if there is none."""
    next: Stack | Finished | Raised
    call: str = ""
    """The function of the next call, as a line may have several calls; empty: not known."""
    is_direct: bool = False
    """The rank made no call in between, in any group."""

    @property
    def stack(self) -> Stack:
        """The stack of the next call, or of the exception."""
        match self.next:
            case Finished():
                return ()
            case Raised(stack):
                return stack
            case stack:
                return stack


class Between:
    """The graph between the calls of two sides.

    Raises:
        LookupError: the stacks have no function in common.
        OverflowError: the graph is too large.

    """

    def __init__(
        self,
        program: Program,
        sides: tuple[Side, Side],
        gaps: set[Gap],
        is_shared: Callable[[Function, ast.AST], bool] | None = None,
        *,
        is_skipped: bool = False,
    ) -> None:
        last = [program.levels(side.rank, side.last, gaps) for side in sides]
        following = [program.levels(side.rank, side.stack, gaps) for side in sides]
        for n, side in enumerate(sides):
            if isinstance(side.next, Raised):
                following[n] = _complete_stack(following[n], last[n])
        stacks = _from_common_root([*last, *following])
        self.paths = Paths(program, next(stack for stack in stacks if stack)[0])
        root = self.paths.root
        raises = [False, False, *(isinstance(side.next, Raised) for side in sides)]
        places = [
            self.paths.place(stack, raises=one) for stack, one in zip(stacks, raises, strict=True)
        ]
        self.entered = [
            {context for steps in stack for step in steps for context in self._around(step)}
            for stack in (places[0::2], places[1::2])
        ]
        """By side, the contexts on the stacks of its last and its next call."""
        places[2:] = [
            self._named(steps, side.call) for steps, side in zip(places[2:], sides, strict=True)
        ]
        self.same = sorted(places[2]) == sorted(places[3]) and bool(places[2])
        """The next calls of both sides come from the same place."""
        self.calls = [self.paths.owner(step) for step in places[2]] if self.same else []
        """That place."""
        self._shared = self._iterations(places[2:], is_shared)
        """Heads of loops that were not reached again since the last call."""
        last_round = self._iterations([places[0], places[3]], lambda *_: True)
        self._last_round = last_round if is_skipped else frozenset()
        """Heads of loops that began no further iteration, but may have ended."""
        self._entries: dict[int, int] = {}
        """The real steps of the entry steps. Entry steps have numbers of their own."""
        self._begin = [*places[0], *places[1]] or [self.paths.number(root, root.graph.entry)]
        self._calls: dict[int, list[Edge]] = {}
        """By step, the edges to the next calls made there."""
        self._raising: dict[int, list[int]] = {}
        """By raising step, the marks of the final exceptions raised there."""
        self._finished: list[Edge] = []
        self._program = program
        self._ranks = [side.rank for side in sides]
        self._asks_rank = True
        """A condition on the rank alone restricts a side to one branch."""
        self._is_closed = False
        """Such a condition was found."""
        self._is_direct = all(side.is_direct for side in sides)
        """No path contains another call that every rank records."""
        self._may_exit = False
        """An unknown function may end the process."""
        self._raised: dict[int, Edge] = {}
        """By mark, the edge that a final exception takes at the end."""
        for side, target, mark, steps in zip(sides, TARGETS, _UNWINDING, places[2:], strict=True):
            match side.next:
                case Finished():
                    self._finished.append(Edge(target, NEXT, False))
                case Raised():
                    self._raised[mark] = Edge(target, _RAISES, False)
                    for step in steps:
                        self._raising.setdefault(step, []).append(mark)
                case _:
                    for step in steps:
                        call = Edge(target, Outcome(Way.CALLS), False)
                        self._calls.setdefault(step, []).append(call)

    def _around(self, step: int) -> Iterator[Context]:
        context: Context | None = self.paths.owner(step)[0]
        while context is not None:
            yield context
            context = context.parent

    def _iterations(
        self, places: Sequence[Sequence[int]], is_shared: Callable[[Function, ast.AST], bool] | None
    ) -> frozenset[int]:
        """Return the heads of the loops whose current iteration contains both calls.

        An inner loop counts only if all loops around it do, as each outer iteration restarts it.
        """
        if is_shared is None or not all(places):
            return frozenset()
        around = [self.paths.loops(step) for steps in places for step in steps]
        found: set[int] = set()
        for head in around[0]:
            context, node = self.paths.owner(head)
            is_common = all(head in loops for loops in around)
            if not is_common or node.head is None or not is_shared(context.function, node.head):
                break
            found.add(head)
        return frozenset(found)

    def _named(self, steps: list[int], name: str) -> list[int]:
        """Return the steps that call a function by this name, or all steps if none does."""
        named = [step for step in steps if called_name(self.paths.owner(step)[1].tree) == name]
        return named or steps

    def owner(self, step: int) -> tuple[Context, Node]:
        """Return the context and the node of a step."""
        return self.paths.owner(self._plain(step))

    def _by_rank(self) -> Region:
        """Return the region in which conditions on the rank alone restrict each side.

        If a side cannot reach its next call then, return the region without that restriction.
        """
        self._asks_rank, self._is_closed = True, False
        by_rank = self._explore(self._edges, self._begin)
        if not self._is_closed:
            return by_rank
        self._asks_rank = False
        region = self._explore(self._edges, self._begin)
        by_rank.without = region
        return by_rank if by_rank.is_whole else region

    def region(self, gaps: set[Gap]) -> Region:
        """Return the region between the calls."""
        region = self._by_rank()
        if self._shared and not region.is_whole:
            self._shared = frozenset()
            region = self._by_rank()
        if self._is_direct and not region.is_whole:
            self._is_direct = False
            region = self._explore(self._edges, self._begin)
        if not region.is_whole:
            # A name may stand for another function than it seems to.
            self.paths.is_trusting = False
            self._may_exit = True
            region = self._explore(self._edges, self._begin)
        if self._raised and not region.is_whole:
            # The exception may have been raised before the last call, made in a ``finally``.
            begin = [step | mark for step in self._begin for mark in self._raised]
            region = self._explore(self._edges, begin)
            if not region.is_whole:
                region = self._explore(self._edges, [*self._begin, *begin])
        if not region.is_whole:
            gaps.add(Gap.UNREACHABLE)
        return region

    def _explore(self, edges: Callable[[int], Iterable[Edge]], begin: Iterable[int]) -> Region:
        first = TARGETS[-1] + 1 + len(self._entries)
        entries = dict(enumerate(dict.fromkeys(begin), first))
        self._entries |= entries
        return branches.explore(edges, lambda step: self.paths.loops(self._plain(step)), entries)

    def _plain(self, step: int) -> int:
        """Return the number of a step in the graph of paths."""
        real = self._entries.get(step, step)
        return ~(~real & ~_ANY) if real < 0 else real & ~_ANY

    def _edges(self, step: int) -> Iterator[Edge]:
        """Return the edges of a step that the records do not rule out."""
        plain = self._plain(step)
        again = self._shared.intersection(self.paths.loops(plain))
        is_last = plain in self._last_round
        return (
            edge
            for edge in self._all_edges(step)
            if (target := self._plain(edge.target)) not in again
            and not (is_last and target not in TARGETS and plain in self.paths.loops(target))
        )

    def _all_edges(self, step: int) -> Iterator[Edge]:
        """Return the edges of a step, including those to the next calls of the sides."""
        real = self._entries.get(step, step)
        plain = self._plain(step)
        context, node = self.paths.owner(plain)
        mark = (~real if real < 0 else real) & _ANY
        is_certain = called_name(node.tree) in calls.COLLECTIVES
        made = self._calls.get(plain, ())
        if step in self._entries:
            # This step made the last call. It makes another one only from within a library.
            yield from () if is_certain else made
            yield from self._marked(self.paths.after(plain), mark, node)
            return
        yield from made
        if made and is_certain:
            return
        if self._is_direct and not made and calls.is_recorded(node.tree, context.function):
            return
        yield from self._ended(plain, node, mark)
        edges = self._marked(self.paths.edges(plain), mark, node)
        yield from self._open(edges, context, node) if node.kind is Kind.TEST else edges

    def _open(self, edges: Iterable[Edge], context: Context, node: Node) -> Iterator[Edge]:
        """Return the edges of a test, each limited to the sides that can take it."""
        place = Place(context.function, node, context)
        other: dict[int, Outcome | None] = {}  # by side the outcome that is impossible
        for side, rank in zip((ONE, TWO), self._ranks, strict=True):
            is_true = outcome_on(self._program, node.tree, place, rank) if self._asks_rank else None
            other[side] = None if is_true is None else NOT_TAKEN if is_true else TAKEN
        for edge in edges:
            closed = sum(side for side, way in other.items() if way == edge.outcome)
            self._is_closed |= closed > 0
            yield edge._replace(sides=edge.sides & ~closed)

    def _ended(self, step: int, node: Node, mark: int) -> Iterator[Edge]:
        """Return edges to the ends of the sides, and the starts of their final exceptions."""
        root = self.paths.root
        if step == self.paths.number(root, root.graph.exit) or _exits(node):
            yield from self._finished
        if step == self.paths.number(root, root.graph.raised):
            yield from self._finished if self._may_exit else ()
            located = {one for marks in self._raising.values() for one in marks}
            for one, edge in self._raised.items():
                if one == mark or one not in located:
                    yield edge
        context, _ = self.paths.owner(step)
        for one in self._raising.get(step, ()):
            if node.raises is not None and one != mark:  # it replaces an earlier exception
                raised = self.paths.number(context, node.raises)
                yield Edge(raised | one, _RAISES, False)

    def _marked(self, edges: Iterable[Edge], mark: int, node: Node) -> Iterator[Edge]:
        """Return edges that carry the mark of a final exception.

        No handler catches it, and no other exception replaces it.
        """
        for edge in edges:
            if not mark:
                yield edge
                continue
            target = edge.target
            _, other = self.paths.owner(target)
            if other.kind is Kind.HANDLER or (edge.is_exception and node.kind is not Kind.RAISED):
                continue
            marked = ~(~target | mark) if target < 0 else target | mark
            yield edge._replace(target=marked)


def _exits(node: Node) -> bool:
    if node.kind is Kind.STATEMENT and isinstance(node.tree, ast.Raise):
        return called_name(node.tree.exc) == "SystemExit"
    return node.kind is Kind.CALL and not node.edges


def _complete_stack(raised: Sequence[Level], last: Sequence[Level]) -> list[Level]:
    """Complete the stack of an exception with the outer frames of the last call's stack."""
    if not raised or not last:
        return list(raised)
    for n, level in enumerate(last):
        if level.function.tree is raised[0].function.tree:
            return [*last[:n], *raised]
    return []


def _from_common_root(stacks: Sequence[Sequence[Level]]) -> list[Sequence[Level]]:
    """Return the stacks from the outermost function that all of them contain.

    A recorded stack ends after eight frames, so the outermost frames of two may differ.
    """
    given = [stack for stack in stacks if stack]
    for level in given[0] if given else ():
        places = [
            next((n for n, one in enumerate(stack) if one.function.tree is level.function.tree), -1)
            for stack in given
        ]
        if -1 not in places:
            starts = iter(places)
            return [stack[next(starts) :] if stack else stack for stack in stacks]
    raise LookupError
