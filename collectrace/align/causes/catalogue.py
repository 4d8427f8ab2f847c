"""Print one or all causes as Markdown."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator, Sequence
from typing import Final

from collectrace.align.causes import registry
from collectrace.align.causes.cause import Cause
from collectrace.errors import CollectraceError
from collectrace.findings import KINDS

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

_INTRODUCTION: Final = """\
# Causes

Each finding has a code, such as CT102. `collectrace explain CT102` says what it means, shows an
example, and how to fix it. A code never changes its meaning. If several causes apply, the more
specific one wins.
"""


_LEAST: Final = 3
"""Letters of a part of a name by which it is suggested."""


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
    if not like and len(name) >= _LEAST:
        like = [key for key in used if name.lower() in key][:_SUGGESTIONS]
    codes = list(dict.fromkeys(f"{known[key].code} ({known[key].name})" for key in like))
    hint = "collectrace explain lists the codes."
    if codes:
        hint = f"Did you mean {' or '.join(codes)}?"
    elif name in KINDS:
        hint = "It is a kind of finding: collectrace docs findings explains it."
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
    lines += [
        f"- status: {cause.status}, since {cause.since}",
        f"- kinds of finding: {', '.join(sorted(cause.kinds))}",
    ]
    return "\n".join([*lines, ""])


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


def chapter(causes: Sequence[Cause] = registry.CAUSES) -> str:
    """Return the chapter of the documentation that lists the causes."""
    used, retired = _split(causes)
    lines = [_INTRODUCTION]
    for digit, title in FAMILIES.items():
        rows = [one for one in used if one.code[2] == digit]
        if rows:
            lines += [f"## {title}", "", "| code | name | what it says |", "|---|---|---|"]
            lines += [f"| {one.code} | {one.name} | {one.summary} |" for one in rows]
            lines.append("")
    if retired:
        lines += ["## Retired codes", "", "No report has them any more.", ""]
        lines += ["| code | name | why |", "|---|---|---|"]
        lines += [f"| {one.code} | {one.name} | {one.reason} |" for one in retired]
    return "\n".join(lines).rstrip() + "\n"


def listed(causes: Sequence[Cause] = registry.CAUSES) -> str:
    """Return the codes in use with their names, one per line, and how to look up retired ones."""
    used, retired = _split(causes)
    lines = [f"{one.code}  {one.name:28} {one.summary}" for one in used]
    if retired:
        lines += ["", _retired(retired)]
    return "\n".join([*lines, ""])


def _split(causes: Sequence[Cause]) -> tuple[list[Cause], list[Cause]]:
    """Return the causes in use, and the retired ones, by code."""
    rows = sorted(causes, key=lambda one: one.code)
    retired = [one for one in rows if one.status == "retired"]
    return [one for one in rows if one.status != "retired"], retired


def _retired(retired: Sequence[Cause]) -> str:
    """Return how to learn what became of a code that is not listed."""
    code = retired[0].code
    return (
        f"Retired codes are not listed here. `collectrace explain {code}` names what covers {code}."
    )
