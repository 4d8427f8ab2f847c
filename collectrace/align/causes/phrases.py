"""Ranks, calls and lines as parts of sentences, the same in every cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from collectrace import words
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains
from collectrace.records import Call
from collectrace.signature import is_user

HEADLINE: Final = 100
"""Longest headline, characters."""

_LONGEST: Final = 60
"""Longest statement that is quoted, characters."""


def line(site: str | None) -> str:
    """Return `` (train.py:13)``; empty if the line is not known."""
    return f" ({words.site(site)})" if site else ""


def call(one: Call, site: str | None = None) -> str:
    """Return ``all_reduce (train.py:13)``. ``site``: a more informative line of its stack."""
    return name(one) + line(site or one.site) + words.in_thread(one)


def name(one: Call) -> str:
    """Return ``all_reduce``; for a message ``send (isend) to rank 1 with tag 3``."""
    if one.peer is None or not is_user(one):
        return words.name(one)
    tag = f" with tag {one.tag}" if one.tag else ""
    return f"{words.message(one)} {words.peer(one)}{tag}"


def verb_of(members: Sequence[int], one: Call) -> str:
    """Return the verb for a call: ranks "called" it, or "were in" a framework's call."""
    return "called" if is_user(one) else words.verb(members, "was in", "were in")


def made(members: Sequence[int], one: Call) -> str:
    """Return ``rank 1 called all_reduce (train.py:13)``, ``ranks 0,2 were in DDP backward()``."""
    return f"{words.ranks(members)} {verb_of(members, one)} {call(one)}"


def not_made(members: Sequence[int], one: Call) -> str:
    """Return that ranks did not make a call: ``rank 1 did not``, ``ranks 0,2 were not``."""
    verb = "did" if is_user(one) else words.verb(members, "was", "were")
    return f"{words.ranks(members)} {verb} not"


def on_each(told: Iterable[tuple[str, Sequence[int]]]) -> str:
    """Return ``barrier on rank 0, all_reduce on ranks 1-2``; sides with equal text join."""
    joined: dict[str, list[int]] = {}
    for one, ranks in told:
        joined.setdefault(one, []).extend(ranks)
    return ", ".join(f"{one} on {words.ranks(ranks)}" for one, ranks in joined.items())


def wait(case: Case, ranks: Sequence[int]) -> str:
    """Return ``waits`` or ``wait``; ``waited`` if these ranks have all ended since."""
    is_over = all(case.standings[rank].state in ("finished", "raised", "died") for rank in ranks)
    return "waited" if is_over else words.verb(ranks, "waits", "wait")


def text(case: Case, frame: str) -> str:
    """Return the code of a frame's line; empty: it is not known."""
    return case.code.line(chains.site(frame)).partition("#")[0].strip()


def quoted(case: Case, frame: str) -> str:
    """Return the code of a frame's line, and the line, in the same form as ``statement``."""
    return statement(text(case, frame), chains.site(frame))


def statement(text: str, site: str) -> str:
    """Return `` `if loss.isfinite():` (train.py:12)``."""
    return f"`{words.brief(text, _LONGEST)}`{line(site)}"


def within(stack: Sequence[str]) -> str:
    """Return ``comm.py:13 in total(), called at train.py:34``: a line and its caller.

    ``stack``: frames, innermost first. At module level there is no caller to add.
    """
    if not stack:
        return ""
    name, at = chains.function(stack[0]), words.site(chains.site(stack[0]))
    inside = f" in {name}()" if name else ""
    return at + inside + (f", called at {words.site(chains.site(stack[1]))}" if stack[1:] else "")


_PLACE: Final = re.compile(r" \((?:[^()]*\.py:|line )\d+\)")


def fitted(headline: str) -> str:
    """Return a headline within the limit.

    First, files that were named before are reduced to their lines, then the only file.
    Then places are removed, last ones first, as the excerpt shows the lines.
    """
    return words.brief(_without_places(headline), HEADLINE)


def _without_places(headline: str) -> str:
    if len(headline) > HEADLINE and (first := _PLACE.search(headline)):
        file = first[0].strip(" (").rpartition(":")[0]
        rest = headline[first.end() :].replace(f" ({file}:", " (line ")
        is_one_file = ".py:" not in rest
        headline = headline[: first.end()] + rest
        if is_one_file and len(headline) > HEADLINE:
            headline = headline.replace(f" ({file}:", " (line ")
    while len(headline) > HEADLINE and (found := list(_PLACE.finditer(headline))):
        headline = headline[: found[-1].start()] + headline[found[-1].end() :]
    return headline


def fitting(*headlines: str) -> str:
    """Return the first headline within the limit without places, or the last one, cut."""
    short = (one for one in headlines if len(_without_places(one)) <= HEADLINE)
    return fitted(next(short, headlines[-1]))


def differing_depth(stacks: Sequence[Sequence[str]]) -> int:
    """Return the depth, from 0, of the innermost frames that differ between some stacks.

    A helper that all ranks call has the same line on all, so the line of its caller is used.
    """
    rows = enumerate(zip(*stacks, strict=False))
    return next((depth for depth, row in rows if len({*map(chains.site, row)}) > 1), 0)


def function(frame: str) -> str:
    """Return ``evaluate()``, the function of a frame; empty at module level."""
    name = chains.method(frame)
    return f"{name}()" if name else ""


def at_depth(one: Call, stack: Sequence[str], depth: int) -> Call:
    """Return a call with the line of the caller ``depth`` frames out."""
    if not depth or depth >= len(stack):
        return one
    return replace(one, site=chains.site(stack[depth]))
