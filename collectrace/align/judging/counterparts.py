"""Other lines by which ranks would meet a call that stands under a condition on the rank.

Programs have a part for one rank, and another for the rest: ``publish()`` and ``fetch()``. Where
the two did not meet there, either may have been left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from collectrace import ops, words
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, code_lines, guards, statements
from collectrace.align.reading.guards import Let
from collectrace.align.reading.spans import Called
from collectrace.records import Call
from collectrace.signature import is_user

_TORCH: Final = ("", "dist", "distributed")
"""What torch's own functions are asked of, as scripts name it."""


@dataclass(frozen=True, slots=True)
class Conditional:
    """A call that a condition on the rank lets some ranks come to."""

    call: Call
    stack: Sequence[str]
    """The user's frames above it, innermost first."""
    at: int
    """Which of them stands under the condition, or behind it."""
    line: str
    """The condition, as ``number text``, with the rank in it if it asks by another name."""
    is_guard: bool

    @property
    def site(self) -> str:
        """``path:line`` of what stands under the condition."""
        return chains.site(self.stack[self.at])

    @property
    def let(self) -> Let:
        """Whom it lets through."""
        return guards.let_by(self.line, is_guard=self.is_guard)

    @property
    def names(self) -> set[str]:
        """What the call itself is asked for by."""
        own = (self.call.op, *ops.of(self.call.op).aliases)
        return {*own, *words.name(self.call).split()}


def has_counterpart(case: Case, mine: Conditional, others: Sequence[Sequence[str]]) -> bool:
    """Whether the others have a line of their own to meet a call at, or left one out that may be.

    Who waits for the first rank to be done does so before it does the same, from another line.

    Args:
        case: the run.
        mine: the call.
        others: the user's frames above the calls of the others, innermost first.

    """
    called = guards.names_called(" ".join(case.statements(mine.site)[-1:]))
    told = {chains.method(mine.stack[mine.at - 1])} if mine.at else mine.names
    if guards.has_counterpart(
        case.code, mine.site, called & told or called, mine.line, is_guard=mine.is_guard
    ):
        return True
    return _Program(case, mine, others).leaves_out_a_counterpart()


class _Program:
    """The files of a run, and where in them the two sides are."""

    def __init__(self, case: Case, mine: Conditional, others: Sequence[Sequence[str]]) -> None:
        self._mine = mine
        self._others = [frame for stack in others for frame in stack]
        self._within = {_function(case, frame) for frame in mine.stack[: mine.at]}
        self._case = case
        self._came = {chains.site(frame) for frame in case.frames}
        self._calls: dict[str, list[tuple[str, Called]]] = {}
        for file in sorted({chains.file(frame) for frame in case.frames}):
            for one in case.code.spans(file).calls:
                self._calls.setdefault(one.name, []).append((file, one))

    def leaves_out_a_counterpart(self) -> bool:
        """Whether a line that no rank came to makes the same call, and not for the same ranks."""
        own = (
            site
            for name in sorted(self._mine.names if is_user(self._mine.call) else ())
            for site in self._uncalled(name, _TORCH)
            if not self._is_explained(site, {site})
        )
        if next(own, None) is not None:
            return True
        by_function = (
            site
            for name in sorted({name for _, name in self._within} - {""})
            for site in self._uncalled(name)
            if any(let != self._mine.let for let in self._let_to(site, {site}))
        )
        return next(by_function, None) is not None

    def _uncalled(self, name: str, of: Sequence[str] = ()) -> Iterator[str]:
        """The lines, as ``path:line``, that call a function and were come to by no rank."""
        for file, one in self._calls.get(name, ()):
            sites = {f"{file}:{n}" for n in range(one.first, one.last + 1)}
            if (not of or one.of in of) and not sites & self._came:
                yield f"{file}:{one.first}"

    def _is_explained(self, site: str, seen: set[str]) -> bool:
        """Whether nobody left out a line: it is for the same ranks, or they are not there yet."""
        here = self._case.statements(site)
        if self._mine.let in set(guards.let_to(self._case.code, site)) or self._is_beside(site):
            return True
        function = chains.file(site), statements.function(here)
        if function in self._within:
            return True
        there = [f for f in self._others if _function(self._case, f) == function]
        if there:
            return all(self._is_ahead(site, here, frame) for frame in there)
        callers = self._callers(function[1])
        new = [one for one in callers if one not in seen]
        seen.update(new)
        return bool(callers) and all(self._is_explained(one, seen) for one in new)

    def _is_beside(self, site: str) -> bool:
        """Whether a line is in another branch of an ``if`` that the call itself is in."""
        return code_lines.parting_if(self._case.code, self._mine.site, site) is not None

    def _is_ahead(self, site: str, here: Sequence[str], frame: str) -> bool:
        """Whether who is at a frame comes to a line of its function only from there."""
        if chains.line(site) <= chains.line(frame):
            return False
        there = self._case.statements(chains.site(frame))
        if not set(statements.loops(here)) & set(statements.loops(there)):
            return True
        return set(statements.deciding(here)) <= set(statements.deciding(there))

    def _let_to(self, site: str, seen: set[str]) -> set[Let]:
        """Whom the conditions on the rank around a line let through; else those around callers."""
        found = set(guards.let_to(self._case.code, site))
        if found:
            return found if self._mine.let not in found else set()
        callers = self._callers(statements.function(self._case.statements(site)))
        new = [one for one in callers if one not in seen]
        seen.update(new)
        return {let for one in new for let in self._let_to(one, seen)}

    def _callers(self, function: str) -> list[str]:
        """The lines, as ``path:line``, that call a function of this name."""
        return [f"{file}:{one.first}" for file, one in self._calls.get(function, ()) if function]


def _function(case: Case, frame: str) -> tuple[str, str]:
    """The file of a frame, and its function as it is defined there."""
    return chains.file(frame), statements.function(case.statements(chains.site(frame)))
