"""Every element of the syntax: what is named is the line that decided, and no other."""

from __future__ import annotations

import sys
from typing import Final

import pytest

from collectrace.align.code.graph import Outcome, Way
from tests.unit.align.code import standin

PROGRAMS: Final[dict[str, str]] = {
    "if": """
all_reduce()
if odd():  # WAY
    all_reduce()
""",
    "if and else": """
if odd():  # WAY
    all_reduce()
else:
    all_reduce()
""",
    "elif": """
if not rank >= 0:
    all_reduce()
elif odd():  # WAY
    all_reduce()
else:
    pass
all_reduce()
""",
    "a branch that comes together again": """
all_reduce()
if odd():
    print(end="")
x = 1 if odd() else 2
for _ in range(odd()):
    print(end="")
if odd():  # WAY
    all_reduce()
""",
    "while": """
n = 0
while n < 1 + odd():  # WAY
    all_reduce()
    n += 1
""",
    "while and else": """
n = 0
while n < 2:
    n += 1
    if odd():  # WAY
        break
else:
    all_reduce()
""",
    "for and else": """
for _ in range(2):
    if odd():  # WAY
        break
else:
    all_reduce()
""",
    "for": """
for _ in range(1 + odd()):  # WAY
    all_reduce()
""",
    "continue to another iteration": """
for i in range(3):
    if i == 1 and odd():  # WAY
        continue
    if i == 1:
        all_reduce()
    else:
        all_reduce(2)
""",
    "continue": """
for i in range(2):
    if odd():  # WAY
        continue
    all_reduce()
""",
    "break": """
for i in range(2):
    if odd():  # WAY
        break
    all_reduce()
""",
    "match": """
match odd():  # WAY
    case True:
        all_reduce()
    case _:
        pass
""",
    "guard of a case": """
match 1:
    case 1 if odd():  # WAY
        all_reduce()
    case 1:
        pass
""",
    "return": """
def step():
    if odd():  # WAY
        return
    all_reduce()

step()
""",
    "raise": """
def step():
    if odd():  # WAY
        raise ValueError
    all_reduce()

try:
    step()
except ValueError:  # WAY
    pass
all_reduce()
""",
    "raise that ends the program": """
if odd():  # WAY
    raise SystemExit
all_reduce()
""",
    "assert": """
assert not odd()  # WAY
all_reduce()
""",
    "exit": """
import sys
def stop():
    sys.exit()
if odd():  # WAY
    stop()
all_reduce()
""",
    "handler": """
def load():
    if odd():
        raise KeyError
try:
    load()
except ValueError:
    pass
except KeyError:  # WAY
    all_reduce()
""",
    "handler of a base": """
def load():
    return {}[0] if odd() else 1
try:
    load()
except (TypeError, LookupError):  # WAY
    all_reduce()
""",
    "else of a try": """
def load():
    if odd():
        raise KeyError
try:
    load()
except KeyError:  # WAY
    pass
else:
    all_reduce()
""",
    "finally": """
def load():
    if odd():
        raise KeyError
def step():
    try:  # WAY
        load()
        all_reduce()
    finally:
        all_reduce()
try:
    step()
except KeyError:
    pass
""",
    "except*": """
def load():
    if odd():
        raise ExceptionGroup("", [KeyError()])
try:
    load()
except* KeyError:  # WAY
    all_reduce()
""",
    "suppress": """
import contextlib
def load():
    if odd():
        raise KeyError
with contextlib.suppress(KeyError):  # WAY
    load()
    all_reduce()
""",
    "context manager that suppresses": """
class Quiet:
    def __enter__(self):
        pass
    def __exit__(self, *exception):
        return True
def load():
    if odd():
        raise KeyError
with Quiet():  # WAY
    load()
    all_reduce()
""",
    "generator that suppresses": """
import contextlib
@contextlib.contextmanager
def quiet():
    try:
        yield
    except KeyError:
        pass
def load():
    if odd():
        raise KeyError
with quiet():  # WAY
    load()
    all_reduce()
""",
    "context manager that calls when it is entered": """
class Span:
    def __enter__(self):
        if odd():  # WAY
            all_reduce()
    def __exit__(self, *exception):
        pass
with Span():
    pass
""",
    "context manager that calls when it is left": """
class Span:
    def __enter__(self):
        pass
    def __exit__(self, *exception):
        if odd():  # WAY
            all_reduce()
with Span():
    pass
""",
    "generator that is a context manager": """
import contextlib
@contextlib.contextmanager
def span():
    all_reduce()
    yield
    if odd():  # WAY
        all_reduce()
with span():
    pass
""",
    "conditional expression": """
x = all_reduce() if odd() else None  # WAY
""",
    "and": """
odd() and all_reduce()  # WAY
""",
    "or": """
odd() or all_reduce()  # WAY
""",
    "part of a condition that calls": """
if odd() and all_reduce():  # WAY
    pass
""",
    "chain of comparisons": """
def size():
    all_reduce()
    return 2
x = 0 < odd() < size()  # WAY
""",
    "comprehension": """
x = [all_reduce() for _ in range(1 + odd())]  # WAY
""",
    "condition of a comprehension": """
x = {n: all_reduce(n) for n in range(2) if n or odd()}  # WAY
""",
    "generator that a function stops": """
def ready(n):
    all_reduce()
    return odd()
x = any(ready(n) for n in range(2))  # WAY
""",
    "generator made before": """
steps = (all_reduce() for _ in range(1 + odd()))  # WAY
for _ in steps:
    pass
""",
    "generator": """
def steps():
    all_reduce()
    if odd():  # WAY
        return
    yield 1
    all_reduce(2)
for _ in steps():
    pass
""",
    "consumer of a generator": """
def steps():
    all_reduce()
    yield 1
    all_reduce(2)
for _ in steps():
    if odd():  # WAY
        break
""",
    "yield from": """
def inner():
    if odd():  # WAY
        all_reduce()
    yield
def outer():
    yield from inner()
for _ in outer():
    pass
""",
    "other function": """
def one():
    all_reduce()
def two():
    all_reduce()
(one if odd() else two)()  # WAY
""",
    "table of functions": """
def one():
    all_reduce()
def two():
    pass
{True: one, False: two}[odd()]()  # WAY
""",
    "method of a subclass": """
class Base:
    def sync(self):
        all_reduce()
    def step(self):
        self.sync()  # WAY
class Quiet(Base):
    def sync(self):
        pass
(Quiet() if odd() else Base()).step()
""",
    "callback of a library": """
import functools
def sync(one, two):
    all_reduce()
functools.reduce(sync, range(2 + odd()))  # WAY
""",
    "cache": """
import functools
@functools.cache
def total(n):
    all_reduce()
total(1)
total(1 + odd())  # WAY
""",
    "property": """
class State:
    @property
    def total(self):
        if odd():  # WAY
            all_reduce()
State().total
""",
    "decorator": """
def sometimes(function):
    def wrapper(*arguments):
        if odd():  # WAY
            return None
        return function(*arguments)
    return wrapper
@sometimes
def step():
    all_reduce()
step()
""",
    "call of a decorator": """
def register(function):
    if odd():  # WAY
        all_reduce()
    return function
@register
def step():
    pass
""",
    "class body": """
class Config:
    if odd():  # WAY
        all_reduce()
""",
    "nested function": """
def outer():
    def inner():
        if odd():  # WAY
            all_reduce()
    inner()
outer()
""",
    "recursion": """
def walk(depth):
    all_reduce()
    if depth:  # WAY
        walk(depth - 1)
walk(odd())
""",
    "walrus": """
if (found := odd()):  # WAY
    all_reduce()
""",
    "await": """
import asyncio
async def step():
    if odd():  # WAY
        all_reduce()
async def main():
    await step()
asyncio.run(main())
""",
    "async for": """
import asyncio
async def steps():
    for n in range(1 + odd()):  # WAY
        all_reduce()
        yield n
async def main():
    async for _ in steps():
        pass
asyncio.run(main())
""",
    "async with": """
import asyncio
class Span:
    async def __aenter__(self):
        if odd():  # WAY
            all_reduce()
    async def __aexit__(self, *exception):
        pass
async def main():
    async with Span():
        pass
asyncio.run(main())
""",
    "argument": """
def share(n):
    all_reduce(n)
share(2 if odd() else 3)  # WAY
""",
    "argument from a definition that a condition chooses": """
n = 2
if odd():  # WAY
    n = 3
all_reduce(n)
""",
    "argument from what was computed before": """
found = odd()
rows = 3 + found
n = 2 * rows  # WAY
all_reduce(n)
""",
    "argument that an attribute has": """
class Meter:
    def __init__(self):
        self.size = 2 + odd()  # WAY
    def sync(self):
        all_reduce(self.size)
Meter().sync()
""",
    "argument from the items of a loop": """
for n in [1, 2 + odd()]:  # WAY
    all_reduce(n)
""",
}

LATER: Final[dict[str, tuple[tuple[int, int], str]]] = {
    "type parameters": ((3, 12), """
def step[T](value: T) -> T:
    if odd():  # WAY
        all_reduce()
    return value
type Alias = int
step(1)
"""),
    "nested quotes in an f-string": ((3, 12), """
x = f"{all_reduce() if odd() else "none"}"  # WAY
"""),
    "except without parentheses": ((3, 14), """
def load():
    if odd():
        raise KeyError
try:
    load()
except ValueError, KeyError:  # WAY
    all_reduce()
"""),
    "template string": ((3, 14), """
x = t"{all_reduce() if odd() else 1}"  # WAY
"""),
}  # fmt: skip

PROGRAMS_HERE: Final = {
    **PROGRAMS,
    **{name: text for name, (since, text) in LATER.items() if sys.version_info >= since},
}


@pytest.mark.parametrize("element", PROGRAMS_HERE)
def test_what_decided_is_named_and_nothing_else(element: str) -> None:
    text = PROGRAMS_HERE[element]
    answer = standin.decided(text)
    assert {one.site.line for one in answer.decisions} == standin.marked(text), answer
    assert not answer.gaps


OUTCOMES: Final[dict[str, tuple[Outcome | None, Outcome | None]]] = {
    "if": (Outcome(Way.NOT_TAKEN), Outcome(Way.TAKEN)),
    "for": (Outcome(Way.ENDED), Outcome(Way.ITERATES)),
    "while": (Outcome(Way.NOT_TAKEN), Outcome(Way.TAKEN)),
    "match": (Outcome(Way.CASE, line=5), Outcome(Way.CASE, line=3)),
    "and": (Outcome(Way.NOT_TAKEN), Outcome(Way.TAKEN)),
    "handler": (Outcome(Way.NO_HANDLER), Outcome(Way.HANDLER, line=9)),
    "suppress": (Outcome(Way.NO_HANDLER), Outcome(Way.HANDLER, line=6)),
    "other function": (Outcome(Way.CALLS, "two"), Outcome(Way.CALLS, "one")),
    "method of a subclass": (Outcome(Way.CALLS, "sync"), Outcome(Way.CALLS_OTHER)),
    "assert": (Outcome(Way.TAKEN), Outcome(Way.NOT_TAKEN)),
    "argument": (Outcome(Way.VALUE), Outcome(Way.VALUE)),
}


@pytest.mark.parametrize("element", OUTCOMES)
def test_the_outcome_on_either_side_is_known(element: str) -> None:
    (decision,) = standin.decided(PROGRAMS[element]).decisions
    assert decision.outcomes == OUTCOMES[element]
