"""Find the branches that separate two targets in a graph of paths.

A branch separates the targets if one outcome can lead to the first target and another to the
second, without the two paths meeting before. Paths meet only within the same iteration: after a
path begins the next iteration of a loop around the branch, its steps count as different.

If the outcomes lead to different sets of targets, the branch separates them. If the sets are equal,
it separates them if two paths without a common step exist, with the steps of a later iteration
counted as different steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from collectrace.align.code.paths import BOTH, MOST_STEPS, ONE, TWO, Edge

TARGETS: Final = (1 << 60, (1 << 60) + 1)
"""The steps that represent the next call of each side."""

_T = TypeVar("_T", bound=Hashable)


@dataclass(slots=True)
class Region:
    """The steps on paths from the last call to a next one."""

    edges: dict[int, list[Edge]]
    """By step, the edges that lead to a target. The steps are in breadth-first order."""
    leads: dict[int, int]
    """By step, the sides that reach their targets through it: ``ONE``, ``TWO`` or both."""
    loops: Callable[[int], tuple[int, ...]]
    """Returns the heads of the loops around a step, outermost first."""
    begin: tuple[int, ...]
    """The steps that represent the last call."""
    without: Region | None = None
    """The region if conditions on the rank restrict no side; None: it is the same."""

    @property
    def is_whole(self) -> bool:
        """Whether both targets are reached."""
        return all(target in self.leads for target in TARGETS)

    def must_pass(self, step: int) -> bool:
        """Whether every path to a target contains a step."""
        seen = {step, *self.begin}
        todo = [one for one in self.begin if one != step]
        while todo:
            for edge in self.edges.get(todo.pop(), ()):
                if edge.target in TARGETS:
                    return False
                if edge.target not in seen:
                    seen.add(edge.target)
                    todo.append(edge.target)
        return True


def explore(
    edges_of: Callable[[int], Iterable[Edge]],
    loops: Callable[[int], tuple[int, ...]],
    begin: Iterable[int],
) -> Region:
    """Return the region between the last call and the next ones.

    Args:
        edges_of: returns the edges of a step, with the sides that can take them. Edges that make a
            next call lead to a target.
        loops: returns the heads of the loops around a step.
        begin: the steps that represent the last call.

    Raises:
        OverflowError: the region is too large.

    """
    first = tuple(begin)
    edges: dict[int, list[Edge]] = {}
    before: dict[int, list[tuple[int, int]]] = {}
    todo = deque(first)
    comes = dict.fromkeys(first, BOTH)
    while todo:
        step = todo.popleft()
        if len(edges) >= MOST_STEPS:
            raise OverflowError
        if step not in edges:
            edges[step] = list(edges_of(step))
            for edge in edges[step]:
                before.setdefault(edge.target, []).append((step, edge.sides))
        for edge in edges[step]:
            known = comes.get(edge.target, 0)
            now = known | (comes[step] & edge.sides)
            if now != known:
                comes[edge.target] = now
                if edge.target not in TARGETS:
                    todo.append(edge.target)
    leads: dict[int, int] = {}
    for mark, target in zip((ONE, TWO), TARGETS, strict=True):
        back = [target] if comes.get(target, 0) & mark else []
        while back:
            step = back.pop()
            if comes[step] & mark and not leads.get(step, 0) & mark:
                leads[step] = leads.get(step, 0) | mark
                back += (one for one, sides in before.get(step, ()) if sides & mark)
    relevant = {
        step: list(_leading(step, found, leads)) for step, found in edges.items() if step in leads
    }
    return Region(relevant, leads, loops, first)


def _leading(step: int, edges: Iterable[Edge], leads: Mapping[int, int]) -> Iterator[Edge]:
    """Return the edges on paths to the targets, each limited to the sides that use it."""
    for edge in edges:
        sides = edge.sides & leads[step] & leads.get(edge.target, 0)
        if sides:
            yield edge if edge.sides == sides else edge._replace(sides=sides)


@dataclass(frozen=True, slots=True)
class Branch:
    """A step that separates the targets."""

    step: int
    by_exception: bool
    """One of the separating outcomes is an exception that the step raises."""


def separating_branches(region: Region, *, same: bool) -> Iterator[Branch]:
    """Return the branches that separate the targets, in breadth-first order.

    If the rank fixes the outcome of a branch, the branch must separate the targets without that
    knowledge too. Otherwise its paths may meet before the targets.

    Args:
        region: the steps between the calls.
        same: the targets are the same step, in different iterations.

    """
    if not region.is_whole:
        return
    among = set(separating_branches(region.without, same=same)) if region.without else None
    for branch in _separating(region, same=same):
        if among is None or branch in among:
            yield branch


def _separating(region: Region, *, same: bool) -> Iterator[Branch]:
    separation = _Separation(region, {} if same else _meeting_points(region), same)
    for step, edges in region.edges.items():
        if len({edge.target for edge in edges}) < 2:
            continue
        if not same and region.leads.get(step) != BOTH:
            continue
        normal = [edge for edge in edges if not edge.is_exception]
        if separation.by(step, normal):
            yield Branch(step, by_exception=False)
        if len(normal) < len(edges) and separation.by_exception(step, edges):
            yield Branch(step, by_exception=True)


@dataclass(frozen=True, slots=True)
class _Separation:
    """Decides whether outcomes of a step separate the targets of a region."""

    region: Region
    meets: Mapping[int, int | None]
    """By step, the first step that all its paths to a target share."""
    same: bool
    """The targets are the same step, in different iterations."""

    def by_exception(self, step: int, edges: Sequence[Edge]) -> bool:
        """Whether an exception and another outcome of a step separate the targets."""
        if not self.same:
            raised = {edge.sides for edge in edges if edge.is_exception}
            normal = {edge.sides for edge in edges if not edge.is_exception}
            if not normal:
                return False
            if len(raised | normal) > 1:
                # Some outcome without an exception may be the one that differs.
                return any(one != other for one in raised for other in normal)
        return self.by(step, edges)

    def by(self, step: int, edges: Sequence[Edge]) -> bool:
        """Whether any two outcomes of a step separate the targets."""
        region = self.region
        if len({edge.target for edge in edges}) < 2:
            return False
        around = region.loops(step)
        if self.same:
            return bool(around) and _have_separate_paths(region, step, edges, around, same=True)
        if len({edge.sides for edge in edges}) > 1:
            return True
        if any(edge.sides != BOTH for edge in edges):
            return False
        meeting = self.meets.get(step)
        if meeting is not None and not _iterates(region, edges, meeting, around):
            return False
        return _have_separate_paths(region, step, edges, around, same=False)


def _iterates(region: Region, edges: Sequence[Edge], meeting: int, around: Sequence[int]) -> bool:
    """Whether a path to the meeting step may begin another iteration on the way."""
    todo = [edge.target for edge in edges]
    seen = set(todo)
    while todo:
        step = todo.pop()
        if step == meeting or step in TARGETS:
            continue
        for edge in region.edges[step]:
            if edge.target != meeting and _begins_again(region, step, edge.target) in around:
                return True
            if edge.target not in seen:
                seen.add(edge.target)
                todo.append(edge.target)
    return False


def _begins_again(region: Region, step: int, target: int) -> int | None:
    """Return the head of the loop whose next iteration an edge begins, or None."""
    if target in TARGETS or step in TARGETS:
        return None
    return target if target in region.loops(step) else None


def _have_separate_paths(
    region: Region, step: int, edges: Sequence[Edge], around: Sequence[int], *, same: bool
) -> bool:
    """Whether two outcomes lead to the two targets on paths without a common step.

    The state of a path is a step and the outermost loop around the branch that began its next
    iteration, as a position in ``around``, from 1. 0: the iteration of the branch.
    """
    levels = {head: n + 1 for n, head in enumerate(around)}

    def following(state: tuple[int, int]) -> Iterator[tuple[int, int]]:
        at, level = state
        if at in TARGETS:
            return
        for edge in edges if state == (step, 0) else region.edges[at]:
            yield moved(at, level, edge.target)

    def moved(at: int, level: int, target: int) -> tuple[int, int]:
        if target in TARGETS:
            return (TARGETS[bool(level)], 0) if same else (target, 0)
        head = _begins_again(region, at, target)
        if head is not None and (found := levels.get(head)) is not None:
            return target, found if not level else min(level, found)
        if level and around[level - 1] not in region.loops(target):
            return target, 0
        return target, level

    return _has_two_paths((step, 0), following, {(target, 0) for target in TARGETS})


def _has_two_paths(source: _T, following: Callable[[_T], Iterable[_T]], sinks: set[_T]) -> bool:
    """Whether two paths without a common inner node lead from a source to two of the sinks.

    By Menger's theorem, it suffices to test whether any first path can be augmented by a second.
    """
    first = _any_path(source, following, sinks)
    if first is None:
        return False
    place = {node: n for n, node in enumerate(first)}
    # A node of the first path is entered only to go back along that path.
    seen: set[tuple[_T, bool]] = {(source, True)}
    todo: deque[tuple[_T, bool]] = deque(seen)
    while todo:
        node, is_free = todo.popleft()
        found: list[tuple[_T, bool]] = []
        if node in place and place[node] > 1:
            found.append((first[place[node] - 1], True))
        if is_free:
            for other in following(node):
                on_path = place.get(other)
                if on_path is not None and on_path == place.get(node, -2) + 1:
                    continue
                if other in sinks and on_path is None:
                    return True
                if other != source and other not in sinks:
                    found.append((other, on_path is None))
        for one in found:
            if one not in seen:
                seen.add(one)
                todo.append(one)
    return False


def _any_path(
    source: _T, following: Callable[[_T], Iterable[_T]], sinks: set[_T]
) -> list[_T] | None:
    came: dict[_T, _T] = {}
    todo = deque([source])
    while todo:
        node = todo.popleft()
        for other in following(node):
            if other in came or other == source:
                continue
            came[other] = node
            if other in sinks:
                path = [other]
                while path[-1] != source:
                    path.append(came[path[-1]])
                return path[::-1]
            todo.append(other)
    return None


def _meeting_points(region: Region) -> dict[int, int | None]:
    """Return by step the first step that all its paths to a target share, or None.

    These are immediate post-dominators, after Cooper, Harvey and Kennedy, "A Simple, Fast Dominance
    Algorithm".
    """
    order = _towards_targets(region)
    rank = {step: n for n, step in enumerate(order)}
    top = len(order)
    meets = [-1] * top

    def common(one: int, two: int) -> int:
        while one != two:
            if one < two:
                one = meets[one]
            else:
                two = meets[two]
        return one

    changed = True
    while changed:
        changed = False
        for n in range(top - 1, -1, -1):
            found = -1
            for edge in region.edges[order[n]]:
                other = rank.get(edge.target, top)
                if other == top or meets[other] != -1:
                    found = other if found == -1 else common(found, other)
            if found != meets[n]:
                meets[n] = found
                changed = True
    return {order[n]: order[found] if found < top else None for n, found in enumerate(meets)}


def _towards_targets(region: Region) -> list[int]:
    """Return the steps in postorder of a search from the targets backwards."""
    before: dict[int, list[int]] = {}
    for step, edges in region.edges.items():
        for edge in edges:
            before.setdefault(edge.target, []).append(step)
    order: list[int] = []
    seen = set(TARGETS)
    for target in TARGETS:
        todo = [(target, iter(before.get(target, ())))]
        while todo:
            step, rest = todo[-1]
            following = next((one for one in rest if one not in seen), None)
            if following is not None:
                seen.add(following)
                todo.append((following, iter(before.get(following, ()))))
                continue
            todo.pop()
            if step not in TARGETS:
                order.append(step)
    return order
