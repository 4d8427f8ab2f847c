"""Lines of the user's code, where the file can still be read.

Sites come from logs and may name anything: only Python files of usual size are read.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

from collectrace import given
from collectrace.align.reading import arms
from collectrace.align.reading.rank_names import RANK, is_asked
from collectrace.findings import SourceLine
from collectrace.given import Given
from collectrace.ways import Ways, described

_LARGEST: Final = 2 << 20
"""Bytes of a file that is worth reading; no script is larger."""

_LONGEST: Final = 200
_DEEPEST: Final = 4 << 10
"""Characters of a line; beyond it a file is data, or meant to exhaust the parser."""


def of_site(site: str | None) -> SourceLine | None:
    """The line that a site names, without its indentation."""
    file, number = split(site)
    text = _read(file)
    if text is None or number < 1:
        return None
    lines = text.splitlines()
    if number > len(lines):
        return None
    line = lines[number - 1].strip()[:_LONGEST]
    return SourceLine(site=site or "", text=line) if line else None


def way_out(file: str, number: int) -> int | None:
    """The first ``break`` or ``return`` by which a loop, at a line, can be left before its end.

    None where there is none, or the file cannot be read.
    """
    return _spans(file).ways_out.get(number)


def handlers(site: str | None) -> list[str]:
    """The ``except`` clauses of each ``try`` whose body a line is in, as ``number text``.

    Innermost first, of the file as it is now; empty where it cannot be read.
    """
    file, number = split(site)
    lines = (_read(file) or "").splitlines()
    around = [one for one in _spans(file).tries if one[0] <= number <= one[1]]
    found = [n for _, _, those in sorted(around, reverse=True) for n in those]
    return [f"{n} {lines[n - 1].strip()[:_LONGEST]}" for n in found]


def loop_before(site: str | None, inside: str | None) -> int | None:
    """The first line of the outermost loop that ``inside`` is in and ``site`` stands behind.

    None where there is none, or the two are not in one function. It holds for the file as it is
    now, which may have been changed since the run.
    """
    file, number = split(site)
    other_file, within = split(inside)
    if file != other_file or number <= within:
        return None
    spans = _spans(file)
    if _innermost(spans.functions, number) != _innermost(spans.functions, within):
        return None
    found = [loop for loop in spans.loops if loop[0] <= within <= loop[1] < number]
    return min(found)[0] if found else None


def enclosing(site: str | None) -> list[str]:
    """The statements around a line, as a ``source`` record has them, by the file as it is now.

    ``number text`` of the first line of each ``if``, ``for``, ``while``, ``with``, ``try``,
    function and class that it is inside of, outermost first, and the line itself last; empty where
    the file cannot be read. An ``else`` is told as ``arms`` has it.
    """
    file, number = split(site)
    text = _read(file)
    here = of_site(site)
    if text is None or here is None:
        return []
    lines = text.splitlines()
    around = {
        n
        for head, part, first, last in _spans(file).blocks
        if first <= number <= last
        for n in (head, part)
        if n < number
    }
    return arms.told([f"{n} {lines[n - 1][:_LONGEST]}" for n in (*sorted(around), number)])


def ways(site: str | None) -> list[str]:
    """What may lead past a line, as a ``source`` record has it, by the file as it is now."""
    file, number = split(site)
    lines = (_read(file) or "").splitlines()
    return [described(way, lines, _LONGEST) for way in _spans(file).ways.past(number)]


def assignments(site: str | None, heads: Sequence[str]) -> list[str]:
    """What gave conditions in a site's file their values, as a ``source`` record has it.

    By the file as it is now; ``heads``: the conditions, as ``number text``.
    """
    file, _ = split(site)
    lines = (_read(file) or "").splitlines()
    return [
        given.described(head, n, lines, _LONGEST)
        for head in dict.fromkeys(map(_head, heads))
        for n in _spans(file).given.of(head)
    ]


def tells_ranks_apart(line: str) -> bool:
    """Whether a condition, given as ``number text``, lets some ranks through by who they are.

    Not one that only asks whether there are ranks at all, as ``if local_rank != -1:`` does.
    """
    return statement(line).startswith(("if ", "elif ")) and asks(line) == "rank"


def branches(lines: Sequence[str]) -> list[str]:
    """The conditions around a line, out of what is around it; ``except`` and ``finally`` too."""
    return [line for line in lines[:-1] if statement(line).startswith(_CONDITIONS)]


def deciding(lines: Sequence[str]) -> list[str]:
    """What decides whether a line is run, out of what is around it: conditions, loops, ``with``."""
    kinds = (*_CONDITIONS, "for ", "async for ", "with ", "async with ")
    return [line for line in lines[:-1] if statement(line).startswith(kinds)]


def in_function(lines: Sequence[str]) -> list[str]:
    """Of what is around a line that of its own function, itself last; empty: it is in none."""
    for n in reversed(range(len(lines) - 1)):
        if _DEF.match(statement(lines[n])):
            return list(lines[n + 1 :])
    return []


def own(lines: Sequence[str]) -> Sequence[str]:
    """The same; at the level of a module all that is around the line."""
    return in_function(lines) or lines


def innermost_loop(lines: Sequence[str]) -> str | None:
    """The innermost ``for`` or ``while`` around a line, in its own function."""
    return next(reversed(loops(lines)), None)


def loops(lines: Sequence[str]) -> list[str]:
    """Each ``for`` and ``while`` around a line, in its own function, outermost first."""
    found: list[str] = []
    for line in reversed(lines[:-1]):
        if statement(line).startswith(("for ", "while ", "async for ")):
            found.insert(0, line)
        if statement(line).startswith(("def ", "async def ", "class ")):
            break
    return found


def function(lines: Sequence[str]) -> str:
    """The function that a line stands in, out of what is around it; empty: none that is known."""
    for line in reversed(lines[:-1]):
        found = _DEF.match(statement(line))
        if found is not None:
            return found[1]
    return ""


def is_fork(site: str | None, line: str) -> bool:
    """Whether an ``if``, given as ``number text``, has another way for whom it does not let in.

    An ``else``; or what stands behind it, where its own way ends in leaving. So it is taken to
    where the file cannot be read, or is another by now.
    """
    file, _ = split(site)
    at, source = number_of(line), (_read(file) or "").splitlines()
    if not 0 < at <= len(source):
        return True
    spans, text = _spans(file), line.partition(" ")[2]
    return source[at - 1].strip() != text.strip() or at in spans.forked or at in spans.leaving


def parting_if(site: str | None, other: str | None) -> str | None:
    """The innermost ``if`` of which two lines stand in different branches, as ``number text``.

    None where there is none, or the file cannot be read.
    """
    file, number = split(site)
    other_file, other_number = split(other)
    text = _read(file)
    if text is None or file != other_file:
        return None
    spans_of: dict[int, list[tuple[int, int]]] = {}
    for line, _, first, last in _spans(file).blocks:
        spans_of.setdefault(line, []).append((first, last))
    found = [
        line
        for line, spans in spans_of.items()
        if line in _spans(file).forked
        and (mine := _innermost(spans, number)) is not None
        and (theirs := _innermost(spans, other_number)) is not None
        and mine != theirs
    ]
    return f"{max(found)} {text.splitlines()[max(found) - 1][:_LONGEST]}" if found else None


Asks = Literal["rank", "exception", "cleanup", "clock", "random", "data", ""]
"""What a condition is seen to look at; empty: nothing that is known by its name."""


def asks(line: str) -> Asks:
    """What a condition, given as ``number text``, looks at."""
    text = statement(line)
    if text.startswith("except"):
        return "exception"
    if text.startswith("finally"):
        return "cleanup"
    return _looks_at(text)


class Origin(NamedTuple):
    """What a condition is seen to look at by the values that its names were given."""

    asks: Asks = ""
    line: str = ""
    """The assignment, as ``number text``; empty: the condition itself, or nothing is known."""


def goes_back(line: str, assigned: Sequence[str]) -> Origin:
    """What a condition looks at: itself, or the nearest assignment that it goes back to.

    ``line``: the condition; ``assigned``: the assignments, as in a ``source`` record.
    """
    if found := asks(line):
        return Origin(found)
    head = str(_head(line))
    for one in assigned:
        number, _, assignment = one.partition(" ")
        value = statement(assignment).partition("=")[2]
        if number != head or not (found := _looks_at(value)):
            continue
        if found != "rank" or is_asked(value):
            return Origin(found, assignment)
    return Origin()


def _head(line: str) -> int:
    """The line of the condition that is meant by ``number text``; 0: it is damaged."""
    contrary = arms.contrary(statement(line))
    return number_of(line) if contrary is None else contrary[0]


def _looks_at(text: str) -> Asks:
    text = _HAS_RANK.sub("", text)
    return next((what for what, names in _ASKS.items() if names.search(text)), "")


def number_of(line: str) -> int:
    """The number of a line that is given as ``number text``; 0: it is damaged."""
    return _number(line.partition(" ")[0])


def _number(text: str) -> int:
    # A log may say anything: int() takes no superscripts, and only so many digits.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def statement(line: str) -> str:
    """The text of a line given as ``number text``, without its comment: that decides nothing."""
    text = line.partition(" ")[2].strip()
    quote = ""
    for n, character in enumerate(text):
        if quote:
            if character == quote and text[n - 1] != "\\":
                quote = ""
        elif character in "\"'":
            quote = character
        elif character == "#":
            return text[:n].rstrip()
    return text


_DEF: Final = re.compile(r"(?:async )?def (\w+)")

_CONDITIONS: Final = ("if ", "elif ", "while ", "except", "case ", "finally", arms.CONTRARY)

_HAS_RANK: Final = re.compile(
    r"rank[^=<>!\s]*\s*"
    r"((!=|==|>)\s*-\s*1\b|(>=|<)\s*0\b|is\s+(not\s+)?None\b)|\b(lora|low|matrix)_?rank\w*",
    re.IGNORECASE,
)
"""What asks for a rank, and is answered alike on every rank; and ranks of a matrix."""

_ASKS: Final[dict[Asks, re.Pattern[str]]] = {
    "rank": RANK,
    "clock": re.compile(r"\b(time\.\w+|perf_counter(_ns)?|monotonic(_ns)?|now|utcnow|today)\("),
    "random": re.compile(r"\b(random|randint|randrange|randn?|randperm|uniform|bernoulli)\b"),
    "data": re.compile(
        r"\.(item|any|all|numel|max|min|sum|mean|size|shape)\b|\blen\(|\bis_?(nan|inf|finite)\b"
    ),
}
"""Names by which programs ask for what differs between ranks, the most telling first."""


@dataclass(frozen=True)
class _Spans:
    """What is asked of a file: first and last line of each loop and function, and more."""

    loops: tuple[tuple[int, int], ...] = ()
    functions: tuple[tuple[int, int], ...] = ()
    blocks: tuple[tuple[int, int, int, int], ...] = ()
    """Of each compound statement its own line, that of its part (``else:``, else the same), and the
    first and last line of what that encloses."""
    forked: frozenset[int] = frozenset()
    """Lines of each ``if`` that has an ``else`` or an ``elif``."""
    leaving: frozenset[int] = frozenset()
    """Lines of each ``if`` whose body ends in leaving: a loop's turn, a function, the process."""
    tries: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
    """Of each ``try`` the first and last line of its body, and the lines of its ``except``."""
    ways_out: Mapping[int, int] = field(default_factory=dict)
    """By the line of a loop that of its first ``break`` or ``return``."""
    ways: Ways = field(default_factory=lambda: Ways(ast.Module([], [])))
    given: Given = field(default_factory=lambda: Given(ast.Module([], [])))


def _innermost(spans: Iterable[tuple[int, int]], line: int) -> tuple[int, int] | None:
    return max((span for span in spans if span[0] <= line <= span[1]), default=None)


def split(site: str | None) -> tuple[str, int]:
    """File and number of a line, given as ``path:line``; 0: it is damaged."""
    file, _, number = (site or "").rpartition(":")
    return file, _number(number)


@lru_cache(maxsize=64)
def _read(file: str) -> str | None:
    if not file.endswith(".py"):
        return None
    try:
        path = Path(file)
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None


def parsed(file: str) -> ast.Module | None:
    """What a Python file says; None where it cannot be read, or is none."""
    text = _read(file)
    if text is None or max(map(len, text.splitlines()), default=0) > _DEEPEST:
        return None
    try:
        with warnings.catch_warnings():
            # Of "\\d" a compiler warns, on standard error; the program has been told.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=64)
def _spans(file: str) -> _Spans:
    text, tree = _read(file), parsed(file)
    if text is None or tree is None:
        return _Spans()
    try:
        nodes = list(ast.walk(tree))
    except RecursionError:
        return _Spans()
    return _Spans(
        tuple(_span(n) for n in nodes if isinstance(n, _LOOPS)),
        tuple(_span(n) for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)),
        tuple(block for n in nodes for block in _blocks(n, text.splitlines())),
        frozenset(n.lineno for n in nodes if isinstance(n, ast.If) and n.orelse),
        frozenset(n.lineno for n in nodes if isinstance(n, ast.If) and _leaves(n.body[-1])),
        tuple(
            (n.body[0].lineno, _span(n.body[-1])[1], tuple(h.lineno for h in n.handlers))
            for n in nodes
            if isinstance(n, ast.Try) and n.handlers
        ),
        {
            n.lineno: min(ways)
            for n in nodes
            if isinstance(n, _LOOPS) and (ways := list(_ways_out(n.body, breaks=True)))
        },
        Ways(tree),
        Given(tree),
    )


def _leaves(node: ast.stmt) -> bool:
    """Whether nothing behind a statement is come to from it."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return name in ("exit", "_exit", "quit", "abort")
    return isinstance(node, ast.Return | ast.Raise | ast.Continue | ast.Break)


_LOOPS: Final = (ast.For, ast.While, ast.AsyncFor)


def _ways_out(body: Sequence[ast.AST], *, breaks: bool) -> Iterator[int]:
    """Lines of ``return`` and, where they end the loop in question, of ``break``."""
    for node in body:
        if isinstance(node, ast.Return) or (breaks and isinstance(node, ast.Break)):
            yield node.lineno
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            inside = list(ast.iter_child_nodes(node))
            yield from _ways_out(inside, breaks=breaks and not isinstance(node, _LOOPS))


def _blocks(node: ast.AST, lines: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """What a compound statement encloses: an ``else`` with the line of its ``if`` and its own.

    A ``finally`` has its own line alone. They are no nodes of the tree.
    """
    line = getattr(node, "lineno", None)
    if line is None or isinstance(node, ast.expr):
        return
    end = line
    for name in ("body", "orelse", "finalbody"):
        inside = getattr(node, name, None)
        if isinstance(inside, list) and inside and isinstance(inside[0], ast.stmt):
            last = inside[-1]
            above = range(inside[0].lineno, end, -1)
            part = next((n for n in above if _PARTS[name].match(lines[n - 1])), line)
            head = part if name == "finalbody" else line
            yield head, part, inside[0].lineno, last.end_lineno or last.lineno
            end = (getattr(node, "handlers", None) or inside)[-1].end_lineno or end


_PARTS: Final = {
    "body": re.compile(r"(?!)"),
    "orelse": re.compile(r"\s*else\s*:"),
    "finalbody": re.compile(r"\s*finally\s*:"),
}


def _span(node: ast.stmt) -> tuple[int, int]:
    return node.lineno, node.end_lineno or node.lineno
