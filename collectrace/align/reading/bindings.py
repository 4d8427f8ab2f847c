"""How often a file gives each name a value, and what is known of that value for good."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from collectrace.align.reading.ways import Span


class Scope(NamedTuple):
    """The bindings in a function, and in those within it; or in the whole module."""

    span: Span
    times: Mapping[str, int]
    """By name: definitions, imports, parameters and assignments, those to attributes, too."""
    objects: Mapping[str, str]
    """By name the class, of names bound by a call of that alone: ``worker = Worker(rank)``."""


class Answer(NamedTuple):
    """What a function returns that does nothing else."""

    line: int
    """Of the ``return``."""
    value: str
    within: Span | None
    """The class whose method it is; None: a function of the module."""


class Bindings(NamedTuple):
    """Those of one file; nothing of one that cannot be read."""

    scopes: Sequence[Scope] = ()
    """The module first, and each function behind those that it is in."""
    numbers: frozenset[str] = frozenset()
    """Names that the module gives a number as it is written there, and nothing gives another."""
    derived: frozenset[str] = frozenset()
    """Methods of classes that are derived from others: they may stand in the place of theirs."""
    answers: Mapping[str, Answer] = MappingProxyType({})
    """By name of the functions that do no more than return something, what that is."""

    def times(self, name: str) -> int:
        """How often a name is given a value in the file."""
        return self.scopes[0].times.get(name, 0) if self.scopes else 0

    def is_given_once(self, name: str, line: int) -> bool:
        """Whether a name that a line uses has one value there; an attribute, in the whole file."""
        _, dot, attribute = name.rpartition(".")
        if dot:
            return self.times(attribute) == 1
        known = (one for one in reversed(self.scopes) if one.span.holds(line) and name in one.times)
        return next((one.times[name] for one in known), 0) == 1

    def class_of(self, name: str, line: int) -> str:
        """The only class of which a name that a line uses is an object; empty: not known."""
        known = (one for one in reversed(self.scopes) if one.span.holds(line) and name in one.times)
        found = next((one.objects.get(name, "") for one in known), "")
        return found if self.times(found) == 1 else ""


def of(tree: ast.Module) -> Bindings:
    """The bindings of a parsed file, in all of its functions and classes."""
    module = _scope(tree, Span(0, 1 << 30))
    functions = [
        _scope(node, Span(node.lineno, node.end_lineno or node.lineno))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    numbers = (name for node in tree.body for name in _numbers(node) if module.times[name] == 1)
    derived = (
        one.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.bases
        for one in node.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    scopes = module, *sorted(functions, key=lambda one: one.span)
    answers = {name: one for name, one in _answers(tree.body, None) if module.times[name] == 1}
    return Bindings(scopes, frozenset(numbers), frozenset(derived), answers)


def _answers(body: Sequence[ast.stmt], within: Span | None) -> Iterator[tuple[str, Answer]]:
    """The functions of a module, and the methods of its classes, that only return something.

    As they stand there: what decorates one may answer otherwise.
    """
    for node in body:
        match node:
            case ast.ClassDef():
                yield from _answers(node.body, Span(node.lineno, node.end_lineno or node.lineno))
            case ast.FunctionDef(body=[*doc, ast.Return(value=ast.expr() as value)]):
                plain = all(isinstance(one, ast.Name) for one in node.decorator_list)
                kept = {one.id for one in node.decorator_list if isinstance(one, ast.Name)}
                documented = all(_is_text(one) for one in doc[:1]) and len(doc) < _SOME
                if plain and documented and kept <= {"staticmethod", "classmethod"}:
                    yield node.name, Answer(value.lineno, ast.unparse(value), within)


_SOME: Final = 2


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def assignments(text: str) -> Iterator[tuple[str, ast.expr]]:
    """The names and attributes that a line gives a value, and that; none of one that goes on."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    match body:
        case [ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values))]:
            pairs = list(zip(names, values, strict=False))
        case [ast.Assign(targets=[target], value=value)]:
            pairs = [(target, value)]
        case [ast.AnnAssign(target=target, value=ast.expr() as value)]:
            pairs = [(target, value)]
        case _:
            return
    for target, value in pairs:
        if isinstance(target, ast.Name | ast.Attribute):
            yield ast.unparse(target), value


def _scope(tree: ast.AST, span: Span) -> Scope:
    nodes = list(ast.walk(tree))
    times = Counter(name for node in nodes if node is not tree and (name := _bound(node)))
    made = (one for node in nodes for one in _object(node))
    return Scope(span, times, {name: kind for name, kind in made if times[name] == 1})


def _bound(node: ast.AST) -> str | None:
    """The name that a node gives a value; None: it gives none."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return name
        case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
            return name
        case ast.arg(arg=name):
            return name
        case ast.alias(name=name, asname=other):
            return other or name
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.ExceptHandler():
            return node.name
        case ast.MatchAs() | ast.MatchStar():
            return node.name
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=str(name)), _]):
            return name
        case _:
            return None


def _object(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=kind))):
            yield name, kind
        case _:
            pass


def _numbers(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            for name, value in zip(names, values, strict=False):
                yield from _numbers(ast.Assign([name], value))
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int())):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=int())):
            yield name
        case _:
            pass
