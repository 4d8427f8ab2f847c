"""Add to findings the source lines that matter for them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, Literal, get_args

from collectrace import words
from collectrace.align.code.files import Frame, Function, Gap, statements
from collectrace.align.code.graph import Kind
from collectrace.align.code.names import How
from collectrace.align.code.program import Program
from collectrace.align.deciding import libraries
from collectrace.align.excerpts import iterations, stacks
from collectrace.align.excerpts.marks import EVERY, HELD, ITERATES, WHO, Mark, S, marks, name_ranks
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains
from collectrace.align.reading.rank_names import RANK
from collectrace.findings import Excerpt, ExcerptLine, Finding

_MOST: Final = 20
"""Findings of one run that get an excerpt."""

_MOST_LINES: Final = 16
"""Lines that are shown for one finding."""

_MOST_NOTES: Final = 4

_MOST_BETWEEN: Final = 1
"""Lines between two others that are shown as well."""

_MOST_ASSIGNED: Final = 3
"""Lines that set the variables of one decision."""

_LONGEST: Final = 200
"""Characters of a line that are shown."""

_LOOPS: Final = (Kind.LOOP, Kind.WHILE)

What = Literal["between", "loop", "decision", "place", "call"]
"""As ``ExcerptLine.what``, in ascending order of importance."""

_IMPORTANCE: Final[tuple[What, ...]] = get_args(What)

Scope = tuple[str, str]
"""A function: its file, and its qualified name."""


@dataclass(slots=True)
class _Line:
    what: What
    notes: dict[str, tuple[set[int], float]] = field(default_factory=dict)
    """The ranks and the waiting time in seconds, by the note's text as marks have it."""
    callers: set[int] = field(default_factory=set)
    """Ranks that called another function of the program on this line."""


@dataclass(slots=True)
class _Part:
    """The lines of one function that matter."""

    path: str
    function: Function | None
    """None: its source is not known."""
    depth: int
    lines: dict[int, _Line] = field(default_factory=dict)

    def at(self, line: int, what: What) -> _Line:
        """Return a line; if it exists already, keep the more important kind."""
        found = self.lines.setdefault(line, _Line(what))
        found.what = max(found.what, what, key=_IMPORTANCE.index)
        return found

    @property
    def is_telling(self) -> bool:
        """Whether a line has a note or a decision, or ranks are at different lines of it."""
        own = [one for one in self.lines.values() if one.what not in ("between", "loop")]
        return (len(own) > 1 and self.function is not None) or any(
            one.notes or one.what == "decision" for one in own
        )


def add_excerpts(case: Case, findings: Sequence[Finding], program: Program) -> list[Finding]:
    """Return the findings with excerpts and stacks, except consequences.

    An observation gets them only if it is about calls.
    """
    chosen = [
        n
        for n, one in enumerate(findings)
        if one.caused_by is None
        and (one.severity != "info" or any(side.call is not None for side in one.sides))
    ]
    made = list(findings)
    for n in chosen[:_MOST]:
        found = case.faults.attempt("explanation", (), excerpts, case, findings[n], program)
        beside = case.faults.attempt("explanation", (), stacks.stacks, case, findings[n], program)
        made[n] = replace(findings[n], excerpt=found or None, stacks=beside or None)
    return made


def excerpts(case: Case, finding: Finding, program: Program) -> tuple[Excerpt, ...]:
    """Return the lines that matter for a finding, callers before callees."""
    found = marks(case, finding)
    parts = _parts(program, found)
    for part in parts.values():
        _note_callers(part)
        _add_conditions(part)
        _add_loops(case, program, part, found)
        _add_assignments(program, part, finding)
    shown = _shown(parts)
    for scope in shown:
        _fill_gaps(parts[scope])
    owners = libraries.library_names(case.evidence.source_files, {mark.ranks[0] for mark in found})
    made: list[Excerpt] = []
    for scope in sorted((one for one in parts if one in shown), key=lambda one: parts[one].depth):
        part = parts[scope]
        lines = tuple(
            ExcerptLine(
                line=number,
                text=_text(finding, part, number),
                what=one.what,
                notes=_note_texts(case, one),
            )
            for number, one in sorted(part.lines.items())
        )
        callers, of = _callers(case, program, found, scope, shown)
        made.append(
            Excerpt(
                path=scope[0], function=scope[1], lines=_dedented(lines),
                library=owners.get(scope[0]), callers=callers or None,
                callers_of=of if callers else None,
            )
        )  # fmt: skip
    return tuple(made)


def _parts(program: Program, found: Sequence[Mark]) -> dict[Scope, _Part]:
    """Return by function the lines of the marks and of their callers."""
    parts: dict[Scope, _Part] = {}
    deepest = max((len(mark.stack) for mark in found), default=0)
    # A decision has no callers, so the calls go first and place the functions they share.
    for mark in sorted(found, key=lambda one: one.what == "decision"):
        for n, frame in enumerate(mark.stack):
            is_apart = mark.what == "decision"
            depth = deepest if is_apart else len(mark.stack) - n
            function = program.files.function(mark.ranks[0], frame)
            known = None if isinstance(function, Gap) else function
            scope = _scope(program, mark, frame)
            part = parts.setdefault(scope, _Part(frame.path, known, depth))
            if n:
                part.at(frame.line, "call").callers.update(mark.ranks)
                part.depth = max(part.depth, depth)
                continue
            line = part.at(frame.line, mark.what)
            if not line.notes:  # so far it is only a caller of another line
                line.what = mark.what
            if mark.note:
                ranks, held = line.notes.get(mark.note, (set(), 0.0))
                line.notes[mark.note] = {*ranks, *mark.ranks}, max(held, mark.held)
    return parts


def _note_callers(part: _Part) -> None:
    """Note which ranks called at each line, if ranks took different lines."""
    calls = [one for one in part.lines.values() if one.callers]
    everyone = set().union(*(one.callers for one in calls))
    for one in calls:
        if one.callers != everyone and not one.notes:
            one.notes[f"{WHO}: in this call"] = one.callers, 0.0


def _add_conditions(part: _Part) -> None:
    """Add the conditions around lines that matter, and the only statement under each condition."""
    tree = part.function.tree if part.function is not None else None
    own = [one for one in _statements_of(tree) if isinstance(one, ast.If)]
    marked = [n for n, line in part.lines.items() if line.notes or line.what == "decision"]
    for one in own:
        if any(one.body[0].lineno <= number <= (one.end_lineno or 0) for number in marked):
            part.at(one.lineno, "loop")
    decided = {number for number, line in part.lines.items() if line.what == "decision"}
    for one in own:
        if one.lineno in decided and len(one.body) == 1:
            within = range(one.body[0].lineno, (one.body[0].end_lineno or 0) + 1)
            if one.lineno not in within and not part.lines.keys() & {*within}:
                part.at(within[0], "decision")


def _add_assignments(program: Program, part: _Part, finding: Finding) -> None:
    """Add the lines that set what a decision tests: the variables that differ between its sides."""
    if part.function is None or (definitions := program.definitions(part.function)) is None:
        return
    for decision in finding.decisions or ():
        path, number = chains.split(decision.site)
        line = part.lines.get(number) if path == part.path else None
        if line is None or line.what != "decision":
            continue
        one, two = (side.values or {} for side in (decision.sides[0], decision.sides[-1]))
        differing = [name for name in one.keys() & two.keys() if one[name] != two[name]]
        differing = [name for name in differing if not RANK.fullmatch(name)]
        found = {
            binding.node.line
            for node in definitions.graph.at(number)
            for name in differing
            for binding in definitions.reaching(node, name)
            if binding.how is How.VALUE and binding.node.line not in part.lines
        }
        for each in sorted(found, key=lambda at: abs(at - number))[:_MOST_ASSIGNED]:
            part.at(each, "between")


def _statements_of(tree: ast.AST | None) -> Sequence[ast.stmt]:
    body = getattr(tree, "body", ())
    return list(statements(body)) if isinstance(body, list) else ()


def _fill_gaps(part: _Part) -> None:
    """Add what lies between two lines that are shown if it is short: readers look for it."""
    if part.function is None:
        return
    text = part.function.file.lines
    shown = sorted(part.lines)
    for one, two in pairwise(shown):
        for number in range(one + 1, two) if two - one - 1 <= _MOST_BETWEEN else ():
            if text[number - 1].strip():
                part.at(number, "between")


def _note_texts(case: Case, line: _Line) -> tuple[str, ...]:
    told = []
    # What is said of all ranks, such as the iteration, comes first.
    first = sorted(list(line.notes.items())[:_MOST_NOTES], key=lambda one: bool(one[1][0]))
    for note, (ranks, held) in first:
        lasted = f" ({words.seconds(held * 1e9)})" if held else ""
        ending = "s" if len(ranks) == 1 or name_ranks(case, ranks) == EVERY else ""
        told.append(
            note.replace(WHO, name_ranks(case, ranks)).replace(S, ending).replace(HELD, lasted)
        )
    return tuple(told)


def _scope(program: Program, mark: Mark, frame: Frame) -> Scope:
    """Return file and function of a frame, by the qualified name if it is known."""
    found = program.files.function(mark.ranks[0], frame)
    return frame.path, frame.function if isinstance(found, Gap) else found.qualified


def _add_loops(case: Case, program: Program, part: _Part, found: Sequence[Mark]) -> None:
    """Add the loops around the lines of a function, and the iterations that ranks are in."""
    function = part.function
    if function is None or (graph := program.graph(function)) is None:
        return
    for number in list(part.lines):
        node = next(graph.at(number), None)
        for head in node.loops if node is not None else ():
            loop = graph.nodes[head]
            if loop.kind in _LOOPS:
                line = part.at(loop.line, "loop")
                tree = loop.head if isinstance(loop.head, ast.AST) else loop.tree
                if tree is None:
                    continue
                told, ranks = iterations.note(case, function, tree, found)
                if told:
                    line.notes[told] = set(), 0.0
                if ITERATES in line.notes and line.notes[ITERATES][0] <= ranks:
                    del line.notes[ITERATES]  # the number says so


def _shown(parts: dict[Scope, _Part]) -> set[Scope]:
    """Return the functions to show: those with notes or decisions, then as many others as fit."""
    shown = {scope for scope, part in parts.items() if part.is_telling}
    left = _MOST_LINES - sum(len(parts[scope].lines) for scope in shown)
    others = [s for s, p in parts.items() if s not in shown and len(p.lines) > 1 and p.function]
    for scope in sorted(others, key=lambda one: -parts[one].depth):
        left -= len(parts[scope].lines)
        if left >= 0:
            shown.add(scope)
    return shown


def _text(finding: Finding, part: _Part, number: int) -> str:
    """Return a line with its indentation; empty if its text was not recorded."""
    function = part.function
    if function is not None and 0 < number <= len(function.file.lines):
        return function.file.lines[number - 1].expandtabs(4).rstrip()[:_LONGEST]
    site = f"{part.path}:{number}"
    known = next((line.text for line in finding.sources if line.site == site), "")
    decided = (one.text for one in finding.decisions or () if one.site == site)
    return known.rstrip() or next(decided, "")


def _dedented(lines: Sequence[ExcerptLine]) -> tuple[ExcerptLine, ...]:
    indents = [len(one.text) - len(one.text.lstrip()) for one in lines if one.text]
    least = min(indents, default=0)
    return tuple(replace(one, text=one.text[least:]) for one in lines)


def _callers(
    case: Case, program: Program, found: Sequence[Mark], scope: Scope, shown: set[Scope]
) -> tuple[tuple[str, ...], tuple[int, ...] | None]:
    """Return the callers of a function up to one that is shown, outermost first.

    Returns also whose they are; None: all ranks came to it in the same way.
    """
    ways: dict[tuple[str, ...], set[int]] = {}
    for mark in found:
        scopes = [_scope(program, mark, frame) for frame in mark.stack]
        if scope not in scopes or mark.what == "decision":
            continue
        own = tuple(frame.text for frame in mark.stack)
        variants = case.evidence.source_files.libraries(mark.ranks[0]).get(own, ())
        lines = next(iter(variants), ()) if len(variants) == 1 else ()
        first = scopes.index(scope) + 1
        hidden: list[str] = []
        for n in range(first, len(scopes) + 1):
            hidden += _library_frames(lines, n) if n < len(own) else []
            if n == len(scopes) or scopes[n] in shown:
                break
            hidden.append(own[n])
        ways.setdefault(tuple(reversed(hidden)), set()).update(mark.ranks)
    way: tuple[str, ...] = next(iter(ways), ())
    return way, tuple(sorted(ways[way])) if len(ways) > 1 else None


def _library_frames(lines: Sequence[str], inside: int) -> list[str]:
    """Return the first and the last library frame between two user frames of a stack.

    ``lines``: library frames as a stack record has them. ``inside``: user frames below them.
    """
    between = [line.partition(" ")[2] for line in lines if line.startswith(f"{inside} ")]
    return list(dict.fromkeys([*between[:1], *between[-1:]]))
