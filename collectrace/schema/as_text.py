"""A format for people: its history and conventions, then every object in it, field by field."""

from __future__ import annotations

import textwrap
import typing
from collections.abc import Sequence
from typing import Any, Final, Literal

from collectrace.schema.formats import (
    RANK_FILE,
    Format,
    Glossary,
    Item,
    arms,
    first_line,
    items,
    may_be_none,
    plain,
)

_WIDTH: Final = 80
_INDENT: Final = 2
_NAME: Final = 12
_TYPE: Final = 12

_TYPES: Final[dict[type, str]] = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
}


def describe(form: Format = RANK_FILE) -> str:
    """Return the whole description."""
    title, _, rest = plain(form.about).partition("\n\n")
    parts = [
        f"collectrace {form.name}, format {form.version}\n\n{title}",
        textwrap.dedent(rest).strip(),
        textwrap.fill(form.legend, _WIDTH),
        *(_section(form, name, cls) for name, cls in form.parts.items()),
        *(_glossary(glossary) for glossary in form.glossaries),
    ]
    return "\n\n".join(parts) + "\n"


def _section(form: Format, title: str, cls: type[Any]) -> str:
    lines = [title, *_wrapped(first_line(cls), " " * _INDENT)]
    margin = " " * (_INDENT + 1 + _NAME + 1 + _TYPE + 1)
    for item in items(cls):
        if item.name in form.known or not item.doc:
            continue
        mark = "*" if item.required else " "
        words = _words(form, item.hint, null=item.required)
        head = f"{' ' * _INDENT}{mark}{item.name:<{_NAME}} {words:<{_TYPE}} "
        if len(head) > len(margin):
            lines.append(head.rstrip())
            head = margin
        lines += _wrapped(_doc(form, item), head, margin)
    return "\n".join(lines)


def _glossary(glossary: Glossary) -> str:
    widest = max(map(len, glossary.meanings))
    margin = " " * (_INDENT + 1 + widest + 1)
    lines = [glossary.name]
    for value, meaning in glossary.meanings.items():
        lines += _wrapped(meaning, f"{' ' * _INDENT} {value:<{widest}} ", margin)
    return "\n".join(lines)


def _doc(form: Format, item: Item) -> str:
    """Return the meaning of a field, and its values if there are few."""
    glossary = form.glossary(item.hint)
    if glossary is not None:
        return f"{item.doc} One of the {glossary.name} below."
    values = [
        f'"{value}"' if isinstance(value, str) else str(value)
        for arm in arms(item.hint)
        if typing.get_origin(arm) is Literal
        for value in typing.get_args(arm)
    ]
    return f"{item.doc} One of {', '.join(values)}." if len(values) > 1 else item.doc


def _wrapped(words: str, head: str, margin: str | None = None) -> list[str]:
    return textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=head if margin is None else margin,
        break_on_hyphens=False,
    )


def _words(form: Format, hint: Any, *, null: bool = True) -> str:
    """``integer``, ``[string]``, ``string or [string]``, ``call or null``."""
    kinds = [_word(form, arm) for arm in arms(hint)]
    if null and may_be_none(hint):
        kinds.append("null")
    return " or ".join(kinds)


def _word(form: Format, hint: Any) -> str:
    """The words for an annotation that is no union."""
    if hint is Any:
        return "any"
    part = form.name_of(hint)
    if part is not None:
        return part
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return _TYPES[type(inside[0])]
    if origin in (list, tuple, Sequence):
        return f"[{_words(form, inside[0])}]"
    if origin is dict:
        return f"{{{_words(form, inside[1])}}}"
    return _TYPES[hint]
