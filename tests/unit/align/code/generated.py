"""Random programs in which one question has another answer on rank 1, and how they run.

``ask(site, at)`` answers by the place in the program and the iterations around it alone, so that
nothing but control flow carries the difference on.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from collectrace.align.code.between import Side
from tests.unit.align.code.standin import Call, Run, traced, user_stack

PATH = "/generated/program.py"


class StopLongRuns(BaseException):
    """The program makes too many steps."""


class One(Exception):
    """May be raised and caught."""


class Two(One):
    """May be raised and caught, also as its base."""


@dataclass
class Writer:
    """Writes a program line by line; each question has a number."""

    draw: Any
    lines: list[str] = field(default_factory=list)
    sites: int = 0
    left: int = 40
    """Statements that may still be written."""
    functions: int = 0
    variables: int = 0

    def site(self) -> int:
        self.sites += 1
        return self.sites

    def line(self, depth: int, text: str, *sites: int) -> None:
        marks = "".join(f" #@{site}" for site in sites)
        self.lines.append("    " * depth + text + marks)


@dataclass(frozen=True)
class Around:
    """What is around a statement."""

    depth: int
    at: str
    """The index expression: ``at, i1, i2``."""
    loop: bool = False
    generator: bool = False
    functions: tuple[tuple[str, bool], ...] = ()
    """Those that may be called, and whether they are generators."""


SIMPLE = (
    "call",
    "call",
    "call",
    "boom",
    "and",
    "or",
    "choice",
    "comprehension",
    "any",
    "use",
    "use",
)
LEAVING = ("return", "raise", "break", "continue")
COMPOUND = (
    "if", "if", "if_else", "for", "for_else", "while", "while_true", "try", "try_finally",
    "finally", "suppress", "with", "match", "elif", "iterate", "managed",
)  # fmt: skip


def block(w: Writer, a: Around) -> None:
    """One to three statements."""
    before = len(w.lines)
    for _ in range(w.draw(st.integers(1, 3))):
        if w.left <= 0:
            break
        w.left -= 1
        shallow = a.depth < 6
        kinds = SIMPLE + (COMPOUND * 2 if shallow else ()) + (("yield",) * 3 if a.generator else ())
        kind = w.draw(st.sampled_from(kinds))
        statement(w, a, kind)
    if w.draw(st.integers(0, 5)) == 0:
        leaving = w.draw(st.sampled_from(LEAVING))
        if leaving in ("break", "continue") and not a.loop:
            leaving = "return"
        w.line(a.depth, {"raise": "raise One()"}.get(leaving, leaving))
    if len(w.lines) == before:
        w.line(a.depth, "pass")


def statement(w: Writer, a: Around, kind: str) -> None:
    """One statement of a kind."""
    d, at = a.depth, a.at
    inner = Around(d + 1, at, a.loop, a.generator, a.functions)
    s = w.site()
    match kind:
        case "call":
            w.line(d, f"all_reduce({at})")
        case "boom":
            w.line(d, f"boom({s}, {at})", s)
        case "and" | "or":
            w.line(d, f"ask({s}, {at}) {kind} all_reduce({at})", s)
        case "choice":
            w.line(d, f"x = all_reduce({at}) if ask({s}, {at}) else None", s)
        case "comprehension":
            w.line(d, f"x = [all_reduce({at}, k) for k in range(3) if ask({s}, {at}, k)]", s)
        case "any":
            w.line(d, f"x = any(all_reduce({at}, k) or ask({s}, {at}, k) for k in range(3))", s)
        case "use":
            plain = [name for name, generator in a.functions if not generator]
            if plain:
                w.line(d, f"{w.draw(st.sampled_from(plain))}(({at}, {s}))")
            else:
                w.line(d, f"all_reduce({at})")
        case "yield":
            w.line(d, "yield")
        case _:
            compound(w, a, inner, kind, s)


def compound(w: Writer, a: Around, inner: Around, kind: str, s: int) -> None:
    """A statement with blocks."""
    d, at = a.depth, a.at
    match kind:
        case "if" | "if_else" | "elif":
            t = w.site()
            both = w.draw(st.sampled_from(["", f" and ask({t}, {at})", f" or ask({t}, {at})"]))
            w.line(d, f"if ask({s}, {at}){both}:", *((s, t) if both else (s,)))
            block(w, inner)
            if kind == "elif":
                u = w.site()
                w.line(d, f"elif not ask({u}, {at}):", u)
                block(w, inner)
            if kind != "if":
                w.line(d, "else:")
                block(w, inner)
        case "match":
            w.line(d, f"match ask({s}, {at}):", s)
            w.line(d + 1, "case True:")
            block(w, Around(d + 2, at, a.loop, a.generator, a.functions))
            if w.draw(st.booleans()):
                w.line(d + 1, "case _:")
                block(w, Around(d + 2, at, a.loop, a.generator, a.functions))
        case "for" | "for_else" | "while" | "while_true":
            loop(w, a, kind, s)
        case "iterate":
            generators = [name for name, generator in a.functions if generator]
            if generators:
                w.variables += 1
                i = f"i{w.variables}"
                name = w.draw(st.sampled_from(generators))
                w.line(d, f"for {i}, _ in enumerate({name}(({at}, {s}))):")
                block(w, Around(d + 1, f"{at}, {i}", True, a.generator, a.functions))
            else:
                w.line(d, f"all_reduce({at})")
        case "suppress":
            w.line(d, "with suppress(One):", s)
            block(w, inner)
        case "with":
            w.line(d, f"with Manager(({at}, {s})):")
            block(w, inner)
        case "managed":
            w.line(d, f"with managed(({at}, {s})):")
            block(w, inner)
        case _:
            attempt(w, a, inner, kind, s)


def loop(w: Writer, a: Around, kind: str, s: int) -> None:
    """A loop with a question at its head or in it."""
    w.variables += 1
    d, at, i = a.depth, a.at, f"i{w.variables}"
    inside = Around(d + 1, f"{at}, {i}", True, a.generator, a.functions)
    if kind.startswith("for"):
        w.line(d, f"for {i} in range(1 + ask({s}, {at})):", s)
        block(w, inside)
        if kind == "for_else":
            w.line(d, "else:")
            block(w, Around(d + 1, at, a.loop, a.generator, a.functions))
        return
    w.line(d, f"{i} = 0")
    if kind == "while":
        w.line(d, f"while {i} < 3 and ask({s}, {at}, {i}):", s)
        w.line(d + 1, f"{i} += 1")
    else:
        w.line(d, "while True:")
        w.line(d + 1, f"{i} += 1")
        w.line(d + 1, f"if {i} > 3 or ask({s}, {at}, {i}):", s)
        w.line(d + 2, "break")
    block(w, inside)


def attempt(w: Writer, a: Around, inner: Around, kind: str, s: int) -> None:
    """A ``try``."""
    d = a.depth
    w.line(d, "try:", s)
    block(w, inner)
    if kind in ("try", "try_finally"):
        kinds = w.draw(st.sampled_from([("Two", "One"), ("One",), ("Two",), ("",)]))
        for name in kinds:
            h = w.site()
            w.line(d, f"except {name}:".replace(" :", ":"), h)
            w.line(d + 1, f"entered({h})")
            block(w, inner)
        if w.draw(st.booleans()):
            w.line(d, "else:")
            block(w, inner)
    if kind in ("finally", "try_finally"):
        w.line(d, "finally:")
        w.line(d + 1, f"entered(-{s})")
        block(w, inner)


HEAD = """
class Manager:
    def __init__(self, at):
        self.at = at

    def __enter__(self):
        if ask(1, self.at): #@1
            all_reduce(self.at)

    def __exit__(self, *exception):
        if ask(2, self.at): #@2
            all_reduce(self.at)


@contextmanager
def managed(at):
    if ask(3, at): #@3
        all_reduce(at)
    yield
    all_reduce(at)
    if ask(4, at): #@4
        all_reduce(at)
"""


@st.composite
def programs(draw: Any) -> str:
    """The text of a program."""
    w = Writer(draw, HEAD.split("\n"), sites=4)
    known: list[tuple[str, bool]] = []
    for n in range(draw(st.integers(0, 3))):
        generator = draw(st.integers(0, 2)) == 0
        w.line(0, f"def f{n}(at):")
        w.left = 8
        block(w, Around(1, "at", False, generator, tuple(known)))
        if generator:
            w.line(1, "yield")
        known.append((f"f{n}", generator))
        w.line(0, "")
    w.line(0, "def main(at):")
    w.left = 25
    block(w, Around(1, "at", False, False, tuple(known)))
    w.line(0, "")
    w.line(0, "main(())")
    return "\n".join(w.lines) + "\n"


Index = tuple[int, object]


class World:
    """Runs a program on one rank."""

    def __init__(self, seed: int, odd: Index | None = None) -> None:
        self.seed = seed
        self.odd = odd
        self.asked: list[tuple[Index, int]] = []
        """The questions, with the number of calls made before."""
        self.entered: list[tuple[int, int]] = []
        """Lines of handlers, with the number of questions asked before. Below zero: the site of a
        ``finally``."""
        self.run = Run(0 if odd is None else 1)

    def ask(self, site: int, *at: object) -> bool:
        index = site, at
        self.asked.append((index, len(self.run.calls)))
        if len(self.asked) > 300:
            raise StopLongRuns
        digest = hashlib.blake2b(repr((self.seed, index)).encode(), digest_size=1).digest()
        return (digest[0] % 3 == 0) != (index == self.odd)

    def boom(self, site: int, *at: object) -> None:
        if self.ask(site, *at):
            raise Two if site % 2 else One

    def emit(self, *at: object) -> None:
        stack = user_stack(sys._getframe(1), PATH.__eq__)
        self.run.calls.append(Call("all_reduce", stack, at))
        if len(self.run.calls) > 200:
            raise StopLongRuns

    def enter(self, site: int) -> None:
        line = sys._getframe(1).f_lineno - 1
        self.entered.append((line if site > 0 else site, len(self.asked)))

    @contextmanager
    def suppress(self, kind: type[Exception]) -> Iterator[None]:
        line = sys._getframe(2).f_lineno
        try:
            yield
        except kind:
            self.entered.append((line, len(self.asked)))

    def names(self) -> dict[str, object]:
        return {
            "__name__": "__main__", "ask": self.ask, "boom": self.boom, "all_reduce": self.emit,
            "entered": self.enter, "suppress": self.suppress, "contextmanager": contextmanager,
            "One": One, "Two": Two,
        }  # fmt: skip


def execute(text: str, world: World) -> World:
    """Run a program to its end."""
    try:
        exec(compile(text, PATH, "exec"), world.names())
    except One as error:
        world.run.raised = traced(error, PATH.__eq__)
    return world


def place(text: str, site: int) -> int:
    """The line of a site."""
    return next(n for n, line in enumerate(text.split("\n"), 1) if f"#@{site} " in f"{line} ")


def deciding(text: str, one: World, two: World, sides: Iterable[Side]) -> set[int]:
    """The lines any of which says what decided, by what the two runs did.

    Where an exception did that was raised in a function on none of the stacks: its handler. Where a
    generator on none of them did: the loop over it.
    """
    entered = {frame.function for side in sides for frame in (*side.last, *side.stack)}
    assert two.odd is not None
    site = two.odd[0]
    line = place(text, site)
    found = {line}
    lines = text.split("\n")
    head = next(name for name in reversed(lines[:line]) if name.lstrip().startswith("def "))
    function = head.split()[1].split("(")[0]
    is_outside = function not in {one.split(".")[-1] for one in entered}
    if is_outside:
        # Of a generator that is suspended, a reader sees that the loop over it ended.
        found |= {n for n, text in enumerate(lines, 1) if f" in enumerate({function}(" in text}
    if is_outside or lines[line - 1].strip().startswith("boom("):
        found |= _managers_around(lines, line)
        for world in (one, two):
            asked = next((n for n, (index, _) in enumerate(world.asked) if index == two.odd), None)
            for handler, before in world.entered:
                if asked is not None and before > asked:
                    found.add(handler if handler > 0 else place(text, -handler))
                    if handler > 0:
                        break
    return found


def _managers_around(lines: Sequence[str], line: int) -> set[int]:
    """The ``with`` statements around a line: their exits may call, too."""
    found = set()
    deepest = len(lines[line - 1]) - len(lines[line - 1].lstrip())
    for number in range(line - 1, 0, -1):
        text = lines[number - 1]
        depth = len(text) - len(text.lstrip())
        if text.strip() and depth < deepest:
            deepest = depth
            if text.lstrip().startswith("with "):
                found.add(number)
    return found
