"""Ways past a call: a return, continue, break or handler before it, and what to change about them.

What of the source leads past it is told as what may have been the way, and as the only one where
nothing else is seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import conditions
from collectrace.align.diagnosis.loop_lines import LoopLine
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.diagnosis.wording import place_of_line, quoted
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, guards, statements
from collectrace.align.reading.statements import Origin
from collectrace.align.reading.ways import LEAVES, Leaves

MOST: Final = 3
"""Ways that are named; where there are more, they tell nothing."""


@dataclass(frozen=True, slots=True)
class WayPast:
    """A statement that may have led past a call."""

    site: str
    """The line that it leads past, of the call or of one of its callers."""
    line: str
    """``number text`` of its head."""
    leaves: Leaves
    origin: Origin
    """What it is seen to look at, and by which assignment."""
    around: str = ""
    """``number text`` of another condition that it stands under, and the call does not."""

    @property
    def file(self) -> str:
        """That of both."""
        return self.site.rpartition(":")[0]

    @property
    def is_handler(self) -> bool:
        """Whether it takes an exception."""
        return statements.code_of(self.line).startswith(("except", "with", "async with"))

    @property
    def quoted(self) -> str:
        """```if done:` (train.py:12)``."""
        return quoted(self.file, self.line)

    @property
    def told(self) -> str:
        """```if done:` (train.py:12), with a return``."""
        under = f" in {quoted(self.file, self.around)}" if self.around else ""
        return self.quoted + under + ("" if self.leaves == "pass" else f", with a {self.leaves},")


@dataclass(frozen=True, slots=True)
class Past:
    """Who went past whose call, and by which ways."""

    left: Standpoint
    """The call that was left out."""
    gone: Standpoint
    """Who is further on."""
    ways: tuple[WayPast, ...]
    is_only: bool = False
    """Nothing else is seen to lead past it: no condition around it, no loop that ends."""
    again: str = ""
    """The function that those who are gone have begun again; empty: it is not seen."""
    loop: LoopLine | None = None
    """The outermost loop around the call that those who are gone were in, and are not."""

    @property
    def place(self) -> str:
        """``all_reduce at comm.py:4, called at train.py:12``: by the line that the ways pass."""
        told = f"{words.name(self.left.call)}{words.at(self.left.call)}"
        site = self.ways[0].site
        return told if site == self.left.call.site else f"{told}, called{words.at_site(site)}"

    @property
    def sentence(self) -> str:
        """What leads past the call, after a space."""
        name, who = self.place, words.ranks(self.gone.ranks)
        if self.is_only:
            way = self.ways[0]
            origin = Origin("exception") if way.is_handler else way.origin
            why = conditions.seen(way.file, origin)
            why = f"; {why.replace('which ', 'it ', 1)}" if why else ""
            return f" In the source only {way.told} leads past {name}{why}."
        if self.again:
            return (
                f" {words.upper(who)} began {self.again}() again: {told(self.ways)} may have led "
                f"past {name}.{self._behind}"
            )
        return f" {words.upper(told(self.ways))} may have led {who} past {name}.{self._behind}"

    @property
    def out_of_loop(self) -> str:
        """What leads out of the loop around the call, of which was told before: after a space."""
        who = words.ranks(self.gone.ranks)
        return f" {words.upper(told(self.ways))} may have led {who} out of it."

    @property
    def _behind(self) -> str:
        """What the ways go back to where that is not said in themselves, after a space."""
        told = (conditions.goes_back(way.file, way.line, way.origin) for way in self.ways)
        return "".join(f" {one}" for one in told if one)

    @property
    def exits(self) -> tuple[WayPast, ...]:
        """The ways that lead out of a loop, not only past this round of it."""
        return tuple(way for way in self.ways if way.leaves != "continue")

    @property
    def fix(self) -> str:
        """What to change about the ways."""
        return fix(self.ways, self.place)


def of_others(left: Standpoint, who: Sequence[int], ways: Sequence[WayPast]) -> Past:
    """How ranks that are at no call may have gone past others' call."""
    return Past(left, Standpoint(tuple(who), left.call, ()), tuple(ways))


def further_in(
    case: Case, left: Standpoint, there: Sequence[str], who: Sequence[int]
) -> Past | None:
    """The ways past a call by which ranks may have left functions that they are not in any more.

    Args:
        case: the run.
        left: the call.
        there: the frames above what the ranks have come to, innermost first.
        who: the ranks.

    """
    inner = left.stack[: max(0, len(left.stack) - chains.shared(left.stack, there) - 1)]
    ways = open_to(case, few(case, inner), who)
    return of_others(left, who, ways) if ways else None


def told(ways: Sequence[WayPast]) -> str:
    """```if done:` (train.py:12), with a return, or `except OSError:` (train.py:20)``."""
    return " or ".join(way.told for way in ways)


def led(ways: Sequence[WayPast], who: str, what: str = "it") -> str:
    """`` `if done:` (train.py:12) may have led rank 1 past it.``; empty where there are none."""
    return f" {words.upper(told(ways))} may have led {who} past {what}." if ways else ""


def fix(ways: Sequence[WayPast], name: str) -> str:
    """What to change about ways past what is named."""
    handlers = [way.quoted for way in ways if way.is_handler]
    guards = [way for way in ways if not way.is_handler]
    by_rank = [way.quoted for way in guards if way.origin.asks == "rank"]
    others = [way for way in guards if way.quoted not in by_rank]
    told = []
    if by_rank:
        told.append(f"Make the {name} on every rank, before {_either(by_rank)}, or on none.")
    if others:
        places = _either([place_of_line(way.file, way.line) for way in others])
        told.append(
            f"Let all ranks decide together at {places}: one rank decides and broadcasts it, "
            "or all combine what each finds (an all_reduce of the flag, MIN or MAX), and every "
            "rank takes the same way."
        )
    if handlers:
        told.append(
            f"After an exception at {_either(handlers)} let no rank go on alone past the {name}: "
            "let it be raised, or let all ranks learn of it before the next collective (an "
            "all_reduce of an error flag) and take the same way."
        )
    return "\n".join(told)


def _either(names: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(names))


def of_frames(case: Case, stack: Sequence[str]) -> list[WayPast]:
    """The ways past the lines of a stack, each once."""
    return list(dict.fromkeys(way for frame in stack for way in of_frame(case, frame)))


def few(case: Case, stack: Sequence[str]) -> list[WayPast]:
    """The same; none where there are so many that they tell nothing."""
    ways = of_frames(case, stack)
    return ways if len(ways) <= MOST else []


def open_to(case: Case, ways: Iterable[WayPast], ranks: Sequence[int]) -> list[WayPast]:
    """Those of some ways that one of these ranks could take, by what is written of the rank."""
    return [
        way
        for way in ways
        if way.is_handler
        or not ranks
        or not all(case.keeps_out(way.site, way.line, (rank,)) for rank in ranks)
    ]


def past_a_turn(case: Case, frame: str) -> list[WayPast]:
    """Of :func:`few` past a frame's line those that go on with the next turn of its loop."""
    return [way for way in few(case, (frame,)) if way.leaves == "continue"]


def of_frame(case: Case, frame: str) -> Iterator[WayPast]:
    """The ways past a frame's line by which a rank may go on alone.

    Not one that raises: the handler that takes it is what is told of. Nor a guard that asks only
    for what is the same on every rank, or for the rank where the same is called for the others.
    """
    site = chains.site(frame)
    for text in case.ways(site):
        leaves, line = statements.way_of(text)
        known = next((one for one in LEAVES if one == leaves), None)
        if known is None or known == "raise" or not statements.number_of(text):
            continue
        way = WayPast(site, line, known, case.origin(site, line), _around(case, site, line))
        if way.is_handler or not (_is_alike(statements.code_of(line)) or _leads_to_same(case, way)):
            yield way


def _around(case: Case, site: str, line: str) -> str:
    """The innermost condition that a way stands under, and the line that it leads past does not."""
    mine = case.statements(site)
    own = case.statements(f"{site.rpartition(':')[0]}:{statements.number_of(line)}")
    if not own or statements.code_of(own[-1]) != statements.code_of(line):
        return ""  # not known, or the file is another by now
    under = statements.branches(own)
    return next((one for one in reversed(under) if one not in mine), "")


def _leads_to_same(case: Case, way: WayPast) -> bool:
    """Whether a guard on the rank sends past a call those who meet it from a line of their own."""
    spelled = case.spelled_out(way.site, way.line)
    if not statements.tells_ranks_apart(spelled):
        return False
    names = guards.names_called(" ".join(case.statements(way.site)[-1:]))
    return guards.has_counterpart(case.code, way.site, names, spelled, is_guard=True)


def _is_alike(condition: str) -> bool:
    """Whether a condition asks only whether, and of how many ranks, there is a process group."""
    text = re.sub(r"^(el)?if\s+|:.*$", "", condition)
    return all(_SAME_FOR_ALL.fullmatch(part) for part in re.split(r"\b(?:or|and)\b", text))


_SAME_FOR_ALL: Final = re.compile(
    r"[\s(]*(not\s+)?([\w.]+\.)?"
    r"(is_(initialized|available|distributed)(\(\))?|TYPE_CHECKING"
    r"|(get_)?(world|group)_?size(\([\w.=]*\))?\s*[=<>!]+\s*\d+)[\s)]*",
    re.IGNORECASE,
)
