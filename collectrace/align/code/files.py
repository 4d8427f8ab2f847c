"""The source files of a run, and the functions of stack frames.

The text comes from rank files, so it may be damaged or hostile. A file that is too large, too
deeply nested or not Python counts as "source not available". No text makes these functions raise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Final, Protocol

from collectrace.align.reading import parsing

MOST_BYTES: Final = 2 << 20
"""Largest file that is parsed, bytes. The tracer records no larger one."""

MOST_STATEMENTS: Final = 100_000
"""Most statements of a file that is parsed."""

_MOST_JOINED: Final = 6
"""Lines that are joined to one in a sentence."""

Code = (
    ast.Module
    | ast.ClassDef
    | ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.Lambda
    | ast.GeneratorExp
    | ast.ListComp
    | ast.SetComp
    | ast.DictComp
)
"""Syntax trees that have their own frame when they run."""

_UNNAMED: Final = {
    ast.Lambda: "<lambda>",
    ast.GeneratorExp: "<genexpr>",
    ast.ListComp: "<listcomp>",
    ast.SetComp: "<setcomp>",
    ast.DictComp: "<dictcomp>",
}


class Gap(Enum):
    """A reason why a decision may be missing from the answer."""

    NO_SOURCE = "source not available"
    CHANGED = "source changed"
    DIFFERENT = "the two ranks run different source"
    TOO_LARGE = "too large"
    UNREACHABLE = "the source shows no path from the last common call to the next call"
    EARLIER = "the ranks diverged before the last common call"


class Sources(Protocol):
    """The recorded source files of a run."""

    def text(self, rank: int, path: str) -> str | None:
        """Return the text of a file as a rank ran it; None if it was not recorded."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A stack frame: a line in a function."""

    path: str
    line: int
    function: str
    """Qualified name, such as ``Trainer.step``; empty: the record has only the line."""
    first: int | None = None
    """First line of the function, decorators included; None: not recorded."""

    @classmethod
    def parse(cls, text: str, first: int | None = None) -> Frame:
        """Parse a frame of a record: ``path:line function``. Line 0 marks damaged text."""
        site, _, function = text.rpartition(" ")
        path, _, digits = site.rpartition(":")
        known = digits.isascii() and digits.isdigit() and len(digits) < 9
        return cls(path, int(digits) if known else 0, function, first)

    @property
    def text(self) -> str:
        """The frame as a record stores it, without the function's first line."""
        return f"{self.path}:{self.line} {self.function}"


@dataclass(eq=False, slots=True)
class Function:
    """A function of a file. Modules and class bodies count as functions."""

    file: SourceFile = field(repr=False)
    tree: Code = field(repr=False)
    name: str
    qualified: str
    first: int
    """First line, decorators included."""
    last: int
    parent: Function | None = field(repr=False)
    """The function, class or module that contains its definition."""

    @property
    def decorators(self) -> Sequence[ast.expr]:
        """The decorators of a function or class."""
        return getattr(self.tree, "decorator_list", ())

    @property
    def owner(self) -> Function | None:
        """The class of a method; None for another function."""
        parent = self.parent
        return parent if parent is not None and isinstance(parent.tree, ast.ClassDef) else None


class SourceFile:
    """A parsed source file."""

    def __init__(self, path: str, text: str, tree: ast.Module) -> None:
        self.path = path
        self.lines: Sequence[str] = _NEWLINE.split(text)
        self.tree = tree
        self.module = Function(self, tree, "<module>", "<module>", 0, len(self.lines) + 1, None)
        self.functions: Sequence[Function] = [self.module, *_functions(self.module)]

    def line(self, number: int) -> str:
        """Return the text of a line without indentation; empty if there is no such line."""
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def whole_line(self, number: int) -> str:
        """Return a line, joined with the next ones while a bracket that ends a line is open."""
        text = self.line(number)
        for following in range(number + 1, number + _MOST_JOINED):
            if not text.endswith(("(", "[", "{", ",")):
                break
            text += f"{'' if text[-1] in '([{' else ' '}{self.line(following)}"
        return text

    @cached_property
    def imports(self) -> dict[str, str]:
        """The full name of each imported name: ``dist`` is ``torch.distributed``."""
        found: dict[str, str] = {}
        for node in statements(self.tree.body, into_functions=True):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    found[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    module = f"{node.module}." if node.module else ""
                    found[alias.asname or alias.name] = f"{module}{alias.name}"
        return found

    @cached_property
    def by_name(self) -> dict[str, list[Function]]:
        """The functions and classes of the file by the last part of their name."""
        found: dict[str, list[Function]] = {}
        for one in self.functions:
            found.setdefault(one.name, []).append(one)
        return found

    @cached_property
    def calls_by_name(self) -> dict[str, list[tuple[Function, ast.Call]]]:
        """The calls of the file by called name, each with the function that contains it.

        ``.step`` stands for methods of that name.
        """
        found: dict[str, list[tuple[Function, ast.Call]]] = {}
        for node in ast.walk(self.tree):
            match node:
                case ast.Call(func=ast.Name(id=name)):
                    pass
                case ast.Call(func=ast.Attribute(attr=attr)):
                    name = f".{attr}"
                case _:
                    continue
            around = (f for f in self.functions if f.first <= node.lineno <= f.last)
            inner = max(around, key=lambda one: one.first)
            found.setdefault(name, []).append((inner, node))
        return found

    @cached_property
    def stores_by_name(self) -> dict[str, list[tuple[Function, ast.Assign, ast.expr]]]:
        """The statements that set an attribute, by its name: each with function and object."""
        found: dict[str, list[tuple[Function, ast.Assign, ast.expr]]] = {}
        for function in self.functions:
            for one in statements(getattr(function.tree, "body", ())):
                if not isinstance(one, ast.Assign):
                    continue
                for target in one.targets:
                    if isinstance(target, ast.Attribute):
                        found.setdefault(target.attr, []).append((function, one, target.value))
        return found

    @cached_property
    def owners_by_name(self) -> dict[str, list[Function]]:
        """The classes that set an attribute of ``self``, by its name."""
        found: dict[str, list[Function]] = {}
        for one in ast.walk(self.tree):
            match one:
                case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                    around = (f for f in self.functions if f.first <= one.lineno <= f.last)
                    owner = max(around, key=lambda f: f.first).owner
                    if owner is not None and owner not in found.setdefault(one.attr, []):
                        found[one.attr].append(owner)
        return found

    def find(self, frame: Frame) -> Function | None:
        """Return the function of a frame, or None if the file has none at that line.

        Stacks of a stall name a method without its class.
        """
        if not 0 < frame.line <= len(self.lines):
            return None
        name = frame.function.rpartition(".")[2]
        if name == "<module>":
            return self.module
        if not name:
            around = (one for one in self.functions if one.first <= frame.line <= one.last)
            return max(around, key=lambda one: one.first)
        if name in _UNNAMED.values():
            return self._unnamed(frame, name)
        known = self.by_name.get(name, ())
        exact = [one for one in known if one.qualified == frame.function]
        named = [
            one
            for one in exact or (known if frame.function == name else ())
            if one.first <= frame.line <= one.last and frame.first in (None, one.first)
        ]
        return max(named, key=lambda one: one.first, default=None)

    def _unnamed(self, frame: Frame, name: str) -> Function | None:
        around = frame.function.rpartition(".<locals>.")[0] or "<module>"
        found = [
            Function(self, node, name, frame.function, node.lineno, _end(node), parent)
            for parent in self.functions
            if parent.first <= frame.line <= parent.last
            and (_UNNAMED_IN in around or around in (parent.qualified, "<module>"))
            for node in _unnamed_in(parent.tree, name)
            if node.lineno <= frame.line <= _end(node) and frame.first in (None, node.lineno)
        ]
        # The innermost function, and in it the innermost expression.
        return max(
            found,
            key=lambda one: (one.parent.first if one.parent else 0, one.first, -one.last),
            default=None,
        )


_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_UNNAMED_IN: Final = "<lambda>"


def _unnamed_in(
    tree: ast.AST, name: str
) -> Iterator[ast.Lambda | ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp]:
    """Return the lambdas or comprehensions of a function, but not of nested functions."""
    todo = list(ast.iter_child_nodes(tree))
    while todo:
        node = todo.pop()
        if isinstance(node, tuple(_UNNAMED)) and _UNNAMED[type(node)] == name:
            yield node  # type: ignore[misc]
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            todo += ast.iter_child_nodes(node)


def statements(body: Sequence[ast.stmt], *, into_functions: bool = False) -> Iterator[ast.stmt]:
    """Return the statements of a block and its nested blocks, in no particular order."""
    todo = list(reversed(body))
    while todo:
        node = todo.pop()
        yield node
        if into_functions or not isinstance(node, _NESTED):
            todo += reversed(list(_inside(node)))


def _inside(node: ast.stmt) -> Iterator[ast.stmt]:
    """Return the statements directly in the blocks of a compound statement."""
    for part in ("body", "handlers", "cases", "orelse", "finalbody"):
        for one in getattr(node, part, ()):
            if isinstance(one, ast.stmt):
                yield one
            else:
                yield from one.body


_NESTED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _functions(module: Function) -> Iterator[Function]:
    """Return the functions and classes in a module; raise OverflowError if it is too large."""
    count = 0
    todo: list[tuple[ast.stmt, Function]] = [(s, module) for s in module.file.tree.body]
    while todo:
        node, parent = todo.pop()
        count += 1
        if count > MOST_STATEMENTS:
            raise OverflowError
        if isinstance(node, _NESTED):
            parent = _function(node, parent)
            yield parent
        todo += ((one, parent) for one in _inside(node))


def _function(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, parent: Function
) -> Function:
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    if isinstance(parent.tree, ast.Module):
        qualified = node.name
    else:
        inner = "" if isinstance(parent.tree, ast.ClassDef) else "<locals>."
        qualified = f"{parent.qualified}.{inner}{node.name}"
    return Function(parent.file, node, node.name, qualified, first, _end(node), parent)


def _end(node: ast.expr | ast.stmt) -> int:
    return node.end_lineno or node.lineno


def parse(path: str, text: str) -> SourceFile | None:
    """Return a parsed file; None if its text is too large, too deeply nested or not Python."""
    tree = parsing.parse(text) if len(text) <= MOST_BYTES else None
    try:
        return None if tree is None else SourceFile(path, text, tree)
    except OverflowError:
        return None


class Files:
    """The parsed source files of a run. Each distinct text is parsed once."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._parsed: dict[tuple[str, str], SourceFile | None] = {}
        self._by_place: dict[tuple[int, str], SourceFile | None] = {}

    def file(self, rank: int, path: str) -> SourceFile | None:
        """Return the file that a rank ran, or None if it is not available."""
        place = rank, path
        if place not in self._by_place:
            text = self._sources.text(rank, path)
            key = path, text or ""
            if text is not None and key not in self._parsed:
                self._parsed[key] = parse(path, text)
            self._by_place[place] = self._parsed[key] if text is not None else None
        return self._by_place[place]

    def function(self, rank: int, frame: Frame) -> Function | Gap:
        """Return the function of a frame, or the reason why it is not known."""
        if "torch_dynamo_resume_in_" in frame.function:
            return Gap.NO_SOURCE  # a function that torch.compile generated
        file = self.file(rank, frame.path)
        if file is None:
            return Gap.NO_SOURCE
        return file.find(frame) or Gap.CHANGED

    def known(self) -> Sequence[SourceFile]:
        """Return the files that were read so far, each once."""
        return list({id(one): one for one in self._by_place.values() if one is not None}.values())
