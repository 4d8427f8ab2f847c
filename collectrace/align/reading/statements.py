"""What is asked of the statements around a line: which decide about it, and what they look at.

They are given as ``number text``, as a ``source`` record has them: outermost first, and the line
itself last.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple

from collectrace.align.reading import arms, chains, rank_only
from collectrace.align.reading.bindings import assignments
from collectrace.align.reading.rank_names import RANK, is_asked


def branches(lines: Sequence[str]) -> list[str]:
    """The conditions around a line, out of what is around it; ``except`` and ``finally`` too.

    And decorators that run its function on one rank.
    """
    return [line for line in lines[:-1] if _is_condition(code_of(line))]


def _is_condition(text: str) -> bool:
    return text.startswith(_CONDITIONS) or rank_only.is_one(text)


def deciding(lines: Sequence[str]) -> list[str]:
    """What decides whether a line is run, out of what is around it: conditions and loops."""
    return [line for line in lines[:-1] if code_of(line).startswith((*_CONDITIONS, *_LOOPS))]


def match_of(lines: Sequence[str], line: str) -> str:
    """The ``match`` that a ``case`` around a line is of; empty: it is none."""
    if not code_of(line).startswith("case ") or line not in lines:
        return ""
    return next((one for one in reversed(lines[: lines.index(line)]) if _is_match(one)), "")


def _is_match(line: str) -> bool:
    return code_of(line).startswith("match ")


def blocks(lines: Sequence[str]) -> list[str]:
    """The conditions, loops and ``with`` around a line, out of what is around it."""
    kinds = (*_CONDITIONS, *_LOOPS, "with ", "async with ")
    return [line for line in lines[:-1] if code_of(line).startswith(kinds)]


def in_function(lines: Sequence[str]) -> list[str]:
    """Of what is around a line that of its own function, itself last; empty: it is in none."""
    for n in reversed(range(len(lines) - 1)):
        if _DEF.match(code_of(lines[n])):
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
        if code_of(line).startswith(_LOOPS):
            found.insert(0, line)
        if code_of(line).startswith(("def ", "async def ", "class ")):
            break
    return found


def function(lines: Sequence[str]) -> str:
    """The function that a line stands in, out of what is around it; empty: none that is known."""
    matches = (_DEF.match(code_of(line)) for line in reversed(lines[:-1]))
    return next((found[1] for found in matches if found is not None), "")


def names(text: str) -> frozenset[str]:
    """All names in the text of a line, keywords and attributes too."""
    return frozenset(_NAME.findall(text))


_NAME: Final = re.compile(r"[A-Za-z_]\w*")


def turn_names(text: str) -> frozenset[str]:
    """Those that each turn of a loop, or of a comprehension, in a line gives another value to."""
    found = _GOES.search(text)
    return names(found["names"]) if found is not None else frozenset()


_GOES: Final = re.compile(r"\bfor (?P<names>.+?) in ")
"""By which names it goes through things."""


def parameters(lines: Sequence[str]) -> list[str]:
    """The names by which that function is given something, as far as its first line tells."""
    codes = (code_of(line) for line in reversed(lines[:-1]))
    head = next((code for code in codes if _DEF.match(code)), "")
    names = [found[1] for found in _PARAMETER.finditer(head.partition("(")[2])]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


_PARAMETER: Final = re.compile(r"(?:^|,)\s*\*{0,2}([A-Za-z_]\w*)")


def is_of_autograd_function(lines: Sequence[str]) -> bool:
    """Whether that function is a method of a class that is seen to be an autograd function."""
    codes = [code_of(line) for line in lines[:-1]]
    while codes and not _DEF.match(codes.pop()):
        pass
    return bool(codes) and _AUTOGRADS.match(codes[-1]) is not None


_AUTOGRADS: Final = re.compile(r"class \w+\(.*\b(Inplace|NestedIO)?Function\b")


def decides_itself(own: Sequence[str]) -> bool:
    """Whether a line may leave out its call, or make it several times; so, too, one not known."""
    if not own or _has_body(code_of(own[-1])):
        return True
    plain = [_HEADER.sub("", code_of(own[-1]))]
    plain += [text for line in own[:-1] if _is_plain(text := code_of(line))]
    return any(_WITHIN.search(text) for text in plain)


def _has_body(statement: str) -> bool:
    """Whether it is a condition or a loop with what it decides about on the same line."""
    if not statement.startswith(("if ", "elif ", "for ", "while ", "async for ")):
        return False
    try:
        ast.parse(statement.removeprefix("el").removeprefix("async "))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


_WITHIN: Final = re.compile(r"\b(if|for|and|or)\b|\b(map|filter|starmap|filterfalse|takewhile)\(")
"""What in a line itself may let a call be left out, or be made several times."""

_HEADER: Final = re.compile(r"^(async )?(if|for|while|with)\b")
"""Begins a statement whose first expression is evaluated whatever comes."""


def _is_plain(statement: str) -> bool:
    """Whether it is the beginning of a long expression, not of statements."""
    return not statement.startswith(_COMPOUND)


_COMPOUND: Final = (
    "if ", "elif ", "else:", arms.CONTRARY, "for ", "while ", "async ", "with ", "try:", "except",
    "finally", "match ", "case ", "class ",
)  # fmt: skip


def is_of_fixed_length(line: str, numbers: Collection[str]) -> bool:
    """Whether a loop, given as ``number text``, goes so often on every rank, but for ways out.

    As often as a number says that is written there, or one of the names in ``numbers``, which have
    one value for good; or for ever, until it is left.
    """
    found = _FIXED.match(code_of(line))
    return found is not None and all(name in numbers for name in _CONSTANT.findall(found[0]))


_NUMBER: Final = r"(\d+|[A-Z][A-Z\d_]*)"
_CONSTANT: Final = re.compile(r"\b[A-Z][A-Z\d_]*\b")

_FIXED: Final = re.compile(
    rf"for [\w, ]+ in range\({_NUMBER}(, *{_NUMBER}){{0,2}}\) *:|while (True|1) *:"
)


def tells_ranks_apart(line: str) -> bool:
    """Whether a condition, given as ``number text``, lets some ranks through by who they are.

    Not one that only asks whether there are ranks at all, as ``if local_rank != -1:`` does.
    """
    text = code_of(line)
    return rank_only.is_one(text) or (text.startswith(("if ", "elif ")) and asks(line) == "rank")


Asks = Literal["rank", "exception", "cleanup", "clock", "random", "data", ""]
"""What a condition is seen to look at; empty: nothing that is known by its name."""


def asks(line: str) -> Asks:
    """What a condition, given as ``number text``, looks at."""
    text = code_of(line)
    if text.startswith("except"):
        return "exception"
    if text.startswith("finally"):
        return "cleanup"
    return "rank" if rank_only.is_one(text) else _looks_at(text)


class Origin(NamedTuple):
    """What a condition is seen to look at by the values that its names were given."""

    asks: Asks = ""
    line: str = ""
    """The assignment, as ``number text``; empty: the condition itself, or nothing is known."""


def numbers_around(around: Sequence[str]) -> set[int]:
    """The lines of the statements around a line, given with that line itself last."""
    return {number_of(one) for one in around[:-1]}


def goes_back(line: str, assigned: Sequence[str]) -> Origin:
    """What a condition looks at: itself, or the nearest assignment that it goes back to.

    ``line``: the condition; ``assigned``: the assignments, as in a ``source`` record.
    """
    if found := asks(line):
        return Origin(found)
    head = str(number_of(head_of(line)))
    names = code_of(head_of(line))
    for one in assigned:
        number, _, assignment = one.partition(" ")
        if number != head:
            continue
        value = _given(code_of(assignment), names)
        found = _looks_at(value)
        if found and (found != "rank" or is_asked(value)):
            return Origin(found, assignment)
        names += f" {value}"
    return Origin()


def _given(assignment: str, names: str) -> str:
    """The value in an assignment; of one that gives several the one for a name that is asked."""
    known = list(assignments(assignment))
    if len(known) > 1:
        for name, value in known:
            if re.search(rf"(?<![\w.]){re.escape(name)}\b", names):
                return ast.unparse(value)
    return assignment.partition("=")[2]


def head_of(line: str) -> str:
    """The condition that is meant by ``number text``, which may tell of its ``else``."""
    contrary = arms.contrary(code_of(line))
    return line if contrary is None else f"{contrary[0]} {contrary[1]}"


def _looks_at(text: str) -> Asks:
    text = _HAS_RANK.sub("", text)
    return next((what for what, names in _ASKS.items() if names.search(text)), "")


def way_of(text: str) -> tuple[str, str]:
    """By what a way leaves, and its head as ``number text``: it is given as ``number leaves text``.

    Of one that is damaged either may be empty.
    """
    number, _, rest = text.partition(" ")
    leaves, _, head = rest.partition(" ")
    return leaves, f"{number} {head}"


def number_of(line: str) -> int:
    """The number of a line that is given as ``number text``; 0: it is damaged."""
    return chains.number(line.partition(" ")[0])


def code_of(line: str) -> str:
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

_LOOPS: Final = ("for ", "while ", "async for ")

_HAS_RANK: Final = re.compile(
    r"rank[^=<>!\s]*\s*"
    r"((!=|==|>)\s*-\s*1\b|(>=|<)\s*0\b|is\s+(not\s+)?None\b)",
    re.IGNORECASE,
)
"""What asks for a rank, and is answered alike on every rank."""

_ASKS: Final[dict[Asks, re.Pattern[str]]] = {
    "rank": RANK,
    "clock": re.compile(r"\b(time\.\w+|perf_counter(_ns)?|monotonic(_ns)?|now|utcnow|today)\("),
    "random": re.compile(r"\b(random|randint|randrange|randn?|randperm|uniform|bernoulli)\b"),
    "data": re.compile(
        r"\.(item|any|all|numel|max|min|sum|mean|size|shape)\b|\blen\(|\bis_?(nan|inf|finite)\b"
    ),
}
"""Names by which programs ask for what differs between ranks, the most telling first."""
