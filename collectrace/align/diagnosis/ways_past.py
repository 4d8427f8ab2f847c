"""How some ranks may have gone past a call: a return, continue, break or handler before it.

By the order of the lines in the function where the ranks' stacks part: who is further on has gone
past the other's call. What of the source leads past it is told as what may have been the way, and
as the only one where nothing else is seen.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import decided
from collectrace.align.diagnosis.inputs import Inputs
from collectrace.align.diagnosis.loop_lines import LoopLine
from collectrace.align.diagnosis.standpoint import Standpoint, of_parting, standpoints
from collectrace.align.diagnosis.wording import (
    EVERY_RANK,
    ONE_LENGTH,
    Reason,
    place_of_line,
    quoted,
)
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import LeftRound
from collectrace.align.judging.parted import parted
from collectrace.align.judging.rounds import went_on
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import StreamKey
from collectrace.align.reading.statements import Origin
from collectrace.records import Batch, Call
from collectrace.ways import LEAVES, Leaves

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
        return self.quoted + ("" if self.leaves == "pass" else f", with a {self.leaves},")


@dataclass(frozen=True, slots=True)
class Past:
    """Who went past whose call, and by which ways."""

    left: Standpoint
    """The call that was left out."""
    gone: Standpoint
    """Who is further on."""
    ways: tuple[WayPast, ...]
    is_only: bool
    """Nothing else is seen to lead past it: no condition around it, no loop that ends."""
    again: str
    """The function that those who are gone have begun again; empty: it is not seen."""
    loop: LoopLine | None
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
        told = [way.told for way in self.ways]
        if self.is_only:
            way = self.ways[0]
            origin = Origin("exception") if way.is_handler else way.origin
            why = decided.seen(way.file, origin)
            why = f"; {why.replace('which ', 'it ', 1)}" if why else ""
            return f" In the source only {told[0]} leads past {name}{why}."
        if self.again:
            return (
                f" {words.upper(who)} began {self.again}() again: {' or '.join(told)} may have led "
                f"past {name}.{self._behind}"
            )
        return f" {words.upper(' or '.join(told))} may have led {who} past {name}.{self._behind}"

    @property
    def _behind(self) -> str:
        """What the ways go back to where that is not said in themselves, after a space."""
        told = (
            (way.quoted, decided.seen(way.file, way.origin).removeprefix("which "))
            for way in self.ways
            if way.origin.line
        )
        return "".join(f" {words.upper(quoted)} {seen}." for quoted, seen in told)

    @property
    def exits(self) -> tuple[WayPast, ...]:
        """The ways that lead out of a loop, not only past this round of it."""
        return tuple(way for way in self.ways if way.leaves != "continue")

    @property
    def fix(self) -> str:
        """What to change about the ways."""
        return _fix(self.ways, self.place)


def _fix(ways: Sequence[WayPast], name: str) -> str:
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
            f"Let no rank go on alone after an exception at {_either(handlers)}: let it be "
            "raised, or let all ranks learn of it before the next collective (an all_reduce of "
            "an error flag) and take the same way."
        )
    return "\n".join(told)


def _either(names: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(names))


@once
def past(case: Case, candidate: Candidate) -> Past | None:
    """The ways past the call at the row where the sides parted in their programs, if any is seen.

    Between two sides: that of the suspects, or the smallest, and the largest of the others.
    """
    found = parted(case, candidate)
    if found is not None and found.seq < (candidate.seq or 0):
        return _between(case, candidate, of_parting(case, candidate, found), found.seq)
    points = sorted(standpoints(candidate), key=lambda point: len(point.ranks))
    if len(points) < 2:
        return None
    wrong = [point for point in points if set(point.ranks) <= set(candidate.suspects)]
    one = (wrong or points)[0]
    two = next(point for point in reversed(points) if point is not one)
    return _between(case, candidate, (one, two), candidate.seq)


def of_left_round(case: Case, candidate: Candidate, left: LeftRound) -> Past | None:
    """The ways past what a rank of a circle left out of its round, if any is seen."""
    points = [
        Standpoint((left.rank,), call, case.stack(left.rank, call))
        for call in (left.usual, left.made)
    ]
    return _in_one_function(case, candidate, points, [left.before, left.before])


def _between(
    case: Case, candidate: Candidate, points: Sequence[Standpoint], row: int | None
) -> Past | None:
    if candidate.stream is None or row is None:
        return None
    before = [case.call(point.ranks[0], candidate.stream, row - 1) for point in points]
    found = _in_one_function(case, candidate, points, before)
    if found is None or _came_elsewhere(case, candidate.stream, found, row):
        return None
    return found


def _in_one_function(
    case: Case,
    candidate: Candidate,
    points: Sequence[Standpoint],
    calls_before: Sequence[Call | None],
) -> Past | None:
    """The ways between two points that part in one function, each with the call before it."""
    one, two = points
    common = chains.shared(one.stack, two.stack)
    if common >= min(len(one.stack), len(two.stack)):
        return None
    function, other = (chains.scope(point.stack[-1 - common]) for point in points)
    if function != other:
        return None
    before, again = set(), []
    for point, call in zip(points, calls_before, strict=True):
        stack = case.stack(point.ranks[0], call) if call is not None else ()
        inside = len(stack) > common and chains.shared(stack, one.stack) >= common
        frame = stack[-1 - common] if inside else ""
        before.add(frame if chains.scope(frame) == function else "")
        again += [point] if stack == point.stack else []
    if len(before) > 1:
        return None  # they had parted before
    return _Parted(case, candidate, points, common, before.pop(), again).past()


def _came_elsewhere(case: Case, stream: StreamKey, found: Past, row: int) -> bool:
    """Whether those who are gone came to the very line since, and called in another group there."""
    rank = found.gone.ranks[0]
    log, last = case.log(rank), case.call(rank, stream, row - 1)
    if log is None:
        return True
    since = last.t if last is not None else 0
    for other in log.last_seq:
        if other != stream:
            rows, _ = log.rows(other)
            known = rows.vocabulary.appearances
            later = set(rows.appearance[bisect_left(rows.t, since) :])
            if any(known[n].site == found.left.call.site for n in later):
                return True
    return False


class _Parted:
    """Two stacks that part in one function, where both were at one line before."""

    def __init__(
        self,
        case: Case,
        candidate: Candidate,
        points: Sequence[Standpoint],
        common: int,
        before: str,
        again: Sequence[Standpoint],
    ) -> None:
        """``again``: those whose call before came from the very lines of this one."""
        self._case = case
        self._common = common
        self._before = before
        self._again = again
        self._left, self._gone = sorted(points, key=self._order)
        if self._frame(self._left) == before and went_on(case, candidate, self._gone.ranks):
            # The call behind came after as many turns in every round: it is what was left out.
            self._left, self._gone = self._gone, self._left
        if before:
            was_in = set(self._loops(before))
            mine, theirs = (set(self._loops(self._frame(p))) for p in (self._left, self._gone))
            if not (mine - theirs) & was_in and (theirs - mine) & was_in:
                # It goes through an inner loop once more, which the other has left.
                self._left, self._gone = self._gone, self._left
        self._here, self._there = self._frame(self._left), self._frame(self._gone)
        self._around, self._beyond = self._loops(self._here), self._loops(self._there)

    def past(self) -> Past | None:
        """The ways, if there are any and not too many."""
        ways = {(way.file, way.line): way for way in self._ways()}
        if not ways or len(ways) > MOST:
            return None
        loop = self._loop()
        is_only = len(ways) == 1 and loop is None and not self._is_conditional()
        again = chains.scope(self._here)[1].rpartition(".")[2] if self._is_again else ""
        return Past(
            self._left, self._gone, tuple(ways.values()), is_only and not again, again, loop
        )

    @property
    def _goes_back(self) -> bool:
        return chains.line(self._there) < chains.line(self._here)

    @property
    def _is_again(self) -> bool:
        """Whether the function was left and begun again: no loop in it leads back."""
        return self._goes_back and not set(self._around) & set(self._beyond)

    @property
    def _apart(self) -> Sequence[str]:
        return self._left.stack[: len(self._left.stack) - self._common]

    def _frame(self, point: Standpoint) -> str:
        return point.stack[-1 - self._common]

    def _order(self, point: Standpoint) -> tuple[bool, int]:
        """How soon a line comes after the one before, with those of the next round last."""
        line, last = chains.line(self._frame(point)), chains.line(self._before)
        return line < last or (line == last and not self._is_further_in(point)), line

    def _is_further_in(self, point: Standpoint) -> bool:
        """Whether a call from the same line as the one before may be one of the same round.

        By another line of the functions called there, or by a loop in them.
        """
        inner = point.stack[: len(point.stack) - self._common - 1]
        return bool(inner) and (point not in self._again or any(map(self._loops, inner)))

    def _loops(self, frame: str) -> list[str]:
        return statements.loops(self._case.statements(chains.site(frame)))

    def _ways(self) -> Iterator[WayPast]:
        for frame in self._apart:
            for way in _of_line(self._case, frame):
                if frame != self._here or self._fits(way):
                    yield way
        if not self._is_again:
            return
        for frame in self._left.stack[len(self._apart) :]:
            for way in _of_line(self._case, frame):
                if way.is_handler and way.leaves in ("pass", "continue"):
                    yield way
            if self._loops(frame):
                return

    def _fits(self, way: WayPast) -> bool:
        """Whether a way in the function where they part leads to where the others are."""
        match way.leaves:
            case "return":
                return self._is_again
            case "break":
                return not self._around or self._around[-1] not in self._beyond
            case "continue":
                return self._goes_back or not self._around or self._around[-1] not in self._beyond
            case _:
                tries = _heads(self._case, self._here, "try:", "with ", "async with ")
                others = _heads(self._case, self._there, "try:", "with ", "async with ")
                caught = _heads(self._case, self._there, "except")
                return self._goes_back or bool(caught) or bool(set(tries) - set(others))

    def _loop(self) -> LoopLine | None:
        for frame in reversed(self._apart):
            for line in self._loops(frame):
                if line not in self._beyond or chains.file(frame) != chains.file(self._there):
                    return LoopLine(frame, line)
        return None

    def _is_conditional(self) -> bool:
        """Whether something around the call, in functions that the others are not in, decides."""
        lines: list[str] = []
        frames, function = self._apart, chains.scope(self._here)
        if any(chains.scope(frame) == function for frame in frames[:-1]):
            return True  # recursion: which of them the others are in is not known
        for frame in frames:
            own = statements.own(self._case.statements(chains.site(frame)))
            if statements.decides_itself(own):
                return True
            lines += statements.branches(own)
        beyond = set(self._case.statements(chains.site(self._there)))
        return any("__name__" not in line and line not in beyond for line in lines)


def _heads(case: Case, frame: str, *kinds: str) -> list[str]:
    around = case.statements(chains.site(frame))[:-1]
    return [line for line in around if statements.code_of(line).startswith(kinds)]


def _of_line(case: Case, frame: str) -> Iterator[WayPast]:
    """The ways past a frame's line by which a rank may go on alone.

    Not one that raises: the handler that takes it is what is told of. Nor a guard that asks only
    for what is the same on every rank.
    """
    site = chains.site(frame)
    for text in case.ways(site):
        number, _, rest = text.partition(" ")
        leaves, _, head = rest.partition(" ")
        known = next((one for one in LEAVES if one == leaves), None)
        if known is None or known == "raise" or not statements.number_of(text):
            continue
        line = f"{number} {head}"
        way = WayPast(site, line, known, case.origin(site, line))
        if way.is_handler or not _is_alike(statements.code_of(way.line)):
            yield way


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


# -- added to reasons ------------------------------------------------------------------------

UNDECIDED: Final = " The logs do not show what decided it."
SKIPPED: Final = " A branch skipped it on some ranks."
SKIPPED_OR_REPEATED: Final = (
    " A branch may have skipped it there, or the call before it was made once more."
)
_VAGUE: Final = (
    UNDECIDED,
    SKIPPED,
    SKIPPED_OR_REPEATED,
    " A branch or a loop ran on some ranks only.",
)


_IF_OVER: Final = f"If the loop came to its end there: {words.lower(ONE_LENGTH)}"


def added(case: Case, candidate: Candidate, reason: Reason) -> Reason:
    """A reason with the ways past the call, where it names no condition already."""
    if candidate.cause is not None or reason.because not in ("some ranks", "left"):
        return reason
    if " under `" in reason.cause or "parted them" in reason.cause:
        return reason
    found = past(case, candidate)
    if found is None or words.at(found.left.call) not in reason.cause:
        return reason  # what is told of is another call
    if any(way.quoted in reason.cause for way in found.ways):
        return reason
    cause = reason.cause
    for vague in _VAGUE:
        cause = cause.replace(vague, "")
    fix = found.fix
    if reason.fix == ONE_LENGTH:
        fix += f"\n{_IF_OVER}"
    elif not found.is_only and reason.fix != EVERY_RANK:
        fix += f"\n{reason.fix}"
    return Reason(cause + found.sentence, fix, reason.because, found.fix)


def left_loop(case: Case, candidate: Candidate, counts: Inputs) -> Reason | None:
    """Some ranks left a loop that the others are in, by a way out of it that is seen.

    Not where a DataLoader or ``join()`` tells that the data came to its end.
    """
    found, way = past(case, candidate), out_of_loop(case, candidate)
    if found is None or found.loop is None or way is None or counts.told_by != "forwards":
        return None
    if not found.exits:
        return None
    gone, inside = found.gone, found.left
    who, others = words.ranks(gone.ranks), words.ranks(inside.ranks)
    return Reason(
        f"{words.upper(who)} left the loop {found.loop.quoted} before {others}: {counts.phrase()}. "
        f"{words.upper(who)} went on to {words.name(gone.call)}{words.at(gone.call)}; {others} "
        f"{words.verb(inside.ranks, 'is', 'are')} still in it, in {words.name(inside.call)}"
        f"{words.at(inside.call)}.{way.cause}",
        way.fix,
        "some ranks",
    )


def out_of_loop(case: Case, candidate: Candidate) -> Reason | None:
    """How ranks may have come out of a loop, or past the call in one of its rounds.

    A loop ends by itself, too: not so where the DataLoader is known to have had more.
    """
    found = past(case, candidate)
    if found is None or found.loop is None:
        return None
    last, other = (_last_batch(case, point) for point in (found.gone, found.left))
    both = last is not None and other is not None and last.loader == other.loader
    if both and last is not None and not last.end and found.exits:
        out = " or ".join(way.told for way in found.exits)
        leads = words.verb(found.exits, "leads", "lead")
        return Reason(
            f" {words.upper(out)} {leads} out of it; the DataLoader of "
            f"{words.ranks(found.gone.ranks[:1])} had not come to its end, after "
            f"{words.counted(last.batch, 'batch', 'batches')} of this pass.",
            found.fix,
        )
    cause = found.sentence
    if len(found.exits) == len(found.ways):
        told, who = " or ".join(way.told for way in found.ways), words.ranks(found.gone.ranks)
        cause = f" {words.upper(told)} may have led {who} out of it."
    return Reason(cause, f"{found.fix}\n{_IF_OVER}")


def _last_batch(case: Case, point: Standpoint) -> Batch | None:
    """The latest that a rank had asked its DataLoader for when it made its call."""
    log = case.log(point.ranks[0])
    found = [batch for batch in (log.batches if log is not None else ()) if batch.t < point.call.t]
    return found[-1] if found else None


def of_round(case: Case, stack: Sequence[str]) -> Reason | None:
    """The ways past a call, of such a stack, that leave out no more than a round of its loop."""
    loop = outermost_loop(case, stack)
    if loop is None:
        return None
    ways: dict[WayPast, None] = {}
    for n, frame in enumerate(stack[: loop[0] + 1]):
        loops = statements.loops(case.statements(chains.site(frame)))
        for way in _of_line(case, frame):
            again = n < loop[0] or (way.leaves == "break" and len(loops) > 1)
            if again or way.leaves in ("continue", "pass"):
                ways[way] = None
        if loops and ways:
            break
    if not ways or len(ways) > MOST or all(way.leaves == "pass" for way in ways):
        return None  # a handler around it is told of by its `try`
    told = " or ".join(way.told for way in ways)
    return Reason(f" {words.upper(told)} may have led past it.", _fix(tuple(ways), "call"))


def outermost_loop(case: Case, stack: Sequence[str]) -> tuple[int, int] | None:
    """Which frame of a stack the outermost loop around its call is in, and its line there."""
    for n, frame in reversed(list(enumerate(stack))):
        lines = statements.loops(case.statements(chains.site(frame)))
        if lines:
            return n, statements.number_of(lines[0])
    return None


def of_frames(case: Case, stack: Sequence[str]) -> list[WayPast]:
    """The ways past the lines of a stack, each once."""
    return list(dict.fromkeys(way for frame in stack for way in _of_line(case, frame)))


def of_finished(case: Case, point: Standpoint, who: Sequence[int]) -> Reason | None:
    """The ways by which ranks that finished may have gone past others' call."""
    ways = of_frames(case, point.stack)
    if not ways or len(ways) > MOST:
        return None
    found = Past(point, Standpoint(tuple(who), point.call, ()), tuple(ways), False, "", None)
    return Reason(found.sentence, found.fix)
