"""Find lines where other ranks would meet a call under a condition on the rank.

Programs often have one part for one rank, and another for the rest: ``publish()`` and ``fetch()``.
If the two did not meet, either may have been skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from collectrace import ops, words
from collectrace.align.code.controls import Condition, controls
from collectrace.align.code.files import Frame, Function
from collectrace.align.code.graph import Graph, Kind, Node, called_name
from collectrace.align.code.names import dotted
from collectrace.align.judging import places
from collectrace.align.judging.alone import AloneByRank, can_have_outcome
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains
from collectrace.signature import is_user

_TORCH: Final = ("", "dist", "distributed")


@dataclass(frozen=True, slots=True)
class _Line:
    function: Function
    graph: Graph
    node: Node

    @property
    def site(self) -> tuple[str, int]:
        return self.function.file.path, self.node.line


def _may_call_torch(line: _Line) -> bool:
    """Whether a line may call ``torch.distributed``, by the object in front of the call."""
    of = dotted(getattr(line.node.tree, "func", None)).rpartition(".")[0]
    imported = line.function.file.imports.get(of, of)
    return of in _TORCH or imported.startswith("torch.distributed")


def counterparts(case: Case, found: AloneByRank) -> tuple[str, ...]:
    """Return as ``path:line`` the lines for the other ranks, or lines that they skipped."""
    search = _Search(case, found)
    return tuple(dict.fromkeys(f"{path}:{line}" for path, line in search.lines()))


class _Search:
    def __init__(self, case: Case, found: AloneByRank) -> None:
        self._case = case
        self._found = found
        frames = found.place.frames
        at = [n for n, frame in enumerate(frames) if self._is_under(frame)]
        self._at = min(at, default=0)
        self._within = {chains.scope(frame) for frame in frames[: self._at]}
        self._came = {chains.split(chains.site(frame)) for frame in case.frames}
        self._mine = {one.key: one.outcome for one in places.above(case, found.place)}
        self._theirs = [frame for other in found.others for frame in other.frames]

    def _is_under(self, frame: str) -> bool:
        rank, condition = self._found.place.ranks[0], self._found.condition
        return any(c.key == condition.key for c in places.conditions(self._case, rank, frame))

    def lines(self) -> Iterator[tuple[str, int]]:
        """Yield the counterparts."""
        call, frames = self._found.place.call, self._found.place.frames
        if call is None:
            return
        own = {call.op, *ops.of(call.op).aliases, *words.name(call).split()}
        here = chains.split(chains.site(frames[self._at]))
        called = {chains.method(frames[self._at - 1])} if self._at else own
        for line in self._calls(called):
            if line.site[0] == here[0] and line.site != here and self._is_for_others(line):
                yield line.site
        for line in filter(_may_call_torch, self._calls(own if is_user(call) else set())):
            if line.site not in self._came and not self._is_explained(line, set()):
                yield line.site
        for line in self._calls({name.rpartition(".")[2] for _, name in self._within}):
            if line.site not in self._came and self._is_for_others(line):
                yield line.site

    def _calls(self, names: set[str]) -> Iterator[_Line]:
        for file in self._case.program.files.known():
            if not any(name in text for name in names for text in file.lines):
                continue
            for function in file.functions:
                graph = self._case.program.graph(function)
                for node in graph.nodes if graph is not None else ():
                    if node.kind is Kind.CALL and called_name(node.tree) in names and graph:
                        yield _Line(function, graph, node)

    def _conditions(self, line: _Line) -> Sequence[Condition]:
        return controls(line.function, line.graph, [line.node])

    def _admits(self, condition: Condition) -> tuple[bool, bool]:
        """Return whether a condition admits the ranks, and whether it admits the others."""
        assumed = self._found.assumed
        others = [rank for other in self._found.others for rank in other.ranks]
        return (
            all(
                can_have_outcome(self._case, condition, r, assumed) for r in self._found.place.ranks
            ),
            all(can_have_outcome(self._case, condition, r, not assumed) for r in others),
        )

    def _is_for_others(self, line: _Line) -> bool:
        """Whether conditions on the rank exclude the ranks from a line, and admit others."""
        lets = [self._admits(one) for one in self._conditions(line)]
        return any(not mine for mine, _ in lets) and all(others for _, others in lets)

    def _is_explained(self, line: _Line, seen: set[tuple[str, int]]) -> bool:
        """Whether nobody skipped a line: it is for the same ranks, or they have not reached it."""
        around = self._conditions(line)
        is_beside = any(self._mine.get(one.key, one.outcome) is not one.outcome for one in around)
        if is_beside or any(not others for _, others in map(self._admits, around)):
            return True
        scope = line.function.file.path, line.function.qualified
        if scope in self._within:
            return True
        there = [frame for frame in self._theirs if chains.scope(frame) == scope]
        if there:
            return all(self._is_ahead(line, frame) for frame in there)
        seen.add(line.site)
        callers = [one for one in self._calls({line.function.name}) if one.site not in seen]
        return bool(callers) and all(self._is_explained(one, seen) for one in callers)

    def _is_ahead(self, line: _Line, frame: str) -> bool:
        """Whether a line of a frame's function can only be reached from there on."""
        at = Frame.parse(frame).line
        if line.node.line <= at:
            return False
        loops = [set(node.loops) for node in line.graph.at(at)]
        if not any(one & {*line.node.loops} for one in loops):
            return True
        nodes = [*line.graph.at(at)]
        known = {one.key for one in controls(line.function, line.graph, nodes)}
        return {one.key for one in self._conditions(line)} <= known
