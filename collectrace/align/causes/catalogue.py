"""Print one or all causes as Markdown."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator, Sequence
from typing import Final

from collectrace.align.causes import registry
from collectrace.align.causes.cause import Cause
from collectrace.errors import CollectraceError

SECTIONS: Final = ("What it means", "Example", "Not to be confused with", "How to fix it")
"""Sections that the docstring of each cause has, after its first sentence."""

FAMILIES: Final = {
    "1": "Conditions, loops, handlers and values",
    "2": "join() and inputs",
    "3": "States of ranks",
    "4": "Arguments of calls",
    "5": "DDP and sharded models",
    "6": "Process groups",
    "7": "Messages",
    "8": "Frameworks",
    "9": "Observations, consequences, and what is not explained",
}
"""What causes are about, by the first digit of their codes."""

_SUGGESTIONS: Final = 3

_ALIKE: Final = 0.75
"""The least similarity of a suggestion. Codes that differ in two characters are less similar."""

_WHOLE: Final = len("CT102")
"""Length of a whole code; a shorter one is a prefix of several."""

_INTRODUCTION: Final = """\
# Causes

Each finding has a code, such as CT102. `collectrace explain CT102` says what it means, shows an
example, and how to fix it. A code never changes its meaning. If several causes apply, the more
specific one wins.
"""


def find(name: str) -> Cause:
    """Return the cause with a code or a name: ``CT102``, ``ct102``, ``decided-by-data``.

    Raises:
        CollectraceError: there is no such cause; the message names similar ones.

    """
    known = {key: one for one in registry.CAUSES for key in (one.code.lower(), one.name)}
    found = known.get(name.strip().lower())
    if found is not None:
        return found
    used = [key for key, one in known.items() if one.status != "retired"]
    like = difflib.get_close_matches(name.lower(), used, _SUGGESTIONS, cutoff=_ALIKE)
    codes = list(dict.fromkeys(f"{known[key].code} ({known[key].name})" for key in like))
    hint = (
        f"Did you mean {' or '.join(codes)}?" if codes else "collectrace explain lists the codes."
    )
    raise CollectraceError(f"no cause {name!r}. {hint}")


def explained(cause: Cause) -> str:
    """Return the documentation of one cause, as Markdown."""
    lines = [f"# {cause.code} {cause.name}", ""]
    if cause.status == "retired":
        return "\n".join([*lines, f"Retired: {cause.reason}", ""])
    title, sections = parts(inspect.getdoc(cause.load()) or "")
    lines += [title, ""]
    for name, text in sections.items():
        lines += [f"## {name}", "", *_code_blocks(text), ""]
    return "\n".join([*lines, *_row(cause), ""])


def parts(text: str) -> tuple[str, dict[str, str]]:
    """Return the first sentence of a docstring, and the text of each of its sections."""
    title, sections, name = list[str](), dict[str, str](), ""
    for line in text.splitlines():
        if line in SECTIONS:
            name = line
            sections[name] = ""
        elif name:
            sections[name] += f"{line}\n"
        else:
            title.append(line)
    return "\n".join(title).strip(), {k: inspect.cleandoc(v) for k, v in sections.items()}


def _code_blocks(text: str) -> Iterator[str]:
    """Yield the lines of a section, with the text after ``::`` as a block of code."""
    before, mark, code = text.partition("::\n")
    yield from before.replace("``", "`").rstrip().splitlines()
    if mark:
        yield from ("```python", *inspect.cleandoc(code).strip().splitlines(), "```")


def _row(cause: Cause) -> Iterator[str]:
    yield f"- status: {cause.status}, since {cause.since}"
    yield f"- kinds of finding: {', '.join(sorted(cause.kinds))}"
    if cause.yields_to:
        yield f"- yields to: {', '.join(map(_codes, cause.yields_to))}"
    if cause.example:
        yield f"- example: tests/zoo/{cause.example}.py"
    if cause.counter_example:
        yield f"- looks alike, and is not: tests/zoo/{cause.counter_example}.py"


def _codes(prefix: str) -> str:
    return prefix if len(prefix) == _WHOLE else f"all {prefix}.."


def chapter(causes: Sequence[Cause] = registry.CAUSES) -> str:
    """Return the chapter of the documentation that lists all causes."""
    lines = [_INTRODUCTION]
    for digit, title in FAMILIES.items():
        rows = sorted((one for one in causes if one.code[2] == digit), key=lambda one: one.code)
        if rows:
            lines += [f"## {title}", "", "| code | name | what it says |", "|---|---|---|"]
            lines += [f"| {one.code} | {one.name} | {_summary(one)} |" for one in rows]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _summary(cause: Cause) -> str:
    return f"Retired: {cause.reason}" if cause.status == "retired" else cause.summary


def listed() -> str:
    """Return all codes with their names, one per line."""
    return "".join(f"{one.code}  {one.name:28} {_summary(one)}\n"
                   for one in sorted(registry.CAUSES, key=lambda one: one.code))  # fmt: skip
