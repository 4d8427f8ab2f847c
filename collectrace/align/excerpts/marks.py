"""What ranks did at lines of the program: the notes of an excerpt, by stack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from collectrace import roles, words
from collectrace.align.code.between import Finished, Raised
from collectrace.align.code.files import Frame
from collectrace.align.code.program import Stack
from collectrace.align.deciding import frames
from collectrace.align.deciding.endings import ending
from collectrace.align.judging.case import Case
from collectrace.align.ranks.standing import Standing, Waiting, failure
from collectrace.align.reading import chains
from collectrace.findings import Decision, DecisionSide, Finding, Side, Strength, Way
from collectrace.records import Call, Group
from collectrace.signature import is_user

WHO: Final = "\0"
"""In a note: the ranks. Those of equal notes at one line are named together."""

What = Literal["decision", "call", "place"]

_MOST_DECISIONS: Final = 3
_OPEN: Final = "may have decided"

_MOST_RANKS: Final = 256
"""Ranks whose own places are looked up."""

_WORTH_TELLING: Final = 1.0
"""Seconds in a call that failed from which on the time is given."""

_LONGEST: Final = 60
"""Characters of an exception's text."""

_DID: Final[Mapping[Way, str]] = {
    "taken": "true", "not_taken": "false", "iterates": "next iteration", "ended": "ends",
    "case": "matches line {line}", "no_case": "no case matches", "handler": "caught at line {line}",
    "no_handler": "not caught", "raised": "raises", "calls": "calls {name}()",
    "calls_other": "calls another function", "next": "", "value": "",
}  # fmt: skip

_BRANCHES: Final = _DID.keys() - {"next", "value", "no_handler"}
"""Outcomes that choose what is done next."""

_SURE: Final[tuple[Strength, ...]] = ("confirmed", "only")


@dataclass(frozen=True, slots=True)
class Mark:
    """A line, and what some ranks did there."""

    stack: Stack
    """The line and its callers, innermost first."""
    what: What
    note: str
    """With ``WHO`` in place of the ranks."""
    ranks: tuple[int, ...]
    """Those that it is about."""


@dataclass(slots=True)
class _Alike:
    """Ranks that did the same at one line."""

    ranks: list[int] = field(default_factory=list)
    held: float = 0.0
    """Longest time that one of them has been there, seconds; 0: not known."""


def marks(case: Case, finding: Finding) -> list[Mark]:
    """Return the decisions, then the calls of the sides, then where their ranks are else."""
    found = list(_decided(case, finding))
    sides = [*(finding.parted or ()), *finding.sides]
    called = [side for side in sides if side.call is not None or side.site is not None]
    for side in called:
        found += _called(case, side)
    came = {rank for side in finding.sides if side.call is not None for rank in side.ranks}
    others = [rank for side in finding.sides for rank in side.ranks if side.call is None]
    others += [rank for rank in came if case.standings[rank].state == "blocked"]
    others += [rank for rank in finding.suspects if rank not in came]
    known = {_site(mark) for mark in found if mark.what == "call"}
    found = [mark for mark in found if mark.note != _OPEN or _site(mark) not in known]
    for mark in _now(case, sorted({*others} & case.standings.keys())[:_MOST_RANKS]):
        if not (came.issuperset(mark.ranks) and _site(mark) in known):
            found.append(mark)
    return found


def _site(mark: Mark) -> tuple[str, int]:
    return mark.stack[0].path, mark.stack[0].line


# -- decisions -------------------------------------------------------------------------------


def _decided(case: Case, finding: Finding) -> Iterator[Mark]:
    """Return what the statements did that can have decided, the surest of them."""
    decisions = _telling(finding.decisions or ())
    for one in decisions:
        path, line = chains.split(one.site)
        stack = (Frame(path, line, one.function),)
        found = list(_outcomes(case, finding, one))
        is_sure = one.strength in _SURE
        for n, (note, ranks) in enumerate(found):
            told = note if n or is_sure else f"possible: {note}"
            yield Mark(stack, "decision", told, ranks)
        if not found:
            ranks = tuple(side.rank for side in one.sides)
            yield Mark(stack, "decision", "" if is_sure else _OPEN, ranks)


def _telling(decisions: Sequence[Decision]) -> Sequence[Decision]:
    """Return the decisions that are shown: those that are sure, else those that chose a branch."""
    sure = [one for one in decisions if one.strength in _SURE]
    unequal = [one for one in decisions if one.strength != "equal"] or decisions
    known = [one for one in unequal if any(side.did in _BRANCHES for side in one.sides)]
    open_ = [one for one in unequal if all(side.did is None for side in one.sides)]
    return (sure or known or open_ or unequal)[:_MOST_DECISIONS]


def _outcomes(
    case: Case, finding: Finding, decision: Decision
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Return ``true on ranks 0,2`` for each side of which it is known."""
    before = {side.rank for side in decision.sides[:1]}
    for n, side in enumerate(decision.sides):
        did = _words(side)
        if did and n and side.rank in before:
            yield f"usually {did}", (side.rank,)
        elif did:
            yield f"{did} on {WHO}", tuple(_peers(case, finding, side.rank))


def _words(side: DecisionSide) -> str:
    lacks = {"case": side.line, "handler": side.line, "calls": side.name}
    if side.did is None or not lacks.get(side.did, True):
        return ""
    return _DID[side.did].format(line=side.line, name=side.name)


def _peers(case: Case, finding: Finding, rank: int) -> list[int]:
    """Return the ranks that did the same as one, as far as the same calls and waits show it."""

    def did(one: int, side: Side) -> tuple[object, ...]:
        if side.call is not None:
            call = _own(case, one, side.call)
            return (case.stack(one, call) if call is not None else None,)
        standing = case.standings.get(one)
        return (standing.state, *(w.site for w in standing.waiting)) if standing is not None else ()

    for side in (*(finding.parted or ()), *finding.sides):
        if rank in side.ranks:
            mine = did(rank, side)
            return [one for one in side.ranks if one == rank or did(one, side) == mine]
    return [rank]


def _own(case: Case, rank: int, like: Call) -> Call | None:
    """Return the call of a rank in the row of another rank's call."""
    for stream in case.comparison.streams:
        if (stream.group, stream.device) == (like.group, like.device) and like.peer is None:
            return case.call(rank, stream, like.seq)
    return None


# -- calls -----------------------------------------------------------------------------------


def _called(case: Case, side: Side) -> Iterator[Mark]:
    """Return what ranks called at the row of a finding, and whether they wait in it."""
    if side.call is None:
        if side.state != "blocked":  # else it is told where it waits
            stack = frames.of_sites([side.site or ""])
            yield Mark(stack, "call", f"{WHO}: {_asked_for(case, side)}", side.ranks)
        return
    stack = frames.of_stack(side.stack or ()) or frames.of_sites([side.call.site or ""])
    if not stack:
        return
    waiting, others = _Alike(), _Alike()
    for rank in side.ranks:
        standing = case.standings[rank]
        waits = next((w for w in standing.waiting if _is_of(w, side.call)), None)
        one = waiting if waits is not None and standing.state == "blocked" else others
        one.ranks.append(rank)
        if waits is not None:
            one.held = max(one.held, _held(standing, waits.since))
    waited = " waited" if others.held >= _WORTH_TELLING else ""
    for one, does in (waiting, " wait{s} here"), (others, waited):
        if one.ranks:
            note = f"{WHO}{_doing(does, one)}: {_described(case, side.call)}"
            yield Mark(stack, "call", note, tuple(one.ranks))


def _asked_for(case: Case, side: Side) -> str:
    """Return ``new_group([0, 1])`` for what ranks asked for at a line."""
    groups = (
        group
        for conflict in case.evidence.conflicts
        for ranks, group in conflict.variants
        if group is not None and group.site == side.site and set(side.ranks) & set(ranks)
    )
    group = next(groups, None)
    return f"new_group([{words.ranges(group.ranks)}])" if group is not None else "new_group()"


def _is_of(waiting: Waiting, call: Call) -> bool:
    is_message = waiting.channel is not None
    return (
        is_message == (call.peer is not None)
        and waiting.seq == call.seq
        and (waiting.group == call.group)
    )


def _described(case: Case, call: Call) -> str:
    """Return ``call 7, all_reduce float32[1] SUM``."""
    numbered = "message" if call.peer is not None else "call"
    told = words.whole(call) if is_user(call) else _issued(call)
    info = case.comparison.groups.get(call.group)
    group = words.group(info) if info is not None else words.named_group(call.group)
    of = "" if group == words.DEFAULT_GROUP else f" of {group}"
    return f"{numbered} {call.seq}{of}, {told}"


def _issued(call: Call) -> str:
    """Return ``DDP backward(), float32[10]`` for what a framework issued."""
    role = roles.of(call.role)
    told = words.issuer(call) if role.shadows else words.name(call)
    tensors = words.tensors(call)
    return f"{told}, {tensors}" if tensors and not role.shadows else told


# -- where ranks are now ---------------------------------------------------------------------


def _now(case: Case, ranks: Iterable[int]) -> Iterator[Mark]:
    """Return where ranks are, or ended, as far as that is a line of the program."""
    found: dict[tuple[Stack, str, str], _Alike] = {}
    for rank in ranks:
        standing = case.standings[rank]
        for stack, does, more, held in _places(case, standing):
            if stack:
                one = found.setdefault((tuple(stack), does, more), _Alike())
                one.ranks.append(rank)
                one.held = max(one.held, held)
    for (stack, does, more), one in found.items():
        yield Mark(stack, "place", f"{WHO}{_doing(does, one)}{more}", tuple(one.ranks))


def _places(case: Case, standing: Standing) -> Iterator[tuple[Stack, str, str, float]]:
    """Return stacks, what a rank does there, more about it, and since when."""
    if standing.state == "blocked":
        for waiting in standing.waiting[:2]:
            call = _awaited(case, waiting)
            stack = frames.of_stack(case.stack(standing.rank, call)) if call is not None else ()
            stack = stack or frames.of_sites([waiting.site or ""])
            more = f": {_described(case, call)}" if isinstance(call, Call) else f": {waiting.op}"
            yield stack, " wait{s} here", more, _held(standing, waiting.since)
        return
    if standing.state in ("finished", "missing", "running"):
        return
    last = ending(standing)
    match last:
        case Raised():
            leaving = standing.exit
            error = failure(leaving) if leaving is not None and leaving.error else None
            told = words.brief(words.exception(error.error, error.text), _LONGEST) if error else ""
            yield last.stack, " raised here", f": {told}" if told else "", 0.0
        case None | Finished():
            call = standing.last_call
            if standing.state in ("died", "silent") and call is not None:
                stack = frames.of_stack(case.stack(standing.rank, call))
                stack = stack or frames.of_sites([call.site or ""])
                yield stack, " made {their} last call here", f": {_described(case, call)}", 0.0
        case _:
            since = standing.last_issued
            does = " {are} here" if standing.state == "busy" else " {were} here last"
            yield last, does, "", _held(standing, since) if since is not None else 0.0


def _awaited(case: Case, waiting: Waiting) -> Call | Group | None:
    if waiting.stream is not None and waiting.seq is not None:
        return case.call(waiting.rank, waiting.stream, waiting.seq)
    log = case.log(waiting.rank)
    last = log.last_call if log is not None else None
    if waiting.channel is not None and last is not None and _is_of(waiting, last):
        return last
    return case.asked(waiting)


def _held(standing: Standing, since: int) -> float:
    return max(0, standing.end - since) / 1e9


def _doing(does: str, those: _Alike) -> str:
    """Return `` wait here (41 s)``: the verb in the form that fits how many ranks there are."""
    is_one = len(those.ranks) == 1
    verb = does.format(
        s="s" if is_one else "", are="is" if is_one else "are", were="was" if is_one else "were",
        their="its" if is_one else "their",
    )  # fmt: skip
    return verb + (f" ({words.seconds(those.held * 1e9)})" if verb and those.held > 0 else "")


def who(case: Case, ranks: Iterable[int]) -> str:
    """Return ``ranks 0,2``, ``every rank``."""
    chosen = set(ranks)
    world = case.evidence.world_size
    return "every rank" if len(chosen) == world > 1 else words.ranks(chosen)
