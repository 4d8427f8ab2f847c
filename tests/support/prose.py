"""The text of the project that a person reads, as plain sentences."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from markdown_it import MarkdownIt

import collectrace
from collectrace.align.causes import registry
from collectrace.cli import PROGRAM, parser
from collectrace.config import OPTIONS

if TYPE_CHECKING:
    from markdown_it.token import Token

ROOT: Final = Path(collectrace.__file__).parents[1]
PACKAGE: Final = ROOT / "collectrace"

PAGES: Final = (
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", ".github/CONTRIBUTING.md")),
    *sorted((PACKAGE / "docs").glob("*.md")),
)

CODE: Final = "CODE"
"""Stands for a code span in a sentence: one word."""

VALUE: Final = "VALUE"
"""Stands for a value that is filled into a message."""

_SAYING: Final = frozenset({"ArgumentTypeError", "complain", "say", "warn"})
"""Functions that write their argument for a person."""

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[)\"']* +(?=\S)")

_NOT_AN_END: Final = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|approx)\.$")


@dataclass(frozen=True)
class Passage:
    """A paragraph, a list item, a help text, a message or the first line of a docstring."""

    source: str
    """A file of the project, a command or an option."""
    line: int
    """Its line in the file; 0 if it has none."""
    text: str

    @property
    def sentences(self) -> list[str]:
        """Return the sentences, with a word for each code span."""
        found: list[str] = []
        for part in _SENTENCE_END.split(self.text):
            if found and _NOT_AN_END.search(found[-1]):
                found[-1] += f" {part}"
            else:
                found.append(part)
        return [one.strip() for one in found if one.strip()]

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


def docs() -> Iterator[Passage]:
    """Yield the paragraphs, list items and headings of all pages, without tables and code."""
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        for token in _inline(page.read_text()):
            text = " ".join(_words(token).split(" ")).strip()
            if text:
                yield Passage(name, (token.map or [0])[0] + 1, text)


def _inline(text: str) -> Iterator[Token]:
    depth = 0
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        depth += {"table_open": 1, "table_close": -1}.get(token.type, 0)
        if token.type == "inline" and not depth:
            yield token


def _words(token: Token) -> str:
    kinds = {"code_inline": CODE, "softbreak": " ", "hardbreak": " ", "image": ""}
    return "".join(kinds.get(child.type, child.content) for child in token.children or [])


def helps() -> Iterator[Passage]:
    """Yield what ``--help`` prints of each command and its arguments, and of each option."""
    for action in parser(PROGRAM)._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        for shown in action._choices_actions:
            yield Passage(f"help of {shown.dest}", 0, _plain(shown.help or ""))
        for name, command in action.choices.items():
            for text in (command.description, command.epilog):
                for paragraph in _paragraphs(text or ""):
                    yield Passage(f"help of {name}", 0, paragraph)
            for argument in command._actions:
                text = _plain(argument.help or "")
                yield Passage(f"help of {name} {argument.metavar or argument.dest}", 0, text)
    for name, option in OPTIONS.items():
        yield Passage(f"option {name}", 0, _plain(option.what))


def causes() -> Iterator[Passage]:
    """Yield the summary of each cause and what ``explain`` prints of it, without the examples."""
    for cause in registry.CAUSES:
        if cause.status == "retired":
            yield Passage(cause.code, 0, _plain(cause.reason))
            continue
        yield Passage(cause.code, 0, _plain(cause.summary))
        for paragraph in _paragraphs(inspect.getdoc(cause.load()) or ""):
            yield Passage(cause.code, 0, paragraph)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of plain text: no examples, and no lists of two columns.

    A line that ends with a colon, before lines that are indented, begins an example.
    """
    found: list[str] = []
    last, example = "", None  # the line before that is not empty; the indent before an example
    for line in inspect.cleandoc(text).splitlines():
        if not line:
            found.append("")
            continue
        indent, before = (len(one) - len(one.lstrip()) for one in (line, last))
        if example is not None and indent > example:
            continue
        example = before if indent > before and last.endswith(":") else None
        last = line
        if example is not None or re.search(r"\S   *\S", line):
            found.append("")
            continue
        is_item = line.lstrip().startswith("- ")
        deeper = indent > before and not (found[-1:] and found[-1].startswith("- "))
        if is_item or deeper or indent < before or not found:
            found.append("")
        found[-1] = f"{found[-1]}\n{line.strip()}".lstrip("\n")
    yield from (_plain(one) for one in found if one)


def _plain(text: str) -> str:
    text = re.sub(r":\w+:`[^`]*`|``[^`]*``|`[^`]*`", CODE, text)
    return re.sub(r"\n *", " ", text).strip()


def errors() -> Iterator[Passage]:
    """Yield the messages of the package's exceptions, and what is written to standard error."""
    saying = _SAYING | exceptions()
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _name(node.func) in saying:
                for argument in node.args:
                    for text in _literals(argument):
                        if " " in text:
                            yield Passage(name, node.lineno, _plain(text))


@cache
def exceptions() -> frozenset[str]:
    """Return the names of all exceptions that the package defines."""
    found: set[str] = set()
    classes = [n for t in trees().values() for n in ast.walk(t) if isinstance(n, ast.ClassDef)]
    before = -1
    while len(found) != before:
        before = len(found)
        for one in classes:
            bases = {_name(base) for base in one.bases}
            if bases & found or any(b.endswith(("Error", "Exception")) for b in bases):
                found.add(one.name)
    return frozenset(found)


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each file of the package."""
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _literals(node: ast.expr) -> list[str]:
    """Return the texts that an expression can be, with VALUE for what is filled in."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(_part(part) for part in parts)]
        case ast.BinOp(left=left, right=right):
            sides = [_literals(side) or [VALUE] for side in (left, right)]
            return [a + b for a in sides[0] for b in sides[1] if {a, b} != {VALUE}]
        case ast.IfExp(body=body, orelse=orelse):
            return _literals(body) + _literals(orelse)
        case _:
            return []


def _part(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else VALUE


def docstrings() -> Iterator[Passage]:
    """Yield the first line of every public docstring of the package."""
    for name, tree in trees().items():
        for node in _public(tree):
            text = ast.get_docstring(node)
            if text:
                line = 1 if isinstance(node, ast.Module) else node.lineno
                yield Passage(name, line, _plain(text.splitlines()[0]))


def _public(node: ast.AST) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef]:
    if isinstance(node, ast.Module):
        yield node
    for child in getattr(node, "body", ()):
        if isinstance(child, ast.ClassDef | ast.FunctionDef) and not child.name.startswith("_"):
            yield child
            if isinstance(child, ast.ClassDef):
                yield from _public(child)
