"""Guards on the rank: an ``if`` before a line that sends some ranks past it, and does nothing else.

``if rank != 0: return`` before a call is as good as ``if rank == 0:`` around it.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from collectrace.align.reading import chains, code_lines, statements
from collectrace.align.reading.code_files import CodeFiles
from collectrace.align.reading.rank_names import is_asked
from collectrace.align.reading.rank_tests import lets_by_rank, parsed, spelled_out

_LEAVE: Final = ("return", "continue")
"""By what. Who raises, or leaves a loop that others go on in, may be the one at fault."""


def before(
    code: CodeFiles, site: str | None, ways: Sequence[str], assigned: Sequence[str]
) -> list[str]:
    """The guards on the rank that every way to a line comes by, as ``number text``.

    None where the text of the file is not known; nor a guard that looks at a rank's
    data as well.

    Args:
        code: the files of the run.
        site: the line.
        ways: what may lead past it, as a ``source`` record has it.
        assigned: the assignments that these go back to, as that has them.

    """
    file, _ = chains.split(site)
    bare = code.spans(file).bare
    known = _on_the_rank(code, site, ways, assigned)
    found = {line: spelled for line, spelled in known if statements.number_of(line) in bare}
    here = code.at(site).statements if found else []
    around = set(statements.deciding(here))
    return [
        line
        for line, spelled in found.items()
        if here
        and _is_on_the_way(code, file, line, around)
        and lets_by_rank(spelled, is_guard=True)
    ]


def _is_on_the_way(code: CodeFiles, file: str, line: str, around: Collection[str]) -> bool:
    """Whether a guard stands under no other conditions than those around."""
    own = code.at(f"{file}:{statements.number_of(line)}").statements
    if not own or statements.code_of(own[-1]) != statements.code_of(line):
        return False
    return set(statements.deciding(own)) <= set(around)


def _on_the_rank(
    code: CodeFiles, site: str | None, ways: Sequence[str], assigned: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """As ``number text`` those ways before a line that ask for the rank; and as spelled out."""
    bindings, before = code_lines.bindings(code, site), chains.split(site)[1]
    for way in ways:
        leaves, line = statements.way_of(way)
        is_before = leaves in _LEAVE and 0 < statements.number_of(line) < before
        spelled = spelled_out(line, assigned, bindings)
        if is_before and statements.tells_ranks_apart(spelled):
            yield line, spelled


def has_counterpart(
    code: CodeFiles, site: str, names: Collection[str], line: str, *, is_guard: bool
) -> bool:
    """Whether another line calls the same for the ranks that a condition does not let through.

    Args:
        code: the files of the run.
        site: a line that stands under a condition on the rank, or behind a guard.
        names: what it calls; looked for in its file.
        line: the condition, or the guard, as ``number text``.
        is_guard: which of the two.

    """
    return next(counterparts(code, site, names, line, is_guard=is_guard), None) is not None


def counterparts(
    code: CodeFiles, site: str, names: Collection[str], line: str, *, is_guard: bool
) -> Iterator[int]:
    """The lines that :func:`has_counterpart` asks for, by their numbers."""
    file, number = chains.split(site)
    if not names:
        return
    mine = let_by(line, is_guard=is_guard)
    calls = re.compile(rf"(?<!def )\b({'|'.join(map(re.escape, names))})\(")
    for n, text in enumerate(code.lines(file), 1):
        if n != number and calls.search(text):
            let = set(let_to(code, f"{file}:{n}"))
            if let and mine not in let:
                yield n


Let = tuple[bool, str]
"""Whether one rank is let through, or all but one, and which; else the condition, as a text."""


def let_by(line: str, *, is_guard: bool) -> Let:
    """Whom a condition, given as ``number text``, lets through; or past it, if it is a guard."""
    return _lets_through(statements.code_of(line), turned=is_guard)


def let_to(code: CodeFiles, site: str) -> Iterator[Let]:
    """Whom the conditions on the rank around a line, and the guards before it, let through."""
    file, _ = chains.split(site)
    here, ways = code.at(site).statements, code.at(site).ways
    assigned = code.at(site).given
    bindings = code_lines.bindings(code, site)
    for line in statements.branches(here):
        head = spelled_out(statements.head_of(line), assigned, bindings)
        if statements.asks(head) == "rank":
            is_contrary = statements.head_of(line) != line
            yield _lets_through(statements.code_of(head), turned=is_contrary)
    around = set(statements.deciding(here))
    for line, spelled in _on_the_rank(code, site, ways, assigned):
        if _is_on_the_way(code, file, line, around):
            yield _lets_through(statements.code_of(spelled), turned=True)


def _lets_through(text: str, *, turned: bool) -> Let:
    test = parsed(text)
    found = _picks_one(test) if test is not None else None
    return (turned, text) if found is None else (found[0] != turned, found[1])


def _picks_one(test: ast.expr) -> Let | None:
    """Whether a test holds for one rank, False: for all but one, and which; None: not seen."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            found = _picks_one(inner)
            return None if found is None else (not found[0], found[1])
        case ast.BoolOp(values=parts):
            return next((_picks_one(one) for one in parts if is_asked(ast.unparse(one))), None)
        case ast.Compare(left=left, ops=[op], comparators=[one]) if is_asked(ast.unparse(left)):
            holds = {ast.Eq: True, ast.NotEq: False, ast.Gt: False}.get(type(op))
            return None if holds is None else (holds, _which(left, one))
        case ast.Call(func=inner):
            return _picks_one(inner)
        case ast.Name(id=name) | ast.Attribute(attr=name) if is_asked(name):
            return "rank" not in name or name.startswith("is_"), "last" if "last" in name else "0"
        case _:
            return None


def lets_one_rank(line: str) -> bool:
    """Whether a condition, given as ``number text``, holds for no more than one rank of a job.

    Seen of ``rank == 0`` alone: there is a first process, or a ``local_rank``, on every host.
    """
    test = parsed(statements.code_of(line)) if statements.tells_ranks_apart(line) else None
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return any(one is not None and _IS_ONE.fullmatch(ast.unparse(one)) for one in parts)


_IS_ONE: Final = re.compile(r"((\w+\.)*((global_)?rank|get_rank\(\)) == \d+|not (\w+\.)*rank)")


def _which(left: ast.expr, one: ast.expr) -> str:
    """``0``: what the rank is compared with; and by what part of it, as in ``rank % 8 0``."""
    part = f"{ast.unparse(left)} " if isinstance(left, ast.BinOp) else ""
    return part + ast.unparse(one)


def names_called(line: str) -> set[str]:
    """The functions and methods that a line, given as ``number text``, calls; no builtin ones."""
    return set(re.findall(r"(\w+)\(", statements.code_of(line))) - set(dir(builtins))
